"""Tables of spans: ClickHouse-like flat rows (otlp2parquet and its like) and Tempo's vParquet blocks.

Rows come as dicts from whoever may open a Parquet file; nothing here knows Parquet.
Source: opentelemetry-collector-contrib `exporter/clickhouseexporter` (`traces_table.sql`); smithclay/otlp2parquet;
grafana/tempo `tempodb/encoding/vparquet4/schema.go`, `vparquet5/schema.go`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import langsmith, phoenix
from otel_replay.importers.shapes._common import (
    Unreadable,
    attributes_of,
    hex_id,
    iso_ns,
    json_value,
    rows,
    table,
    text,
    whole,
)
from otel_replay.importers.shapes.console import KINDS, STATUSES
from otel_replay.span import Attributes, Event, KeyValue, Link, Resource, Scope, Span, Value
from otel_replay.wire.json import SPAN_KINDS
from otel_replay.wire.protobuf import value_from_bytes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BESIDE = re.compile(r"meta(\.compacted)?\.json|bloom-\d+|index|no-?compact\.flg")

_RESOURCE_COLUMNS = {
    "ServiceName": "service.name",
    "Cluster": "cluster",
    "Namespace": "namespace",
    "Pod": "pod",
    "Container": "container",
    "K8sClusterName": "k8s.cluster.name",
    "K8sNamespaceName": "k8s.namespace.name",
    "K8sPodName": "k8s.pod.name",
    "K8sContainerName": "k8s.container.name",
}
"""Attributes that Tempo keeps in columns of their own, up to vParquet4."""
_SPAN_COLUMNS = {"HttpMethod": "http.method", "HttpUrl": "http.url", "HttpStatusCode": "http.status_code"}

Names = Mapping[tuple[str, str], str]
"""(scope, column) -> attribute: what the columns String01, Int01 ... of a Tempo block stand for."""


def is_beside_block(path: str) -> bool:
    """True for the files of a Tempo block that hold no spans: its header, its filters, its index."""
    folder, name = os.path.split(path)
    return bool(_BESIDE.fullmatch(name)) and os.path.isfile(os.path.join(folder, "data.parquet"))


def dedicated_names(meta: object) -> Names:
    """Return what the dedicated columns of a Tempo block stand for, from its `meta.json`."""
    names: dict[tuple[str, str], str] = {}
    counts: dict[tuple[str, str], int] = {}
    for raw in rows(table(meta).get("dedicatedColumns")):
        one = table(raw)
        scope = text(one.get("scope") or one.get("s")) or "span"
        kind = (text(one.get("type") or one.get("t")) or "string").capitalize()
        counts[scope, kind] = counts.get((scope, kind), 0) + 1
        names[scope, f"{kind}{counts[scope, kind]:02}"] = text(one.get("name") or one.get("n"))
    return names


def read(table_rows: Iterable[Mapping[str, Any]], report: Report, dedicated: Names | None = None) -> Iterator[Span]:
    """Read rows of any known table, told by their columns; a bad row is skipped and named.

    Raises ImportFault for a table of other columns.
    """
    for number, row in enumerate(table_rows, 1):
        if number == 1:
            if not knows(row):
                raise ImportFault(f"a Parquet file with columns {', '.join(list(row)[:8])}: no table of spans we know")
            report.found(knows(row))
        try:
            none = True
            for span in _row(row, report, dedicated or {}):
                none = False
                yield span
            if none:
                report.problem("skipped", "a row in which no span was found", f"row {number}")
        except Unreadable as fault:
            report.problem("skipped", f"a row: {fault}", f"row {number}")


def knows(row: Mapping[str, Any]) -> str:
    """Return the name of the table that `row` comes from, or ""."""
    if "SpanName" in row and "TraceId" in row:
        return "parquet-flat"
    if "rs" in row and ("TraceIDText" in row or "TraceID" in row):
        return "tempo-block"
    if langsmith.is_run(row):
        return "langsmith"
    return "phoenix" if phoenix.is_span(row) else ""


def _row(row: Mapping[str, Any], report: Report, dedicated: Names) -> Iterator[Span]:
    kind = knows(row)
    if kind == "parquet-flat":
        yield _flat(row, report)
    elif kind == "tempo-block":
        yield from _block(row, report, dedicated)
    elif kind == "langsmith":
        yield from langsmith.read(_timed(row), report)
    elif kind == "phoenix":
        yield from phoenix.read(_timed(row), report)
    else:
        raise Unreadable(f"unknown columns {', '.join(list(row)[:6])}")


def _timed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: str(value) if hasattr(value, "isoformat") else value for key, value in row.items()}


def _ns(value: Any, field: str) -> int:
    """A timestamp column: a datetime (microseconds), a number of nanoseconds, or text."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
        return micros * 1000 + int(getattr(value, "nanosecond", 0))
    return iso_ns(value, field) if isinstance(value, str) else whole(value, field)


