"""AWS X-Ray: the answer of `batch-get-traces`, or single segment documents.

Source: AWS X-Ray developer guide, "Segment documents"; opentelemetry-collector-contrib, `exporter/awsxrayexporter`
(what is no annotation goes to `metadata.default`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    attributes_of,
    hex_id,
    json_text,
    json_value,
    objects,
    rows,
    table,
    tables_in,
    text,
)
from otel_replay.span import Attributes, Event, KeyValue, Resource, Span

_DEPTH_MAX = 100


def is_answer(value: object) -> bool:
    one = table(value)
    return "Traces" in one or "Segments" in one


def is_segment(value: object) -> bool:
    one = table(value)
    return "start_time" in one and "id" in one and text(one.get("trace_id")).startswith("1-")


def read(document: Any, report: Report) -> Iterator[Span]:
    report.note("X-Ray keeps seconds as decimals, renames annotation keys, and no span kinds, links or scopes")
    for item in objects(document, report):
        one = table(item)
        if is_segment(one):
            yield from _safely(one, report)
            continue
        if rows(one.get("UnprocessedTraceIds")):
            report.partial = "X-Ray left traces unprocessed; ask again for them"
            report.problem("partial", report.partial)
        for trace in tables_in(one, "Traces", report) if "Traces" in one else [one]:
            yield from _trace(trace, report)


def _trace(trace: Mapping[str, Any], report: Report) -> Iterator[Span]:
    if trace.get("LimitExceeded") is True:
        limited = "X-Ray's limit of a trace was exceeded: segments are missing"
        report.part(limited, text(trace.get("Id")), trace_id=text(trace.get("Id")).replace("-", ""))
    for segment in tables_in(trace, "Segments", report, text(trace.get("Id"))):
        document = segment.get("Document")
        try:
            parsed = loads(document.encode("utf-8", "surrogatepass")) if isinstance(document, str) else document
        except ValueError as fault:
            report.problem("skipped", "an X-Ray segment that is not JSON", f"{text(segment.get('Id'))}: {fault}")
            continue
        if not isinstance(parsed, dict):
            report.problem("skipped", "an X-Ray segment that is no object", text(segment.get("Id")))
            continue
        yield from _safely({"trace_id": trace.get("Id"), **parsed}, report)


def _safely(segment: Mapping[str, Any], report: Report) -> Iterator[Span]:
    try:
        yield from _segment(segment, _trace_id(segment.get("trace_id")), "", report, 0)
    except Unreadable as fault:
        report.problem("skipped", f"an X-Ray segment: {fault}", text(segment.get("name"))[:80])


def _trace_id(value: Any) -> str:
    """`1-58406520-a006649127e371903a2de979` -> `58406520a006649127e371903a2de979`."""
    return hex_id(text(value).removeprefix("1-").replace("-", ""), 32, "trace_id")


def _seconds(value: Any, field: str) -> int:
    if value is None:
        return 0
    try:
        number = Decimal(str(value)) * 1_000_000_000
    except InvalidOperation:
        raise Unreadable(f"{field} is not a number") from None
    if not number.is_finite() or not 0 <= number < 2**64:
        raise Unreadable(f"{field} is out of range")
    return int(number)


def _segment(raw: Mapping[str, Any], trace_id: str, parent: str, report: Report, depth: int) -> Iterator[Span]:
    if depth > _DEPTH_MAX:
        raise Unreadable(f"subsegments are nested deeper than {_DEPTH_MAX}")
    span_id = hex_id(raw.get("id"), 16, "id")
    name = text(raw.get("name"))
    if raw.get("in_progress") is True:
        report.problem("partial", "a segment was still in progress", name[:80])
    remote = text(raw.get("namespace")) in ("remote", "aws")
    end_ns = _seconds(raw.get("end_time"), "end_time")
    failed = any(raw.get(flag) is True for flag in ("error", "fault", "throttle"))
    exceptions = list(tables_in(table(raw.get("cause")), "exceptions", report, name[:80]))
    yield Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent or hex_id(raw.get("parent_id"), 16, "parent_id"),
        name=name,
        kind=2 if depth == 0 else 3 if remote else 1,
        start_ns=_seconds(raw.get("start_time"), "start_time"),
        end_ns=end_ns,
        attributes=_attributes(raw, report),
        events=tuple(Event(end_ns, "exception", tuple(_exception(item))) for item in exceptions),
        status_code=2 if failed else 0,
        status_message=text(exceptions[0].get("message")) if exceptions else "",
        resource=Resource((("service.name", name),)) if depth == 0 else Resource(),
    )
    for child in tables_in(raw, "subsegments", report, name[:80]):
        yield from _segment(child, trace_id, span_id, report, depth + 1)


def _exception(raw: Mapping[str, Any]) -> Iterator[KeyValue]:
    for key in ("type", "message"):
        if raw.get(key):
            yield f"exception.{key}", text(raw[key])


def _attributes(raw: Mapping[str, Any], report: Report) -> Attributes:
    found = list(attributes_of(raw.get("annotations"), report, "annotations"))
    for space, values in table(raw.get("metadata")).items():
        for key, value in table(values).items():
            name = key if space == "default" else f"{space}.{key}"
            found.append((name, json_value(value, report, name)))
    for key in ("http", "aws", "sql"):
        if raw.get(key):
            found.append((f"aws.xray.{key}", json_text(raw[key])))
    return tuple(found)
