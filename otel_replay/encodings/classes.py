"""Values of importable classes: registered ones, enums, named tuples, subclasses of built-ins, dataclasses, attrs.

Objects are rebuilt with the `__new__` of their built-in base and their recorded attributes. No `__init__`,
`__post_init__`, `__setattr__` or validator of the class runs: they ran once, when the value was made.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import pathlib
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Lost, Tree, decodes, family, forget_picks
from otel_replay.errors import Unservable, UsageError

_ABSENT = object()
_RESERVED = frozenset(("__class__", "__dict__", "__weakref__"))


# Attributes of an object -----------------------------------------------------------------------------------


def _slots(cls: type) -> dict[str, Any]:
    """Return the slots of the class and its bases: stored name -> descriptor."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            private = name.startswith("__") and not name.endswith("__")
            stored = f"_{base.__name__.lstrip('_')}{name}" if private else name
            if isinstance(vars(base).get(stored), types.MemberDescriptorType):
                found[stored] = vars(base)[stored]
    return found


def state_of(value: object) -> dict[str, object]:
    """Return the attributes that the object itself holds: its filled slots and its `__dict__`."""
    state: dict[str, object] = {}
    for name, slot in _slots(type(value)).items():
        try:
            state[name] = slot.__get__(value)
        except AttributeError:
            continue
    state.update(_dict_of(value) or {})
    # What `Box[int](...)` leaves behind; no comparison sees it.
    state.pop("__orig_class__", None)
    return state


def _dict_of(value: object) -> dict[str, object] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def set_state(value: object, state: dict[str, object]) -> None:
    """Put attributes where the object stores them: no `__setattr__` and no property of the class runs.

    Raises Unservable where the class has no such place.
    """
    slots, own = _slots(type(value)), _dict_of(value)
    for name, item in state.items():
        if name in slots:
            slots[name].__set__(value, item)
        elif own is None or type(name) is not str or name in _RESERVED:
            raise Unservable(f"{names.readable(type(value))} has no attribute {name!r} to restore")
        else:
            own[name] = item


def _state_part(value: object, to: Encoder) -> dict[str, Tree]:
    state = state_of(value)
    return {"state": to.state(state)} if state else {}


def _restore_state(value: object, tree: dict[str, Tree], to: Decoder) -> None:
    if "state" in tree:
        set_state(value, to.decoded(tree, "state", dict))


# The registry ----------------------------------------------------------------------------------------------

_registered: dict[type, tuple[str, Callable[[Any], object]]] = {}
_from_registered: dict[str, tuple[type, Callable[[object], Any]]] = {}


def register(
    cls: type, *, name: str | None = None, to_state: Callable[[Any], object], from_state: Callable[[Any], Any]
) -> None:
    """Keep values of exactly `cls` as the value that `to_state` returns; `from_state` makes the value again.

    `name` is what recordings call it (default: "module:Qualname"); recordings stay readable where the class moves.
    Raises UsageError where another class has the name.
    """
    name = name or names.name_of(cls)
    if _from_registered.get(name, (cls,))[0] is not cls:
        raise UsageError(f"{name!r} is already registered for {names.readable(_from_registered[name][0])}")
    _registered[cls] = (name, to_state)
    _from_registered[name] = (cls, from_state)
    forget_picks()


def is_registered(cls: type) -> bool:
    """True for a class that `register` was told of."""
    return cls in _registered


@family(0)
def _pick_registered(cls: type) -> EncodeFn | None:
    if cls not in _registered:
        return None
    name, to_state = _registered[cls]
    return lambda value, to: {"$": "registered", "t": name, "v": to.value(to.hold(to_state(value)))}


@decodes("registered")
def _from_register(tree: dict[str, Tree], to: Decoder) -> object:
    name = to.part(tree, "t", str)
    if name not in _from_registered:
        raise Unservable(f"nothing is registered here for the recorded {ascii(name)[1:-1]}; call register() first")
    cls, from_state = _from_registered[name]
    made = from_state(to.value(tree.get("v")))
    if type(made) is not cls:
        raise Unservable(f"from_state of {name} returned {names.readable(type(made))}, not {names.readable(cls)}")
    return made


# Enums -----------------------------------------------------------------------------------------------------


@family(10)
def _pick_enum(cls: type) -> EncodeFn | None:
    if issubclass(cls, enum.Flag):
        return _flag
    return _enum if issubclass(cls, enum.Enum) else None


