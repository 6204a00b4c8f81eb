"""Classes that the tests keep and rebuild, and a comparison that also sees types, NaN and the sign of zero."""

from __future__ import annotations

import dataclasses
import enum
import math
import struct
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timezone
from decimal import Decimal
from os import system as borrowed  # noqa: F401 - a name that must not lead to os.system
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import pydantic

T = TypeVar("T")
OPTIONAL = typing.Optional[int]  # noqa: UP045 - this spelling has a type of its own


class Colour(enum.Enum):
    RED = "red"
    DEEP = (1, 2)
    CRIMSON = "red"  # noqa: PIE796 - an alias is what is tested


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: object
    y: object = 0


class Named(Point):
    """A named tuple with a `__dict__`."""


@dataclasses.dataclass
class Row:
    id: object
    tags: object = dataclasses.field(default_factory=list)
    kind: ClassVar[str] = "row"
    seed: dataclasses.InitVar[object] = None

    def __post_init__(self, seed: object) -> None:
        self.seen = seed


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: object
    late: object = dataclasses.field(init=False, compare=False, repr=False)


@dataclasses.dataclass
class Loud:
    """A dataclass whose every own code refuses to run again."""

    value: object
    armed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if Loud.armed:
            raise AssertionError("__post_init__ ran again")

    def __setattr__(self, name: str, value: object) -> None:
        if Loud.armed:
            raise AssertionError("__setattr__ ran")
        object.__setattr__(self, name, value)


@attrs.define
class Slim:
    a: object
    b: object = attrs.field(default=None, validator=lambda *_: None)


@attrs.frozen(slots=False)
class Rigid:
    a: object


class Cfg(TypedDict):
    name: object


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)
    x: Any
    y: list[Any] = []
    _secret: Any = pydantic.PrivateAttr(default=None)


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class Text(str):
    pass


class Number(int):
    pass


class Real(float):
    pass


class Items(list):  # type: ignore[type-arg]
    def append(self, _: object) -> None:
        raise AssertionError("a method of the class ran")


class Table(dict):  # type: ignore[type-arg]
    def __setitem__(self, *_: object) -> None:
        raise AssertionError("a method of the class ran")


class Pair(tuple):  # type: ignore[type-arg]
    __slots__ = ()


class Group(set):  # type: ignore[type-arg]
    pass


class Tally(Counter):  # type: ignore[type-arg]
    pass


class Ordered(OrderedDict):  # type: ignore[type-arg]
    pass


class Default(defaultdict):  # type: ignore[type-arg]
    pass


class Queue(deque):  # type: ignore[type-arg]
    pass


class Moment(datetime):
    pass


class Day(date):
    pass


class Place(PurePosixPath):
    pass


class Raw(bytes):
    pass


class AppError(Exception):
    def __init__(self, code: object, *, detail: object) -> None:
        super().__init__(f"code {code!r}")
        self.code, self.detail = code, detail


def with_state(value: Any, **state: object) -> Any:
    vars(value).update(state)
    return value


def same(a: Any, b: Any) -> bool:
    """True where both are of one type and equal all through; NaN equals NaN, 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, type | type(OPTIONAL)):
        return bool(a == b)
    if isinstance(a, BaseException):  # no two are equal
        return same(a.args, b.args) and same(vars(a), vars(b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, pydantic.BaseModel):
        parts = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
        return all(same(getattr(a, part), getattr(b, part)) for part in parts)
    if isinstance(a, defaultdict) and a.default_factory is not b.default_factory:
        return False
    if isinstance(a, deque) and a.maxlen != b.maxlen:
        return False
    if hasattr(a, "__dict__") and not isinstance(a, type) and not same(dict(vars(a)), dict(vars(b))):
        return False
    return _same_content(a, b)


def _same_content(a: Any, b: Any) -> bool:
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, Slim | Frozen):
        return same(a.a, b.a) and same(getattr(a, "b", None), getattr(b, "b", None))
    if hasattr(a, "items"):
        return len(a) == len(b) and all(map(same, list(a.items()), list(b.items())))
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, datetime | time):
        zones = a.tzinfo, b.tzinfo
        alike = repr(zones[0]) == repr(zones[1]) if isinstance(zones[0], timezone) else zones[0] is zones[1]
        return alike and a.fold == b.fold and a.replace(tzinfo=None) == b.replace(tzinfo=None)
    if isinstance(a, Row | Loud | Rigid | SimpleNamespace):
        return True  # their `__dict__` was compared
    return repr(a) == repr(b) if isinstance(a, timezone | Decimal) else bool(a == b)
