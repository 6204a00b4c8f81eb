"""Reads the OTLP JSON lines of these tests into spans and log records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from otel_replay.span import KeyValues, LogRecord, Scope, Span, Value
from otel_replay.wire.json import spans_from_json


def value_of(obj: Any) -> Value:
    if not obj:
        return None
    ((kind, inner),) = obj.items()
    if kind == "arrayValue":
        return tuple(value_of(item) for item in inner.get("values", []))
    if kind == "kvlistValue":
        return KeyValues((item["key"], value_of(item["value"])) for item in inner.get("values", []))
    return int(inner) if kind == "intValue" else inner


def pairs(items: Any) -> tuple[tuple[str, Value], ...]:
    return tuple((item["key"], value_of(item.get("value"))) for item in items or ())


def logs_from_json(obj: Any) -> list[LogRecord]:
    return [
        LogRecord(
            time_ns=int(log.get("timeUnixNano", 0)),
            trace_id=log.get("traceId", ""),
            span_id=log.get("spanId", ""),
            event_name=log.get("eventName", ""),
            body=value_of(log.get("body")),
            attributes=pairs(log.get("attributes")),
            scope=Scope(group.get("scope", {}).get("name", "")),
        )
        for resource in obj.get("resourceLogs", [])
        for group in resource.get("scopeLogs", [])
        for log in group.get("logRecords", [])
    ]


def read(*paths: str | Path) -> tuple[list[Span], list[LogRecord]]:
    """Return the spans and log records of OTLP JSON files, one object a line or one object a file."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for path in paths:
        text = Path(path).read_text()
        objects = (
            [json.loads(text)]
            if text.lstrip().startswith("{\n") or str(path).endswith(".json")
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
        for obj in objects:
            if "resourceSpans" in obj:
                spans += spans_from_json(obj, lenient=False)
            logs += logs_from_json(obj)
    return spans, logs


def any_value(value: Any) -> Value:
    """Return JSON as an AnyValue."""
    if isinstance(value, dict):
        return KeyValues((key, any_value(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(any_value(item) for item in value)
    return cast(Value, value)
