"""Export requests -> the store's columns, without a `Span` and a row of each span in between.

Law: the table is that of `to_row` over the spans that `protobuf.read_request` reads, row by row. What is not plain
enough for columns goes that way itself: spans of a recorder, values that JSON cannot hold, fields that are not known.

Equal attributes arrive as the same bytes again and again, so what was made of them is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, zip_longest
from operator import attrgetter
from typing import Any, Final

import orjson
import pyarrow as pa

from otel_replay import semconv
from otel_replay.errors import ImportFault
from otel_replay.span import Resource, Scope, Value
from otel_replay.store import schema
from otel_replay.store.parquet import table_of
from otel_replay.store.promoted import INT32_MAX, INT64_MAX, NUMBERS, OLDER, TEXTS, Row, fits, is_int64
from otel_replay.store.rows import LONG_TEXT_CHARS, OWN_KEYS, events_text, links_text, placed, rest_text, to_row
from otel_replay.store.values import NotNatural, attributes_text, dump
from otel_replay.wire import protobuf, quick, text
from otel_replay.wire.quick import Unusual

_READ: Final = attrgetter(
    "attributes",
    "events",
    "links",
    "dropped_events_count",
    "dropped_links_count",
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "trace_state",
    "kind",
    "status",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "flags",
    "dropped_attributes_count",
)
_PARTS: Final = 5
"""The first so many are looked at span by span, the others are columns as they are."""
_IDS: Final = ("trace_id", "span_id", "parent_span_id")
_INT32S: Final = ("span_kind", "status_code")
_INT64S: Final = ("start_ns", "end_ns", "flags", "dropped_attributes")
_READ_AS: Final = (*_IDS, "name", "trace_state", "span_kind", "status", *_INT64S)
_FIELDS: Final = (*_IDS, "name", "trace_state", *_INT32S, "status_message", *_INT64S)
_SHARED: Final = ("scope", "resource", "service")
_OFTEN_ALIKE: Final = frozenset(("source", *_SHARED, *_FIELDS)) - {*_IDS, "start_ns", "end_ns"}
_REMEMBERED_MAX: Final = 50_000
_REMEMBERED_BYTES_MAX: Final = 128
"""What is longer is rarely met again, and telling whether it was costs as much as reading it."""
_PLAIN, _LATER, _OURS = -1, -2, -3
"""What is to be done with an attribute that has no column of its own: nothing, a closer look, leave its span."""

_Attribute = tuple[str, Value, int]
"""(key, value, the place of its column in a row or one of the above)."""


class QuickRows:
    """Collects the rows of requests. Made once for a store: what it remembers is of use for the next batch."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Attribute] = {}
        self._slots: dict[str, int] = {"attributes": 0}
        self.begin()

    def begin(self) -> None:
        """Forget what was taken."""
        self._rows: list[list[Any]] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_FIELDS, *_SHARED)}
        self._plain: list[tuple[int, Row]] = []

    def __len__(self) -> int:
        return len(self._rows) + len(self._plain)

    def add(self, request: bytes) -> bool:
        """Take the spans of a request; False, and none taken, where it is to be read the plain way."""
        rows, plain = len(self._rows), len(self._plain)
        try:
            for resource, scope, messages in quick.groups(request):
                self._add_group(resource, scope, messages)
        except Unusual:
            del self._rows[rows:], self._plain[plain:]
            for values in self._columns.values():
                del values[rows:]
            return False
        return True

    def take(self, request: bytes) -> str:
        """Take all spans of a request that can be read; returns why it was not all of them."""
        if self.add(request):
            return ""
        try:
            read = protobuf.read_request(request)
        except ImportFault as fault:
            return str(fault)
        for span in read.items:
            self.add_row(to_row(span))
        return str(read.problems[0]) if read.problems else ""

    def add_row(self, row: Row) -> None:
        """Take a row that `to_row` made."""
        self._plain.append((len(self), row))

    def table(self) -> pa.Table:
        """Return what was taken, in order, and begin anew."""
        columns = {
            **self._columns,
            "source": ["otlp"] * len(self._rows),
            **dict(zip(self._slots, zip_longest(*self._rows), strict=False)),
        }
        quick, plain, count = self._table(columns), self._plain, len(self)
        self.begin()
        if not plain:
            return quick
        places = {place: quick.num_rows + number for number, (place, _) in enumerate(plain)}
        others = iter(range(quick.num_rows))
        order = [places[place] if place in places else next(others) for place in range(count)]
        return pa.concat_tables([quick, table_of([row for _, row in plain])]).take(pa.array(order, pa.int64()))

    def _table(self, columns: dict[str, Sequence[Any]]) -> pa.Table:
        count = len(self._rows)
        arrays = []
        for item in schema.SCHEMA:
            values = columns.get(item.name, ())
            if item.name in _IDS:
                arrays.append(pa.array([value.hex() for value in values], item.type))
            elif not values:
                arrays.append(pa.nulls(count, item.type))
            elif item.name in _OFTEN_ALIKE and values.count(values[0]) == count:
                arrays.append(pa.repeat(pa.scalar(values[0], item.type), count))
            else:
                arrays.append(pa.array(values, item.type))
        return pa.Table.from_arrays(arrays, schema=schema.SCHEMA)

    # One group of spans ----------------------------------------------------------------------------------

    def _add_group(self, resource: Resource, scope: Scope, messages: Sequence[Any]) -> None:
        if not messages:
            return
        begin = len(self)
        parts, columns = _fields_of(messages)
        try:
            for name in ("name", "trace_state"):
                columns[name] = _decoded(text.decode, columns[name])
            statuses = _decoded(quick.status, columns.pop("status"))
            columns["status_code"], columns["status_message"] = zip(*statuses, strict=True)
            _refuse_large(columns)
            dump(scope.name)
            shared = scope.name, attributes_text(resource.attributes), _service_of(resource)
            rest = rest_text(resource, scope, 0, 0)
        except NotNatural:
            self._plain += [(begin + at, _plain_row(message, resource, scope)) for at, message in enumerate(messages)]
            return
        columns |= {name: [value] * len(messages) for name, value in zip(_SHARED, shared, strict=True)}
        rows = [self._row(of_one, resource, scope, rest) for of_one in parts]
        if None in rows:
            left = [(at, message) for at, message in enumerate(messages) if rows[at] is None]
            self._plain += [(begin + at, _plain_row(message, resource, scope)) for at, message in left]
            columns = {name: list(compress(values, rows)) for name, values in columns.items()}
        self._rows += filter(None, rows)
        for name, values in self._columns.items():
            values += columns[name]

    def _row(self, parts: tuple[Any, ...], resource: Resource, scope: Scope, rest: str | None) -> list[Any] | None:
        """Return what stands in the columns of `_slots`, or None where the span is to be read the plain way."""
        attributes, events, links, dropped_events, dropped_links = parts
        row: list[Any] = [None] * len(self._slots)
        try:
            row[0] = self._attributes(attributes, row)
            if dropped_events or dropped_links:
                rest = rest_text(resource, scope, dropped_events, dropped_links)
            if rest is not None:
                self._put(row, "rest", rest)
            if events:
                self._put(row, "events", events_text(quick.events(events)))
            if links:
                self._put(row, "links", links_text(quick.links(links)))
        except (NotNatural, Unusual, UnicodeEncodeError):
            return None
        return row

    def _attributes(self, raws: Sequence[bytes], row: list[Any]) -> bytes:
        known = self._known.get
        natural: dict[str, object] = {}
        later: list[_Attribute] = []
        for raw in raws:
            found = known(raw) if len(raw) <= _REMEMBERED_BYTES_MAX else None
            if found is None:
                found = self._learn(raw, row)
            key, value, slot = found
            natural[key] = value
            if slot >= 0:
                row[slot] = value
            elif slot != _PLAIN:
                later.append(found)
        if len(natural) != len(raws):
            raise NotNatural("a key stands twice")
        if later:
            self._look_closer(later, natural, row)
        try:
            return orjson.dumps(natural)
        except (TypeError, ValueError, RecursionError) as fault:
            raise NotNatural(str(fault)) from None

    def _learn(self, raw: bytes, row: list[Any]) -> _Attribute:
        key, value = quick.attribute(raw)
        found = key, value, self._slot_for(key, value, row)
        if len(raw) <= _REMEMBERED_BYTES_MAX:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[raw] = found
        return found

    def _slot_for(self, key: str, value: Value, row: list[Any]) -> int:
        kind = type(value)
        if key == semconv.RUN_ID and kind is str:
            return _OURS
        if kind is float:
            return _PLAIN if math.isfinite(value) else _LATER  # type: ignore[arg-type]
        if key in OLDER or not (kind is int or kind is bool or (kind is str and _stays(key, value))):  # type: ignore[arg-type]
            return _LATER
        column = _promoted(key, value)
        return _PLAIN if column is None else self._slot(column, row)

    def _look_closer(self, several: Iterable[_Attribute], natural: dict[str, object], row: list[Any]) -> None:
        """Put what is long, nested or named as earlier conventions did where `to_row` puts it. Raises NotNatural."""
        older: Row = {}
        taken: Row = {}
        content: dict[str, str] = {}
        for key, value, slot in several:
            if slot == _OURS:
                raise NotNatural("read from its exact form")
            column = _promoted(key, value)
            if column is not None:
                taken[column] = value
            elif key in OLDER and fits(OLDER[key], value):
                older[OLDER[key]] = value
            if type(value) is float and not math.isfinite(value):
                raise NotNatural("JSON has no NaN and no infinity")
            if type(value) not in (int, bool, float):
                natural[key] = placed(key, value, taken, content, ours=False)
        if content:
            taken["content"] = dump(content)
        for column, value in taken.items():
            self._put(row, column, value)
        for column, value in older.items():
            if row[self._slot(column, row)] is None:
                self._put(row, column, value)

    def _slot(self, column: str, row: list[Any]) -> int:
        slot = self._slots.setdefault(column, len(self._slots))
        row += [None] * (len(self._slots) - len(row))
        return slot

    def _put(self, row: list[Any], column: str, value: object) -> None:
        row[self._slot(column, row)] = value


