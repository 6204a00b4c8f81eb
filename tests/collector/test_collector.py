"""Agents -> the real Collector -> the sink: every file of collector-config/, and what happens when a part dies."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_replay.sink import Sink
from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span
from otel_replay.wire.json import json_line
from otel_replay.wire.protobuf import request_from_spans
from tests.sink.conftest import config as sink_config
from tests.sink.file_sink import kept, wait_for
from tests.sink.processes import running
from tests.wire.strategies import exact

from .conftest import CONFIGS, Collector, binary

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RUN = ("otel_replay.run.id", "0123456789abcdef0123456789abcdef")
ENVELOPE = ("otel_replay.envelope", ('{"a":"password sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}' * 30,) * 3)
TORTURE = (
    ("none", None),
    ("text", "é🙂\x00"),
    ("int", 2**63 - 1),
    ("min", -(2**63)),
    ("double", 1.0),
    ("minus zero", -0.0),
    ("nan", float("nan")),
    ("inf", float("-inf")),
    ("tiny", 5e-324),
    ("bool", False),
    ("bytes", b"\x00\xff"),
    ("array", (1, "a", None, (), KeyValues())),
    ("map", KeyValues((("k", 1), ("k", 2.0), ("", KeyValues((("n", None),)))))),
    ("twice", 1),
    ("twice", 2),
    ("surrogate", "cut \ud83d"),
    ("big", 2**70),
)


def span(n: int, *attributes: tuple[str, object], **changes: object) -> Span:
    facts: dict[str, object] = {
        "trace_id": f"{n + 1:032x}",
        "span_id": f"{n + 1:016x}",
        "name": f"span {n}",
        "start_ns": 1_790_000_000_000_000_000 + n,
        "end_ns": 1_790_000_000_000_000_501 + n,
        "attributes": (("n", n), *attributes),
        "resource": Resource((("service.name", "agent"), ("x", 1.0)), 0, "https://opentelemetry.io/schemas/1.40.0"),
        "scope": Scope("scope", "1.2", (("a", True),), 0, "https://opentelemetry.io/schemas/1.40.0"),
    }
    return Span(**(facts | changes))  # type: ignore[arg-type]


FULL = span(
    0,
    RUN,
    ENVELOPE,
    *TORTURE,
    parent_span_id="ab" * 8,
    kind=3,
    events=(Event(7, "e", TORTURE[:4], 2),),
    links=(Link("cd" * 16, "ef" * 8, "a=b", TORTURE[:4], 3, 256),),
    status_code=2,
    status_message="no",
    trace_state="x=y",
    flags=256,
    dropped_attributes_count=1,
    dropped_events_count=2,
    dropped_links_count=3,
)


def send(port: int, spans: list[Span], seconds: float = 30) -> None:
    """Export `spans` in one gRPC call."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        channel.unary_unary(TRACES)(request_from_spans(spans), timeout=seconds, wait_for_ready=True)


