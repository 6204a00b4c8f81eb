"""Langfuse: a trace as its UI downloads it, as its API answers, and rows of its batch exports (JSON, JSON Lines, CSV).

An observation becomes a span with the attributes that Langfuse's own SDK would have written
(`langfuse.observation.*`), beside what is left of the original attributes under `metadata.attributes`.
Source: langfuse/langfuse, `packages/shared/src/server/otel/OtelIngestionProcessor.ts` and the public API.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import _retype
from otel_replay.importers.shapes._common import (
    Unreadable,
    any_id,
    attributes_of,
    iso_ns,
    json_text,
    json_value,
    objects,
    table,
    table_in,
    tables_in,
    text,
)
from otel_replay.limits import IMPORT_SPAN_BYTES_MAX
from otel_replay.span import Attributes, KeyValue, Resource, Scope, Span

_LEVELS = {"ERROR": 2}
_OBSERVATION = "langfuse.observation."


def is_trace(value: object) -> bool:
    one = table(value)
    return "observations" in one and ("trace" in one or "id" in one)


def is_observation(value: object) -> bool:
    one = table(value)
    return (
        "id" in one
        and "type" in one
        and bool({"traceId", "trace_id"} & one.keys())
        and (bool({"startTime", "start_time"} & one.keys()))
    )


def read(document: Any, report: Report) -> Iterator[Span]:
    report.note(
        "Langfuse keeps milliseconds, turns numbers of the original attributes into text, and removes mapped keys"
    )
    for item in objects(document, report):
        one = table(item)
        if "observations" not in one:
            yield from _each([one], {}, report)
            continue
        trace = table(one.get("trace")) or one
        yield from _each(tables_in(one, "observations", report), trace, report)


def _each(observations: Any, trace: Mapping[str, Any], report: Report) -> Iterator[Span]:
    for raw in observations:
        one = table(raw)
        try:
            yield _span(one, trace, report)
        except Unreadable as fault:
            report.problem("skipped", f"a Langfuse observation: {fault}", text(one.get("name"))[:80])


def begins_csv(head: bytes) -> bool:
    """True where a file that begins with `head` is a batch export of observations in CSV."""
    line = head.decode("utf-8-sig", "replace").partition("\n")[0].strip().lower()
    names = {name.strip().strip('"') for name in line.split(",")}
    return (
        {"id", "type"} <= names and bool({"traceid", "trace_id"} & names) and bool({"starttime", "start_time"} & names)
    )


def read_csv(file: BinaryIO, report: Report) -> Iterator[Span]:
    """Read a batch export in CSV: a row an observation, objects as JSON text. A broken row is skipped and counted."""
    report.found("langfuse-csv")
    file.seek(0)
    before = csv.field_size_limit(IMPORT_SPAN_BYTES_MAX)
    text_file = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
    try:
        for number, row in enumerate(csv.DictReader(text_file), 2):
            if None in row:
                report.problem("skipped", "a row with more fields than its header", f"row {number}")
                continue
            yield from read({key: value or None for key, value in row.items()}, report)
    except csv.Error as fault:
        report.problem("partial", f"the CSV cannot be read further: {str(fault)[:100]}")
    finally:
        csv.field_size_limit(before)
        text_file.detach()


def _pick(raw: Mapping[str, Any], camel: str) -> Any:
    """Return a field by its camelCase name, or the snake_case one of batch exports."""
    if camel in raw:
        return raw[camel]
    return raw.get("".join(f"_{char.lower()}" if char.isupper() else char for char in camel))


def _span(raw: Mapping[str, Any], trace: Mapping[str, Any], report: Report) -> Span:
    name = text(raw.get("name"))
    where = f"observation {text(raw.get('id'))[:40]} {name[:60]!r}"
    metadata = _object(raw.get("metadata"))
    level = text(raw.get("level"))
    if raw.get("input") is None and raw.get("output") is None:
        report.problem("lost", "an observation came without input and output", where)
    return Span(
        trace_id=any_id(_pick(raw, "traceId") or trace.get("id"), 32, report),
        span_id=any_id(raw.get("id"), 16, report),
        parent_span_id=any_id(_pick(raw, "parentObservationId"), 16, report),
        name=name,
        kind=0,
        start_ns=iso_ns(_pick(raw, "startTime"), "startTime"),
        end_ns=iso_ns(_pick(raw, "endTime"), "endTime"),
        attributes=(*_observation(raw, metadata, level), *_original(metadata, report, where)),
        status_code=_LEVELS.get(level, 0),
        status_message=text(_pick(raw, "statusMessage")),
        resource=Resource(attributes_of(metadata.get("resourceAttributes"), report, "resource")),
        scope=_scope(table_in(metadata, "scope", report, where), report),
    )


def _object(value: Any) -> Mapping[str, Any]:
    """Return an object that may have been exported as JSON text."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            return table(loads(value.encode("utf-8", "surrogatepass")))
        except ValueError:
            return {}
    return table(value)


def _scope(raw: Mapping[str, Any], report: Report) -> Scope:
    return Scope(text(raw.get("name")), text(raw.get("version")), attributes_of(raw.get("attributes"), report, "scope"))


def _observation(raw: Mapping[str, Any], metadata: Mapping[str, Any], level: str) -> Iterator[KeyValue]:
    yield _OBSERVATION + "type", text(raw.get("type")).lower()
    if level:
        yield _OBSERVATION + "level", level
    fields = {
        "input": raw.get("input"),
        "output": raw.get("output"),
        "model.name": raw.get("model"),
        "model.parameters": _pick(raw, "modelParameters") or None,
        "usage_details": _pick(raw, "usageDetails") or None,
        "status_message": _pick(raw, "statusMessage"),
        "prompt.name": _pick(raw, "promptName"),
        "prompt.version": _pick(raw, "promptVersion"),
        "metadata": None if metadata else raw.get("metadata") or None,
        "completion_start_time": _pick(raw, "completionStartTime"),
    }
    for key, value in fields.items():
        if value is not None:
            yield _OBSERVATION + key, json_text(value)
    for key, value in metadata.items():
        if key not in ("attributes", "resourceAttributes", "scope"):
            yield f"{_OBSERVATION}metadata.{key}", json_text(value)


def _original(metadata: Mapping[str, Any], report: Report, where: str) -> Attributes:
    return tuple(
        (key, _retype.all_types(key, value, report) if isinstance(value, str) else json_value(value, report, where))
        for key, value in table_in(metadata, "attributes", report, where).items()
    )
