"""OTLP log records <-> LogRecord, from protobuf and JSON; and LogRecord <-> Span, the form in which they are kept.

GenAI content often travels as log events (`gen_ai.client.inference.operation.details`). The store holds spans, so a
log record is kept as a span of no duration under the span it was written in, with its body as an attribute.

Source: opentelemetry-proto, `logs/v1/logs.proto`.
Laws: `log_from_span(span_from_log(r)) == r`; `logs_from_request(request_from_logs(rs)) == rs`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError, EncodeError

from ..errors import ImportFault
from ..span import KeyValues, LogRecord, Resource, Scope, Span, Value
from . import text
from ._jsonvalue import (
    Bad,
    Json,
    as_object,
    attributes_from_json,
    base64_ids,
    pick,
    pick_enum,
    pick_id,
    pick_list,
    pick_text,
    pick_unsigned,
    value_from_json,
)
from ._schema import LogRecordMessage, LogsData
from .json import resource_from_json, scope_from_json
from .protobuf import (
    read_attributes,
    read_resource,
    read_scope,
    read_value,
    write_attributes,
    write_resource,
    write_scope,
    write_value,
)
from .result import Problem, Read, items_of

LOG_ATTRIBUTE: Final = "otel_replay.log"
"""Attribute of a span that stands for a log record: a map of what a span has no place for."""
_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
SEVERITIES: Final = {
    f"{prefix}{level}{step if step > 1 else ''}": 4 * n + step
    for prefix in ("", "SEVERITY_NUMBER_")
    for n, level in enumerate(_LEVELS)
    for step in (1, 2, 3, 4)
} | {"SEVERITY_NUMBER_UNSPECIFIED": 0}


# LogRecord <-> protobuf ----------------------------------------------------------------------------------


def _write(record: LogRecord) -> bytes:
    message = LogRecordMessage(
        time_unix_nano=record.time_ns,
        observed_time_unix_nano=record.observed_time_ns,
        severity_number=record.severity_number,
        severity_text=text.encode(record.severity_text),
        dropped_attributes_count=record.dropped_attributes_count,
        flags=record.flags,
        trace_id=bytes.fromhex(record.trace_id),
        span_id=bytes.fromhex(record.span_id),
        event_name=text.encode(record.event_name),
    )
    write_value(message.body, record.body)
    write_attributes(message.attributes, record.attributes)
    return bytes(message.SerializeToString())


def _read(data: bytes, resource: Resource, scope: Scope) -> LogRecord:
    message = LogRecordMessage.FromString(data)
    return LogRecord(
        time_ns=message.time_unix_nano,
        observed_time_ns=message.observed_time_unix_nano,
        severity_number=message.severity_number,
        severity_text=text.decode(message.severity_text),
        event_name=text.decode(message.event_name),
        body=read_value(message.body),
        attributes=read_attributes(message.attributes),
        dropped_attributes_count=message.dropped_attributes_count,
        flags=message.flags,
        trace_id=message.trace_id.hex(),
        span_id=message.span_id.hex(),
        resource=resource,
        scope=scope,
    )


def read_logs_request(data: bytes) -> Read[LogRecord]:
    """Return the records of an ExportLogsServiceRequest or LogsData, each broken one refused alone.

    Raises ImportFault where the bytes around the records are no such message. Unknown fields are not kept.
    """
    try:
        request = LogsData.FromString(data)
    except DecodeError as fault:
        raise ImportFault(f"not an OTLP logs request in protobuf ({len(data)} bytes): {fault}") from fault
    read: Read[LogRecord] = Read([], [])
    for r, group in enumerate(request.resource_logs):
        resource = read_resource(group)
        for s, scope_group in enumerate(group.scope_logs):
            scope = read_scope(scope_group)
            for i, raw in enumerate(scope_group.log_records):
                try:
                    read.items.append(_read(raw, resource, scope))
                except DecodeError as fault:
                    where = f"resourceLogs[{r}].scopeLogs[{s}].logRecords[{i}]"
                    read.problems.append(Problem(where, f"{len(raw)} bytes that are no log record: {fault}"))
    return read


def logs_from_request(data: bytes) -> list[LogRecord]:
    """Return the readable records of an ExportLogsServiceRequest; what is refused is logged."""
    return items_of(read_logs_request(data), "log records")


def request_from_logs(records: Iterable[LogRecord]) -> bytes:
    """Return an ExportLogsServiceRequest; a new group for each record, as records are few and order counts."""
    request = LogsData()
    for record in records:
        try:
            group = request.resource_logs.add()
            write_resource(group, record.resource)
            scope_group = group.scope_logs.add()
            write_scope(scope_group, record.scope)
            scope_group.log_records.append(_write(record))
        except (ValueError, TypeError, EncodeError) as fault:
            raise ImportFault(f"log record {record.event_name!r} cannot be written as OTLP: {fault}") from fault
    return bytes(request.SerializeToString())


# LogRecord <- JSON ---------------------------------------------------------------------------------------


def _from_json(obj: Json, resource: Resource, scope: Scope, b64: bool) -> LogRecord:
    return LogRecord(
        time_ns=pick_unsigned(obj, "timeUnixNano", 64),
        observed_time_ns=pick_unsigned(obj, "observedTimeUnixNano", 64),
        severity_number=pick_enum(obj, "severityNumber", SEVERITIES),
        severity_text=pick_text(obj, "severityText"),
        event_name=pick_text(obj, "eventName"),
        body=value_from_json(pick(obj, "body")),
        attributes=attributes_from_json(pick_list(obj, "attributes")),
        dropped_attributes_count=pick_unsigned(obj, "droppedAttributesCount", 32),
        flags=pick_unsigned(obj, "flags", 32),
        trace_id=pick_id(obj, "traceId", 16, b64),
        span_id=pick_id(obj, "spanId", 8, b64),
        resource=resource,
        scope=scope,
    )


def _places(obj: object) -> list[tuple[str, Json, Json, list[Any]]]:
    """Return (where, resource group, scope group, records) of a document. Raises Bad."""
    groups = pick_list(as_object(obj, "the document"), "resourceLogs")
    found = []
    for r, group in enumerate(groups):
        for s, scope_group in enumerate(pick_list(as_object(group, "a resource group"), "scopeLogs")):
            records = pick_list(as_object(scope_group, "a scope group"), "logRecords")
            found.append((f"resourceLogs[{r}].scopeLogs[{s}]", group, scope_group, records))
    return found


def read_logs_json(obj: object) -> Read[LogRecord]:
    """Return the records of an OTLP/JSON logs tree, each broken one refused alone; lenient as `json.read_json`.

    Raises ImportFault where `obj` is no such document.
    """
    if not isinstance(obj, dict) or (obj and pick(obj, "resourceLogs") is None):
        raise ImportFault("not OTLP/JSON logs: expected an object with 'resourceLogs'")
    read: Read[LogRecord] = Read([], [])
    try:
        places = _places(obj)
    except Bad as fault:
        raise ImportFault(f"not OTLP/JSON logs: {fault}") from None
    records = [record for *_, records in places for record in records if isinstance(record, dict)]
    b64 = base64_ids(
        (pick(record, name), size) for record in records for name, size in (("traceId", 16), ("spanId", 8))
    )
    for where, group, scope_group, items in places:
        for i, item in enumerate(items):
            try:
                resource, scope = resource_from_json(group), scope_from_json(scope_group)
                read.items.append(_from_json(as_object(item, "a log record"), resource, scope, b64))
            except (ValueError, RecursionError, OverflowError) as fault:
                read.problems.append(Problem(f"{where}.logRecords[{i}]", str(fault)))
    return read


def logs_from_json(obj: object) -> list[LogRecord]:
    """Return the readable records of an OTLP/JSON logs tree; what is refused is logged."""
    return items_of(read_logs_json(obj), "log records")


# LogRecord <-> Span --------------------------------------------------------------------------------------


def span_from_log(record: LogRecord) -> Span:
    """Return the span that stands for `record` in a store.

    Its id is a digest of the record, so that the same record arriving twice is the same span. Its parent is the span
    that the record was written in. A record without a trace gets a trace id of its own, by the same digest.
    """
    digest = hashlib.sha256(request_from_logs([record])).hexdigest()
    at_ns = record.time_ns or record.observed_time_ns
    kept: list[tuple[str, Value]] = [
        ("body", record.body),
        ("time_ns", str(record.time_ns)),
        ("observed_ns", str(record.observed_time_ns)),
        ("severity", record.severity_number),
        ("severity_text", record.severity_text),
        ("trace_id", record.trace_id),
    ]
    return Span(
        trace_id=record.trace_id or digest[:32],
        span_id=digest[32:48],
        parent_span_id=record.span_id,
        name=record.event_name,
        start_ns=at_ns,
        end_ns=at_ns,
        attributes=(*record.attributes, (LOG_ATTRIBUTE, KeyValues(kept))),
        dropped_attributes_count=record.dropped_attributes_count,
        flags=record.flags,
        resource=record.resource,
        scope=record.scope,
    )


def log_from_span(span: Span) -> LogRecord | None:
    """Return the record that `span` stands for, or None where it is a span of its own."""
    if not span.attributes or span.attributes[-1][0] != LOG_ATTRIBUTE:
        return None
    kept = span.attributes[-1][1]
    if not isinstance(kept, tuple):
        return None
    try:
        facts: dict[str, Any] = dict(kept)  # type: ignore[arg-type]  # a map's items are pairs; others raise
        return LogRecord(
            time_ns=int(facts["time_ns"]),
            observed_time_ns=int(facts["observed_ns"]),
            severity_number=facts["severity"],
            severity_text=facts["severity_text"],
            event_name=span.name,
            body=facts["body"],
            attributes=span.attributes[:-1],
            dropped_attributes_count=span.dropped_attributes_count,
            flags=span.flags,
            trace_id=facts["trace_id"],
            span_id=span.parent_span_id,
            resource=span.resource,
            scope=span.scope,
        )
    except (KeyError, TypeError, ValueError):
        return None