def _json_attributes(value: Any, report: Report, where: str) -> Attributes:
    """Attributes as JSON text, a map, or a list of (key, value)."""
    if isinstance(value, str):
        try:
            value = loads(value.encode("utf-8", "surrogatepass")) if value else {}
        except ValueError:
            raise Unreadable(f"{where} is not JSON") from None
    if isinstance(value, list):
        return tuple((text(pair[0]), json_value(pair[1], report, where)) for pair in value if len(pair) == 2)
    return attributes_of(value, report, where)


def _flat(row: Mapping[str, Any], report: Report) -> Span:
    report.note("flat rows keep attributes as JSON or text: ints, doubles and bytes may have changed type")
    start_ns = _ns(row.get("Timestamp"), "Timestamp")
    resource = _json_attributes(row.get("ResourceAttributes"), report, "ResourceAttributes")
    if row.get("ServiceName") and not any(key == "service.name" for key, _ in resource):
        resource = (("service.name", text(row["ServiceName"])), *resource)
    status = text(row.get("StatusCode")).upper().removeprefix("STATUS_CODE_")
    kind = text(row.get("SpanKind")).upper()
    return Span(
        trace_id=hex_id(row.get("TraceId"), 32, "TraceId"),
        span_id=hex_id(row.get("SpanId"), 16, "SpanId"),
        parent_span_id=hex_id(row.get("ParentSpanId"), 16, "ParentSpanId"),
        trace_state=text(row.get("TraceState")),
        name=text(row.get("SpanName")),
        kind=SPAN_KINDS.get(kind, KINDS.get(kind, 0)),
        start_ns=start_ns,
        end_ns=start_ns + whole(row.get("Duration"), "Duration"),
        attributes=_json_attributes(row.get("SpanAttributes"), report, "SpanAttributes"),
        events=tuple(_flat_events(row, report)),
        links=tuple(_flat_links(row, report)),
        status_code=STATUSES.get(status, 0),
        status_message=text(row.get("StatusMessage")),
        resource=Resource(resource),
        scope=Scope(text(row.get("ScopeName")), text(row.get("ScopeVersion"))),
    )


def _columns(row: Mapping[str, Any], *names: str) -> Iterator[tuple[Any, ...]]:
    """Read parallel list columns, under their flat (`EventsName`) or dotted (`Events.Name`) names."""
    lists = []
    for name in names:
        group = "Events" if name.startswith("Events") else "Links"
        lists.append(list(rows(row.get(name) or row.get(f"{group}.{name.removeprefix(group)}"))))
    longest = max(map(len, lists))
    return zip(*(items + [None] * (longest - len(items)) for items in lists), strict=True)


def _flat_events(row: Mapping[str, Any], report: Report) -> Iterator[Event]:
    for when, name, attributes in _columns(row, "EventsTimestamp", "EventsName", "EventsAttributes"):
        yield Event(_ns(when, "EventsTimestamp"), text(name), _json_attributes(attributes, report, "EventsAttributes"))


def _flat_links(row: Mapping[str, Any], report: Report) -> Iterator[Link]:
    names = ("LinksTraceId", "LinksSpanId", "LinksTraceState", "LinksAttributes")
    for trace, span, state, attributes in _columns(row, *names):
        found = _json_attributes(attributes, report, "LinksAttributes")
        yield Link(hex_id(trace, 32, "LinksTraceId"), hex_id(span, 16, "LinksSpanId"), text(state), found)


# Tempo blocks --------------------------------------------------------------------------------------------


def _block(row: Mapping[str, Any], report: Report, names: Names) -> Iterator[Span]:
    report.note("Tempo block: null values and flags are not kept")
    trace_id = _bytes_id(row.get("TraceIDText") or row.get("TraceID"), 32)
    for group in rows(row.get("rs")):
        resource = Resource(tuple(_resource_attributes(table(table(group).get("Resource")), names, report)))
        if "ils" in table(group):
            report.note("Tempo block of the first form: links and schema addresses are not kept, bytes became null")
        for scope_group in rows(_either(table(group), "ss", "ils")):
            raw_scope = table(_either(table(scope_group), "Scope", "il"))
            scope = Scope(
                text(raw_scope.get("Name")),
                text(raw_scope.get("Version")),
                tuple(_attrs(raw_scope.get("Attrs"), report)),
            )
            for raw in rows(table(scope_group).get("Spans")):
                yield _block_span(table(raw), trace_id, resource, scope, names, report)


