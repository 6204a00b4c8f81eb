"""OTLP/JSON <-> Span: requests, and the lines that the Collector's file exporter writes.

Written as the Collector writes it: hex ids, enum numbers, 64-bit ints as text, bytes in base64, NaN and the
infinities as text, fields of default value left out. Read leniently: see `read_json`.

Source: opentelemetry-proto `docs/specification.md` (JSON Protobuf Encoding); specification `protocol/file-exporter.md`.
Law: `spans_from_json(json_from_spans(spans)) == spans`, in value, type and order.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from ..errors import ImportFault
from ..span import Event, Link, Resource, Scope, Span
from . import text
from ._jsonvalue import (
    Bad,
    Json,
    as_bytes,
    as_object,
    attributes_from_json,
    attributes_to_json,
    base64_ids,
    pick,
    pick_enum,
    pick_id,
    pick_int,
    pick_list,
    pick_object,
    pick_text,
    pick_unsigned,
)
from .result import Problem, Read, items_of

UNKNOWN_MEMBER: Final = "otelReplayUnknown"
"""Member of a span that carries `Span.unknown` in base64. OTLP readers ignore members that they don't know."""
_KIND_NAMES: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
SPAN_KINDS: Final = {name: n for n, name in enumerate(_KIND_NAMES)} | {
    f"SPAN_KIND_{name}": n for n, name in enumerate(_KIND_NAMES)
}
STATUS_CODES: Final = {"UNSET": 0, "OK": 1, "ERROR": 2} | {
    "STATUS_CODE_UNSET": 0,
    "STATUS_CODE_OK": 1,
    "STATUS_CODE_ERROR": 2,
}

# Text ----------------------------------------------------------------------------------------------------


def loads(data: bytes | str) -> object:
    """Return the tree of JSON text, as forgiving as can be without guessing.

    A byte order mark, bare NaN and Infinity, lone surrogates and control characters in strings are accepted.
    Raises ImportFault for anything else that is not JSON.
    """
    if isinstance(data, bytes):
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        decoded = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogateescape")
        return json.loads(decoded.removeprefix("\ufeff"), strict=False)
    except (ValueError, RecursionError) as fault:
        raise ImportFault(f"not JSON: {fault}") from None


# Writing -------------------------------------------------------------------------------------------------


def _set(obj: Json, **members: Any) -> Json:
    """Add the members that differ from protobuf's default; 64-bit numbers arrive as text."""
    for name, value in members.items():
        if value not in (0, "", []) and not (value == "0" and name.endswith("UnixNano")):
            obj[name] = value
    return obj


def _event_to_json(event: Event) -> Json:
    return _set(
        {},
        timeUnixNano=str(event.time_ns),
        name=text.to_wire(event.name),
        attributes=attributes_to_json(event.attributes),
        droppedAttributesCount=event.dropped_attributes_count,
    )


def _link_to_json(link: Link) -> Json:
    return _set(
        {},
        traceId=link.trace_id,
        spanId=link.span_id,
        traceState=text.to_wire(link.trace_state),
        attributes=attributes_to_json(link.attributes),
        droppedAttributesCount=link.dropped_attributes_count,
        flags=link.flags,
    )


def _span_to_json(span: Span) -> Json:
    obj = _set(
        {},
        traceId=span.trace_id,
        spanId=span.span_id,
        traceState=text.to_wire(span.trace_state),
        parentSpanId=span.parent_span_id,
        flags=span.flags,
        name=text.to_wire(span.name),
        kind=span.kind,
        startTimeUnixNano=str(span.start_ns),
        endTimeUnixNano=str(span.end_ns),
        attributes=attributes_to_json(span.attributes),
        droppedAttributesCount=span.dropped_attributes_count,
        events=[_event_to_json(event) for event in span.events],
        droppedEventsCount=span.dropped_events_count,
        links=[_link_to_json(link) for link in span.links],
        droppedLinksCount=span.dropped_links_count,
    )
    obj["status"] = _set({}, message=text.to_wire(span.status_message), code=span.status_code)
    if span.unknown:
        obj[UNKNOWN_MEMBER] = base64.b64encode(span.unknown).decode()
    return obj


def resource_to_json(resource: Resource) -> Json:
    """Return the JSON form of a resource, without its schema URL (that stands on the group)."""
    return _set(
        {},
        attributes=attributes_to_json(resource.attributes),
        droppedAttributesCount=resource.dropped_attributes_count,
    )


def scope_to_json(scope: Scope) -> Json:
    """Return the JSON form of a scope, without its schema URL (that stands on the group)."""
    return _set(
        {},
        name=text.to_wire(scope.name),
        version=text.to_wire(scope.version),
        attributes=attributes_to_json(scope.attributes),
        droppedAttributesCount=scope.dropped_attributes_count,
    )


