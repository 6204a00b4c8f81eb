"""What the shapes share: lenient reading of ids, numbers and values, with every loss told to the report."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from otel_replay.importers.documents import LazyList, loads
from otel_replay.importers.result import Report
from otel_replay.limits import IMPORT_DEPTH_MAX
from otel_replay.span import Attributes, KeyValue, KeyValues, Value

INT64_MAX = 2**63 - 1
_ARRAYS_DEEP = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEX = frozenset("0123456789abcdefABCDEF")


class Unreadable(ValueError):
    """One span cannot be read; the text says which field. The span is skipped, the import goes on."""


def table(value: object) -> Mapping[str, Any]:
    """Return `value` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Iterable[Any]:
    """Return `value` where it is an array (in memory or lazy), else an empty one."""
    return value if isinstance(value, (list, LazyList)) else ()


def rows_in(holder: Mapping[str, Any], key: str, report: Report, where: str = "") -> Iterable[Any]:
    """Return the array `holder[key]`, an empty one where it is null or absent. The report hears of anything else."""
    found = holder.get(key)
    if found is not None and not isinstance(found, (list, LazyList)):
        report.problem("skipped", f"{key} is {_a(found)}, not an array", where)
    return rows(found)


def tables_in(holder: Mapping[str, Any], key: str, report: Report, where: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the objects of the array `holder[key]`. The report hears of whatever is none."""
    for item in rows_in(holder, key, report, where):
        if isinstance(item, dict):
            yield item
        elif item is not None:
            report.problem("skipped", f"{key} holds {_a(item)}, not an object", where)


def table_in(holder: Mapping[str, Any], key: str, report: Report, where: str = "") -> Mapping[str, Any]:
    """Return the object `holder[key]`, an empty one where it is null or absent. The report hears of anything else."""
    found = holder.get(key)
    if found is not None and not isinstance(found, dict):
        report.problem("skipped", f"{key} is {_a(found)}, not an object", where)
    return table(found)


def objects(document: object, report: Report, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the object that a document is, or those of its array, or of the arrays in that; the report hears of others.

    As `detect.sample` looks into a document.
    """
    if isinstance(document, dict):
        yield document
    elif isinstance(document, (list, LazyList)) and depth < _ARRAYS_DEEP:
        for item in document:
            yield from objects(item, report, depth + 1)
    elif document is not None:
        report.problem("skipped", f"an array holds {_a(document)}, not an object")


def _a(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "text", bool: "a bool", int: "a number", float: "a number"}
    return names.get(type(value), "an array" if isinstance(value, LazyList) else type(value).__name__)


def text(value: object) -> str:
    """Return a JSON scalar as text; "" for null, arrays and objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else ""


def whole(value: object, field: str, *, bits: int = 64) -> int:
    """Return a JSON number or decimal text as an integer of 0 up to `bits` bits; 0 for null.

    Raises Unreadable where it is neither, negative, or too large.
    """
    if value is None or value == "":
        return 0
    number: int
    if isinstance(value, bool):
        raise Unreadable(f"{field} is a bool, not a number")
    if isinstance(value, int):
        number = value
    elif isinstance(value, float) and math.isfinite(value):
        number = int(value)
    elif isinstance(value, str) and len(value) <= 32:
        try:
            number = int(value)
        except ValueError:
            raise Unreadable(f"{field} is {value[:32]!r}, not a number") from None
    else:
        raise Unreadable(f"{field} is not a number")
    if not 0 <= number < 2**bits:
        raise Unreadable(f"{field} is out of range")
    return number


def micros(value: object, field: str) -> int:
    """Return microseconds as nanoseconds; fractions of a microsecond are kept where the writer gave them."""
    if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
        if not 0 <= value < 2**53:
            raise Unreadable(f"{field} is out of range")
        return round(value * 1000)
    number = whole(value, field) * 1000
    if number >= 2**64:
        raise Unreadable(f"{field} is out of range")
    return number


def hex_id(value: object, width: int, field: str) -> str:
    """Return an id as lower-case hex of `width` characters, zeros added on the left; "" for none."""
    raw = text(value).strip()
    if raw[:2] in ("0x", "0X"):
        raw = raw[2:]
    if not raw:
        return ""
    if len(raw) > width and not raw[:-width].strip("0"):
        raw = raw[-width:]
    if len(raw) > width or not _HEX.issuperset(raw):
        raise Unreadable(f"{field} is {raw[:48]!r}, not {width} hex characters")
    return raw.lower().rjust(width, "0")


def base64_bytes(value: str) -> bytes:
    """Decode standard or URL-safe base64 with or without padding; raises ValueError (binascii.Error) else."""
    cleaned = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(cleaned + "=" * (-len(cleaned) % 4), validate=True)


def base64_or_hex_id(value: object, width: int, field: str) -> str:
    """Return an id that is hex or base64, hex preferred; for shapes where each trace stands alone."""
    raw = text(value).strip()
    try:
        return hex_id(raw, width, field)
    except Unreadable:
        try:
            decoded = base64_bytes(raw)
        except (ValueError, binascii.Error):
            decoded = b""
        if len(decoded) * 2 != width:
            raise
        return decoded.hex()


def iso_ns(value: object, field: str) -> int:
    """Return a time as Unix nanoseconds: ISO 8601 with up to nine digits (UTC where no zone is said), or a number.

    A number counts as seconds, milliseconds, microseconds or nanoseconds by its size. 0 for null.
    """
    if value is None or value == "":
        return 0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_ns(value, field)
    raw = text(value).strip()
    body, fraction, zone = raw, "", ""
    dot = raw.find(".")
    if dot >= 0:
        end = dot + 1
        while end < len(raw) and raw[end].isdigit():
            end += 1
        body, fraction, zone = raw[:dot], raw[dot + 1 : end], raw[end:]
    try:
        moment = datetime.fromisoformat(body + zone)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise Unreadable(f"{field} is {raw[:40]!r}, not a time") from None
    if seconds < 0:
        raise Unreadable(f"{field} is before 1970")
    return seconds * 1_000_000_000 + int((fraction + "0" * 9)[:9])


def _number_ns(value: float, field: str) -> int:
    if not (math.isfinite(value) and 0 <= value < 2**64):
        raise Unreadable(f"{field} is out of range")
    for limit, factor in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3)):
        if value < limit:
            return value * factor if isinstance(value, int) else round(value * factor)
    return int(value)


def json_value(value: object, report: Report, where: str = "", depth: int = 0) -> Value:
    """Return a JSON value as an attribute value: arrays as tuples, objects as KeyValues in their order.

    An integer past 64 bits becomes its decimal text, and the report says so. Raises Unreadable when too deep.
    """
    if depth > IMPORT_DEPTH_MAX:
        raise Unreadable(f"{where or 'a value'} is nested deeper than {IMPORT_DEPTH_MAX}")
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        if -INT64_MAX - 1 <= value <= INT64_MAX:
            return value
        report.problem("approximate", "an integer past 64 bits is kept as text", where)
        return str(value)
    if isinstance(value, dict):
        return KeyValues((str(key), json_value(item, report, where, depth + 1)) for key, item in value.items())
    if isinstance(value, (list, LazyList)):
        return tuple(json_value(item, report, where, depth + 1) for item in value)
    return str(value)


def attributes_of(value: object, report: Report, where: str = "") -> Attributes:
    """Return a JSON object of plain values as attributes."""
    if value is not None and not isinstance(value, dict):
        report.problem("skipped", f"attributes are {_a(value)}, not an object", where)
    return tuple((str(key), json_value(item, report, f"{where} {key}")) for key, item in table(value).items())


def json_text(value: object) -> str:
    """Return a JSON value as compact text, in its own key order; text stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, default=_plain).decode()
    except (orjson.JSONEncodeError, TypeError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, LazyList):
        return list(value)
    raise TypeError(type(value).__name__)


def parsed_text(value: str, report: Report, where: str) -> Value:
    """Return the list or map that `value` spells as JSON, or `value` itself where it spells neither."""
    if value[:1] not in ("[", "{"):
        return value
    try:
        return json_value(loads(value.encode("utf-8", "surrogatepass")), report, where)
    except (ValueError, Unreadable):
        return value


def doubled_keys(attributes: Iterable[KeyValue]) -> Iterator[str]:
    """Name each key that stands more than once."""
    seen: set[str] = set()
    for key, _ in attributes:
        if key in seen:
            yield key
        seen.add(key)


def any_id(value: object, width: int, report: Report) -> str:
    """Return an id as hex of `width`: hex and UUIDs as they are where they fit, else a digest of the id's text.

    The digest is stable, so that parents and children still find each other; the report says that it was made.
    """
    raw = text(value).strip()
    try:
        return hex_id(raw.replace("-", "") if len(raw) == 36 else raw, width, "id")
    except Unreadable:
        report.note(f"ids that are not {width} hex characters were replaced by a digest of them")
        return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:width]
