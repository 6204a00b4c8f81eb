"""What the Python SDK's ConsoleSpanExporter prints (`span.to_json()`), one object after the other.

Source: opentelemetry-python `sdk/trace/__init__.py`, `ReadableSpan.to_json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    attributes_of,
    hex_id,
    iso_ns,
    objects,
    table,
    table_in,
    tables_in,
    text,
)
from otel_replay.span import Event, Link, Resource, Span

KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
STATUSES = {"OK": 1, "ERROR": 2}


def is_span(value: object) -> bool:
    one = table(value)
    return "trace_id" in table(one.get("context")) and text(one.get("kind")).startswith("SpanKind.")


def read(document: Any, report: Report) -> Iterator[Span]:
    report.note("console output holds no scope and no bytes; times are in microseconds")
    for raw in objects(document, report):
        one = table(raw)
        try:
            yield _span(one, report)
        except Unreadable as fault:
            report.problem("skipped", f"a printed span: {fault}", text(one.get("name"))[:80])


def _span(raw: Mapping[str, Any], report: Report) -> Span:
    name = text(raw.get("name"))
    context, status, resource = (table_in(raw, key, report, name[:80]) for key in ("context", "status", "resource"))
    return Span(
        trace_id=hex_id(context.get("trace_id"), 32, "trace_id"),
        span_id=hex_id(context.get("span_id"), 16, "span_id"),
        parent_span_id=hex_id(raw.get("parent_id"), 16, "parent_id"),
        name=name,
        kind=KINDS.get(text(raw.get("kind")).removeprefix("SpanKind."), 0),
        start_ns=iso_ns(raw.get("start_time"), "start_time"),
        end_ns=iso_ns(raw.get("end_time"), "end_time"),
        attributes=attributes_of(raw.get("attributes"), report, name),
        events=tuple(
            Event(
                iso_ns(event.get("timestamp"), "events.timestamp"),
                text(event.get("name")),
                attributes_of(event.get("attributes"), report, name),
            )
            for event in tables_in(raw, "events", report, name)
        ),
        links=tuple(_link(link, report) for link in tables_in(raw, "links", report, name)),
        status_code=STATUSES.get(text(status.get("status_code")), 0),
        status_message=text(status.get("description")),
        resource=Resource(
            attributes_of(resource.get("attributes"), report, "resource"), 0, text(resource.get("schema_url"))
        ),
    )


def _link(raw: Mapping[str, Any], report: Report) -> Link:
    context = table(raw.get("context"))
    return Link(
        hex_id(context.get("trace_id"), 32, "links.trace_id"),
        hex_id(context.get("span_id"), 16, "links.span_id"),
        attributes=attributes_of(raw.get("attributes"), report, "link"),
    )