def json_from_spans(spans: Iterable[Span]) -> Json:
    """Return the ExportTraceServiceRequest tree. A new group begins where resource or scope change."""
    groups: list[Json] = []
    resource_key = scope_key = ""
    last: Span | None = None
    for span in spans:
        if last is None or span.resource is not last.resource:
            shown = resource_to_json(span.resource)
            url = text.to_wire(span.resource.schema_url)
            key = repr((shown, url))
            if last is None or key != resource_key:
                resource_key, scope_key = key, ""
                groups.append(_set({"resource": shown, "scopeSpans": []}, schemaUrl=url))
        if last is None or span.scope is not last.scope or not scope_key:
            shown = scope_to_json(span.scope)
            url = text.to_wire(span.scope.schema_url)
            key = repr((shown, url))
            if key != scope_key:
                scope_key = key
                groups[-1]["scopeSpans"].append(_set({"scope": shown, "spans": []}, schemaUrl=url))
        groups[-1]["scopeSpans"][-1]["spans"].append(_span_to_json(span))
        last = span
    return {"resourceSpans": groups}


def json_line(spans: Iterable[Span]) -> bytes:
    """Return one OTLP JSON line with its newline: what the Collector's file exporter appends for a batch."""
    return orjson.dumps(json_from_spans(spans)) + b"\n"


# Reading -------------------------------------------------------------------------------------------------


_PLAIN_MEMBERS = frozenset(
    (
        *("traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
        *("attributes", "status"),
    )
)


def _plain_span(obj: Json, resource: Resource, scope: Scope) -> Span | None:
    """Return a span of the commonest members in their specified spelling; None for any other, which is looked at."""
    if not obj.keys() <= _PLAIN_MEMBERS or obj.get("status"):
        return None
    trace_id, span_id, parent = obj.get("traceId"), obj.get("spanId"), obj.get("parentSpanId", "")
    name, kind, attributes = obj.get("name"), obj.get("kind"), obj.get("attributes")
    start, end = obj.get("startTimeUnixNano"), obj.get("endTimeUnixNano")
    if not (
        type(trace_id) is str and type(span_id) is str and type(parent) is str and type(name) is str
        and type(start) is str and type(end) is str and type(kind) is int and type(attributes) is list
        and len(trace_id) == 32 and len(span_id) == 16 and len(parent) in (0, 16) and 0 <= kind <= 5
        and _LOWER_HEX.fullmatch(trace_id + span_id + parent) and not name.startswith(text.PREFIX)
        and (times := start + end).isascii() and times.isdecimal() and 0 < len(start) < 20 and 0 < len(end) < 20
    ):  # fmt: skip
        return None
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=kind,
        start_ns=int(start),
        end_ns=int(end),
        attributes=attributes_from_json(attributes),
        resource=resource,
        scope=scope,
    )


_LOWER_HEX = re.compile(r"[0-9a-f]*", re.ASCII)


def _span_from_json(obj: Json, resource: Resource, scope: Scope, b64: bool) -> Span:
    if not b64 and (plain := _plain_span(obj, resource, scope)) is not None:
        return plain
    status = pick_object(obj, "status")
    unknown = pick(obj, UNKNOWN_MEMBER)
    return Span(
        trace_id=pick_id(obj, "traceId", 16, b64),
        span_id=pick_id(obj, "spanId", 8, b64),
        parent_span_id=pick_id(obj, "parentSpanId", 8, b64),
        trace_state=pick_text(obj, "traceState"),
        flags=pick_unsigned(obj, "flags", 32),
        name=pick_text(obj, "name"),
        kind=pick_enum(obj, "kind", SPAN_KINDS),
        start_ns=pick_unsigned(obj, "startTimeUnixNano", 64),
        end_ns=pick_unsigned(obj, "endTimeUnixNano", 64),
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        events=tuple(_event_from_json(as_object(event, "an event")) for event in pick_list(obj, "events")),
        links=tuple(_link_from_json(as_object(link, "a link"), b64) for link in pick_list(obj, "links")),
        status_code=pick_enum(status, "code", STATUS_CODES),
        status_message=pick_text(status, "message"),
        dropped_attributes_count=pick_unsigned(obj, "droppedAttributesCount", 32),
        dropped_events_count=pick_unsigned(obj, "droppedEventsCount", 32),
        dropped_links_count=pick_unsigned(obj, "droppedLinksCount", 32),
        resource=resource,
        scope=scope,
        unknown=as_bytes(unknown, UNKNOWN_MEMBER) if unknown else b"",
    )


def _event_from_json(obj: Json) -> Event:
    return Event(
        time_ns=pick_unsigned(obj, "timeUnixNano", 64),
        name=pick_text(obj, "name"),
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        dropped_attributes_count=pick_unsigned(obj, "droppedAttributesCount", 32),
    )


def _link_from_json(obj: Json, b64: bool) -> Link:
    return Link(
        trace_id=pick_id(obj, "traceId", 16, b64),
        span_id=pick_id(obj, "spanId", 8, b64),
        trace_state=pick_text(obj, "traceState"),
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        dropped_attributes_count=pick_unsigned(obj, "droppedAttributesCount", 32),
        flags=pick_unsigned(obj, "flags", 32),
    )


