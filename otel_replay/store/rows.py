"""Span <-> row: one dict a span, keyed by column (schema.py); an absent key is null.

Law: `from_row(to_row(s)) == s` for every span.

Long texts leave `attributes` for columns of their own, and a marker stands in their place: `{"$text": column}` where
the attribute was that text, `{"$json": column}` where it was the value that the text writes down. The exact form of
a crossing (`otel_replay.envelope`) goes to `envelope`, with the texts of request and response cut out of it: they
stand once, byte for byte, in `request` and `response`, and `request_at`, `response_at` say where they belong. Where
it came in several attributes each says its characters of it: `{"$envelope": [0, 58900]}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final

import orjson

from otel_replay import semconv
from otel_replay.codec import Reading
from otel_replay.jsonform import ascii_text
from otel_replay.span import Attributes, Event, KeyValue, KeyValues, Link, Resource, Scope, Span, Value
from otel_replay.store.promoted import INT32_MAX, INT64_MAX, INT64_MIN, Row, clamped, is_int64, promoted, read_ours
from otel_replay.store.values import (
    NotNatural,
    attributes_from,
    attributes_text,
    clean,
    dump,
    exact_text,
    lossy_tree,
    span_from_exact,
    tree_of,
    value_of,
)

__all__ = ["LONG_TEXT_CHARS", "Row", "envelope_text", "from_row", "to_row"]

LONG_TEXT_CHARS: Final = 1_024
"""A text attribute longer than this moves to `content`."""

_REQUEST_KEYS: Final = (
    semconv.GEN_AI_INPUT_MESSAGES,
    semconv.GEN_AI_TOOL_ARGUMENTS,
    "input.value",
    "traceloop.entity.input",
    "gen_ai.prompt",
)
_RESPONSE_KEYS: Final = (
    semconv.GEN_AI_OUTPUT_MESSAGES,
    semconv.GEN_AI_TOOL_RESULT,
    "output.value",
    "traceloop.entity.output",
    "gen_ai.completion",
)
OWN_KEYS: Final = frozenset((*_REQUEST_KEYS, *_RESPONSE_KEYS))
"""The attributes that stand in `request` or `response`."""
_REQUEST_OPENS: Final = re.compile(r'"request":\{"(?:json|typed-json)":')
_RESPONSE_OPENS: Final = re.compile(r'"outcome":\{"kind":"(?:returned|raised)","value":\{"(?:json|typed-json)":')
_MARKERS: Final = frozenset({"$text", "$json", "$envelope"})


# to_row --------------------------------------------------------------------------------------------------


def to_row(span: Span, *, source: str = "otlp", reading: Reading | None = None) -> Row:
    """Return the row of `span`. `reading` is what `codec.from_span` says of it, where the caller knows it already.

    `source` says by which road the span came: "journal" is our own copy and wins over others.
    """
    row = promoted(span)
    row["source"] = source
    if "run_id" in row:
        read_ours(span, row, reading)
    try:
        _natural(span, row)
    except (NotNatural, UnicodeEncodeError):
        _unnatural(span, row)
    return row


def _natural(span: Span, row: Row) -> None:
    """Fill the columns that give the span back. Raises NotNatural where plain JSON would not."""
    numbers = (span.start_ns, span.end_ns, span.flags, span.dropped_attributes_count)
    if span.unknown or not all(map(is_int64, numbers)):
        raise NotNatural("a number or field beyond what the columns hold")
    if type(span.kind) is not int or abs(span.kind) > INT32_MAX or abs(span.status_code) > INT32_MAX:
        raise NotNatural("a kind or status beyond 32 bits")
    for text in (span.trace_id, span.span_id, span.parent_span_id, span.name, span.status_message, span.trace_state):
        if not text.isascii():
            dump(text)
    dump(span.scope.name)
    row["resource"] = attributes_text(span.resource.attributes)
    rest = rest_text(span.resource, span.scope, span.dropped_events_count, span.dropped_links_count)
    if rest:
        row["rest"] = rest
    if span.events:
        row["events"] = events_text(span.events)
    if span.links:
        row["links"] = links_text(span.links)
    row["attributes"] = _attributes(span, row)


def rest_text(resource: Resource, scope: Scope, dropped_events: int, dropped_links: int) -> str | None:
    """Return what is rarely there: the fields of resource, scope and counts that are not at their default."""
    found: dict[str, object] = {
        "resource_dropped": resource.dropped_attributes_count,
        "resource_schema_url": resource.schema_url,
        "scope_version": scope.version,
        "scope_attributes": tree_of(KeyValues(scope.attributes)),
        "scope_dropped": scope.dropped_attributes_count,
        "scope_schema_url": scope.schema_url,
        "dropped_events": dropped_events,
        "dropped_links": dropped_links,
    }
    rest = {name: value for name, value in found.items() if value}
    return dump(rest) if rest else None


def events_text(events: Iterable[Event]) -> str:
    """Return what the column `events` holds. Raises NotNatural."""
    return dump([_event_tree(event) for event in events])


def links_text(links: Iterable[Link]) -> str:
    """Return what the column `links` holds. Raises NotNatural."""
    return dump([_link_tree(link) for link in links])


def _event_tree(event: Event) -> dict[str, object]:
    tree: dict[str, object] = {"time_ns": event.time_ns, "name": event.name}
    if event.attributes:
        tree["attributes"] = tree_of(KeyValues(event.attributes))
    if event.dropped_attributes_count:
        tree["dropped"] = event.dropped_attributes_count
    return tree


def _link_tree(link: Link) -> dict[str, object]:
    tree: dict[str, object] = {"trace_id": link.trace_id, "span_id": link.span_id}
    if link.trace_state:
        tree["trace_state"] = link.trace_state
    if link.attributes:
        tree["attributes"] = tree_of(KeyValues(link.attributes))
    if link.dropped_attributes_count:
        tree["dropped"] = link.dropped_attributes_count
    if link.flags:
        tree["flags"] = link.flags
    return tree


def _attributes(span: Span, row: Row) -> str:
    """Return the text of `attributes`, long texts moved to their columns."""
    ours = "run_id" in row
    natural: dict[str, object] = {}
    carriers = _take_envelope(dict(span.attributes), row)
    content: dict[str, str] = {}
    for key, value in span.attributes:
        kind = type(value)
        if kind is int or kind is bool:
            natural[key] = value
        elif kind is float:
            if not math.isfinite(value):  # type: ignore[arg-type]
                raise NotNatural("JSON has no NaN and no infinity")
            natural[key] = value
        elif kind is str and len(value) <= LONG_TEXT_CHARS and key not in OWN_KEYS:  # type: ignore[arg-type]
            natural[key] = value
        elif key in carriers:
            natural[key] = carriers[key]
        else:
            natural[key] = placed(key, value, row, content, ours=ours)
    if len(natural) != len(span.attributes):
        raise NotNatural("a key stands twice")
    if content:
        row["content"] = dump(content)
    return dump(natural)


def placed(key: str, value: Value, row: Row, content: dict[str, str], *, ours: bool) -> object:
    """Return what stands for a text or nested value in `attributes`; it goes to a column of `row`, or to `content`.

    Raises NotNatural, or UnicodeEncodeError.
    """
    if not isinstance(value, str):
        return _nested(key, value, row, ours=ours)
    column = None if ours else _own_column(key, row)
    if column is not None:
        value.encode()  # a lone surrogate cannot be written
        row[column] = value
        return {"$text": column}
    if len(value) > LONG_TEXT_CHARS:
        content[key] = value
        return {"$text": "content"}
    return value


def _own_column(key: str, row: Row) -> str | None:
    if key in _REQUEST_KEYS and "request" not in row:
        return "request"
    if key in _RESPONSE_KEYS and "response" not in row:
        return "response"
    return None


def _nested(key: str, value: Value, row: Row, *, ours: bool) -> object:
    tree = tree_of(value)
    if isinstance(tree, dict) and not _MARKERS.isdisjoint(tree):
        raise NotNatural("the value looks like one of our markers")
    if isinstance(tree, (dict, list)) and not ours:
        column = _own_column(key, row)
        if column is not None:
            row[column] = dump(tree)
            return {"$json": column}
    return tree


def _split(text: str, size: int) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def _take_envelope(facts: dict[str, Value], row: Row) -> dict[str, object]:
    """Move the exact form of a crossing to its column; return what stands for each attribute that carried it.

    Nothing is moved where the parts could not be given back.
    """
    carriers: list[tuple[str, ...]] = []
    while isinstance(parts := facts.get(_carrier(len(carriers))), tuple):
        if not parts or not all(type(part) is str and part.isascii() and part for part in parts):
            return {}
        carriers.append(parts)  # type: ignore[arg-type]
    if not carriers:
        return {}
    size, texts = len(carriers[0][0]), ["".join(parts) for parts in carriers]
    if any(_split(text, size) != parts for text, parts in zip(texts, carriers, strict=True)):
        return {}
    row["part_size"] = size
    row["envelope"] = _cut("".join(texts), row)
    if len(texts) == 1:
        return {semconv.ENVELOPE: {"$envelope": True}}
    ends = list(accumulate(map(len, texts)))
    return {
        _carrier(number): {"$envelope": [end - len(text), end]}
        for number, (text, end) in enumerate(zip(texts, ends, strict=True))
    }


def _carrier(number: int) -> str:
    return f"{semconv.ENVELOPE}.{number}" if number else semconv.ENVELOPE


def _cut(joined: str, row: Row) -> str:
    """Return `joined` with the texts of request and response replaced by `null`, and their places noted."""
    for column, opening in (("request", _REQUEST_OPENS), ("response", _RESPONSE_OPENS)):
        text = row.get(column)
        if not text or text == "null":
            continue
        needle = ascii_text(text)
        found = opening.search(joined)
        if found is not None and joined.startswith(needle, found.end()):
            at = found.end()
            joined = joined[:at] + "null" + joined[at + len(needle) :]
            row[column + "_at"] = at
    return joined


def _unnatural(span: Span, row: Row) -> None:
    """Fill `exact`, and readable columns beside it that a file and a database accept."""
    for column, value in row.items():
        if isinstance(value, str):
            row[column] = clean(value)
    for column in ("request_at", "response_at", "part_size", "envelope", "content", "rest"):
        row.pop(column, None)
    events = [
        {"time_ns": clamped(e.time_ns, INT64_MIN, INT64_MAX), "name": clean(e.name), "attributes": _lossy(e)}
        for e in span.events
    ]
    row["resource"] = orjson.dumps(_lossy(span.resource)).decode()
    row["attributes"] = orjson.dumps(_lossy(span)).decode()
    row["events"] = orjson.dumps(events).decode() if events else None
    row["links"] = None
    row["exact"] = exact_text(span)
    if "run_id" not in row:
        _lossy_messages(span, row)


def _lossy(holder: Span | Event | Resource) -> object:
    return lossy_tree(
        KeyValues((key, value) for key, value in holder.attributes if key != semconv.ENVELOPE),
    )


def _lossy_messages(span: Span, row: Row) -> None:
    row.pop("request", None)
    row.pop("response", None)
    for key, value in span.attributes:
        column = _own_column(key, row)
        if column is not None:
            tree = lossy_tree(value)
            row[column] = tree if isinstance(tree, str) else orjson.dumps(tree).decode()


ROW_FAULTS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What `from_row` raises for a row that was damaged."""

