"""A span processor that drops nothing in silence: bounded by bytes, with back-pressure, and an exact count of drops."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_replay import originals
from otel_replay.otel.splitting import encoded_bytes

_SUPPRESS = "suppress_instrumentation"  # the SDK's own key: exporters must not trace themselves


class RecordingSpanProcessor(SpanProcessor):
    """Hands ended spans to `exporter` from a thread of its own.

    Holds at most `queue_bytes_max` bytes of spans. When they are full, `on_end` waits for at most `wait_ms_max`, and
    only then drops the span and counts it: `dropped_spans` is exact, as is `failed_spans` for what the exporter
    refused. Unsampled spans pass by, as with the SDK's own processors.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        queue_bytes_max: int = 64 * 1024 * 1024,
        batch_spans_max: int = 512,
        schedule_delay_ms: int = 1_000,
        wait_ms_max: int = 5_000,
    ) -> None:
        self.span_exporter = exporter
        self.dropped_spans = 0
        self.failed_spans = 0
        self._queue_bytes_max = queue_bytes_max
        self._batch_spans_max = batch_spans_max
        self._delay = schedule_delay_ms / 1000
        self._wait = wait_ms_max / 1000
        self._closed = False
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # a child exports only what it ends itself

    def _start(self) -> None:
        self._queue: deque[tuple[ReadableSpan, int]] = deque()
        self._held = 0
        self._busy = False
        self._changed = threading.Condition()
        if not self._closed:
            threading.Thread(target=self._work, name="otel-replay-export", daemon=True).start()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        return None

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if self._closed or context is None or not context.trace_flags.sampled:
            return
        size = encoded_bytes(span)
        with self._changed:
            if self._held and self._held + size > self._queue_bytes_max:
                deadline = originals.monotonic() + self._wait
                while self._held and self._held + size > self._queue_bytes_max:
                    left = deadline - originals.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        self.dropped_spans += 1
                        return
            self._queue.append((span, size))
            self._held += size
            if len(self._queue) >= self._batch_spans_max:
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    if self._closed:
                        return
                    self._changed.wait(self._delay)
            self._export_all()

    def _export_all(self) -> None:
        while True:
            with self._changed:
                if self._busy or not self._queue:
                    return
                self._busy = True
                batch = [self._queue.popleft() for _ in range(min(self._batch_spans_max, len(self._queue)))]
            token = otel_context.attach(otel_context.set_value(_SUPPRESS, True))
            try:
                result = self.span_exporter.export([span for span, _size in batch])
            except Exception:  # noqa: BLE001  # an exporter must not end the thread that exports
                result = SpanExportResult.FAILURE
            finally:
                otel_context.detach(token)
            with self._changed:
                self._busy = False
                self._held -= sum(size for _span, size in batch)
                if result is not SpanExportResult.SUCCESS:
                    self.failed_spans += len(batch)
                self._changed.notify_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export all that has ended. True only where everything so far was kept."""
        deadline = originals.monotonic() + timeout_millis / 1000
        self._export_all()
        with self._changed:
            while self._busy or self._queue:
                left = deadline - originals.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.05))
        return not (self.dropped_spans or self.failed_spans)

    def shutdown(self) -> None:
        if self._closed:
            return
        self.force_flush()
        self._closed = True
        with self._changed:
            self._changed.notify_all()
        self.span_exporter.shutdown()
