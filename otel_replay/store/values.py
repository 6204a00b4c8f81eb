"""OTLP attribute values <-> JSON text, in two forms.

The natural form is what people expect to query: `{"gen_ai.request.model": "gpt-4o", "n": 1}`. It is used where
reading it back gives the same values, types and order. The exact form tags whatever JSON cannot carry (bytes, NaN,
keys that stand twice, lone surrogates, integers of any size) and carries every span.

Laws: `attributes_from(attributes_text(a)) == a`, or NotNatural; `span_from_exact(exact_text(s)) == s`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import orjson

from otel_replay.span import Attributes, Event, KeyValues, Link, Resource, Scope, Span, Value

_INT64: Final = range(-(2**63), 2**63)
_SHOWN_DEPTH_MAX: Final = 100
_PLAIN: Final = frozenset({str, bool, int, type(None)})


class NotNatural(Exception):
    """Plain JSON would not give this value back as it was."""


def tree_of(value: Value) -> object:
    """Return `value` as a tree that orjson writes and `value_of` reads back. Raises NotNatural."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotNatural("JSON has no NaN and no infinity")
        return value
    if isinstance(value, KeyValues):
        found = {key: tree_of(item) for key, item in value}
        if len(found) != len(value):
            raise NotNatural("a key stands twice")
        return found
    if isinstance(value, tuple):
        return [tree_of(item) for item in value]
    raise NotNatural(f"JSON has no {kind.__name__}")


def dump(tree: object) -> str:
    """Return `tree` as compact JSON. Raises NotNatural for what strict JSON cannot hold."""
    try:
        return orjson.dumps(tree).decode()
    except (TypeError, ValueError, RecursionError) as fault:  # lone surrogates, integers beyond 64 bits, depth
        raise NotNatural(str(fault)) from None


def attributes_text(attributes: Attributes) -> str:
    """Return the natural form of `attributes`: a JSON object in their order. Raises NotNatural."""
    return dump(tree_of(KeyValues(attributes)))


def value_of(tree: Any) -> Value:
    """Return the value of a tree that `tree_of` made."""
    if isinstance(tree, dict):
        return KeyValues((key, value_of(item)) for key, item in tree.items())
    if isinstance(tree, list):
        return tuple([value_of(item) for item in tree])
    return tree  # type: ignore[no-any-return]


def attributes_from(text: str) -> Attributes:
    """Return the attributes of a natural form."""
    return tuple((key, value_of(item)) for key, item in orjson.loads(text).items())


def lossy_tree(value: Value, depth: int = 0) -> object:
    """Return `value` as a JSON tree that a person can read and a database accepts; types and depths may be lost."""
    if depth > _SHOWN_DEPTH_MAX and isinstance(value, tuple):
        return "..."
    if isinstance(value, KeyValues):
        return {clean(key): lossy_tree(item, depth + 1) for key, item in value}
    if isinstance(value, tuple):
        return [lossy_tree(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
        return str(value)
    return value


def clean(text: str) -> str:
    """Return `text` with lone surrogates replaced: only such text can be written to a file."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# The exact form ------------------------------------------------------------------------------------------
# {"b": base64} bytes, {"f": repr} float, {"i": digits} integer, {"m": [[key, value], ...]} map,
# {"s": base64 of UTF-8 with surrogates} text; everything else as JSON has it.


def _exact(value: Value) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, KeyValues):
        return {"m": [[_exact(key), _exact(item)] for key, item in value]}
    if isinstance(value, tuple):
        return [_exact(item) for item in value]
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return {"f": repr(float(value))}
    if isinstance(value, int):
        return int(value) if value in _INT64 else {"i": str(int(value))}
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"s": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


def _inexact(tree: Any) -> Value:
    if isinstance(tree, list):
        return tuple([_inexact(item) for item in tree])
    if not isinstance(tree, dict):
        return tree  # type: ignore[no-any-return]
    ((tag, inner),) = tree.items()
    if tag == "m":
        return KeyValues((_inexact(key), _inexact(item)) for key, item in inner)  # type: ignore[misc]
    if tag == "b":
        return base64.b64decode(inner, validate=True)
    if tag == "f":
        return float(inner)
    if tag == "i":
        return int(inner)
    if tag == "s":
        return base64.b64decode(inner, validate=True).decode("utf-8", "surrogatepass")
    raise ValueError(f"unknown tag {tag!r} in the exact form of a value")


_PARTS: Final[Mapping[str, type]] = {"resource": Resource, "scope": Scope, "events": Event, "links": Link}


def _record(record: Any) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "attributes":
            found[item.name] = _exact(KeyValues(value))
        elif item.name in ("events", "links"):
            found[item.name] = [_record(part) for part in value]
        elif item.name in _PARTS:
            found[item.name] = _record(value)
        else:
            found[item.name] = _exact(value)
    return found


def _from_record(kind: type, tree: Mapping[str, Any]) -> Any:
    found: dict[str, object] = {}
    for name, value in tree.items():
        if name == "attributes":
            found[name] = tuple(_inexact(value))  # type: ignore[arg-type]
        elif name in ("events", "links"):
            found[name] = tuple(_from_record(_PARTS[name], part) for part in value)
        elif name in _PARTS:
            found[name] = _from_record(_PARTS[name], value)
        else:
            found[name] = _inexact(value)
    return kind(**found)


def exact_text(span: Span) -> str:
    """Return the exact form of `span`: strict JSON that carries every value."""
    record = _record(span)
    try:
        return orjson.dumps(record).decode()
    except TypeError:  # nested deeper than orjson writes, though not deeper than it reads
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def span_from_exact(text: str) -> Span:
    """Return the span of an exact form. Raises ValueError, KeyError or TypeError where it holds none."""
    span = _from_record(Span, orjson.loads(text))
    assert isinstance(span, Span)
    return span
