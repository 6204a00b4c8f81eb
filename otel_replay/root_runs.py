"""Runs without `record()`: once the mode is `record`, a run is a local root span of the program's own traces.

A run begins at the first crossing in a trace and ends with the trace's local root span (one without a parent, or with
a remote one): a server with many requests has many runs at once. A crossing under no span belongs to no such run.
Threads lose the context of their trace: work that is handed to one is told the trace's run, which begins only if it
crosses something.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext
from typing import Any

from otel_replay.api import RecordedRun, record
from otel_replay.crossing import Crossing
from otel_replay.otel.tracing import apart, sdk_provider
from otel_replay.session import Scope, Session, current_line, outside


class RootRuns:
    """The runs that are under way, by trace. Also a span processor, so that it sees root spans end."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._runs: dict[int, _RootRun] = {}
        self._lock = threading.RLock()
        self._watched: list[Any] = []
        self._process: RecordedRun | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def session_here(self) -> Session | None:
        """Return the session of the trace that is current, begun here where it is the first crossing; None outside."""
        found = self._here()
        if found is None:
            return self._process.session if self._process is not None else None
        found.begin(ambient=False)
        return found.session

    def begin_process(self, run: RecordedRun) -> bool:
        """Begin `run`, which takes what is crossed under no trace; False where traces are no runs: no SDK is set up.

        It is begun in no context, since all that inherits that context would belong to it, and gives way to a trace.
        """
        if sdk_provider() is None:
            return False
        with apart():
            run.begin(ambient=True)
        self._process = run
        run.session.gives_way = self.scope_here
        return True

    def scope_here(self) -> Scope | None:
        """Return the scope of the trace that is current, whose run need not have begun; None outside."""
        found = self._here()
        return Scope(found.session, None, found.session.root, current_line()) if found is not None else None

    def _here(self) -> _RootRun | None:
        provider = sdk_provider()
        if provider is None:
            return None
        span = sys.modules["opentelemetry.trace"].get_current_span()
        context = span.get_span_context()
        if not context.is_valid or not span.is_recording():
            return None
        if self._process is not None and f"{context.trace_id:032x}" == self._process.trace_id:
            return None
        with self._lock:
            if not any(provider is watched for watched in self._watched):
                self._watched.append(provider)
                provider.add_span_processor(self)
            found = self._runs.get(context.trace_id)
            if found is None:
                found = self._runs[context.trace_id] = _RootRun(str(getattr(span, "name", "run")), self._store)
        return found

    def _forked(self) -> None:
        """In a forked child a run that has not begun is the parent's; one that has goes on as a lane."""
        self._lock = threading.RLock()
        for trace_id, run in list(self._runs.items()):
            if not run.begun:
                run.session.closed = True
                del self._runs[trace_id]

    # A span processor ------------------------------------------------------------------------------------
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        return None

    def _on_ending(self, span: Any) -> None:
        return None

    def on_end(self, span: Any) -> None:
        if span.parent is not None and not span.parent.is_remote:
            return
        with self._lock:
            found = self._runs.pop(span.get_span_context().trace_id, None)
        if found is not None:
            found.end(failed=span.status.status_code.name == "ERROR")

    def shutdown(self) -> None:
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            run.end(failed=False)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class _RootRun:
    """The run of one trace. Until its first crossing it is only a session that work can be told of."""

    def __init__(self, name: str, store: str) -> None:
        from opentelemetry import context

        self._context = context.get_current()
        with outside():
            self._run: RecordedRun = record(name, store=store)
        self._lock = threading.RLock()
        self.begun = False
        self.session = self._run.session
        self._driver = self.session.driver
        self.session.driver = _Beginning(self)

    def begin(self, *, ambient: bool) -> None:
        """Begin the run in its trace, if nobody has: in the current context, or in none."""
        with self._lock:
            if self.begun or self.session.closed:
                return
            self.begun = True
            try:
                with apart(self._context) if ambient else nullcontext():
                    self._run.begin(ambient=ambient)
            finally:
                self.session.driver = self._driver  # not before: others may cross on it without asking us

    def enter(self, crossing: Crossing) -> None:
        """Take the first crossing, wherever it comes from."""
        self.begin(ambient=True)
        self._driver.enter(crossing)

    def end(self, *, failed: bool) -> None:
        with self._lock:
            if not self.begun:
                self.session.closed = True
                return
        if failed:
            self._run.verdict("failed")
        self._run.__exit__(None, None, None)


class _Beginning:
    """The driver of a run that has not begun: it begins with the first crossing."""

    def __init__(self, run: _RootRun) -> None:
        self._run = run

    def enter(self, crossing: Crossing) -> None:
        self._run.enter(crossing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run._driver, name)