def run_names(folder: Path) -> list[str]:
    return sorted(found.name for found in kept(folder))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_each_file_is_valid_and_says_when_to_use_it(path: Path) -> None:
    name = "otelcol-kafka" if path.name.startswith("kafka") else "otelcol"
    done = subprocess.run([binary(name), "validate", "--config", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any("Use it when" in line for line in comment) or path.name == "kafka-consumer.yaml"
    assert f"`{path.name}`" in (CONFIGS / "README.md").read_text()


@pytest.fixture
def sink(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Sink(sink_config(tmp_path)) as started:
        yield started


def test_spans_arrive_as_they_were_sent(collector: Callable[..., Collector], sink: Sink, tmp_path: Path) -> None:
    port = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address).grpc_port
    spans = [FULL, span(1, RUN), span(2, *TORTURE)]
    send(port, spans)
    assert exact(wait_for(3, tmp_path / "out")) == exact(spans)


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_the_sdk_through_the_collector(
    collector: Callable[..., Collector], sink: Sink, tmp_path: Path, transport: str
) -> None:
    started = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address)
    if transport == "grpc":
        exporter = GrpcExporter(f"http://127.0.0.1:{started.grpc_port}", insecure=True)
    else:
        exporter = HttpExporter(f"http://127.0.0.1:{started.http_port}/v1/traces")  # type: ignore[assignment]
    provider = TracerProvider(resource=SdkResource({"service.name": "agent"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("t").start_as_current_span("run") as run:
        run.set_attribute("i", 2**53 + 1)
        run.set_attribute("parts", ["x" * 1900] * 60)
    provider.shutdown()
    (found,) = wait_for(1, tmp_path / "out")
    assert found.get("i") == 2**53 + 1
    assert found.get("parts") == ("x" * 1900,) * 60
    assert found.span_id == f"{run.get_span_context().span_id:016x}"


def test_runs_only(collector: Callable[..., Collector], sink: Sink, tmp_path: Path) -> None:
    port = collector("runs-only.yaml", SINK_ENDPOINT=sink.grpc_address).grpc_port
    send(port, [span(1), span(2, RUN), span(3), FULL])
    assert exact(wait_for(2, tmp_path / "out")) == exact([span(2, RUN), FULL])


def test_beside_a_backend(collector: Callable[..., Collector], sink: Sink, tmp_path: Path) -> None:
    with Sink(sink_config(tmp_path / "backend", message_bytes_max=4 * 1024 * 1024)) as backend:
        port = collector(
            "beside-backend.yaml", SINK_ENDPOINT=sink.grpc_address, BACKEND_ENDPOINT=backend.grpc_address
        ).grpc_port
        # 16 MB in one request; the backend takes 4 MiB at a time, as gRPC servers do by default.
        large = [span(n, RUN, ("pad", ("x" * 1900,) * 200)) for n in range(40)]
        send(port, [*large, span(99)])
        assert len(wait_for(41, tmp_path / "backend" / "out")) == 41
        assert exact(wait_for(40, tmp_path / "out")) == exact(large)


def test_files_are_written_as_ours_are(collector: Callable[..., Collector], tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    started = collector("file-exporter.yaml", OUTPUT_FILE=str(output))
    plain = tuple(pair for pair in TORTURE if pair[0] not in ("text", "tiny"))
    spans = [replace(FULL, attributes=(RUN, *plain)), span(2, RUN)]
    send(started.grpc_port, spans)
    deadline = time.monotonic() + 20
    while not output.exists() or not output.read_bytes().endswith(b"\n"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # Go writes a double of integral value without its fraction, and minus zero as -0; all else is byte by byte equal.
    ours = json_line(spans).replace(b'"doubleValue":1.0', b'"doubleValue":1').replace(b'":2.0', b'":2')
    assert output.read_bytes() == ours.replace(b'"doubleValue":-0.0', b'"doubleValue":-0')


def test_tail_sampling_keeps_whole_runs(collector: Callable[..., Collector], sink: Sink, tmp_path: Path) -> None:
    port = collector("tail-sampling.yaml", SINK_ENDPOINT=sink.grpc_address, DECISION_WAIT="1s").grpc_port
    run = [span(n, *([RUN] if n == 3 else []), trace_id="aa" * 16) for n in range(6)]
    others = [span(n) for n in range(100, 300)]
    send(port, run[:4] + others)
    wait_for(4, tmp_path / "out")
    time.sleep(1.5)
    send(port, run[4:])  # after the decision
    deadline = time.monotonic() + 20
    while not {s.name for s in run} <= set(run_names(tmp_path / "out")) and time.monotonic() < deadline:
        time.sleep(0.1)
    found = run_names(tmp_path / "out")
    assert {s.name for s in run} <= set(found)
    assert len(found) < 100, "others are sampled"


def test_redaction_leaves_envelopes_intact(collector: Callable[..., Collector], sink: Sink, tmp_path: Path) -> None:
    port = collector("redaction.yaml", SINK_ENDPOINT=sink.grpc_address).grpc_port
    sent = span(1, RUN, ENVELOPE, ("gen_ai.prompt", "my key is sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"), ("db.password", "x"))
    send(port, [sent])
    (found,) = wait_for(1, tmp_path / "out")
    assert found.get("otel_replay.envelope") == ENVELOPE[1]
    assert found.get("otel_replay.run.id") == RUN[1]
    assert "sk-a" not in str(found.get("gen_ai.prompt"))
    assert found.get("db.password") != "x"


def test_large_spans_pass_with_the_right_limits(
    collector: Callable[..., Collector], sink: Sink, tmp_path: Path
) -> None:
    port = collector("limits.yaml", SINK_ENDPOINT=sink.grpc_address).grpc_port
    large = span(1, RUN, ("otel_replay.envelope", ("x" * 1900,) * 11_000))
    send(port, [large, span(2, RUN)])
    assert sorted(found.name for found in wait_for(2, tmp_path / "out")) == ["span 1", "span 2"]
    assert next(f for f in kept(tmp_path / "out") if f.name == "span 1") == large


def test_sink_and_collector_killed_while_agents_record(collector: Callable[..., Collector], tmp_path: Path) -> None:
    with running(tmp_path) as first:
        address = first.grpc_address
        started = collector("forward-everything.yaml", SINK_ENDPOINT=address)
        for n in range(10):
            send(started.grpc_port, [span(n)])
        first.kill(group=True)
        for n in range(10, 20):
            send(started.grpc_port, [span(n)])  # accepted by the Collector's queue on disk
        started.kill()
    with running(tmp_path, f"grpc_address={json.dumps(address)}"):
        again = collector("forward-everything.yaml", SINK_ENDPOINT=address)
        send(again.grpc_port, [span(20)])
        deadline = time.monotonic() + 60
        while len(set(run_names(tmp_path / "out"))) < 21 and time.monotonic() < deadline:
            time.sleep(0.2)
    with suppress(ProcessLookupError):
        again.stop()
    assert set(Counter(run_names(tmp_path / "out"))) == {f"span {n}" for n in range(21)}
