"""Jaeger's JSON <-> Span: `/api/traces`, the UI's downloads, anonymizer captures, Elasticsearch documents.

Source: jaegertracing/jaeger, `internal/uimodel/json` (model) and `internal/uimodel/converter/v1/json`;
opentelemetry-collector-contrib, `pkg/translator/jaeger` (which tag stands for which OTLP field).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from otel_replay.importers.result import Report
from otel_replay.importers.shapes import _retype
from otel_replay.importers.shapes._common import (
    INT64_MAX,
    Unreadable,
    attributes_of,
    base64_bytes,
    doubled_keys,
    hex_id,
    json_text,
    micros,
    rows_in,
    table,
    table_in,
    tables_in,
    text,
    whole,
)
from otel_replay.span import Attributes, Event, KeyValue, KeyValues, Link, Resource, Scope, Span, Value
from otel_replay.wire import text as wire_text

JS_INT_MAX = 2**53
_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_BY_TYPE = {
    "Str": "string", "Bool": "bool", "Long": "int64", "Int64": "int64", "Double": "float64", "Float64": "float64",
    "Binary": "binary",
}  # fmt: skip
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
_STATUSES = {"OK": 1, "ERROR": 2}
_SCOPE_KEYS = {
    "otel.scope.name": "name",
    "otel.scope.version": "version",
    "otel.library.name": "name",
    "otel.library.version": "version",
}
REF_TYPE = "opentracing.ref_type"
LOSSES = "Jaeger keeps microseconds, and lists and maps as JSON text; lists are restored for known keys only"


def is_span(value: object) -> bool:
    return isinstance(value, dict) and "spanID" in value and ("operationName" in value or "traceID" in value)


def is_trace(value: object) -> bool:
    return isinstance(value, dict) and "spans" in value and ("traceID" in value or "processes" in value)


def read_trace(trace: Mapping[str, Any], report: Report) -> Iterator[Span]:
    """Read one trace object: `{"traceID", "spans", "processes", "warnings"}`."""
    report.note(LOSSES)
    named = table_in(trace, "processes", report)
    processes = {key: _resource(table_in(named, key, report, "processes"), report) for key in named}
    _warnings(trace, report)
    for raw in tables_in(trace, "spans", report):
        yield from one_span(raw, processes, report)


def read_spans(spans: Iterable[Any], report: Report, *, binary_is_hex: bool = False) -> Iterator[Span]:
    """Read span objects that each carry their own `process`."""
    report.note(LOSSES)
    for raw in spans:
        yield from one_span(raw, {}, report, binary_is_hex=binary_is_hex)


def one_span(
    raw: Any, processes: Mapping[str, Resource], report: Report, *, binary_is_hex: bool = False
) -> Iterator[Span]:
    """Yield the one span, or none where it can't be read (and tell the report)."""
    name = wire_text.from_wire(text(table(raw).get("operationName")))
    where = f"span {text(table(raw).get('spanID'))[:32]} {name[:80]!r}"
    try:
        yield _span(table(raw), name, processes, report, where, binary_is_hex)
    except Unreadable as fault:
        report.problem("skipped", f"a Jaeger span: {fault}", where)


def _span(
    raw: Mapping[str, Any], name: str, processes: Mapping[str, Resource], report: Report, where: str, in_hex: bool
) -> Span:
    trace_id = hex_id(raw.get("traceID"), 32, "traceID")
    start_ns = micros(raw.get("startTime"), "startTime")
    tags = [*_tags(raw, "tags", report, where, in_hex), *_dotted(raw, report, where)]
    for key in doubled_keys(tags):
        report.problem("approximate", f"tag {key!r} stands twice; both values are kept", where)
    parent, links = _references(raw, trace_id, report, where)
    _warnings(raw, report, where)
    process = table_in(raw, "process", report, where)
    resource = _resource(process, report, in_hex) if process else processes.get(text(raw.get("processID")), Resource())
    fields: dict[str, Any] = {}
    return Span(
        trace_id=trace_id,
        span_id=hex_id(raw.get("spanID"), 16, "spanID"),
        name=name,
        start_ns=start_ns,
        end_ns=start_ns + micros(raw.get("duration"), "duration"),
        parent_span_id=parent,
        attributes=_meanings(tags, fields),
        events=tuple(_event(log, report, where, in_hex) for log in tables_in(raw, "logs", report, where)),
        links=links,
        flags=whole(raw.get("flags"), "flags", bits=32),
        resource=resource,
        scope=Scope(fields.pop("scope_name", ""), fields.pop("scope_version", "")),
        **fields,
    )


