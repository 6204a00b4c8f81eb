"""Values of the language and its standard library."""

from __future__ import annotations

import base64
import binascii
import datetime as _datetime
import decimal
import fractions
import math
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import orjson

from otel_replay.encodings import names
from otel_replay.encodings.core import Decoder, Encoder, Lost, Tree, decodes, encodes
from otel_replay.errors import Unservable

# Kept out of the module's own names: clock freezers replace every module attribute that is the real class.
_T: dict[str, Any] = {"datetime": _datetime.datetime, "date": _datetime.date, "time": _datetime.time}
_DECIMAL_BITS_MAX = 2_000
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


# Text and numbers ------------------------------------------------------------------------------------------


@encodes(str)
def _str(value: str, _: Encoder) -> Tree:
    return {"$": "str", "v": value.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()}


@decodes("str")
def _from_str(tree: dict[str, Tree], to: Decoder) -> object:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", to.part(tree, "v", str))


@encodes(int)
def _int(value: int, _: Encoder) -> Tree:
    # Python refuses to write or read very long decimal integers, and hexadecimal has no such limit.
    return {"$": "int", "v": str(value) if value.bit_length() <= _DECIMAL_BITS_MAX else hex(value)}


@decodes("int")
def _from_int(tree: dict[str, Tree], to: Decoder) -> object:
    text = to.part(tree, "v", str)
    return int(text, 16 if "0x" in text[:3] else 10)


@encodes(float)
def _float(value: float, _: Encoder) -> Tree:
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return {"$": "float", "v": sign + ("nan" if value != value else "inf")}


@decodes("float")
def _from_float(tree: dict[str, Tree], to: Decoder) -> object:
    return float(to.part(tree, "v", str))


@encodes(complex)
def _complex(value: complex, to: Encoder) -> Tree:
    return {"$": "complex", "v": [to.value(value.real), to.value(value.imag)]}


@decodes("complex")
def _from_complex(tree: dict[str, Tree], to: Decoder) -> object:
    real, imag = to.decoded(tree, "v", list)
    return complex(real, imag)


@encodes(decimal.Decimal)
def _decimal(value: decimal.Decimal, _: Encoder) -> Tree:
    return {"$": "decimal", "v": str(value)}


@decodes("decimal")
def _from_decimal(tree: dict[str, Tree], to: Decoder) -> object:
    return decimal.Decimal(to.part(tree, "v", str))


@encodes(fractions.Fraction)
def _fraction(value: fractions.Fraction, to: Encoder) -> Tree:
    return {"$": "fraction", "v": [to.value(value.numerator), to.value(value.denominator)]}


@decodes("fraction")
def _from_fraction(tree: dict[str, Tree], to: Decoder) -> object:
    top, bottom = to.decoded(tree, "v", list)
    return fractions.Fraction(top, bottom)


@encodes(uuid.UUID)
def _uuid(value: uuid.UUID, _: Encoder) -> Tree:
    return {"$": "uuid", "v": str(value)}


@decodes("uuid")
def _from_uuid(tree: dict[str, Tree], to: Decoder) -> object:
    return uuid.UUID(to.part(tree, "v", str))


_CONSTANTS: dict[str, object] = {"Ellipsis": ..., "NotImplemented": NotImplemented}


@encodes(types.EllipsisType, type(NotImplemented))
def _constant(value: object, _: Encoder) -> Tree:
    return {"$": "constant", "v": "Ellipsis" if value is ... else "NotImplemented"}


@decodes("constant")
def _from_constant(tree: dict[str, Tree], to: Decoder) -> object:
    return _CONSTANTS[to.part(tree, "v", str)]


# Bytes -----------------------------------------------------------------------------------------------------