def _plain_row(message: Any, resource: Resource, scope: Scope) -> Row:
    return to_row(quick.plainly(message, resource, scope))


def _fields_of(messages: Sequence[Any]) -> tuple[list[tuple[Any, ...]], dict[str, Sequence[Any]]]:
    """Return (what is looked at, by span; the other fields of all, by column)."""
    fields = list(zip(*map(_READ, messages), strict=True))
    return list(zip(*fields[:_PARTS], strict=True)), dict(zip(_READ_AS, fields[_PARTS:], strict=True))


def _decoded(decode: Callable[[bytes], Any], raws: Sequence[bytes]) -> list[Any]:
    """Return what the fields of all spans say. Raises NotNatural where a text can't be written."""
    texts = {raw: decode(raw) for raw in set(raws)}
    dump(list(texts.values()))
    return [texts[raw] for raw in raws]


def _refuse_large(columns: dict[str, Sequence[Any]]) -> None:
    if min(map(min, (columns[name] for name in _INT32S))) < -INT32_MAX:
        raise NotNatural("a kind or status beyond 32 bits")
    if max(map(max, (columns[name] for name in _INT64S))) > INT64_MAX:
        raise NotNatural("a number beyond 64 bits")


def _service_of(resource: Resource) -> str | None:
    return next((value for key, value in resource.attributes if key == "service.name" and type(value) is str), None)


def _stays(key: str, value: str) -> bool:
    return len(value) <= LONG_TEXT_CHARS and key not in OWN_KEYS


def _promoted(key: str, value: Value) -> str | None:
    """Return the column that has a copy of this attribute."""
    if type(value) is str:
        return TEXTS.get(key)
    return NUMBERS.get(key) if is_int64(value) else None