def _enum(value: enum.Enum, to: Encoder) -> Tree:
    cls = type(value)
    if cls.__members__.get(value.name) is not value:
        raise Lost(f"it is not a member that {names.readable(cls)} defines")
    return {"$": "enum", "t": names.name_of(cls), "name": to.value(value.name), "v": to.value(value.value, ".value")}


def _flag(value: enum.Flag, to: Encoder) -> Tree:
    return {"$": "flag", "t": names.name_of(type(value)), "name": value.name, "v": to.value(value.value)}


@decodes("enum")
def _from_enum(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), lambda found: issubclass(found, enum.Enum), "enum")
    name = to.decoded(tree, "name", str)
    member = cls.__members__.get(name)
    if member is None:
        raise Unservable(f"{names.readable(cls)} has no member {name!r} any more")
    recorded = to.value(tree.get("v"))
    if type(recorded) in (str, int) and recorded != member._value_:
        raise Unservable(f"{names.readable(cls)}.{name} was {recorded!r} when recorded, and is {member._value_!r} now")
    return member


@decodes("flag")
def _from_flag(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), lambda found: issubclass(found, enum.Flag), "flag")
    bits = to.decoded(tree, "v", int)
    made = cls(bits)
    if type(made) is not cls or made.value != bits:
        raise Unservable(f"{names.readable(cls)} has no value {bits} any more")
    return made


# Named tuples and subclasses of built-ins ------------------------------------------------------------------


def _is_namedtuple(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)


@family(30)
def _pick_namedtuple(cls: type) -> EncodeFn | None:
    return _namedtuple if _is_namedtuple(cls) else None


def _namedtuple(value: Any, to: Encoder) -> Tree:
    items = dict(zip(type(value)._fields, tuple.__iter__(value), strict=True))
    return {"$": "namedtuple", "t": names.name_of(type(value)), "v": to.mapping(items), **_state_part(value, to)}


@decodes("namedtuple")
def _from_namedtuple(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), _is_namedtuple, "named tuple")
    items = to.decoded(tree, "v", dict)
    if tuple(items) != cls._fields:
        raise Unservable(f"{names.readable(cls)} had the fields {', '.join(items)} when recorded, and has others now")
    made = tuple.__new__(cls, tuple(items.values()))
    _restore_state(made, tree, to)
    return made


_BASES: tuple[Any, ...] = (
    *(Counter, OrderedDict, defaultdict, dict, list, deque, tuple, set, frozenset),
    *(str, int, float, complex, bytes, bytearray),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    *(decimal.Decimal, fractions.Fraction, uuid.UUID, types.SimpleNamespace),
    *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
)
_BASES_BY_NAME: dict[str, Any] = {base.__name__: base for base in _BASES}
# In tuples, not names: clock freezers replace every module attribute that is the real class.
_DAY = (datetime.date,)
_NEW_FROM_ARGS = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


def _base_of(cls: type) -> Any:
    return next((base for base in _BASES if issubclass(cls, base)), None)


@family(60)
def _pick_subclass(cls: type) -> EncodeFn | None:
    # bool, numpy's float64 and the like have types of their own and do not come here.
    base = _base_of(cls)
    return None if base is None or cls is base or cls is bool else _subclass


def _as_base(value: Any, base: Any) -> object:
    """Return the plain value of the base class inside a subclass instance, past what the subclass overrides."""
    if base in (OrderedDict, Counter, dict, defaultdict):
        plain = dict(zip(dict.keys(value), dict.values(value), strict=True))
        return defaultdict(value.default_factory, plain) if base is defaultdict else base(plain)
    if base is deque:
        return deque(deque.__iter__(value), value.maxlen)
    if base in (list, tuple, set, frozenset):
        return base(base.__iter__(value))
    if base is str:
        return str.__str__(value)
    if base in (int, float):
        return base.__pos__(value) if type(base.__pos__(value)) is base else base(value)
    if base in _NEW_FROM_ARGS:
        return _plain_moment(value, base)
    if base is types.SimpleNamespace:
        return types.SimpleNamespace(**vars(value))
    return base(value) if base is not uuid.UUID else uuid.UUID(int=value.int)


def _plain_moment(value: Any, base: Any) -> object:
    if base is datetime.timedelta:
        return base(value.days, value.seconds, value.microseconds)
    day = (value.year, value.month, value.day) if issubclass(base, datetime.date) else ()
    if base in _DAY:
        return base(*day)
    return base(*day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)


