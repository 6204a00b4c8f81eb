"""A receiver's look at a request before it acknowledges: is it OTLP, and which items must be refused?

The request is not taken apart: what is accepted is kept byte by byte, unknown fields included.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from ..errors import ImportFault
from . import json as wire_json
from . import logs, protobuf, text
from ._schema import LogRecordMessage, LogsData, SpanMessage, TracesData, WholeTracesData
from .result import Problem

PROBLEMS_SHOWN_MAX: Final = 5
_NO_TRACE_ID: Final = bytes(16)
_NO_SPAN_ID: Final = bytes(8)


class Checked(NamedTuple):
    """`data` is the request in protobuf, free of the refused items; `accepted` counts its spans or records."""

    data: bytes
    accepted: int
    problems: list[Problem]


def _id_fault(trace_id: bytes, span_id: bytes, required: bool) -> str:
    if (required or trace_id) and (len(trace_id) != 16 or trace_id == _NO_TRACE_ID):
        return f"trace id has {len(trace_id)} bytes, not 16" if len(trace_id) != 16 else "trace id is all zeros"
    if (required or span_id) and (len(span_id) != 8 or span_id == _NO_SPAN_ID):
        return f"span id has {len(span_id)} bytes, not 8" if len(span_id) != 8 else "span id is all zeros"
    return ""


def _span_fault(raw: bytes) -> str:
    try:
        span = SpanMessage.FromString(raw)
    except DecodeError as fault:
        return f"{len(raw)} bytes that are no span: {fault}"
    found = _id_fault(span.trace_id, span.span_id, required=True)
    if not found and len(span.parent_span_id) not in (0, 8):
        found = f"parent span id has {len(span.parent_span_id)} bytes, not 8"
    return f"{text.decode(span.name)!a:.80}: {found}" if found else ""


def _log_fault(raw: bytes) -> str:
    try:
        record = LogRecordMessage.FromString(raw)
    except DecodeError as fault:
        return f"{len(raw)} bytes that are no log record: {fault}"
    return _id_fault(record.trace_id, record.span_id, required=False)


def _check(message: Any, data: bytes, names: tuple[str, str, str], fault_of: Any) -> Checked:
    groups, scopes, items = names
    accepted = 0
    problems: list[Problem] = []
    for r, group in enumerate(getattr(message, groups)):
        for s, scope in enumerate(getattr(group, scopes)):
            raws = getattr(scope, items)
            kept = []
            for i, raw in enumerate(raws):
                fault = fault_of(raw)
                if fault:
                    problems.append(Problem(f"{groups}[{r}].{scopes}[{s}].{items}[{i}]", fault))
                else:
                    kept.append(raw)
            accepted += len(kept)
            if len(kept) != len(raws):
                del raws[:]
                raws.extend(kept)
    return Checked(bytes(message.SerializeToString()) if problems else data, accepted, problems)


def _all_whole(data: bytes) -> int | None:
    """Return how many spans the request holds, all of them without fault; None where they are to be looked at alone.

    One parse of the whole takes a third of the time of one parse a span.
    """
    try:
        message = WholeTracesData.FromString(data)
    except DecodeError:
        return None
    count = 0
    for group in message.resource_spans:
        for scope in group.scope_spans:
            spans = scope.spans
            for span in spans:
                trace_id, span_id = span.trace_id, span.span_id
                if len(trace_id) != 16 or len(span_id) != 8 or trace_id == _NO_TRACE_ID or span_id == _NO_SPAN_ID:
                    return None
                if len(span.parent_span_id) not in (0, 8):
                    return None
            count += len(spans)
    return count


def check_traces(data: bytes) -> Checked:
    """Check an ExportTraceServiceRequest in protobuf. Raises ImportFault where it is none."""
    count = _all_whole(data)
    return check_each_span(data) if count is None else Checked(data, count, [])


def check_each_span(data: bytes) -> Checked:
    """The plain way of `check_traces`, which finds the faults."""
    try:
        message = TracesData.FromString(data)
    except DecodeError as fault:
        raise ImportFault(f"not an OTLP trace request in protobuf: {fault}") from None
    return _check(message, data, ("resource_spans", "scope_spans", "spans"), _span_fault)


def check_logs(data: bytes) -> Checked:
    """Check an ExportLogsServiceRequest in protobuf. Raises ImportFault where it is none."""
    try:
        message = LogsData.FromString(data)
    except DecodeError as fault:
        raise ImportFault(f"not an OTLP logs request in protobuf: {fault}") from None
    return _check(message, data, ("resource_logs", "scope_logs", "log_records"), _log_fault)


def check_traces_json(data: bytes) -> Checked:
    """Check an ExportTraceServiceRequest in JSON, and return it in protobuf. Raises ImportFault where it is none."""
    tree = wire_json.loads(data)
    if not isinstance(tree, dict):
        raise ImportFault(f"not OTLP/JSON traces: expected an object, found {type(tree).__name__}")
    read = wire_json.read_json(tree)
    checked = check_traces(protobuf.request_from_spans(read.items))
    return checked._replace(problems=read.problems + checked.problems)


def check_logs_json(data: bytes) -> Checked:
    """Check an ExportLogsServiceRequest in JSON, and return it in protobuf. Raises ImportFault where it is none."""
    read = logs.read_logs_json(wire_json.loads(data))
    checked = check_logs(logs.request_from_logs(read.items))
    return checked._replace(problems=read.problems + checked.problems)


def refusal(problems: list[Problem]) -> str:
    """Return the error message of a partial success: the first few reasons, and how many more there are."""
    shown = "; ".join(str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX])
    more = len(problems) - PROBLEMS_SHOWN_MAX
    return f"{shown}; and {more} more" if more > 0 else shown