def bytes_tree(value: bytes) -> dict[str, str]:
    """Return {"text": ...} where the bytes are UTF-8, so that people and redaction can read them, else base64."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def bytes_from(tree: dict[str, Tree], to: Decoder) -> bytes:
    """The inverse of `bytes_tree`."""
    if "text" in tree:
        return bytes(to.part(tree, "text", str), "utf-8")
    try:
        return base64.b64decode(to.part(tree, "base64", str), validate=True)
    except binascii.Error as error:
        raise Unservable(f"the recorded bytes are malformed: {error}") from error


@encodes(bytes, bytearray)
def _bytes(value: bytes | bytearray, _: Encoder) -> Tree:
    return {"$": type(value).__name__, **bytes_tree(bytes(value))}


@encodes(memoryview)
def _memoryview(value: memoryview, _: Encoder) -> Tree:
    if value.format != "B" or value.ndim != 1:
        raise Lost(f"a memoryview of format {value.format!r} and {value.ndim} dimensions is not kept")
    return {"$": "memoryview", **bytes_tree(value.tobytes()), **({} if value.readonly else {"writable": True})}


@decodes("bytes", "bytearray", "memoryview")
def _from_bytes(tree: dict[str, Tree], to: Decoder) -> object:
    raw = bytes_from(tree, to)
    if tree["$"] == "memoryview":
        return memoryview(bytearray(raw) if tree.get("writable") else raw)
    return raw if tree["$"] == "bytes" else bytearray(raw)


# Collections -----------------------------------------------------------------------------------------------


@encodes(tuple)
def _tuple(value: tuple[object, ...], to: Encoder) -> Tree:
    return {"$": "tuple", "v": to.items(value)}


@encodes(set, frozenset)
def _set(value: set[object], to: Encoder) -> Tree:
    # Sorted by their text: the order of a set differs from process to process, its record must not.
    return {"$": type(value).__name__, "v": sorted(to.items(value), key=orjson.dumps)}


@decodes("tuple", "set", "frozenset")
def _from_items(tree: dict[str, Tree], to: Decoder) -> object:
    made: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
    items = [to.value(item) for item in to.part(tree, "v", list)]
    return made[tree["$"]](items)


def pairs_tree(value: Any, to: Encoder) -> list[Tree]:
    """Return the items of a mapping as a list of pairs."""
    return [[to.value(k, "[key]"), to.value(v, "[value]")] for k, v in list(value.items())]


def pairs_from(tree: dict[str, Tree], to: Decoder) -> list[tuple[Any, Any]]:
    """The inverse of `pairs_tree`."""
    return [(to.value(k), to.value(v)) for k, v in to.part(tree, "v", list)]


@decodes("dict")
def _from_dict(tree: dict[str, Tree], to: Decoder) -> object:
    return dict(pairs_from(tree, to))


@encodes(OrderedDict, Counter)
def _mapping(value: Any, to: Encoder) -> Tree:
    return {"$": type(value).__name__, "v": to.mapping(dict(value))}


@encodes(types.MappingProxyType)
def _proxy(value: types.MappingProxyType[Any, Any], to: Encoder) -> Tree:
    return {"$": "mappingproxy", "v": to.value(to.hold(dict(value)))}


@encodes(types.SimpleNamespace)
def _namespace(value: types.SimpleNamespace, to: Encoder) -> Tree:
    return {"$": "SimpleNamespace", "v": to.mapping(vars(value))}


@encodes(defaultdict)
def _defaultdict(value: defaultdict[Any, Any], to: Encoder) -> Tree:
    return {"$": "defaultdict", "factory": to.value(value.default_factory, ".default_factory"), "v": to.mapping(value)}


@decodes("OrderedDict", "Counter", "mappingproxy", "SimpleNamespace", "defaultdict")
def _from_mapping(tree: dict[str, Tree], to: Decoder) -> object:
    inner = to.decoded(tree, "v", dict)
    match tree["$"]:
        case "OrderedDict":
            return OrderedDict(inner)
        case "Counter":
            made: Counter[Any] = Counter()
            dict.update(made, inner)
            return made
        case "mappingproxy":
            return types.MappingProxyType(inner)
        case "SimpleNamespace":
            return types.SimpleNamespace(**inner)
    factory = to.value(tree.get("factory"))
    return defaultdict(factory, inner)


@encodes(deque)
def _deque(value: deque[Any], to: Encoder) -> Tree:
    return {"$": "deque", "maxlen": value.maxlen, "v": to.items(list(value))}


@decodes("deque")
def _from_deque(tree: dict[str, Tree], to: Decoder) -> object:
    return deque((to.value(item) for item in to.part(tree, "v", list)), to.part(tree, "maxlen", int, type(None)))


@encodes(range, slice)
def _range(value: range | slice, to: Encoder) -> Tree:
    return {"$": type(value).__name__, "v": to.items([value.start, value.stop, value.step])}


@decodes("range", "slice")
def _from_range(tree: dict[str, Tree], to: Decoder) -> object:
    start, stop, step = to.decoded(tree, "v", list)
    return range(start, stop, step) if tree["$"] == "range" else slice(start, stop, step)


# Dates and times -------------------------------------------------------------------------------------------


@encodes(_T["datetime"], _T["time"])
def _moment(value: Any, to: Encoder) -> Tree:
    tree = {"$": "datetime" if isinstance(value, _datetime.date) else "time"}
    zone = value.tzinfo
    if zone is None or (type(zone) is _datetime.timezone and zone == _plain_zone(zone)):
        tree["v"] = value.isoformat()
    else:
        tree["v"] = value.replace(tzinfo=None).isoformat()
        tree["tz"] = to.value(zone, ".tzinfo")
    if value.fold:
        tree["fold"] = value.fold
    return tree


def _plain_zone(zone: _datetime.timezone) -> _datetime.timezone | None:
    """Return the zone that `fromisoformat` makes for this offset, or None where it would lose the zone's name."""
    plain = _datetime.timezone(zone.utcoffset(None))
    return plain if repr(plain) == repr(zone) else None


