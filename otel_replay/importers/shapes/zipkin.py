"""Zipkin v2 JSON <-> Span: an array of spans, or an array of traces.

Source: openzipkin/zipkin-api, `zipkin2-api.yaml`; opentelemetry-collector-contrib, `pkg/translator/zipkin/zipkinv2`
(how OTLP fields become tags: `otlp.link.N`, annotations `name|json|dropped`, `otel.status_code`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import _retype
from otel_replay.importers.shapes._common import (
    Unreadable,
    attributes_of,
    hex_id,
    json_text,
    micros,
    objects,
    table,
    table_in,
    tables_in,
    text,
    whole,
)
from otel_replay.importers.shapes.jaeger import plain, plain_text
from otel_replay.span import Attributes, Event, KeyValue, Link, Resource, Scope, Span, Value
from otel_replay.wire import text as wire_text

_KINDS = {"": 0, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_KIND_NAMES = {number: name for name, number in _KINDS.items() if name}
_SCOPE_KEYS = {
    "otel.scope.name": "name",
    "otel.scope.version": "version",
    "otel.library.name": "name",
    "otel.library.version": "version",
}
_RESOURCE_KEYS = ("service.", "telemetry.")
LOSSES = "Zipkin keeps every value as text, and microseconds; types are restored for known keys only"


def is_span(value: object) -> bool:
    return isinstance(value, dict) and "traceId" in value and "id" in value and "observations" not in value


def read(document: Any, report: Report) -> Iterator[Span]:
    """Read a span, an array of spans, or an array of such arrays. Nothing is held but the ids of shared spans."""
    report.note(LOSSES)
    shared = _shared(document, report)
    for raw in objects(document, report):
        where = f"span {text(raw.get('id'))[:32]} {text(raw.get('name'))[:80]!r}"
        try:
            yield _span(raw, shared, report, where)
        except Unreadable as fault:
            report.problem("skipped", f"a Zipkin span: {fault}", where)


def _service(raw: Mapping[str, Any]) -> str:
    return text(table(raw.get("localEndpoint")).get("serviceName"))


def _shared(document: Any, report: Report) -> dict[tuple[str, str], str]:
    """Map (trace, id) to the server's service where client and server wrote their halves under one id."""
    servers: dict[tuple[str, str], str] = {}
    others: set[tuple[str, str]] = set()
    for one in objects(document, Report()):
        key = (text(one.get("traceId")), text(one.get("id")))
        if one.get("shared") is True:
            servers[key] = _service(one)
        else:
            others.add(key)
    both = {key: service for key, service in servers.items() if key in others}
    if both:
        report.note(f"{len(both)} Zipkin span id(s) are shared by client and server; the server's half got its own id")
    return both


def _own_id(trace_id: str, span_id: str) -> str:
    return hashlib.sha256(f"zipkin shared {trace_id} {span_id}".encode()).hexdigest()[:16]


def _span(raw: Mapping[str, Any], shared: Mapping[tuple[str, str], str], report: Report, where: str) -> Span:
    raw_trace, raw_id, raw_parent = (text(raw.get(key)) for key in ("traceId", "id", "parentId"))
    trace_id = hex_id(raw_trace, 32, "traceId")
    span_id = hex_id(raw_id, 16, "id")
    parent = hex_id(raw_parent, 16, "parentId")
    if (raw_trace, raw_id) in shared and raw.get("shared") is True:
        parent, span_id = span_id, _own_id(trace_id, span_id)
    elif shared.get((raw_trace, raw_parent)) == _service(raw) and _service(raw):
        parent = _own_id(trace_id, parent)
    fields: dict[str, Any] = {"kind": _KINDS.get(text(raw.get("kind")).upper(), 0)}
    left, links, resource = _tags(table_in(raw, "tags", report, where), fields, report)
    start_ns = micros(raw.get("timestamp"), "timestamp")
    service = _service(raw)
    for side in ("localEndpoint", "remoteEndpoint"):
        table_in(raw, side, report, where)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=wire_text.from_wire(text(raw.get("name"))),
        start_ns=start_ns,
        end_ns=start_ns + micros(raw.get("duration"), "duration"),
        parent_span_id=parent,
        attributes=(*left, *_endpoints(raw)),
        events=tuple(_event(note, report) for note in tables_in(raw, "annotations", report, where)),
        links=links,
        resource=Resource(((("service.name", service),) if service else ()) + resource),
        scope=Scope(fields.pop("scope_name", ""), fields.pop("scope_version", "")),
        **fields,
    )