# from_row ------------------------------------------------------------------------------------------------


def from_row(row: Row) -> Span:
    """Return the span of `row`, exactly. Raises ValueError, KeyError or TypeError where a row was damaged."""
    exact = row.get("exact")
    if exact is not None:
        return span_from_exact(exact)
    rest: dict[str, Any] = orjson.loads(row["rest"]) if row.get("rest") else {}
    return Span(
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        name=row["name"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        parent_span_id=row["parent_span_id"],
        kind=row["span_kind"],
        attributes=_attributes_back(row),
        events=tuple(map(_event_back, orjson.loads(row["events"]))) if row.get("events") else (),
        links=tuple(map(_link_back, orjson.loads(row["links"]))) if row.get("links") else (),
        status_code=row["status_code"],
        status_message=row["status_message"],
        trace_state=row["trace_state"],
        flags=row["flags"],
        dropped_attributes_count=row["dropped_attributes"],
        dropped_events_count=rest.get("dropped_events", 0),
        dropped_links_count=rest.get("dropped_links", 0),
        resource=Resource(
            attributes_from(row["resource"]), rest.get("resource_dropped", 0), rest.get("resource_schema_url", "")
        ),
        scope=Scope(
            row["scope"],
            rest.get("scope_version", ""),
            tuple(value_of(rest.get("scope_attributes", {}))),  # type: ignore[arg-type]
            rest.get("scope_dropped", 0),
            rest.get("scope_schema_url", ""),
        ),
    )


def envelope_text(row: Row) -> str:
    """Return the exact form of the crossing in `row` as it was carried, its parts joined."""
    text: str = row["envelope"]
    # The response stands behind the request and its place was taken after the request was cut: put it back first.
    for column in ("response", "request"):
        at = row.get(column + "_at")
        if at is not None:
            text = text[:at] + ascii_text(row[column]) + text[at + 4 :]
    return text


def _attributes_back(row: Row) -> Attributes:
    content: dict[str, str] = orjson.loads(row["content"]) if row.get("content") else {}
    found: list[KeyValue] = []
    carried = envelope_text(row) if row.get("envelope") is not None else ""
    for key, tree in orjson.loads(row["attributes"]).items():
        if type(tree) is dict and len(tree) == 1:
            ((tag, place),) = tree.items()
            if tag == "$text":
                found.append((key, content[key] if place == "content" else row[place]))
                continue
            if tag == "$json":
                found.append((key, value_of(orjson.loads(row[place]))))
                continue
            if tag == "$envelope":
                start, end = (0, len(carried)) if place is True else place
                found.append((key, _split(carried[start:end], row["part_size"])))
                continue
        found.append((key, value_of(tree)))
    return tuple(found)


def _event_back(tree: dict[str, Any]) -> Event:
    return Event(tree["time_ns"], tree["name"], tuple(value_of(tree.get("attributes", {}))), tree.get("dropped", 0))  # type: ignore[arg-type]


def _link_back(tree: dict[str, Any]) -> Link:
    return Link(
        tree["trace_id"],
        tree["span_id"],
        tree.get("trace_state", ""),
        tuple(value_of(tree.get("attributes", {}))),  # type: ignore[arg-type]
        tree.get("dropped", 0),
        tree.get("flags", 0),
    )
