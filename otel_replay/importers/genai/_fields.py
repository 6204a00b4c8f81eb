"""Attribute values as plain JSON, and what happened to them on the way: cut, scrubbed, redacted, left out.

A cut JSON text is never read as if it were whole: `Field.damage` says what is left of it.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from otel_replay import limits
from otel_replay.span import KeyValues, Span, Value

_MARKERS = (
    ("[Scrubbed due to", "scrubbed by Logfire"),
    ("__REDACTED__", "redacted by OpenInference (OPENINFERENCE_HIDE_* or OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH)"),
    ("__TRUNCATED__", "truncated by the exporter"),
)
_TEMPO_BYTES = 2_048
_REPR_CHARS_MAX = 1_000_000
INDEX_MAX = 100_000
"""The largest index read from a flattened key; a larger one is hostile or broken."""


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute: its plain value, and what is wrong with it. `parsed` says that JSON text was read."""

    key: str
    value: object = None
    present: bool = False
    parsed: bool = False
    damage: str = ""
    note: str = ""

    @property
    def whole(self) -> bool:
        return self.present and not self.damage


def plain(value: Value) -> object:
    """Return an AnyValue as JSON types: maps as dicts (last key wins), arrays as lists, bytes as base64 text."""
    if isinstance(value, KeyValues):
        return {key: plain(inner) for key, inner in value}
    if isinstance(value, tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def attributes_of(pairs: Iterable[tuple[str, Value]]) -> dict[str, object]:
    """Return attributes as a dict of plain values; of a key that stands twice the last."""
    return {key: plain(value) for key, value in pairs}


def _markers_in(value: object, depth: int = 0) -> str:
    if isinstance(value, str):
        return next((reason for marker, reason in _MARKERS if marker in value), "")
    if depth > limits.IMPORT_DEPTH_MAX:
        return ""
    inner: Iterable[object] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return next((found for found in (_markers_in(item, depth + 1) for item in inner) if found), "")


def cut_reason(key: str, text: str) -> str:
    """Return the sentence for a JSON text that ends too early, with the limit that likely did it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    reason = f"{key} was cut at {len(text):,} characters"
    if _TEMPO_BYTES - 3 <= size <= _TEMPO_BYTES:
        return f"{reason} (Tempo's distributor.max_attribute_bytes is 2,048)"
    return f"{reason} (OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT, or a limit of the backend)"


def parse(key: str, text: str, *, must_be_json: bool = False) -> Field:
    """Read `text` as JSON where it is JSON, as text where it plainly is text; a prefix of JSON is damage."""
    stripped = text.strip()
    if not must_be_json and not stripped.startswith(("{", "[", '"')):
        return Field(key, text, True, damage=_prefixed(key, _markers_in(text)), note=_maybe_cut(key, text))
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _not_json(key, text, stripped, must_be_json)
    except RecursionError:
        return Field(key, None, True, damage=f"{key} is nested too deep")
    return Field(key, value, True, parsed=True, damage=_prefixed(key, _markers_in(value)))


def _prefixed(key: str, reason: str) -> str:
    return f"{key} was {reason}" if reason else ""


def _maybe_cut(key: str, text: str) -> str:
    size = len(text.encode("utf-8", "surrogatepass"))
    return f"{key} is exactly as long as Tempo's limit: it may have been cut" if size == _TEMPO_BYTES else ""


def _not_json(key: str, text: str, stripped: str, must_be_json: bool) -> Field:
    marker = _markers_in(text)
    if marker:
        return Field(key, text, True, damage=_prefixed(key, marker))
    looks_whole = stripped[-1:] in ("}", "]", '"') and stripped[:1] in ("{", "[", '"', "'")
    if looks_whole and len(text) <= _REPR_CHARS_MAX:
        try:
            value = ast.literal_eval(stripped)
            orjson.dumps(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
        else:
            return Field(key, value, True, parsed=True, note=f"{key} is a Python repr, read as the value it shows")
    if stripped.startswith(("{", "[")) and not looks_whole:
        return Field(key, None, True, damage=cut_reason(key, text))
    if must_be_json and stripped.startswith(("{", "[", '"')):
        return Field(key, None, True, damage=f"{key} is not valid JSON: cut in the middle, or never JSON")
    return Field(key, text, True, note=_maybe_cut(key, text))


def read(attributes: Mapping[str, object], key: str, *, must_be_json: bool = False, text: bool = False) -> Field:
    """Return attribute `key`: JSON text parsed, structured values as they are, text kept where `text` says so."""
    if key not in attributes:
        return Field(key)
    value = attributes[key]
    if isinstance(value, str):
        if text:
            return Field(key, value, True, damage=_prefixed(key, _markers_in(value)), note=_maybe_cut(key, value))
        return parse(key, value, must_be_json=must_be_json)
    return Field(key, value, True, damage=_prefixed(key, _markers_in(value)))


@dataclass(frozen=True, slots=True)
class Indexed:
    """A flattened list: its entries in number order, the indexes that are missing, and what was left out."""

    items: tuple[dict[str, object], ...] = ()
    missing: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()


def indexed(attributes: Mapping[str, object], prefix: str) -> Indexed:
    """Collect `prefix.N.rest` into one dict of `rest` an index, in number order; absurd indexes are left out.

    Indexes are never used as positions: a hostile index costs nothing.
    """
    found: dict[int, dict[str, object]] = {}
    ignored: list[str] = []
    start = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        number, _, rest = key[len(start) :].partition(".")
        if not (number.isascii() and number.isdigit()):
            continue
        if len(number) > 9 or int(number) > INDEX_MAX:
            ignored.append(f"{start}{number[:20]}")
            continue
        found.setdefault(int(number), {})[rest] = value
    indexes = sorted(found)
    if indexes and indexes[-1] > 4 * len(indexes) + 1_000:  # one far index among few: as absurd as a huge one
        indexes, far = [n for n in indexes if n <= 4 * len(found) + 1_000], indexes[-1]
        ignored.append(f"{start}{far}")
    top = indexes[-1] if indexes else -1
    missing = tuple(n for n in range(top + 1) if n not in found)
    return Indexed(tuple(found[n] for n in indexes), missing, tuple(sorted(set(ignored))))


def ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as text: `0-35, 40`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def integrity_problems(span: Span, attributes: Mapping[str, object]) -> Iterator[str]:
    """Yield what is known to have happened to the span as a whole: dropped attributes, scrubbed or cut paths."""
    if span.dropped_attributes_count:
        yield (
            f"{span.dropped_attributes_count} attributes were dropped (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, 128 unless set)"
        )
    for key, what in (("logfire.scrubbed", "scrubbed"), ("logfire.truncated", "truncated")):
        field = read(attributes, key)
        if field.present and field.value not in (None, [], {}):
            yield f"Logfire {what}: {orjson.dumps(field.value, default=str).decode()[:300]}"


def spells_value(text: str) -> bool:
    """True for text that JSON would read as a number, true, false or null."""
    if len(text) > 400:
        return False
    try:
        return not isinstance(orjson.loads(text), (str, list, dict))
    except orjson.JSONDecodeError:
        return False


def as_int(value: object) -> int | None:
    """Return a whole number given as a number or as its text (some exports turn numbers into text); else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    return None


def as_number(value: object) -> int | float | None:
    """Return a number given as a number or as its text; else None."""
    whole = as_int(value) if not isinstance(value, float) else None
    if whole is not None:
        return whole
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None
