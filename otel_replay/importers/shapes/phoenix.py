"""Arize Phoenix: spans of its client and REST API, and rows of its dataframes.

Attributes may come flat (`llm.input_messages.0.message.role`) or unfolded into objects and lists; both become
flat again, as OpenInference writes them.
Source: Arize-ai/phoenix, REST API `/v1/projects/{id}/spans`; Arize-ai/openinference, `spec/semantic_conventions.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.importers.documents import LazyList
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    any_id,
    iso_ns,
    json_text,
    json_value,
    objects,
    table,
    table_in,
    tables_in,
    text,
)
from otel_replay.importers.shapes.console import STATUSES
from otel_replay.limits import IMPORT_DEPTH_MAX
from otel_replay.span import Attributes, Event, KeyValue, Span

_JSON_TEXT = ("llm.invocation_parameters", "llm.prompt_template.variables", "metadata", "tool.parameters")
_JSON_TEXT_ENDS = (".json_schema", ".arguments", ".metadata", ".parameters")
_KIND = "openinference.span.kind"


def is_span(value: object) -> bool:
    one = table(value)
    nested = "span_kind" in one and "trace_id" in table(one.get("context"))
    return nested or ("context.trace_id" in one and "context.span_id" in one)


def read(document: Any, report: Report) -> Iterator[Span]:
    """Read a span, an array of them, or the API's `{"data": [...], "next_cursor"}`."""
    report.note("Phoenix keeps no resource, no scope and no OpenTelemetry kind")
    if isinstance(document, dict) and isinstance(document.get("data"), (list, LazyList)):
        if document.get("next_cursor"):
            report.part("Phoenix has more pages (next_cursor is set)")
        document = document["data"]
    for raw in objects(document, report):
        one = table(raw)
        try:
            yield _span(one, report)
        except Unreadable as fault:
            report.problem("skipped", f"a Phoenix span: {fault}", text(one.get("name"))[:80])


def _span(raw: Mapping[str, Any], report: Report) -> Span:
    context = table(raw.get("context"))
    name = text(raw.get("name"))
    return Span(
        trace_id=any_id(context.get("trace_id") or raw.get("context.trace_id"), 32, report),
        span_id=any_id(context.get("span_id") or raw.get("context.span_id"), 16, report),
        parent_span_id=any_id(raw.get("parent_id"), 16, report),
        name=name,
        kind=0,
        start_ns=iso_ns(raw.get("start_time"), "start_time"),
        end_ns=iso_ns(raw.get("end_time"), "end_time"),
        attributes=_attributes(raw, report, name),
        events=tuple(
            Event(
                iso_ns(event.get("timestamp"), "events.timestamp"),
                text(event.get("name")),
                tuple(_flat("", table_in(event, "attributes", report, name), report)),
            )
            for event in tables_in(raw, "events", report, name)
        ),
        status_code=STATUSES.get(text(raw.get("status_code")).upper(), 0),
        status_message=text(raw.get("status_message")),
    )


def _attributes(raw: Mapping[str, Any], report: Report, name: str) -> Attributes:
    found = list(_flat("", table_in(raw, "attributes", report, name), report))
    for key, value in raw.items():
        if key.startswith("attributes.") and value is not None:
            found.extend(_flat(key.removeprefix("attributes."), value, report))
    if raw.get("span_kind") and not any(key == _KIND for key, _ in found):
        found.insert(0, (_KIND, text(raw["span_kind"]).upper()))
    return tuple(found)


def _flat(prefix: str, value: Any, report: Report, depth: int = 0) -> Iterator[KeyValue]:
    """Fold objects, and lists of objects, back into dotted keys; lists of plain values stay lists."""
    if depth > IMPORT_DEPTH_MAX:
        raise Unreadable(f"{prefix} is nested deeper than {IMPORT_DEPTH_MAX}")
    as_text = prefix in _JSON_TEXT or prefix.endswith(_JSON_TEXT_ENDS)
    if isinstance(value, (dict, list)) and as_text:
        yield prefix, json_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item, report, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _flat(f"{prefix}.{number}", item, report, depth + 1)
    elif prefix:
        yield prefix, json_value(value, report, prefix)