def _meanings(tags: list[KeyValue], fields: dict[str, Any]) -> Attributes:
    """Move the tags that stand for OTLP fields into `fields`; return the others in their order."""
    fields["kind"] = 0
    left: list[KeyValue] = []
    for key, value in tags:
        if key == "span.kind" and text(value).lower() in _KINDS:
            fields["kind"] = _KINDS[text(value).lower()]
        elif key == "otel.status_code" and text(value).upper() in _STATUSES:
            fields["status_code"] = _STATUSES[text(value).upper()]
        elif key == "otel.status_description" and isinstance(value, str):
            fields["status_message"] = value
        elif key == "error" and (value is True or value in ("true", "True")):  # some clients write text
            fields["status_code"] = 2
        elif key in _SCOPE_KEYS and isinstance(value, str):
            fields["scope_" + _SCOPE_KEYS[key]] = value
        elif key == "w3c.tracestate" and isinstance(value, str):
            fields["trace_state"] = value
        else:
            left.append((key, value))
    return tuple(left)


def _references(raw: Mapping[str, Any], trace_id: str, report: Report, where: str) -> tuple[str, tuple[Link, ...]]:
    """Return (parent span id, links): the first CHILD_OF of the same trace is the parent, as Jaeger has it."""
    parent = hex_id(raw.get("parentSpanID"), 16, "parentSpanID").strip("0") and hex_id(raw["parentSpanID"], 16, "")
    links: list[Link] = []
    follows = ""
    for one in tables_in(raw, "references", report, where):
        kind = text(one.get("refType")).upper()
        trace = hex_id(one.get("traceID"), 32, "references.traceID")
        span = hex_id(one.get("spanID"), 16, "references.spanID")
        if kind == "CHILD_OF" and trace == trace_id and parent in ("", span):
            parent = span
            continue
        if kind == "FOLLOWS_FROM" and trace == trace_id:
            follows = follows or span
        links.append(Link(trace, span, attributes=((REF_TYPE, kind.lower()),) if kind == "CHILD_OF" else ()))
    if not parent and follows:
        parent = follows
        report.problem("approximate", "the parent is known from a FOLLOWS_FROM reference only", where)
    return parent, tuple(links)


def _event(log: Mapping[str, Any], report: Report, where: str, in_hex: bool) -> Event:
    fields = _tags(log, "fields", report, where, in_hex)
    name = next((value for key, value in fields if key == "event" and isinstance(value, str)), "")
    return Event(
        micros(log.get("timestamp"), "logs.timestamp"),
        name,
        tuple(field for field in fields if field != ("event", name)) if name else tuple(fields),
    )


def _resource(one: Mapping[str, Any], report: Report, in_hex: bool = False) -> Resource:
    named: list[KeyValue] = []
    if "serviceName" in one:
        named.append(("service.name", text(one["serviceName"])))
    tags = [*_tags(one, "tags", report, "process", in_hex), *_dotted(one, report, "process")]
    return Resource((*named, *tags))


def _warnings(holder: Mapping[str, Any], report: Report, where: str = "") -> None:
    for warning in rows_in(holder, "warnings", report, where):
        if "clock skew adj" in text(warning) and "skipping" not in text(warning):
            report.problem("approximate", "Jaeger moved times (clock skew); ask for raw=true", text(warning)[:120])
        else:
            report.note(f"Jaeger warns: {text(warning)[:200]}")


def _dotted(holder: Mapping[str, Any], report: Report, where: str) -> Iterator[KeyValue]:
    """Read Elasticsearch's `tags as fields`, where a dot of the key became another character (mostly "@")."""
    for key, value in attributes_of(holder.get("tag"), report, f"{where}, tag"):
        yield key.replace("@", "."), value


def _tags(holder: Mapping[str, Any], name: str, report: Report, where: str, in_hex: bool) -> list[KeyValue]:
    return [
        (wire_text.from_wire(text(tag.get("key"))), _tag_value(tag, report, where, in_hex))
        for tag in tables_in(holder, name, report, where)
    ]


def _tag_value(tag: Mapping[str, Any], report: Report, where: str, in_hex: bool) -> Value:
    key = text(tag.get("key"))
    kind, value = (text(tag.get("type")).lower(), tag.get("value")) if "value" in tag else _by_type(tag)
    try:
        if value is None:
            return None
        if kind == "bool":
            if (said := text(value).lower()) in _BOOLS:
                return _BOOLS[said]
        elif kind in ("int64", "long"):
            number = int(value)
            if -INT64_MAX - 1 <= number <= INT64_MAX and not (isinstance(value, float) and number != value):
                return number
        elif kind in ("float64", "double"):
            return float(value)
        elif kind == "binary":
            return bytes.fromhex(value) if in_hex else base64_bytes(text(value))
        elif isinstance(value, str):
            return _retype.lists_only(key, value, report)
        elif kind == "":
            return attributes_of({key: value}, report, where)[0][1]
    except (ValueError, TypeError, OverflowError, binascii.Error):
        pass
    report.problem("approximate", f"tag {key!r} is no {kind or 'value'}; kept as text", where)
    return json_text(value)


