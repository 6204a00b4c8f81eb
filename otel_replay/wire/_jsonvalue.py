"""OTLP/JSON scalars, AnyValues and ids: the parts that spans and log records share.

Source: opentelemetry-proto `docs/specification.md` (JSON Protobuf Encoding) and the protobuf JSON mapping.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ..limits import IMPORT_DEPTH_MAX
from ..span import Attributes, KeyValues, Value
from . import text

Json: TypeAlias = dict[str, Any]
_KINDS: Final = ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue")
_NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX: Final = re.compile(r"[0-9a-fA-F]*\Z")
_UNLIMITED: Final = -1_000_000


class Bad(ValueError):
    """One item cannot be read. The text says which field and why, in words for a person."""


# Reading scalars -----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _snake(camel: str) -> str:
    return re.sub(r"([A-Z])", lambda match: "_" + match.group(1).lower(), camel)


def pick(obj: Json, name: str) -> Any:
    """Return member `name` of `obj` in its camelCase or snake_case spelling, or None."""
    found = obj.get(name)
    return obj.get(_snake(name)) if found is None else found


def pick_list(obj: Json, name: str) -> list[Any]:
    """Return list member `name`; empty where it is missing or null. Raises Bad for anything else."""
    found = pick(obj, name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Bad(f"{name} is {_a(found)}, not a list")
    return found


def pick_object(obj: Json, name: str) -> Json:
    """Return object member `name`; empty where it is missing or null. Raises Bad for anything else."""
    return {} if (found := pick(obj, name)) is None else as_object(found, name)


def as_object(found: Any, name: str) -> Json:
    """Return `found`, a JSON object; Bad where it is not."""
    if not isinstance(found, dict):
        raise Bad(f"{name} is {_a(found)}, not an object")
    return found


def pick_text(obj: Json, name: str) -> str:
    """Return text member `name`, "" where it is missing or null."""
    found = pick(obj, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Bad(f"{name} is {_a(found)}, not text")
    return text.from_wire(found)


def pick_int(obj: Json, name: str) -> int:
    """Return integer member `name`, written as a number or as text; 0 where it is missing or null."""
    found = pick(obj, name)
    return 0 if found is None else as_int(found, name)


def as_int(found: Any, name: str) -> int:
    """Return the exact integer that `found` is; Bad where that cannot be known."""
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    if isinstance(found, str) and re.fullmatch(r"-?[0-9]{1,40}", found.strip(), re.ASCII):
        return int(found)
    if isinstance(found, float) and found.is_integer() and abs(found) <= 2**53:
        return int(found)
    raise Bad(f"{name} is {_a(found)}, not an exact integer")


def pick_unsigned(obj: Json, name: str, bits: int) -> int:
    """Return integer member `name` where it fits `bits` bits without a sign; Bad where it does not."""
    number = pick_int(obj, name)
    if not 0 <= number < 2**bits:
        raise Bad(f"{name} is {number}, beyond {bits} bits without a sign")
    return number


def pick_enum(obj: Json, name: str, names: dict[str, int]) -> int:
    """Return enum member `name`, written as a number, its digits or its name; 0 where it is missing."""
    found = pick(obj, name)
    if isinstance(found, str) and found.strip().upper() in names:
        return names[found.strip().upper()]
    number = 0 if found in (None, "") else as_int(found, name)
    if not -(2**31) <= number < 2**31:
        raise Bad(f"{name} is {number}, beyond 32 bits")
    return number


def _double(found: Any) -> float:
    if isinstance(found, int | float) and not isinstance(found, bool):
        return float(found)
    if isinstance(found, str):
        special = _NON_FINITE.get(found)
        return float(found) if special is None else special
    raise Bad(f"doubleValue is {_a(found)}, not a number")


def as_bytes(found: Any, name: str) -> bytes:
    """Return the bytes of base64 text, in the standard or the URL alphabet, padded or not."""
    if not isinstance(found, str):
        raise Bad(f"{name} is {_a(found)}, not base64 text")
    plain = found.translate({45: 43, 95: 47}).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as fault:
        raise Bad(f"{name} is not base64: {fault}") from None


def _a(found: Any) -> str:
    shown = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    kind = shown.get(type(found), "a number")
    return f"{kind} ({found!r:.40})" if isinstance(found, str | int | float) else kind


# Values --------------------------------------------------------------------------------------------------


def value_to_json(value: Value, depth: int = 0) -> Json:
    """Return the AnyValue of `value`, as the Collector writes it: {} for the empty one."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": text.to_wire(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        in_range = text.INT64_MIN <= value <= text.INT64_MAX
        return {"intValue": str(value)} if in_range else {"stringValue": text.int_to_wire(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _non_finite(value)}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if depth >= text.DEPTH_MAX:
        return {"stringValue": deep_to_text(value)}
    if isinstance(value, KeyValues):
        return {"kvlistValue": {"values": attributes_to_json(value, depth + 1)} if value else {}}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [value_to_json(item, depth + 1) for item in value]} if value else {}}
    raise TypeError(f"{type(value).__name__} is no OTLP value")


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def value_from_json(obj: Any, depth: int = 0) -> Value:
    """Return the value of an AnyValue. Raises Bad where it is none."""
    if obj is None:
        return None
    if depth > IMPORT_DEPTH_MAX:
        raise Bad(f"a value is nested deeper than {IMPORT_DEPTH_MAX} levels")
    if type(obj) is dict and len(obj) == 1 and type(only := obj.get("stringValue")) is str:
        return text_value(only)  # nearly every value, and every part of an envelope
    present = [(kind, found) for kind in _KINDS if (found := pick(as_object(obj, "a value"), kind)) is not None]
    if not present:
        if obj and not any(name in obj or _snake(name) in obj for name in _KINDS):
            raise Bad(f"a value has none of {', '.join(_KINDS)}: {', '.join(map(repr, list(obj)[:3]))}")
        return None
    if len(present) > 1:
        raise Bad(f"a value has both {present[0][0]} and {present[1][0]}")
    kind, found = present[0]
    if kind == "stringValue":
        if not isinstance(found, str):
            raise Bad(f"stringValue is {_a(found)}, not text")
        return text_value(found)
    if kind == "intValue":
        return as_int(found, kind)
    if kind == "doubleValue":
        return _double(found)
    if kind == "bytesValue":
        return as_bytes(found, kind)
    if kind == "boolValue":
        return _bool(found)
    if kind == "kvlistValue":
        return KeyValues(attributes_from_json(pick_list(as_object(found, kind), "values"), depth + 1))
    return tuple(value_from_json(item, depth + 1) for item in pick_list(as_object(found, kind), "values"))


