"""Export requests as protobuf's own objects, for whoever makes columns of them rather than a `Span` of each.

A request is parsed at one go, and so are most of its attributes: equal ones are the same bytes, which the caller may
remember. Whatever is not plain to read so is `Unusual`, and left to `protobuf`. Law: both read the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from ..span import Event, KeyValue, KeyValues, Link, Resource, Scope, Span, Value
from . import _unknown, text
from ._jsonvalue import text_value
from ._schema import EventMessage, KeyValueMessage, LinkMessage, PartsTracesData, StatusMessage
from .protobuf import read_event, read_link, read_resource, read_scope, read_span, read_value


class Unusual(Exception):
    """To be read the plain way: it holds fields that this version does not know, or is no such message."""


def groups(data: bytes) -> Iterator[tuple[Resource, Scope, Any]]:
    """Yield (resource, scope, span messages) of an ExportTraceServiceRequest. Raises Unusual at any of them."""
    request = _parsed(PartsTracesData, data)
    _refuse_unknown((request,))
    _refuse_unknown(request.resource_spans)
    for resource_spans in request.resource_spans:
        if _unknown.has_unknown(resource_spans.resource):
            raise Unusual
        resource = read_resource(resource_spans)
        _refuse_unknown(resource_spans.scope_spans)
        for scope_spans in resource_spans.scope_spans:
            if _unknown.has_unknown(scope_spans.scope):
                raise Unusual
            _refuse_unknown(scope_spans.spans)
            yield resource, read_scope(scope_spans), scope_spans.spans


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as fault:
        raise Unusual from fault


def _refuse_unknown(messages: Iterable[Any]) -> None:
    """Raise Unusual where one of `messages` itself has unknown fields; what stands within is not looked at."""
    if any(map(len, map(UnknownFieldSet, messages))):
        raise Unusual


def _known(kind: Any, data: bytes) -> Any:
    message = _parsed(kind, data)
    if _unknown.has_unknown(message):
        raise Unusual
    return message


def attribute(data: bytes) -> KeyValue:
    """Return the attribute of a KeyValue message. Raises Unusual."""
    found = _text_attribute(data)
    if found is not None:
        return found
    message = _known(KeyValueMessage, data)
    value = read_value(message.value)
    if type(value) is not str:
        _refuse_depth(value)
    return text.decode(message.key), value


_KEY, _VALUE, _STRING = 0x0A, 0x12, 0x0A


def _text_attribute(data: bytes) -> KeyValue | None:
    """Return the attribute where it is a text, written as every library writes one; None where it is another."""
    try:
        key_end = 2 + data[1]
        if data[0] != _KEY or key_end > 129 or data[key_end] != _VALUE:
            return None
        at = _whole(data, key_end + 1)
        if not at or data[at] != _STRING:
            return None
        at = _whole(data, at + 1)
    except IndexError:
        return None
    if not at:
        return None
    return text.decode(data[2:key_end]), text_value(data[at:].decode("utf-8", "surrogateescape"))


def _whole(data: bytes, at: int) -> int:
    """Return where that begins whose length stands at `at`, if it is all the rest of `data`; else 0."""
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at if size == len(data) - at else 0
        shift += 7


def status(data: bytes) -> tuple[int, str]:
    """Return (code, message) of a Status message. Raises Unusual."""
    if not data:
        return 0, ""
    message = _known(StatusMessage, data)
    return message.code, text.decode(message.message)


def _refuse_depth(value: Value, depth: int = 0) -> None:
    # Parsed within its span, it stands some levels deeper, and protobuf refuses the hundredth.
    if isinstance(value, tuple):
        if depth > text.DEPTH_MAX:
            raise Unusual
        for item in value:
            _refuse_depth(item[1] if isinstance(value, KeyValues) else item, depth + 1)  # type: ignore[index]


def events(several: Iterable[bytes]) -> list[Event]:
    """Return the events of Span.Event messages. Raises Unusual."""
    found = [read_event(_known(EventMessage, data)) for data in several]
    for event in found:
        _refuse_depth(KeyValues(event.attributes))
    return found


def links(several: Iterable[bytes]) -> list[Link]:
    """Return the links of Span.Link messages. Raises Unusual."""
    found = [read_link(_known(LinkMessage, data)) for data in several]
    for link in found:
        _refuse_depth(KeyValues(link.attributes))
    return found


def plainly(message: Any, resource: Resource, scope: Scope) -> Span:
    """Return the span of a message that `groups` gave. Raises Unusual where only the whole request can be read."""
    try:
        return read_span(message.SerializeToString(), resource, scope)
    except DecodeError as fault:
        raise Unusual from fault
