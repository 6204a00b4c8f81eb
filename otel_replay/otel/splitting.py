"""Whole envelopes through exporters that are not ours: batches are cut by their encoded size.

A default batch of 512 spans with envelopes outgrows the 4 MiB that every gRPC receiver takes by default, and dies
whole, the program's own spans with it. `SplittingExporter` stands before such an exporter. A span that is too large
for any batch goes alone, and then without its envelope, and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_replay import limits, semconv

_log = logging.getLogger("otel_replay")
_SPAN_BYTES = 160
_KEY_BYTES = 12


def encoded_bytes(span: ReadableSpan) -> int:
    """Return an upper estimate of the bytes that `span` takes in OTLP protobuf."""
    total = _SPAN_BYTES + len(span.name) * 4 + _of(span.attributes)
    for event in span.events:
        total += 40 + len(event.name) * 4 + _of(event.attributes)
    for link in span.links:
        total += 60 + _of(link.attributes)
    return total


def _of(value: Any) -> int:
    if isinstance(value, str):
        return _KEY_BYTES + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, (bytes, bytearray)):
        return _KEY_BYTES + len(value)
    if hasattr(value, "items"):
        return sum(_of(key) + _of(item) for key, item in value.items())
    if isinstance(value, Iterable):
        return _KEY_BYTES + sum(_of(item) for item in value)
    return _KEY_BYTES + 10


class SplittingExporter(SpanExporter):
    """Hands spans to `inner` in batches of at most `batch_bytes_max` encoded bytes."""

    def __init__(self, inner: SpanExporter, batch_bytes_max: int | None = None) -> None:
        self.inner = inner
        self.batch_bytes_max = batch_bytes_max or batch_limit(inner)
        self.stripped_spans = 0
        """How many spans went without their envelope so far."""
        self.oversized_spans = 0
        """How many spans went alone, larger than a batch: a receiver with that limit refuses these."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export all batches; FAILURE where any failed, after all were tried."""
        result = SpanExportResult.SUCCESS
        for batch in self._batches(spans):
            if self.inner.export(batch) is not SpanExportResult.SUCCESS:
                result = SpanExportResult.FAILURE
        return result

    def _batches(self, spans: Sequence[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
        batch: list[ReadableSpan] = []
        held = 0
        for span in spans:
            size = encoded_bytes(span)
            if size > self.batch_bytes_max:
                span, size = self._stripped(span, size)
            if size > self.batch_bytes_max:
                self.oversized_spans += 1
                _log.warning(
                    "the span %r of %d bytes is larger than a batch of %d: it is sent alone, and a receiver with that "
                    "limit refuses it; its neighbours are not touched",
                    span.name,
                    size,
                    self.batch_bytes_max,
                )
            if batch and held + size > self.batch_bytes_max:
                yield batch
                batch, held = [], 0
            batch.append(span)
            held += size
        if batch:
            yield batch

    def _stripped(self, span: ReadableSpan, size: int) -> tuple[ReadableSpan, int]:
        """Return `span` without its envelope where it has one; its length and digest stay, so the loss is named."""
        attributes = dict(span.attributes or {})
        if attributes.pop(semconv.ENVELOPE, None) is None:
            return span, size
        attributes.pop(semconv.ENVELOPE_BLOBS, None)
        number = 1
        while attributes.pop(f"{semconv.ENVELOPE}.{number}", None) is not None:
            number += 1
        for key in (semconv.GEN_AI_INPUT_MESSAGES, semconv.GEN_AI_OUTPUT_MESSAGES, semconv.GEN_AI_TOOL_RESULT):
            if _of(attributes.get(key, "")) > limits.BLOB_THRESHOLD_BYTES:
                attributes.pop(key, None)
        self.stripped_spans += 1
        _log.warning(
            "the span %r of %d bytes is larger than a batch of %d: it was sent without its envelope; "
            "the journal and the store keep it whole",
            span.name,
            size,
            self.batch_bytes_max,
        )
        smaller = _with_attributes(span, attributes)
        return smaller, encoded_bytes(smaller)

    def shutdown(self) -> None:
        self.inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.inner.force_flush(timeout_millis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # what a program reads off its exporter is still there


def _with_attributes(span: ReadableSpan, attributes: dict[str, Any]) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def batch_limit(exporter: object) -> int:
    """Return the batch size for an exporter: that of gRPC receivers unless it is plainly an HTTP one."""
    module = type(exporter).__module__
    return limits.HTTP_BATCH_BYTES_MAX if ".http" in module else limits.GRPC_BATCH_BYTES_MAX


def needs_splitting(exporter: object) -> bool:
    """True for exporters that send OTLP to a receiver with a limit."""
    return type(exporter).__module__.startswith("opentelemetry.exporter.otlp")


def install(provider: Any) -> int:
    """Put a SplittingExporter before each OTLP exporter behind the SDK's own processors; return how many.

    Looks for the attributes that the SDK keeps its exporters in (1.30 to 1.45): where they are not there, nothing is
    touched. Idempotent; `uninstall` puts the exporters back.
    """
    done = 0
    for holder, name in _places(provider):
        exporter = getattr(holder, name)
        if needs_splitting(exporter):
            setattr(holder, name, SplittingExporter(exporter))
            done += 1
    return done


def uninstall(provider: Any) -> None:
    """Put the exporters back as they were."""
    for holder, name in _places(provider):
        exporter = getattr(holder, name)
        if isinstance(exporter, SplittingExporter):
            setattr(holder, name, exporter.inner)


def unreached(provider: Any) -> list[str]:
    """Return the processors whose exporter could not be found: behind these, envelopes are kept short."""
    processors = _processors(provider)
    reached = {id(holder) for holder, _name in _places(provider)}
    found = []
    for processor in processors:
        inner = getattr(processor, "_batch_processor", None)
        if (
            id(processor) not in reached
            and id(inner) not in reached
            and type(processor).__module__.startswith("opentelemetry.sdk")
        ):
            found.append(type(processor).__qualname__)
    return found


def _processors(provider: Any) -> list[Any]:
    active = getattr(provider, "_active_span_processor", None)
    return list(getattr(active, "_span_processors", ()))


def _places(provider: Any) -> Iterator[tuple[Any, str]]:
    for processor in _processors(provider):
        batch = getattr(processor, "_batch_processor", None)
        for holder, name in ((batch, "_exporter"), (processor, "span_exporter")):
            if holder is not None and name in getattr(holder, "__dict__", {}):
                yield holder, name
                break