def _subclass(value: Any, to: Encoder) -> Tree:
    base = _base_of(type(value))
    plain = to.hold(_as_base(value, base))
    tree = {"$": "subclass", "t": names.name_of(type(value)), "of": base.__name__, "v": to.value(plain)}
    own = {} if base in _STATE_IS_VALUE else _state_part(value, to)
    return {**tree, **own}


_STATE_IS_VALUE = (types.SimpleNamespace, fractions.Fraction, uuid.UUID, *_BASES[-4:])


@decodes("subclass")
def _from_subclass(tree: dict[str, Tree], to: Decoder) -> object:
    of = to.part(tree, "of", str)
    base = _BASES_BY_NAME.get(of)
    if base is None:
        raise Unservable(f"the record holds a subclass of {ascii(of)[:60]}, which is no built-in that is kept")
    cls: Any = names.resolve(tree.get("t"), lambda cls: _base_of(cls) is base and not _is_enum(cls), f"kind of {of}")
    plain = to.decoded(tree, "v", base)
    made = _make_subclass(cls, base, plain)
    _restore_state(made, tree, to)
    return made


def _is_enum(cls: type) -> bool:
    return issubclass(cls, enum.Enum)


def _make_subclass(cls: Any, base: Any, plain: Any) -> object:
    """Make an instance with the constructor of the built-in base, never that of the class."""
    made: Any
    if base in (dict, OrderedDict, Counter, defaultdict):
        made = base.__new__(cls)
        if base is defaultdict:
            defaultdict.__init__(made, plain.default_factory)
        for key, item in plain.items():
            (OrderedDict if base is OrderedDict else dict).__setitem__(made, key, item)
        return made
    if base in (list, set, deque, bytearray):
        made = base.__new__(cls)
        base.__init__(made, plain, *((plain.maxlen,) if base is deque else ()))
        return made
    if base in _NEW_FROM_ARGS:
        return _make_moment(cls, base, plain)
    if base in _STATE_IS_VALUE:
        made = object.__new__(cls) if base is not types.SimpleNamespace else base.__new__(cls)
        set_state(made, state_of(plain) if base is not types.SimpleNamespace else vars(plain))
        return made
    return base.__new__(cls, plain)


def _make_moment(cls: Any, base: Any, plain: Any) -> object:
    if base is datetime.timedelta:
        return base.__new__(cls, plain.days, plain.seconds, plain.microseconds)
    day = (plain.year, plain.month, plain.day) if issubclass(base, datetime.date) else ()
    if base in _DAY:
        return base.__new__(cls, *day)
    clock = (plain.hour, plain.minute, plain.second, plain.microsecond, plain.tzinfo)
    return base.__new__(cls, *day, *clock, fold=plain.fold)


# Dataclasses and attrs -------------------------------------------------------------------------------------


def field_names(cls: type) -> list[str] | None:
    """Return the field names of a dataclass or attrs class, None for any other."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    attributes = getattr(cls, "__attrs_attrs__", None)
    return [attribute.name for attribute in attributes] if isinstance(attributes, tuple) else None


@family(70)
def _pick_record(cls: type) -> EncodeFn | None:
    if dataclasses.is_dataclass(cls):
        return _record
    return _record if field_names(cls) is not None else None


def _record(value: object, to: Encoder) -> Tree:
    cls = type(value)
    state = state_of(value)
    unset = [name for name in field_names(cls) or () if name not in state and not _has_default(cls, name)]
    tag = "dataclass" if dataclasses.is_dataclass(cls) else "attrs"
    tree = {"$": tag, "t": names.name_of(cls), "v": to.state(state)}
    return {**tree, "unset": unset} if unset else tree


def _has_default(cls: type, name: str) -> bool:
    """True where the class itself answers for an attribute that the object does not hold."""
    found = inspect.getattr_static(cls, name, _ABSENT)
    return found is not _ABSENT and not isinstance(found, types.MemberDescriptorType)


@decodes("dataclass", "attrs")
def _from_record(tree: dict[str, Tree], to: Decoder) -> object:
    cls = names.resolve(tree.get("t"), lambda found: field_names(found) is not None, tree["$"])
    state = to.decoded(tree, "v", dict)
    unset = to.decoded(tree, "unset", list) if "unset" in tree else []
    for name in field_names(cls) or ():
        if name not in state and name not in unset and not _has_default(cls, name):
            raise Unservable(f"{names.readable(cls)} has a field {name!r} now that the record does not hold")
    made: object = object.__new__(cls)
    set_state(made, state)
    return made