def resource_from_json(group: Json) -> Resource:
    """Return the resource of a group. Raises Bad."""
    obj = pick_object(group, "resource")
    return Resource(
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        dropped_attributes_count=pick_int(obj, "droppedAttributesCount"),
        schema_url=pick_text(group, "schemaUrl"),
    )


def scope_from_json(group: Json) -> Scope:
    """Return the scope of a group, under its new or its old name (`instrumentationLibrary`). Raises Bad."""
    obj = pick_object(group, "scope") or pick_object(group, "instrumentationLibrary")
    return Scope(
        name=pick_text(obj, "name"),
        version=pick_text(obj, "version"),
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        dropped_attributes_count=pick_int(obj, "droppedAttributesCount"),
        schema_url=pick_text(group, "schemaUrl"),
    )


def _top_groups(obj: object) -> list[Any]:
    """Return the resource groups of a document, whatever wraps them."""
    if isinstance(obj, dict):
        for name in ("resourceSpans", "resource_spans", "batches"):
            if name in obj:
                return pick_list(obj, name)
        for name in ("trace", "result", "data"):  # Tempo v2, Jaeger v3
            if isinstance(obj.get(name), dict):
                return _top_groups(obj[name])
        if not obj:
            return []
    shown = f"an object with {', '.join(map(repr, list(obj)[:5]))}" if isinstance(obj, dict) else type(obj).__name__
    raise ImportFault(f"not OTLP/JSON traces: found {shown}, expected an object with 'resourceSpans' or 'batches'")


def _scope_groups(group: Json) -> list[Any]:
    return pick_list(group, "scopeSpans") or pick_list(group, "instrumentationLibrarySpans")


def _ids(scope_groups: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    for scope_group in scope_groups:
        spans = scope_group.get("spans") if isinstance(scope_group, dict) else None
        for span in spans if isinstance(spans, list) else ():
            if isinstance(span, dict):
                yield pick(span, "traceId"), 16
                yield pick(span, "spanId"), 8


def read_json(obj: object) -> Read[Span]:
    """Return the spans of an OTLP/JSON tree, each broken one refused alone.

    Accepted beside the letter of the specification: base64 ids (decided for the whole document), enum names,
    ints as numbers, snake_case names, `batches`, `instrumentationLibrarySpans`, a trace wrapped in `trace` or
    `result`, null or missing lists. Raises ImportFault where `obj` is no such document.
    """
    read: Read[Span] = Read([], [])
    groups: list[tuple[int, Json, list[Any]]] = []
    try:
        found = _top_groups(obj)
    except Bad as fault:
        raise ImportFault(f"not OTLP/JSON traces: {fault}") from None
    for r, group in enumerate(found):
        try:
            groups.append((r, group, _scope_groups(as_object(group, "a resource group"))))
        except Bad as fault:
            read.problems.append(Problem(f"resourceSpans[{r}]", str(fault)))
    if found and not groups:
        raise ImportFault(f"not OTLP/JSON traces: {read.problems[0].reason}")
    b64 = base64_ids(_ids(one for _, _, scope_groups in groups for one in scope_groups))
    for r, group, scope_groups in groups:
        for s, scope_group in enumerate(scope_groups):
            _read_scope_group(group, scope_group, b64, f"resourceSpans[{r}].scopeSpans[{s}]", read)
    return read


def _read_scope_group(group: Json, scope_group: Any, b64: bool, where: str, read: Read[Span]) -> None:
    trouble = ""
    resource, scope = Resource(), Scope()
    try:
        spans = pick_list(as_object(scope_group, "a scope group"), "spans")
    except Bad as fault:
        read.problems.append(Problem(where, str(fault)))
        return
    try:
        resource, scope = resource_from_json(group), scope_from_json(scope_group)
    except (Bad, RecursionError) as fault:
        trouble = f"its resource or scope: {fault}"
    for i, item in enumerate(spans):
        try:
            if trouble:
                raise Bad(trouble)
            read.items.append(_span_from_json(as_object(item, "a span"), resource, scope, b64))
        except (ValueError, RecursionError, OverflowError) as fault:
            name = item.get("name") if isinstance(item, dict) else None
            shown = f" {name!r:.80}" if isinstance(name, str) else ""
            read.problems.append(Problem(f"{where}.spans[{i}]{shown}", str(fault)))


def spans_from_json(obj: object, *, lenient: bool = True) -> list[Span]:
    """Return the spans of an OTLP/JSON tree (see `read_json`).

    With `lenient`, what cannot be read is logged and left out; without, it raises ImportFault, as does a document
    that is no OTLP/JSON.
    """
    read = read_json(obj)
    if read.problems and not lenient:
        raise ImportFault(f"{len(read.problems)} spans cannot be read; first: {read.problems[0]}")
    return items_of(read, "spans")
