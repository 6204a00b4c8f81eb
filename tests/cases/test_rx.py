"""RX-01, RX-03, RX-05: what real senders do to a receiver of OTLP, each with variations of its kind.

More of each stands in tests/sink: test_http.py (encodings, framing), test_grpc.py, test_trouble.py (disk, network).
"""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
import zstandard
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay.otel.processor import RecordingSpanProcessor
from otel_replay.otel.splitting import SplittingExporter
from otel_replay.sink import Sink
from otel_replay.wire.json import json_line
from otel_replay.wire.protobuf import request_from_spans
from tests.sink.conftest import JSON, PROTOBUF, Answer, a_span, request
from tests.sink.conftest import config as sink_config
from tests.sink.file_sink import kept, wait_for
from tests.sink.test_grpc import call

SPANS = [a_span(n) for n in range(4)]
FORMS = {JSON: json_line(SPANS), PROTOBUF: request_from_spans(SPANS)}


def _bare_deflate(data: bytes) -> bytes:
    press = zlib.compressobj(wbits=-15)
    return press.compress(data) + press.flush()


def _members(data: bytes) -> bytes:
    return b"".join(gzip.compress(data[at : at + 100]) for at in range(0, len(data), 100))


PRESSES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "many members": ("gzip", _members),
    "zlib": ("deflate", zlib.compress),
    "bare deflate": ("deflate", _bare_deflate),
    "zstd": ("zstd", zstandard.compress),
}
EACH_PRESS = pytest.mark.parametrize("press", PRESSES)
EACH_FORM = pytest.mark.parametrize("form", FORMS, ids=["json", "protobuf"])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    sinks: list[Sink] = []

    def begin(**changes: Any) -> Sink:
        sinks.append(Sink(sink_config(tmp_path, **changes)).start())
        return sinks[-1]

    yield begin
    for sink in sinks:
        sink.stop()


# RX-01 -------------------------------------------------------------------------------------------------------------


@EACH_PRESS
@EACH_FORM
def test_rx_01_every_encoding_of_every_form_is_kept_whole(
    start: Callable[..., Sink], tmp_path: Path, press: str, form: str
) -> None:
    encoding, pressed = PRESSES[press]
    answer = request(start().http_address, pressed(FORMS[form]), Content_Type=form, Content_Encoding=encoding)
    assert answer.status == 200, answer.text
    assert wait_for(len(SPANS), tmp_path / "out") == SPANS


@EACH_PRESS
@EACH_FORM
def test_rx_01_a_body_cut_anywhere_is_refused_with_a_reason_and_no_part_of_it_is_kept(
    start: Callable[..., Sink], tmp_path: Path, press: str, form: str
) -> None:
    encoding, pressed = PRESSES[press]
    body, sink = pressed(FORMS[form]), start()
    cuts = sorted({1, 5, len(body) // 3, len(body) // 2, len(body) - 1})
    for cut in cuts:
        answer = request(sink.http_address, body[:cut], Content_Type=form, Content_Encoding=encoding)
        assert answer.status == 400, (cut, answer.text)
        assert encoding.encode() in answer.body or b"not" in answer.body or b"cut" in answer.body
        assert b"span 0" not in answer.body
    sink.stop()
    assert kept(tmp_path / "out") == []


# RX-03 -------------------------------------------------------------------------------------------------------------


def _finished(count: int, attribute: Callable[[int], str]) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "agent"}))
    provider.add_span_processor(RecordingSpanProcessor(memory))
    for n in range(count):
        with provider.get_tracer("t").start_as_current_span(f"span {n}", attributes={"text": attribute(n)}):
            pass
    provider.shutdown()
    return list(memory.get_finished_spans())


