"""Runs without `record()`: once the mode is `record`, a run is a local root span of the program's own traces.

A run begins at the first crossing in a trace and ends with the trace's local root span (one without a parent, or with
a remote one): a server with many requests has many runs at once. A crossing under no span belongs to no such run.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from otel_replay.api import RecordedRun, record
from otel_replay.otel.tracing import sdk_provider
from otel_replay.session import Session


class RootRuns:
    """The runs that are under way, by trace. Also a span processor, so that it sees root spans end."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._runs: dict[int, RecordedRun] = {}
        self._lock = threading.Lock()
        self._watched: list[Any] = []

    def session_here(self) -> Session | None:
        """Return the session of the trace that is current, begun here where it is the first crossing; None outside."""
        provider = sdk_provider()
        if provider is None:
            return None
        span = sys.modules["opentelemetry.trace"].get_current_span()
        context = span.get_span_context()
        if not context.is_valid or not span.is_recording():
            return None
        with self._lock:
            if not any(provider is watched for watched in self._watched):
                self._watched.append(provider)
                provider.add_span_processor(self)
            run = self._runs.get(context.trace_id)
            if run is None:
                run = self._runs[context.trace_id] = record(str(getattr(span, "name", "run")), store=self._store)
                run.__enter__()
        return run.session

    # A span processor ------------------------------------------------------------------------------------
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        return None

    def _on_ending(self, span: Any) -> None:
        return None

    def on_end(self, span: Any) -> None:
        if span.parent is not None and not span.parent.is_remote:
            return
        with self._lock:
            run = self._runs.pop(span.get_span_context().trace_id, None)
        if run is not None:
            if span.status.status_code.name == "ERROR":
                run.verdict("failed")
            run.__exit__(None, None, None)

    def shutdown(self) -> None:
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.__exit__(None, None, None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True
