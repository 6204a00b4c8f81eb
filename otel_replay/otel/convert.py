"""A span of the OpenTelemetry SDK -> a neutral span, without a detour over bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from otel_replay.span import Attributes, Event, KeyValues, Link, Resource, Scope, Span, Value

_KINDS = {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}  # SpanKind of the API -> SpanKind of OTLP
_RESOURCES: dict[int, tuple[object, Resource]] = {}
_SCOPES: dict[int, tuple[object, Scope]] = {}


def value_of(value: Any) -> Value:
    """Return an attribute value of the SDK as an OTLP value; what OTLP has no form for stands as its text."""
    if value is None or isinstance(value, (str, bool, int, float, bytes)):
        return value
    if isinstance(value, Mapping):
        return KeyValues((str(key), value_of(item)) for key, item in value.items())
    if isinstance(value, Sequence):
        return tuple(value_of(item) for item in value)
    return str(value)


def attributes_of(attributes: Mapping[str, Any] | None) -> Attributes:
    return tuple((key, value_of(value)) for key, value in (attributes or {}).items())


def _resource(resource: Any) -> Resource:
    known = _RESOURCES.get(id(resource))
    if known is None or known[0] is not resource:
        if len(_RESOURCES) > 64:
            _RESOURCES.clear()
        found = Resource(attributes_of(resource.attributes), schema_url=resource.schema_url or "")
        known = _RESOURCES[id(resource)] = (resource, found)
    return known[1]


def _scope(scope: Any) -> Scope:
    if scope is None:
        return Scope()
    known = _SCOPES.get(id(scope))
    if known is None or known[0] is not scope:
        if len(_SCOPES) > 256:
            _SCOPES.clear()
        attributes = attributes_of(getattr(scope, "attributes", None))
        found = Scope(scope.name or "", scope.version or "", attributes, schema_url=scope.schema_url or "")
        known = _SCOPES[id(scope)] = (scope, found)
    return known[1]


def to_neutral(span: ReadableSpan) -> Span:
    """Return `span` with everything that OTLP keeps of it."""
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.span_id:016x}" if parent is not None and parent.span_id else "",
        trace_state=context.trace_state.to_header() if context.trace_state else "",
        flags=int(context.trace_flags) | (0x300 if parent is not None and parent.is_remote else 0x100),
        name=span.name,
        kind=_KINDS[span.kind.value],
        start_ns=span.start_time or 0,
        end_ns=span.end_time or span.start_time or 0,
        attributes=attributes_of(span.attributes),
        dropped_attributes_count=span.dropped_attributes or 0,
        events=tuple(
            Event(event.timestamp, event.name, attributes_of(event.attributes), _dropped(event))
            for event in span.events
        ),
        dropped_events_count=span.dropped_events or 0,
        links=tuple(
            Link(
                f"{link.context.trace_id:032x}",
                f"{link.context.span_id:016x}",
                link.context.trace_state.to_header() if link.context.trace_state else "",
                attributes_of(link.attributes),
                _dropped(link),
                int(link.context.trace_flags),
            )
            for link in span.links
        ),
        dropped_links_count=span.dropped_links or 0,
        status_code=span.status.status_code.value,
        status_message=span.status.description or "",
        resource=_resource(span.resource),
        scope=_scope(span.instrumentation_scope),
    )


def _dropped(item: Any) -> int:
    return getattr(item, "dropped_attributes", 0) or 0
