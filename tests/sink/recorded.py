"""Incidents and envelopes of several sizes, recorded with OTLP exporters behind the program's own provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_replay import boundary, open_store, record
from otel_replay.envelope import Recording

SIZES = (1_000, 100_000, 5_000_000)


@boundary("echo", kind="tool")
def echo(text: str) -> dict[str, Any]:
    return {"text": text, "length": len(text)}


def agent() -> list[int]:
    """Cross with payloads of each of SIZES; what comes back is as long."""
    return [
        echo("".join(chr(97 + (at * 7919) % 26) for at in range(1_000)) * (size // 1_000))["length"] for size in SIZES
    ]


@contextmanager
def provider(protocol: str, address: str) -> Iterator[TracerProvider]:
    """A provider with the SDK's own batch processor and a real OTLP exporter, as people have it."""
    exporter: Any = (
        GrpcExporter(endpoint=address, insecure=True, timeout=30)
        if protocol == "grpc"
        else HttpExporter(endpoint=f"http://{address}/v1/traces", timeout=30)
    )
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    try:
        yield made
    finally:
        made.shutdown()


def recorded(run: Callable[[], Any], store: Path, protocol: str, address: str) -> Recording:
    """Record `run` into `store` and through OTLP to `address`; return what the embedded store holds."""
    with provider(protocol, address) as made, made.get_tracer("app").start_as_current_span("request"):
        with record("run", store=store, tracer_provider=made, strict=True) as active:
            active.answer(run())
    with open_store(store) as opened:
        return opened.recording(active.id)


def arrived(store: Path, run_id: str, crossings: int, seconds: float = 60.0) -> Recording:
    """Wait until `store` holds the whole run, or as much of it as comes in time."""
    deadline = time.monotonic() + seconds
    while True:
        with open_store(store, create=True) as opened:
            if opened.arrow("SELECT 1 FROM runs WHERE run_id = ?", [run_id]).num_rows:
                found = opened.recording(run_id)
                if (found.run.end_ns and len(found.envelopes) >= crossings) or time.monotonic() > deadline:
                    return found
        assert time.monotonic() < deadline, "the run did not arrive"
        time.sleep(0.2)
