"""OTLP protobuf <-> Span: `ExportTraceServiceRequest`, `TracesData` and their like (all the same on the wire).

Source: opentelemetry-proto, `trace/v1/trace.proto` and `common/v1/common.proto`.
Law: `spans_from_request(request_from_spans(spans)) == spans`, in value, type and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import DecodeError, EncodeError

from ..errors import ImportFault
from ..span import Attributes, Event, KeyValues, Link, Resource, Scope, Span, Value
from . import _unknown, text
from ._jsonvalue import deep_to_text, text_value
from ._schema import AnyValue, ResourceSpans, ScopeSpans, SpanMessage, TracesData
from .result import Problem, Read, items_of

# Values --------------------------------------------------------------------------------------------------


def write_value(message: Any, value: Value, depth: int = 0) -> None:
    """Fill the AnyValue `message` with `value`."""
    if value is None:
        return
    if isinstance(value, str):
        message.string_value = text.encode(value)
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        if text.INT64_MIN <= value <= text.INT64_MAX:
            message.int_value = value
        else:
            message.string_value = text.int_to_wire(value).encode()
    elif isinstance(value, float):
        message.double_value = value
    elif isinstance(value, bytes):
        message.bytes_value = value
    elif depth >= text.DEPTH_MAX:
        message.string_value = deep_to_text(value).encode()
    elif isinstance(value, KeyValues):
        message.kvlist_value.SetInParent()
        write_attributes(message.kvlist_value.values, value, depth + 1)
    elif isinstance(value, tuple):
        message.array_value.SetInParent()
        for item in value:
            write_value(message.array_value.values.add(), item, depth + 1)
    else:
        raise TypeError(f"{type(value).__name__} is no OTLP value")


def read_value(message: Any) -> Value:
    """Return the value of an AnyValue message."""
    kind = message.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value":
        return text_value(message.string_value.decode("utf-8", "surrogateescape"))
    if kind == "kvlist_value":
        return KeyValues(read_attributes(message.kvlist_value.values))
    if kind == "array_value":
        return tuple(read_value(item) for item in message.array_value.values)
    scalar: bool | int | float | bytes = getattr(message, kind)
    return scalar


def write_attributes(target: Any, attributes: Attributes, depth: int = 0) -> None:
    """Append `attributes` to the repeated KeyValue field `target`."""
    for key, value in attributes:
        item = target.add()
        item.key = text.encode(key)
        item.value.SetInParent()
        write_value(item.value, value, depth)


def read_attributes(source: Any) -> Attributes:
    """Return the attributes of a repeated KeyValue field, in order, double keys kept."""
    return tuple((text.decode(item.key), read_value(item.value)) for item in source)


# Spans ---------------------------------------------------------------------------------------------------


def _write_event(message: Any, event: Event) -> None:
    message.time_unix_nano = event.time_ns
    message.name = text.encode(event.name)
    write_attributes(message.attributes, event.attributes)
    message.dropped_attributes_count = event.dropped_attributes_count


def read_event(message: Any) -> Event:
    """Return the event of a Span.Event message."""
    return Event(
        time_ns=message.time_unix_nano,
        name=text.decode(message.name),
        attributes=read_attributes(message.attributes),
        dropped_attributes_count=message.dropped_attributes_count,
    )


def _write_link(message: Any, link: Link) -> None:
    message.trace_id = bytes.fromhex(link.trace_id)
    message.span_id = bytes.fromhex(link.span_id)
    message.trace_state = text.encode(link.trace_state)
    write_attributes(message.attributes, link.attributes)
    message.dropped_attributes_count = link.dropped_attributes_count
    message.flags = link.flags


def read_link(message: Any) -> Link:
    """Return the link of a Span.Link message."""
    return Link(
        trace_id=message.trace_id.hex(),
        span_id=message.span_id.hex(),
        trace_state=text.decode(message.trace_state),
        attributes=read_attributes(message.attributes),
        dropped_attributes_count=message.dropped_attributes_count,
        flags=message.flags,
    )


def _write_span(span: Span) -> bytes:
    message = SpanMessage(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id),
        trace_state=text.encode(span.trace_state),
        flags=span.flags,
        name=text.encode(span.name),
        kind=span.kind,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        dropped_attributes_count=span.dropped_attributes_count,
        dropped_events_count=span.dropped_events_count,
        dropped_links_count=span.dropped_links_count,
    )
    write_attributes(message.attributes, span.attributes)
    for event in span.events:
        _write_event(message.events.add(), event)
    for link in span.links:
        _write_link(message.links.add(), link)
    if span.status_code or span.status_message:
        message.status.code = span.status_code
        message.status.message = text.encode(span.status_message)
    if span.unknown:
        for root, path, data in _unknown.unpack(span.unknown):
            if root == _unknown.ROOT_SPAN:
                _unknown.restore(message, path, data)
    return bytes(message.SerializeToString())


def read_span(
    data: bytes, resource: Resource, scope: Scope, outer: Sequence[tuple[int, _unknown.Path, bytes]] = ()
) -> Span:
    """Return the span of a Span message. `outer` are the unknown fields of what it stands in. Raises DecodeError."""
    message = SpanMessage.FromString(data)
    unknown = b""
    if _unknown.has_unknown(message) or outer:
        parts = [(_unknown.ROOT_SPAN, path, rest) for path, rest in _unknown.collect(SpanMessage.FromString(data))]
        unknown = _unknown.pack([*parts, *outer])
    return Span(
        trace_id=message.trace_id.hex(),
        span_id=message.span_id.hex(),
        parent_span_id=message.parent_span_id.hex(),
        trace_state=text.decode(message.trace_state),
        flags=message.flags,
        name=text.decode(message.name),
        kind=message.kind,
        start_ns=message.start_time_unix_nano,
        end_ns=message.end_time_unix_nano,
        attributes=read_attributes(message.attributes),
        events=tuple(map(read_event, message.events)),
        links=tuple(map(read_link, message.links)),
        status_code=message.status.code,
        status_message=text.decode(message.status.message),
        dropped_attributes_count=message.dropped_attributes_count,
        dropped_events_count=message.dropped_events_count,
        dropped_links_count=message.dropped_links_count,
        resource=resource,
        scope=scope,
        unknown=unknown,
    )


# Resource and scope --------------------------------------------------------------------------------------


def write_resource(group: Any, resource: Resource) -> None:
    """Fill a ResourceSpans or ResourceLogs message with `resource`."""
    group.resource.SetInParent()
    write_attributes(group.resource.attributes, resource.attributes)
    group.resource.dropped_attributes_count = resource.dropped_attributes_count
    group.schema_url = text.encode(resource.schema_url)


def read_resource(group: Any) -> Resource:
    """Return the resource of a ResourceSpans or ResourceLogs message."""
    return Resource(
        attributes=read_attributes(group.resource.attributes),
        dropped_attributes_count=group.resource.dropped_attributes_count,
        schema_url=text.decode(group.schema_url),
    )


def write_scope(group: Any, scope: Scope) -> None:
    """Fill a ScopeSpans or ScopeLogs message with `scope`."""
    group.scope.SetInParent()
    group.scope.name = text.encode(scope.name)
    group.scope.version = text.encode(scope.version)
    write_attributes(group.scope.attributes, scope.attributes)
    group.scope.dropped_attributes_count = scope.dropped_attributes_count
    group.schema_url = text.encode(scope.schema_url)


def read_scope(group: Any) -> Scope:
    """Return the scope of a ScopeSpans or ScopeLogs message."""
    return Scope(
        name=text.decode(group.scope.name),
        version=text.decode(group.scope.version),
        attributes=read_attributes(group.scope.attributes),
        dropped_attributes_count=group.scope.dropped_attributes_count,
        schema_url=text.decode(group.schema_url),
    )


# Requests ------------------------------------------------------------------------------------------------


def _outer_unknown(group: Any, root: int) -> list[tuple[int, _unknown.Path, bytes]]:
    """Return the unknown fields of a resource or scope group, its children aside; `group` loses them."""
    bare = type(group)()
    bare.CopyFrom(group)
    bare.ClearField("scope_spans" if root == _unknown.ROOT_RESOURCE else "spans")
    kept = type(group)()
    kept.CopyFrom(bare)
    if not _unknown.has_unknown(bare):
        return []
    return [(root, path, data) for path, data in _unknown.collect(kept)]


def read_request(data: bytes) -> Read[Span]:
    """Return the spans of an ExportTraceServiceRequest or TracesData, each broken one refused alone.

    Raises ImportFault where the bytes around the spans are no such message.
    """
    try:
        request = TracesData.FromString(data)
    except DecodeError as fault:
        raise ImportFault(f"not an OTLP trace request in protobuf ({len(data)} bytes): {fault}") from fault
    spans: list[Span] = []
    problems: list[Problem] = []
    for r, resource_spans in enumerate(request.resource_spans):
        resource = read_resource(resource_spans)
        resource_unknown = _outer_unknown(resource_spans, _unknown.ROOT_RESOURCE)
        for s, scope_spans in enumerate(resource_spans.scope_spans):
            scope = read_scope(scope_spans)
            outer = resource_unknown + _outer_unknown(scope_spans, _unknown.ROOT_SCOPE)
            for i, raw in enumerate(scope_spans.spans):
                try:
                    spans.append(read_span(raw, resource, scope, outer))
                except DecodeError as fault:
                    where = f"resourceSpans[{r}].scopeSpans[{s}].spans[{i}]"
                    problems.append(Problem(where, f"{len(raw)} bytes that are no span: {fault}"))
    return Read(spans, problems)


def spans_from_request(data: bytes) -> list[Span]:
    """Return the readable spans of an ExportTraceServiceRequest or TracesData; what is refused is logged.

    Raises ImportFault where the bytes around the spans are no such message.
    """
    return items_of(read_request(data), "spans")


def _group(message: Any, fill: Callable[[Any, Any], None], of: Any, root: int, unknown: bytes) -> tuple[Any, bytes]:
    fill(message, of)
    if unknown:
        for part_root, path, data in _unknown.unpack(unknown):
            if part_root == root:
                _unknown.restore(message, path, data)
    return message, bytes(message.SerializeToString())


def request_from_spans(spans: Iterable[Span]) -> bytes:
    """Return an ExportTraceServiceRequest. A new group begins where resource or scope change, so order is kept.

    Raises ImportFault where a span cannot be written: an id that is not hex, a number beyond its field.
    """
    request = TracesData()
    resource_key = scope_key = b""
    resource: Any = None
    scope: Any = None
    last: Span | None = None
    for span in spans:
        try:
            same = last is not None and last.unknown == span.unknown
            if not (same and last is not None and last.resource is span.resource):
                group, key = _group(
                    ResourceSpans(), write_resource, span.resource, _unknown.ROOT_RESOURCE, span.unknown
                )
                if resource is None or key != resource_key:
                    resource, resource_key, scope, same = request.resource_spans.add(), key, None, False
                    resource.CopyFrom(group)
            if not (same and scope is not None and last is not None and last.scope is span.scope):
                group, key = _group(ScopeSpans(), write_scope, span.scope, _unknown.ROOT_SCOPE, span.unknown)
                if scope is None or key != scope_key:
                    scope, scope_key = resource.scope_spans.add(), key
                    scope.CopyFrom(group)
            scope.spans.append(_write_span(span))
        except (ValueError, TypeError, EncodeError) as fault:
            raise ImportFault(f"span {span.name!r} ({span.span_id}) cannot be written as OTLP: {fault}") from fault
        last = span
    return bytes(request.SerializeToString())


def value_to_bytes(value: Value) -> bytes:
    """Return the AnyValue message of `value`."""
    message = AnyValue()
    write_value(message, value)
    return bytes(message.SerializeToString())


def value_from_bytes(data: bytes) -> Value:
    """Return the value of an AnyValue message. Raises ImportFault where the bytes are none."""
    try:
        return read_value(AnyValue.FromString(data))
    except DecodeError as fault:
        raise ImportFault(f"not an OTLP AnyValue: {fault}") from fault