def _block_span(
    raw: Mapping[str, Any], trace_id: str, resource: Resource, scope: Scope, names: Names, report: Report
) -> Span:
    start_ns = whole(_either(raw, "StartTimeUnixNano", "StartUnixNanos"), "StartTimeUnixNano")
    duration = raw.get("DurationNano")
    ended = _either(raw, "EndTimeUnixNano", "EndUnixNanos")
    if isinstance(raw.get("Links"), (bytes, str)) and raw["Links"]:
        report.problem("lost", "a span's links, which a Tempo block of vParquet2 or 3 keeps packed")
    return Span(
        trace_id=trace_id,
        span_id=_bytes_id(_either(raw, "SpanID", "ID"), 16),
        parent_span_id=_bytes_id(raw.get("ParentSpanID"), 16),
        trace_state=text(raw.get("TraceState")),
        name=text(raw.get("Name")),
        kind=whole(raw.get("Kind"), "Kind", bits=31),
        start_ns=start_ns,
        end_ns=whole(ended, "EndTimeUnixNano") if duration is None else start_ns + whole(duration, "DurationNano"),
        attributes=(*_attrs(raw.get("Attrs"), report), *_columns_of(raw, _SPAN_COLUMNS, "span", names)),
        events=tuple(_block_event(table(event), start_ns, report) for event in rows(raw.get("Events"))),
        links=tuple(
            Link(
                _bytes_id(table(link).get("TraceID"), 32),
                _bytes_id(table(link).get("SpanID"), 16),
                text(table(link).get("TraceState")),
                tuple(_attrs(table(link).get("Attrs"), report)),
            )
            for link in rows(raw.get("Links"))
        ),
        status_code=whole(raw.get("StatusCode"), "StatusCode", bits=31),
        status_message=text(raw.get("StatusMessage")),
        dropped_attributes_count=whole(raw.get("DroppedAttributesCount"), "DroppedAttributesCount", bits=32),
        dropped_events_count=whole(raw.get("DroppedEventsCount"), "DroppedEventsCount", bits=32),
        dropped_links_count=whole(raw.get("DroppedLinksCount"), "DroppedLinksCount", bits=32),
        resource=resource,
        scope=scope,
    )


def _either(raw: Mapping[str, Any], new: str, old: str) -> Any:
    """Return a column under its name since vParquet2, else under that of vParquet (Tempo 1.5 and 2.0)."""
    return raw[new] if raw.get(new) is not None else raw.get(old)


def _block_event(raw: Mapping[str, Any], start_ns: int, report: Report) -> Event:
    since = raw.get("TimeSinceStartNano")
    return Event(
        whole(raw.get("TimeUnixNano"), "TimeUnixNano") if since is None else start_ns + whole(since, "event time"),
        text(raw.get("Name")),
        tuple(_attrs(raw.get("Attrs"), report)),
        whole(raw.get("DroppedAttributesCount"), "DroppedAttributesCount", bits=32),
    )


def _packed_value(value: bytes, report: Report) -> Value:
    """A value of an event up to vParquet3: an OTLP AnyValue in protobuf."""
    try:
        return value_from_bytes(value)
    except ImportFault:
        report.problem("approximate", "a value of a Tempo block that is no AnyValue is kept as bytes")
        return value


def _bytes_id(value: Any, width: int) -> str:
    return hex_id(value.hex() if isinstance(value, (bytes, bytearray)) else value, width, "id")


def _resource_attributes(raw: Mapping[str, Any], names: Names, report: Report) -> Iterator[KeyValue]:
    yield from _columns_of(raw, _RESOURCE_COLUMNS, "resource", names)
    yield from _attrs(raw.get("Attrs"), report)


def _columns_of(raw: Mapping[str, Any], columns: Mapping[str, str], scope: str, names: Names) -> Iterator[KeyValue]:
    """Read the attributes that stand in columns of their own: the fixed ones, and those a block assigns."""
    for column, key in columns.items():
        if raw.get(column) not in (None, ""):
            yield key, whole(raw[column], key) if column == "HttpStatusCode" else text(raw[column])
    for column, value in table(raw.get("DedicatedAttributes")).items():
        found = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(found, list) and found:
            found = tuple(found)
        if isinstance(found, (str, int, tuple)):
            yield names.get((scope, column)) or f"tempo.dedicated.{column}", found


def _attrs(raw: Any, report: Report) -> Iterator[KeyValue]:
    for item in rows(raw):
        yield text(table(item).get("Key")), _block_value(table(item), report)


def _block_value(item: Mapping[str, Any], report: Report) -> Value:
    for column in ("Value", "ValueInt", "ValueDouble", "ValueBool"):
        found = item.get(column)
        if isinstance(found, list):
            if found:
                return tuple(found) if item.get("IsArray") or len(found) > 1 else found[0]
        elif isinstance(found, bytes):
            return _packed_value(found, report)
        elif found is not None:
            scalar: Value = found
            return scalar
    for column in ("ValueUnsupported", "ValueDropped", "ValueArray", "ValueKVList"):
        if isinstance(item.get(column), str) and item[column]:
            return _proto_text(item[column], report)
    return () if item.get("IsArray") else None


def _proto_text(value: str, report: Report) -> Value:
    """A value that Parquet could not hold: the JSON form of an OTLP AnyValue."""
    from otel_replay.wire.json import spans_from_json

    document = {
        "resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "v", "value": loads(value.encode())}]}]}]}]
    }
    try:
        (span,) = spans_from_json(document, lenient=False)
    except ValueError:
        report.problem("approximate", "a value of a Tempo block that is no AnyValue is kept as text")
        return value
    return span.get("v")