def _bool(found: Any) -> bool:
    if isinstance(found, bool):
        return found
    if found in ("true", "false"):
        return bool(found == "true")
    raise Bad(f"boolValue is {_a(found)}, neither true nor false")


def text_value(found: str) -> Value:
    """Return the value of a text as it stood on the wire: itself, or what it carries (see text.py)."""
    if not found.startswith(text.PREFIX):
        return found
    number = text.int_from_wire(found)
    if number is not None:
        return number
    return deep_from_text(found) if found.startswith(text.VALUE_MARK) else text.from_wire(found)


def deep_to_text(value: Value) -> str:
    """Return the marked text of a value that is nested too deeply to be written natively."""
    return text.VALUE_MARK + json.dumps(value_to_json(value, _UNLIMITED), separators=(",", ":"))


def deep_from_text(marked: str) -> Value:
    """Return the value of a text written by `deep_to_text`, or the text itself where it is another."""
    try:
        value = value_from_json(json.loads(marked[len(text.VALUE_MARK) :]))
    except (ValueError, RecursionError):
        return marked
    # Only what we would have written so is unwrapped, else another's text would change.
    return value if isinstance(value, tuple) and deep_to_text(value) == marked else marked


def attributes_to_json(attributes: Attributes, depth: int = 0) -> list[Json]:
    """Return the KeyValue list of `attributes`, in order."""
    return [
        {"key": text.to_wire(key), "value": value_to_json(value, depth)}
        if key
        else {"value": value_to_json(value, depth)}
        for key, value in attributes
    ]


def attributes_from_json(items: Iterable[Any], depth: int = 0) -> Attributes:
    """Return the attributes of a KeyValue list, in order, double keys kept. Raises Bad."""
    found: list[tuple[str, Value]] = []
    for item in items:
        plain = _plain_pair(item)
        if plain is not None:
            found.append(plain)
            continue
        pair = as_object(item, "an attribute")
        key = pick_text(pair, "key")
        try:
            found.append((key, value_from_json(pick(pair, "value"), depth)))
        except ValueError as fault:
            raise Bad(f"attribute {key!r}: {fault}" if depth == 0 else str(fault)) from None
    return tuple(found)


def _plain_pair(item: Any) -> tuple[str, Value] | None:
    """Return an attribute in the spelling that the specification gives it; None for any other, which is looked at."""
    if type(item) is not dict or len(item) != 2:
        return None
    key, value = item.get("key"), item.get("value")
    if type(key) is not str or not key or key.startswith(text.PREFIX) or type(value) is not dict or len(value) != 1:
        return None
    ((kind, found),) = value.items()
    if kind == "stringValue":
        return (key, found) if type(found) is str and not found.startswith(text.PREFIX) else None
    if kind == "intValue":
        return (
            (key, int(found))
            if type(found) is str and len(found) < 19 and found.isascii() and found.isdecimal()
            else None
        )
    if kind == "boolValue":
        return (key, found) if type(found) is bool else None
    if kind == "arrayValue" and type(found) is dict and len(found) == 1 and type(found.get("values")) is list:
        parts = []
        for part in found["values"]:
            if type(part) is not dict or len(part) != 1 or type(only := part.get("stringValue")) is not str:
                return None
            if only.startswith(text.PREFIX):
                return None
            parts.append(only)
        return key, tuple(parts)
    return None


# Ids -----------------------------------------------------------------------------------------------------


def base64_ids(ids: Iterable[tuple[Any, int]]) -> bool:
    """Return True where a document writes its ids in base64, from its (id, byte count) pairs.

    Decided once for a whole document: 32 hex digits are also valid base64, so single ids can't be told apart.
    """
    votes = 0
    for found, size in ids:
        if not isinstance(found, str) or not found:
            continue
        if len(found) == size * 2 and _HEX.match(found):
            votes -= 1
        elif len(found.rstrip("=")) == -(-size * 4 // 3):
            votes += 1
    return votes > 0


def pick_id(obj: Json, name: str, size: int, base64_form: bool) -> str:
    """Return id member `name` as `size` bytes of lower-case hex, "" where it is missing. Raises Bad."""
    found = pick(obj, name)
    if found is None or found == "":
        return ""
    if base64_form:
        data = as_bytes(found, name)
        if len(data) != size:
            raise Bad(f"{name} has {len(data)} bytes, not {size}")
        return data.hex()
    if not isinstance(found, str) or not _HEX.match(found):
        raise Bad(f"{name} is {_a(found)}, not hex")
    if size == 16 and len(found) == 16:
        return found.lower().rjust(32, "0")  # a 64-bit trace id, as Zipkin and old Jaeger clients make them
    if len(found) != size * 2:
        raise Bad(f"{name} has {len(found)} hex digits, not {size * 2}")
    return found.lower()
