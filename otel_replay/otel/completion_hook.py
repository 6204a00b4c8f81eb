"""The content of GenAI spans for our store, through OpenTelemetry's own door: no code, whatever the capture flag says.

`OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=otel_replay` has every instrumentation that stands on
opentelemetry-util-genai hand its messages over. They are put with their span when it ends, and both go to the store;
the span in the program's own pipeline stays as it is. Another hook is named in `OTEL_REPLAY_COMPLETION_HOOK`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_replay import settings as _settings
from otel_replay.limits import ATTRIBUTES_AWAITING_MAX
from otel_replay.otel.convert import to_neutral
from otel_replay.otel.exporter import ParquetSpanExporter
from otel_replay.otel.processor import RecordingSpanProcessor
from otel_replay.otel.tracing import sdk_provider
from otel_replay.session import peek_scope
from otel_replay.span import Attributes

_log = logging.getLogger("otel_replay")
GROUP = "opentelemetry_genai_completion_hook"
_NAMES = {
    "inputs": "gen_ai.input.messages",
    "outputs": "gen_ai.output.messages",
    "system_instruction": "gen_ai.system_instructions",
    "tool_definitions": "gen_ai.tool.definitions",
}


class RecordingCompletionHook:
    """A completion hook that keeps what it is given. `store` as for `ParquetSpanExporter`."""

    def __init__(self, store: Any = None) -> None:
        self._exporter = _Exporter(store)
        self._processor: RecordingSpanProcessor | None = None
        self._provider: Any = None
        self._next = _chained()

    def on_completion(self, **given: Any) -> None:
        """Keep the content that belongs to the span `given["span"]`; then the chained hook has its turn."""
        try:
            self._keep(given)
        except Exception as fault:  # noqa: BLE001 - the program's call has succeeded, and ours must not spoil it
            _log.warning("the content of a GenAI span could not be kept: %r", fault)
        if self._next is not None:
            self._next.on_completion(**given)

    def _keep(self, given: Mapping[str, Any]) -> None:
        span = given.get("span")
        provider = sdk_provider()
        scope = peek_scope()
        inside = scope is not None and scope.crossing is not None and scope.crossing.kind == "model"
        if span is None or provider is None or not span.is_recording() or inside:
            return  # inside: our own instrument of the client holds the exact exchange
        if self._provider is not provider:
            self._provider, self._processor = provider, RecordingSpanProcessor(self._exporter)
            provider.add_span_processor(_Only(self._processor, self._exporter.content))
        found = tuple((name, json.dumps(_plain(given[key]))) for key, name in _NAMES.items() if given.get(key))
        if found and len(self._exporter.content) < ATTRIBUTES_AWAITING_MAX:
            self._exporter.content[_id_of(span)] = found

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Keep what has ended so far. True where all of it was kept."""
        return self._processor is None or self._processor.force_flush(timeout_millis)


class _Exporter(ParquetSpanExporter):
    """Keeps spans together with the content that the hook was given for them."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.content: dict[int, Attributes] = {}

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self.keep([self._whole(span) for span in spans])

    def _whole(self, span: ReadableSpan) -> Any:
        neutral, content = to_neutral(span), self.content.pop(_id_of(span), ())
        names = {name for name, _value in content}
        kept = tuple(pair for pair in neutral.attributes if pair[0] not in names)
        return dataclasses.replace(neutral, attributes=(*kept, *content))


class _Only(RecordingSpanProcessor):
    """Hands on the spans that content was given for."""

    def __init__(self, inner: RecordingSpanProcessor, content: Mapping[int, Attributes]) -> None:
        self._inner = inner
        self._content = content

    def on_end(self, span: ReadableSpan) -> None:
        if _id_of(span) in self._content:
            self._inner.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._inner.shutdown()


def _id_of(span: Any) -> int:
    return int(span.get_span_context().span_id)


def _plain(value: Any) -> Any:
    """Return messages as the conventions write them: parts are objects, bytes are base64."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _chained() -> Any:
    name = _settings.load().completion_hook
    if not name or name == "otel_replay":
        return None
    for point in entry_points(group=GROUP, name=name):
        return point.load()()
    _log.warning("no completion hook is called %r: only ours is at work", name)
    return None