def _by_type(tag: Mapping[str, Any]) -> tuple[str, Any]:
    """Return (type, value) of a tag as Jaeger's Thrift and gRPC models spell it: `vType`, and the value by its type."""
    kind = text(tag.get("vType", tag.get("v_type"))).lower()
    for name in _BY_TYPE:
        for key in (f"v{name}", f"v_{name.lower()}"):
            if tag.get(key) is not None:
                return kind or _BY_TYPE[name], tag[key]
    return kind, None


def to_jaeger(spans: Iterable[Span]) -> dict[str, Any]:
    """Return what `/api/traces` would answer: one entry a trace, in the order of their first spans.

    Lists and maps become JSON text and times microseconds, as in Jaeger itself; `read_trace` restores the known keys.
    """
    traces: dict[str, dict[str, Any]] = {}
    processes: dict[str, dict[Resource, str]] = {}
    for span in spans:
        trace = traces.setdefault(
            span.trace_id, {"traceID": span.trace_id, "spans": [], "processes": {}, "warnings": None}
        )
        known = processes.setdefault(span.trace_id, {})
        if span.resource not in known:
            known[span.resource] = f"p{len(known) + 1}"
            trace["processes"][known[span.resource]] = _process(span.resource)
        trace["spans"].append(_span_json(span, known[span.resource]))
    return {"data": list(traces.values()), "total": 0, "limit": 0, "offset": 0, "errors": None}


def _process(resource: Resource) -> dict[str, Any]:
    name = next((value for key, value in resource.attributes if key == "service.name"), "")
    rest = [pair for pair in resource.attributes if pair[0] != "service.name"]
    return {"serviceName": text(name), "tags": [_tag(key, value) for key, value in rest]}


def _span_json(span: Span, process: str) -> dict[str, Any]:
    references = [_reference("CHILD_OF", span.trace_id, span.parent_span_id)] if span.parent_span_id else []
    for link in span.links:
        kind = next((value for key, value in link.attributes if key == REF_TYPE), "follows_from")
        references.append(_reference(text(kind).upper(), link.trace_id, link.span_id))
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": span.flags,
        "operationName": wire_text.to_wire(span.name),
        "references": references,
        "startTime": span.start_ns // 1000,
        "duration": max(span.end_ns // 1000 - span.start_ns // 1000, 0),
        "tags": [_tag(key, value) for key, value in (*span.attributes, *_field_tags(span))],
        "logs": [
            {
                "timestamp": event.time_ns // 1000,
                "fields": [_tag(key, value) for key, value in (("event", event.name), *event.attributes)],
            }
            for event in span.events
        ],
        "processID": process,
        "warnings": None,
    }


def _reference(kind: str, trace_id: str, span_id: str) -> dict[str, str]:
    return {"refType": kind, "traceID": trace_id, "spanID": span_id}


def _field_tags(span: Span) -> Iterator[KeyValue]:
    if span.scope.name:
        yield "otel.scope.name", span.scope.name
    if span.scope.version:
        yield "otel.scope.version", span.scope.version
    if span.kind in _KIND_NAMES:
        yield "span.kind", _KIND_NAMES[span.kind]
    if span.status_code:
        yield "otel.status_code", "ERROR" if span.status_code == 2 else "OK"
    if span.status_code == 2:
        yield "error", True
    if span.status_message:
        yield "otel.status_description", span.status_message
    if span.trace_state:
        yield "w3c.tracestate", span.trace_state


def _tag(name: str, value: Value) -> dict[str, Any]:
    key = wire_text.to_wire(name)
    if isinstance(value, bool):
        return {"key": key, "type": "bool", "value": value}
    if isinstance(value, int):
        if abs(value) > INT64_MAX:
            return {"key": key, "type": "string", "value": wire_text.int_to_wire(value)}
        return {"key": key, "type": "int64", "value": value if abs(value) <= JS_INT_MAX else str(value)}
    if isinstance(value, float):
        return {"key": key, "type": "float64", "value": value if math.isfinite(value) else str(value)}
    if isinstance(value, bytes):
        return {"key": key, "type": "binary", "value": base64.b64encode(value).decode()}
    return {"key": key, "type": "string", "value": plain_text(value)}


def plain_text(value: Value) -> str:
    """Return a value as Jaeger and Zipkin print it: text as it is, lists and maps as JSON text, null as ""."""
    if isinstance(value, str):
        return wire_text.to_wire(value)
    if isinstance(value, float):
        return repr(value)
    return "" if value is None else json_text(plain(value))


def plain(value: Value) -> Any:
    """Return a value as JSON types: bytes as base64, maps as objects (the last of a double key wins), NaN as ""."""
    if isinstance(value, KeyValues):
        return {key: plain(item) for key, item in value}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