@encodes(_T["date"])
def _date(value: _datetime.date, _: Encoder) -> Tree:
    return {"$": "date", "v": value.isoformat()}


@decodes("datetime", "date", "time")
def _from_moment(tree: dict[str, Tree], to: Decoder) -> object:
    made: Any = _T[tree["$"]].fromisoformat(to.part(tree, "v", str))
    if "tz" in tree:
        made = made.replace(tzinfo=to.value(tree["tz"]))
    return made.replace(fold=to.part(tree, "fold", int)) if "fold" in tree else made


@encodes(_datetime.timedelta)
def _timedelta(value: _datetime.timedelta, _: Encoder) -> Tree:
    return {"$": "timedelta", "days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}


def _delta(tree: dict[str, Tree], to: Decoder) -> _datetime.timedelta:
    return _datetime.timedelta(*(to.part(tree, unit, int) for unit in ("days", "seconds", "microseconds")))


@decodes("timedelta")
def _from_timedelta(tree: dict[str, Tree], to: Decoder) -> object:
    return _delta(tree, to)


@encodes(_datetime.timezone)
def _timezone(value: _datetime.timezone, to: Encoder) -> Tree:
    tree: Tree = {**_timedelta(value.utcoffset(None), to), "$": "timezone"}
    if _plain_zone(value) is None:
        tree["name"] = to.value(value.tzname(None))
    return tree


@decodes("timezone")
def _from_timezone(tree: dict[str, Tree], to: Decoder) -> object:
    if "name" in tree:
        return _datetime.timezone(_delta(tree, to), to.decoded(tree, "name", str))
    return _datetime.timezone(_delta(tree, to))


@encodes(zoneinfo.ZoneInfo)
def _zone(value: zoneinfo.ZoneInfo, _: Encoder) -> Tree:
    if value.key is None:
        raise Lost("a time zone that was read from a file without a key cannot be kept")
    return {"$": "zoneinfo", "v": value.key}


@decodes("zoneinfo")
def _from_zone(tree: dict[str, Tree], to: Decoder) -> object:
    key = to.part(tree, "v", str)
    try:
        return zoneinfo.ZoneInfo(key)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise Unservable(f"the recorded time zone {key!a} is not known on this machine") from error


# Paths and patterns ----------------------------------------------------------------------------------------

_PATHS: dict[str, type[pathlib.PurePath]] = {
    cls.__name__: cls
    for cls in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
}


@encodes(*_PATHS.values())
def _path(value: pathlib.PurePath, to: Encoder) -> Tree:
    return {"$": "path", "t": type(value).__name__, "v": to.value(str(value))}


@decodes("path")
def _from_path(tree: dict[str, Tree], to: Decoder) -> object:
    flavour = to.part(tree, "t", str)
    if flavour == ("PosixPath" if sys.platform == "win32" else "WindowsPath"):
        raise Unservable(f"a {flavour} was recorded, and this system has none")
    return _PATHS[flavour](to.decoded(tree, "v", str))


@encodes(re.Pattern)
def _pattern(value: re.Pattern[Any], to: Encoder) -> Tree:
    return {"$": "pattern", "v": to.value(value.pattern), "flags": value.flags}


@decodes("pattern")
def _from_pattern(tree: dict[str, Tree], to: Decoder) -> object:
    pattern = to.decoded(tree, "v", str, bytes)
    return re.compile(pattern, to.part(tree, "flags", int))


# Classes and functions -------------------------------------------------------------------------------------


@encodes(types.FunctionType, types.BuiltinFunctionType)
def _function(value: Any, _: Encoder) -> Tree:
    owner = getattr(value, "__self__", None)
    if not isinstance(owner, types.ModuleType | None):
        raise Lost("a method that is bound to an object cannot be found again by name, so it is not kept")
    name = names.name_of_function(value)
    if "<lambda>" in name or "<locals>" in name:
        raise Lost("a lambda or a function inside a function cannot be found again by name, so it is not kept")
    if not names.may_be_value(name) or names.find(name) is not value:
        raise Lost(f"the function {name} is not kept: it cannot be found again by its name, or must not be")
    return {"$": "function", "t": name}


@decodes("function")
def _from_function(tree: dict[str, Tree], to: Decoder) -> object:
    name = to.part(tree, "t", str)
    found = names.find(name) if names.may_be_value(name) else None
    # Its own name must be the recorded one: `from os import system` puts os.system into any module.
    if not names.is_function(found) or names.name_of_function(found) != name:
        raise Unservable(f"the recorded function {ascii(name)[1:-1][:200]} is not there, or may not be served")
    return found
