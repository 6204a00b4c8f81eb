"""MLflow's `Trace.to_json()`: schema 3 (OTLP-like spans, base64 ids) and schema 2 (hex ids in `context`).

Attribute values stay the JSON text that MLflow makes of each (`"mlflow.spanType": "\\"LLM\\""`), as in its OTLP export.
Source: mlflow/mlflow, `mlflow/entities/trace.py` and `span.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    attributes_of,
    base64_or_hex_id,
    iso_ns,
    objects,
    table,
    table_in,
    tables_in,
    text,
    whole,
)
from otel_replay.importers.shapes.console import STATUSES
from otel_replay.span import Event, Link, Resource, Span


def is_trace(value: object) -> bool:
    one = table(value)
    return "info" in one and "spans" in table(one.get("data"))


def read(document: Any, report: Report) -> Iterator[Span]:
    report.note("MLflow keeps no resource, no scope and no OpenTelemetry kind; each attribute value is JSON text")
    for trace in objects(document, report):
        info = table_in(table(trace), "info", report)
        named = tuple((key, text(info[key])) for key in ("trace_id", "request_id") if text(info.get(key)))
        resource = Resource(tuple((f"mlflow.{key}", value) for key, value in named))
        for one in tables_in(table_in(table(trace), "data", report), "spans", report):
            try:
                yield _span(one, resource, report)
            except Unreadable as fault:
                report.problem("skipped", f"an MLflow span: {fault}", text(one.get("name"))[:80])


def _span(raw: Mapping[str, Any], resource: Resource, report: Report) -> Span:
    context = table(raw.get("context"))
    status = raw.get("status")
    code = text(table(status).get("code") or raw.get("status_code"))
    name = text(raw.get("name"))
    end = raw.get("end_time_unix_nano") or raw.get("end_time")
    if not end:
        report.problem("approximate", "a span had not ended when the trace was written", name[:80])
    return Span(
        trace_id=base64_or_hex_id(raw.get("trace_id") or context.get("trace_id"), 32, "trace_id"),
        span_id=base64_or_hex_id(raw.get("span_id") or context.get("span_id"), 16, "span_id"),
        parent_span_id=base64_or_hex_id(raw.get("parent_span_id") or raw.get("parent_id"), 16, "parent_span_id"),
        name=name,
        kind=0,
        start_ns=_time(raw.get("start_time_unix_nano") or raw.get("start_time")),
        end_ns=_time(end),
        attributes=attributes_of(raw.get("attributes"), report, name),
        events=tuple(_event(event, report) for event in tables_in(raw, "events", report, name)),
        links=tuple(
            Link(
                base64_or_hex_id(link.get("trace_id"), 32, "links.trace_id"),
                base64_or_hex_id(link.get("span_id"), 16, "links.span_id"),
                attributes=attributes_of(link.get("attributes"), report, name),
            )
            for link in tables_in(raw, "links", report, name)
        ),
        status_code=STATUSES.get(code.removeprefix("STATUS_CODE_"), 0),
        status_message=text(table(status).get("message") or raw.get("status_message")),
        resource=resource,
    )


def _event(raw: Mapping[str, Any], report: Report) -> Event:
    name = text(raw.get("name"))
    when = raw.get("time_unix_nano") or raw.get("timestamp")
    return Event(_time(when), name, attributes_of(raw.get("attributes"), report, name))


def _time(value: Any) -> int:
    """Numbers are nanoseconds in both schemas."""
    return iso_ns(value, "time") if isinstance(value, str) and not value.isdigit() else whole(value, "time")