def _tags(
    tags: Mapping[str, Any], fields: dict[str, Any], report: Report
) -> tuple[list[KeyValue], tuple[Link, ...], Attributes]:
    left: list[KeyValue] = []
    links: list[Link] = []
    resource: list[KeyValue] = []
    status, error = text(tags.get("otel.status_code")).lower(), tags.get("error")
    if status or error is not None:
        fields["status_code"] = {"ok": 1, "error": 2}.get(status, 2 if error not in (None, "false") else 0)
    for key, raw in tags.items():
        value = text(raw)
        if key == "span.kind" and value == "internal":
            fields["kind"] = fields["kind"] or 1
        elif key == "otel.status_code" or (key == "error" and value in ("true", "")):
            continue
        elif key in ("otel.status_description", "error"):
            fields["status_message"] = wire_text.from_wire(value)
        elif key in _SCOPE_KEYS:
            fields["scope_" + _SCOPE_KEYS[key]] = value
        elif key == "w3c.tracestate":
            fields["trace_state"] = value
        elif key.startswith("otlp.link."):
            links.append(_link(value, report))
        elif key.startswith(_RESOURCE_KEYS):
            resource.append((key, value))
        else:
            left.append((wire_text.from_wire(key), _retype.all_types(key, value, report)))
    return left, tuple(links), tuple(resource)


def _packed(value: str, head: int) -> tuple[list[str], Attributes, int] | None:
    """Split `a|..|json|dropped` from both ends (the JSON may hold bars); None where it is not of that form."""
    parts = value.split("|", head)
    if len(parts) != head + 1:
        return None
    attributes, bar, dropped = parts[-1].rpartition("|")
    if not bar or not dropped.isdigit() or len(dropped) > 9:
        return None
    try:
        found = loads(attributes.encode("utf-8", "surrogatepass")) if attributes else {}
    except ValueError:
        return None
    return (parts[:-1], attributes_of(found, Report()), int(dropped)) if isinstance(found, dict) else None


def _event(annotation: Any, report: Report) -> Event:
    one = table(annotation)
    value = text(one.get("value"))
    packed = _packed(value, 1)
    time_ns = micros(one.get("timestamp"), "annotations.timestamp")
    return Event(time_ns, packed[0][0], packed[1], packed[2]) if packed else Event(time_ns, value)


def _link(value: str, report: Report) -> Link:
    packed = _packed(value, 3)
    if packed is None:
        raise Unreadable(f"otlp.link is {value[:40]!r}")
    trace, span, state = packed[0]
    return Link(hex_id(trace, 32, "otlp.link"), hex_id(span, 16, "otlp.link"), state, packed[1], packed[2])


def _endpoints(raw: Mapping[str, Any]) -> Iterator[KeyValue]:
    names = {
        "localEndpoint": (("ipv4", "net.host.ip"), ("ipv6", "net.host.ip"), ("port", "net.host.port")),
        "remoteEndpoint": (
            ("serviceName", "peer.service"),
            ("ipv4", "net.peer.ip"),
            ("ipv6", "net.peer.ip"),
            ("port", "net.peer.port"),
        ),
    }
    tags = table(raw.get("tags"))
    for side, keys in names.items():
        endpoint = table(raw.get(side))
        for key, attribute in keys:
            if endpoint.get(key) and attribute not in tags:
                yield attribute, whole(endpoint[key], "port", bits=16) if key == "port" else text(endpoint[key])


def to_zipkin(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """Return Zipkin v2 spans: every value as text, times in microseconds, OTLP fields as the Collector writes them."""
    return [_span_json(span) for span in spans]


def _span_json(span: Span) -> dict[str, Any]:
    service = next((value for key, value in span.resource.attributes if key == "service.name"), "")
    found: dict[str, Any] = {
        "traceId": span.trace_id,
        "id": span.span_id,
        "name": wire_text.to_wire(span.name),
        "timestamp": span.start_ns // 1000,
        "duration": max(span.end_ns // 1000 - span.start_ns // 1000, 0),
        "localEndpoint": {"serviceName": text(service)},
        "annotations": [
            {"timestamp": event.time_ns // 1000, "value": _pack(event.name, event.attributes, event)}
            for event in span.events
        ],
        "tags": dict(_text_tags(span)),
    }
    if span.parent_span_id:
        found["parentId"] = span.parent_span_id
    if span.kind in _KIND_NAMES:
        found["kind"] = _KIND_NAMES[span.kind]
    return found


def _pack(head: str, attributes: Attributes, of: Event | Link) -> str:
    return f"{head}|{json_text({key: plain(value) for key, value in attributes})}|{of.dropped_attributes_count}"


def _text_tags(span: Span) -> Iterator[tuple[str, str]]:
    for key, value in (*span.resource.attributes, *_fields(span)):
        if key != "service.name":
            yield wire_text.to_wire(key), plain_text(value)
    for number, link in enumerate(span.links):
        yield (
            f"otlp.link.{number}",
            _pack(f"{link.trace_id}|{link.span_id}|{link.trace_state}", link.attributes, link),
        )


def _fields(span: Span) -> Iterator[tuple[str, Value]]:
    if span.scope.name:
        yield "otel.scope.name", span.scope.name
    if span.scope.version:
        yield "otel.scope.version", span.scope.version
    yield from span.attributes
    if span.kind == 1:
        yield "span.kind", "internal"
    if span.trace_state:
        yield "w3c.tracestate", span.trace_state
    if span.status_code:
        yield "otel.status_code", "Error" if span.status_code == 2 else "Ok"
    if span.status_code == 2:
        yield "error", "true"
    if span.status_message:
        yield "otel.status_description", span.status_message