def _exporter(protocol: str, sink: Sink, timeout: float = 60) -> Any:
    if protocol == "grpc":
        return GrpcExporter(endpoint=sink.grpc_address, insecure=True, timeout=timeout)
    return HttpExporter(endpoint=f"http://{sink.http_address}/v1/traces", timeout=timeout)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(
    ("count", "size"), [(512, 100_000), (3, 20_000_000)], ids=["512 spans of 100 kB", "spans of 20 MB"]
)
def test_rx_03_a_default_batch_of_large_spans_arrives(
    start: Callable[..., Sink], tmp_path: Path, protocol: str, count: int, size: int
) -> None:
    """With the SDK's own exporter and no help of ours: 51 MB and 60 MB are below the sink's 64 MiB."""
    sink = start()
    exporter = _exporter(protocol, sink)
    assert exporter.export(_finished(count, lambda n: f"{n}" + "x" * size)) is SpanExportResult.SUCCESS
    exporter.shutdown()
    texts = [str(span.get("text")) for span in wait_for(count, tmp_path / "out", 120)]
    assert sorted(len(text) for text in texts) == sorted(len(f"{n}") + size for n in range(count))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_rx_03_behind_a_small_limit_the_neighbours_arrive_and_the_large_one_is_named(
    start: Callable[..., Sink], tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """4 MiB is what other receivers take: batches are cut by bytes, and what fits no batch costs only itself."""
    sink = start(message_bytes_max=4 * 1024 * 1024)
    spans = _finished(40, lambda n: "x" * (6_000_000 if n == 17 else 200_000))
    exporter = SplittingExporter(_exporter(protocol, sink, 3), batch_bytes_max=3_500_000)
    with caplog.at_level(logging.WARNING, "otel_replay"):
        assert exporter.export(spans) is SpanExportResult.FAILURE
    exporter.shutdown()
    names = {span.name for span in wait_for(39, tmp_path / "out")}
    assert names == {f"span {n}" for n in range(40)} - {"span 17"}
    (said,) = [record.getMessage() for record in caplog.records if record.name == "otel_replay"]
    assert said.startswith("the span 'span 17' of 6000")
    assert exporter.oversized_spans == 1


def test_rx_03_the_limit_and_the_size_are_said(start: Callable[..., Sink]) -> None:
    sink = start(message_bytes_max=100_000)
    body = request_from_spans([a_span(1, attributes=(("text", "x" * 200_000),))])
    answer = request(sink.http_address, body, Content_Type=PROTOBUF)
    assert (answer.status, b"100000" in answer.body) == (413, True)
    with pytest.raises(grpc.RpcError) as refused:
        call(sink.grpc_address, body)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "100000" in refused.value.details()


# RX-05 -------------------------------------------------------------------------------------------------------------

GOOD = request_from_spans([a_span(1)])
TEMPORARY = {
    "disk full": ({"disk_free_bytes_min": 2**60}, 503, grpc.StatusCode.UNAVAILABLE),
    "queue full": ({"wal_bytes_max": 10}, 429, grpc.StatusCode.RESOURCE_EXHAUSTED),
    "stopping": ({}, 503, grpc.StatusCode.UNAVAILABLE),
}


@pytest.mark.parametrize("trouble", TEMPORARY)
def test_rx_05_passing_trouble_is_told_as_such(start: Callable[..., Sink], tmp_path: Path, trouble: str) -> None:
    changes, status, code = TEMPORARY[trouble]
    sink = start(**changes)
    sink._intake.stopping = trouble == "stopping"
    for path, body in (("/v1/traces", GOOD), ("/v1/logs", b"\x0a\x00")):
        answer = request(sink.http_address, body, path, Content_Type=PROTOBUF)
        if path == "/v1/traces":
            assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (status, True)
            assert _message(answer)
    with pytest.raises(grpc.RpcError) as refused:
        call(sink.grpc_address, GOOD)
    assert refused.value.code() is code
    assert "grpc-status-details-bin" in dict(refused.value.trailing_metadata() or ()), "RetryInfo says when"
    sink._intake.stopping = False
    sink.stop()
    assert kept(tmp_path / "out") == [], "what was not acknowledged is not kept"


def _message(answer: Answer) -> str:
    if answer.headers["Content-Type"] == JSON:
        return str(orjson.loads(answer.body)["message"])
    return answer.body.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        ("/v1/traces", b"\xff\xff\xff", PROTOBUF, 400),
        ("/v1/traces", b"{", JSON, 400),
        ("/v1/traces", b"[]", JSON, 400),
        ("/v1/logs", b"\xff", PROTOBUF, 400),
        ("/v1/nothing", GOOD, PROTOBUF, 404),
        ("/v1/traces/", GOOD, PROTOBUF, 404),
        ("/v1/traces", GOOD, "text/plain", 415),
        ("/v1/traces", GOOD, "", 415),
    ],
)
def test_rx_05_bad_data_is_refused_for_good(
    start: Callable[..., Sink], path: str, body: bytes, kind: str, status: int
) -> None:
    answer = request(start().http_address, body, path, Content_Type=kind)
    assert (answer.status, answer.headers["Retry-After"]) == (status, None)


def test_rx_05_a_fault_of_ours_is_never_500(start: Callable[..., Sink]) -> None:
    """500 and INTERNAL mean "drop" to a sender: its data must outlive our mistakes."""
    sink = start()
    sink._intake._wal = None  # type: ignore[assignment]  # whatever it is that breaks
    answer = request(sink.http_address, GOOD, Content_Type=PROTOBUF)
    assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (503, True)
    with pytest.raises(grpc.RpcError) as refused:
        call(sink.grpc_address, GOOD)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    sink._intake._wal = sink._wal
