"""How each peer records one crossing, as its own documentation shows it. Runs in the peer's environment.

A way is (a context in which a run is recorded, the call to make in it). "memory" is timed from the first crossing to
the last; "disk" until the context has closed, since most peers write then. Imports stand inside: each peer is alone.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from bench.base import Counting, plain

Way: TypeAlias = tuple[Callable[[], AbstractContextManager[Any]], Callable[[Any], Any]]


class Nowhere(SpanExporter):
    """Takes spans and drops them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def chronicle_half(folder: Path) -> dict[str, Way]:
    import chronicle
    from chronicle.redaction import default_redactors

    crossed = chronicle.boundary("crossed", kind="tool")(plain)

    def on_disk() -> Any:
        return chronicle.record("bench", store=str(folder / "runs.jsonl"), redactors=default_redactors())

    return {
        "memory, without redaction": (lambda: chronicle.record("bench"), crossed),
        "memory": (lambda: chronicle.record("bench", redactors=default_redactors()), crossed),
        "disk": (on_disk, crossed),
    }


def chronicle_newest(folder: Path) -> dict[str, Way]:
    """On disk it is a client of its own service, which runs in another process here, on SQLite."""
    import chronicle

    crossed = chronicle.boundary("crossed", kind="tool")(plain)
    url = _control_plane(folder)

    def recording(redacted: bool) -> Any:
        chronicle.reset()
        chronicle.configure(default_redactors=redacted)
        return chronicle.record("bench")

    @contextmanager
    def posted() -> Iterator[None]:
        chronicle.reset()
        chronicle.configure(default_redactors=True, control_plane_url=url, fail_open=False)
        with chronicle.record("bench"):
            yield
        chronicle.flush()

    return {
        "memory, without redaction": (lambda: recording(False), crossed),
        "memory": (lambda: recording(True), crossed),
        "disk": (posted, crossed),
    }


def _control_plane(folder: Path) -> str:
    """Start Chronicle's service, to end with this process; return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "--port", str(port), "--database-url", f"sqlite:///{folder}/control_plane.db"]
    process = subprocess.Popen(
        [sys.executable, "-m", "control_plane", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(process.terminate)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    return f"http://127.0.0.1:{port}"


def langfuse(_folder: Path) -> dict[str, Way]:
    from langfuse import Langfuse, observe

    client = Langfuse(
        public_key="pk-lf-x", secret_key="sk-lf-x", base_url="http://127.0.0.1:9", span_exporter=Nowhere()
    )
    crossed = observe(name="crossed")(plain)
    return {"memory": (lambda: client.start_as_current_observation(name="run"), crossed)}


def logfire(_folder: Path) -> dict[str, Way]:
    import logfire

    logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[Counting()])
    crossed = logfire.instrument("crossed", extract_args=True, record_return=True)(plain)
    return {"memory": (lambda: logfire.span("run"), crossed)}


def mlflow(folder: Path) -> dict[str, Way]:
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("bench")
    crossed = mlflow.trace(name="crossed")(plain)
    return {"memory": (lambda: mlflow.start_span("run"), crossed), "disk": (lambda: mlflow.start_span("run"), crossed)}


def openinference(_folder: Path) -> dict[str, Way]:
    from openinference.instrumentation import TracerProvider as Provider

    provider = Provider()
    provider.add_span_processor(Counting())
    crossed = provider.get_tracer("bench").tool(name="crossed")(plain)
    return {"memory": (nullcontext, crossed)}


def traceloop(_folder: Path) -> dict[str, Way]:
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool

    Traceloop.init("bench", processor=Counting(), telemetry_enabled=False, instruments=set())
    crossed = tool(name="crossed")(plain)
    return {"memory": (nullcontext, crossed)}


def agent_timetravel(folder: Path) -> dict[str, Way]:
    """It has no recorder: spans of other instrumentations are sent to it, and it keeps them in SQLite."""
    from agent_timetravel.ingest import decode_export_request, spans_from_request
    from agent_timetravel.models import Trace
    from agent_timetravel.storage import TraceStore
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    store = TraceStore(folder / "timetravel.db")
    provider, kept = TracerProvider(), Counting()
    provider.add_span_processor(kept)
    kept.keeping = True
    tracer = provider.get_tracer("bench")

    def crossed(q: Any) -> Any:
        with tracer.start_as_current_span("crossed") as span:
            span.set_attribute("openinference.span.kind", "TOOL")
            span.set_attribute("input.value", json.dumps(q))
            span.set_attribute("output.value", json.dumps(q))
        return q

    @contextmanager
    def received() -> Iterator[None]:
        kept.ended.clear()
        with tracer.start_as_current_span("run"):
            yield
        spans = spans_from_request(decode_export_request(encode_spans(kept.ended).SerializeToString()))
        store.upsert_trace(Trace(trace_id=spans[0].trace_id))
        for span in spans:
            store.insert_span(span)

    return {"disk": (received, crossed)}


WAYS: dict[str, Callable[[Path], dict[str, Way]]] = {
    "chronicle-0.5.0": chronicle_half,
    "chronicle": chronicle_newest,
    "langfuse": langfuse,
    "logfire": logfire,
    "mlflow": mlflow,
    "openinference": openinference,
    "traceloop": traceloop,
    "agent-timetravel": agent_timetravel,
}
