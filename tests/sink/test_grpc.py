"""OTLP/gRPC: answers, retry hints, limits; and the real exporters of the OpenTelemetry SDK against both receivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind

from otel_replay.sink import Sink
from otel_replay.span import KeyValues, LogRecord
from otel_replay.wire import logs
from otel_replay.wire.protobuf import request_from_spans

from .conftest import BODY, a_span
from .file_sink import wait_for

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
HEALTH = "/grpc.health.v1.Health/Check"


def call(address: str, body: bytes, method: str = TRACES, **options: Any) -> bytes:
    """Make one call on a channel of its own."""
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(address, unlimited) as channel:
        answer: bytes = channel.unary_unary(method)(body, timeout=30, **options)
        return answer


def retry_seconds(fault: grpc.RpcError) -> int:
    """The retry hint of a failed call, as a real client reads it."""
    details = dict(fault.trailing_metadata())["grpc-status-details-bin"]
    status = Status.FromString(details)
    assert status.code == fault.code().value[0]
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    return int(info.retry_delay.seconds)


def test_spans_and_log_records_are_kept(start: Callable[..., Sink], tmp_path: Path) -> None:
    sink = start()
    record = LogRecord(7, event_name="e", body=KeyValues((("a", None),)))
    assert call(sink.grpc_address, BODY) == b""
    assert call(sink.grpc_address, request_from_spans([a_span(1)]), compression=grpc.Compression.Gzip) == b""
    assert call(sink.grpc_address, logs.request_from_logs([record]), LOGS) == b""
    found = wait_for(3, tmp_path / "out")
    assert found[:2] == [a_span(0), a_span(1)]
    assert logs.log_from_span(found[2]) == record
    assert call(sink.grpc_address, b"", HEALTH) == b"\x08\x01"


def test_one_bad_span_is_refused_alone(start: Callable[..., Sink], tmp_path: Path) -> None:
    body = request_from_spans([replace(a_span(0), trace_id=""), a_span(1)])
    told = ExportTraceServiceResponse.FromString(call(start().grpc_address, body)).partial_success
    assert told.rejected_spans == 1
    assert "trace id has 0 bytes, not 16" in told.error_message
    assert wait_for(1, tmp_path / "out") == [a_span(1)]


def test_bad_bytes_unknown_methods_and_tokens(start: Callable[..., Sink]) -> None:
    address = start(tokens=("secret",)).grpc_address
    token = (("authorization", "Bearer secret"),)
    for body, method, metadata, expected in (
        (b"\xff\xff", TRACES, token, grpc.StatusCode.INVALID_ARGUMENT),
        (b"", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", token, grpc.StatusCode.UNIMPLEMENTED),
        (BODY, TRACES, (), grpc.StatusCode.UNAUTHENTICATED),
        (BODY, TRACES, (("authorization", "Bearer nope"),), grpc.StatusCode.UNAUTHENTICATED),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(address, body, method, metadata=metadata)
        assert caught.value.code() == expected
    assert call(address, BODY, metadata=token) == b""


@pytest.mark.parametrize("signal", ["metrics.v1.Metrics", "profiles.v1development.Profiles"])
def test_what_is_not_taken_is_named(start: Callable[..., Sink], signal: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(start().grpc_address, b"", f"/opentelemetry.proto.collector.{signal}Service/Export")
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "only traces and logs are taken here: no metrics, no profiles"


@pytest.mark.parametrize(
    "compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]
)
def test_the_limit_is_exact(start: Callable[..., Sink], compression: Any) -> None:
    limit = 1024 * 1024
    address = start(message_bytes_max=limit).grpc_address
    size = len(request_from_spans([a_span(0, name="n" * (limit - 1000))])) - (limit - 1000)
    body = request_from_spans([a_span(0, name="n" * (limit - size))])
    assert len(body) == limit
    assert call(address, body, compression=compression) == b""
    with pytest.raises(grpc.RpcError) as caught:
        call(address, body + b"\0", compression=compression)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_large_messages_pass_and_larger_ones_are_refused_for_good(start: Callable[..., Sink], tmp_path: Path) -> None:
    sink = start(message_bytes_max=16 * 1024 * 1024)
    text = ("x" * 1900,) * 53
    spans = [a_span(n, attributes=(("otel_replay.envelope", text),)) for n in range(128)]
    body = request_from_spans(spans)
    assert len(body) > 12_000_000
    assert call(sink.grpc_address, body) == b""
    with pytest.raises(grpc.RpcError) as caught:
        call(sink.grpc_address, body * 2)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(caught.value.trailing_metadata() or ())
    assert wait_for(128, tmp_path / "out") == spans


def test_a_gzip_bomb_is_refused(start: Callable[..., Sink]) -> None:
    sink = start(message_bytes_max=1024 * 1024)
    with pytest.raises(grpc.RpcError) as caught:
        call(sink.grpc_address, b"\0" * 64 * 1024 * 1024, compression=grpc.Compression.Gzip)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_full_log_sends_senders_away_for_a_while(start: Callable[..., Sink]) -> None:
    sink = start(wal_bytes_max=10)
    with pytest.raises(grpc.RpcError) as caught:
        call(sink.grpc_address, BODY)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert retry_seconds(caught.value) == 5


def test_a_full_disk_sends_senders_away_for_a_while(start: Callable[..., Sink]) -> None:
    sink = start(disk_free_bytes_min=2**60)
    with pytest.raises(grpc.RpcError) as caught:
        call(sink.grpc_address, BODY)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert retry_seconds(caught.value) == 5
    assert call(sink.grpc_address, b"", HEALTH) == b"\x08\x02"


def _exporters(sink: Sink) -> dict[str, Any]:
    url = f"http://{sink.http_address}/v1/traces"
    return {
        "grpc": GrpcExporter(f"http://{sink.grpc_address}", insecure=True),
        "grpc-gzip": GrpcExporter(f"http://{sink.grpc_address}", insecure=True, compression=grpc.Compression.Gzip),
        "http": HttpExporter(url),
        "http-gzip": HttpExporter(url, compression=Compression.Gzip),
        "http-deflate": HttpExporter(url, compression=Compression.Deflate),
    }


@pytest.mark.parametrize("name", ["grpc", "grpc-gzip", "http", "http-gzip", "http-deflate"])
def test_the_real_exporters_of_the_sdk(start: Callable[..., Sink], tmp_path: Path, name: str) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "agent", "n": 3}))
    provider.add_span_processor(BatchSpanProcessor(_exporters(start())[name]))
    tracer = provider.get_tracer("scope", "1.2", attributes={"a": True})
    with tracer.start_as_current_span("run", kind=SpanKind.SERVER) as run:
        link = Link(run.get_span_context(), {"why": "test"})
        with tracer.start_as_current_span("call", kind=SpanKind.CLIENT, links=[link]) as call_span:
            call_span.set_attributes({"i": 2**53 + 1, "f": 1.0, "l": ["a", "b"], "empty": []})
            call_span.add_event("e", {"x": 1.5}, timestamp=17)
            call_span.record_exception(ValueError("no"))
    provider.shutdown()
    call_kept, run_kept = wait_for(2, tmp_path / "out")
    assert call_kept.attributes == (("i", 2**53 + 1), ("f", 1.0), ("l", ("a", "b")), ("empty", ()))
    assert [type(value) for _, value in call_kept.attributes[:2]] == [int, float]
    assert call_kept.parent_span_id == run_kept.span_id == f"{run.get_span_context().span_id:016x}"
    assert (call_kept.kind, run_kept.kind) == (3, 2)
    assert (call_kept.events[0].name, call_kept.events[0].time_ns) == ("e", 17)
    assert dict(call_kept.events[1].attributes)["exception.type"] == "ValueError"
    assert call_kept.links[0].attributes == (("why", "test"),)
    assert dict(run_kept.resource.attributes)["n"] == 3
    assert (run_kept.scope.name, run_kept.scope.version, run_kept.scope.attributes) == ("scope", "1.2", (("a", True),))
