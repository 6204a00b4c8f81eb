"""Our spans and the program's own, into a store: a SpanExporter for any TracerProvider.

`OTEL_TRACES_EXPORTER=otel_replay` finds it by its entry point; in code it goes behind a BatchSpanProcessor like any
exporter, or behind `RecordingSpanProcessor`, which drops nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_replay.otel.convert import to_neutral
from otel_replay.span import Span, SpanSink

_log = logging.getLogger("otel_replay")


class ParquetSpanExporter(SpanExporter):
    """Keeps spans in a store. What `export` says was a success is durable.

    `store` is a folder (default: OTEL_REPLAY_STORE, pyproject, `.otel-replay`), or anything that takes spans.
    """

    def __init__(self, store: Any = None) -> None:
        self._location = store
        self._sink: SpanSink | None = store if hasattr(store, "write") else None
        self.failed_spans = 0
        """How many spans could not be kept so far."""

    def _open(self) -> SpanSink:
        if self._sink is None:
            # By name, since the wiring stands above this room: only it knows stores.
            self._sink = import_module("otel_replay.api").open_sink(self._location)
        return self._sink

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep `spans`. Never raises: a failure is counted, logged, and told to the processor."""
        return self.keep([to_neutral(span) for span in spans])

    def keep(self, spans: Sequence[Span]) -> SpanExportResult:
        """As `export`, for neutral spans."""
        try:
            self._open().write(list(spans))
        except Exception as fault:  # noqa: BLE001  # an exporter must not raise into the program's exit path
            self.failed_spans += len(spans)
            _log.warning("%d span(s) could not be kept: %s (%d so far)", len(spans), fault, self.failed_spans)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        if self._sink is not None and hasattr(self._sink, "close"):
            self._sink.close()
            self._sink = None

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True  # nothing waits in here: `export` is durable when it returns
