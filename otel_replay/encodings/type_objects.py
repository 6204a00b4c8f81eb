"""Classes and type expressions that stand as values themselves: `int`, `list[str]`, `int | None`, a TypeVar."""

from __future__ import annotations

import enum
import functools
import operator
import types
import typing
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.classes import field_names, is_registered
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Lost, Tree, decodes, family
from otel_replay.errors import Unservable


@family(5)
def _pick_class(cls: type) -> EncodeFn | None:
    if issubclass(cls, type):
        return _class
    if cls in _UNIONS:
        return _union
    return _generic if cls is types.GenericAlias else _typevar if cls is typing.TypeVar else None


# Python before 3.14 spells a union in two types.
_UNIONS: tuple[Any, ...] = (types.UnionType, type(typing.Optional[int]))  # noqa: UP045 - the other spelling


def _is_value_class(cls: type) -> bool:
    """True for classes that may stand as values: kinds whose instances are kept, and all that is harmless by module."""
    if issubclass(cls, BaseException | enum.Enum) or field_names(cls) is not None or is_registered(cls):
        return True
    return names.may_be_value(f"{names.module_of(cls)}:{cls.__qualname__}")


def _class(value: type, _: Encoder) -> Tree:
    if not _is_value_class(value):
        raise Lost(f"the class {names.readable(value)} is not kept as a value")
    return {"$": "class", "t": names.name_of(value)}


@decodes("class")
def _from_class(tree: dict[str, Tree], _: Decoder) -> object:
    # Judged by what it is, not by the name that the record gives it: one class can have several.
    return names.resolve(tree.get("t"), _is_value_class, "class that may be served as a value")


def _union(value: Any, to: Encoder) -> Tree:
    tree = {"$": "union", "v": to.items(typing.get_args(value))}
    return tree if type(value) is types.UnionType else {**tree, "typing": True}


@decodes("union")
def _from_union(tree: dict[str, Tree], to: Decoder) -> object:
    args = to.decoded(tree, "v", list)
    return typing.Union[tuple(args)] if tree.get("typing") else functools.reduce(operator.or_, args)  # noqa: UP007


def _generic(value: Any, to: Encoder) -> Tree:
    return {"$": "generic", "t": to.value(value.__origin__), "v": to.items(value.__args__)}


@decodes("generic")
def _from_generic(tree: dict[str, Tree], to: Decoder) -> object:
    origin = to.value(tree.get("t"))
    if not isinstance(origin, type):
        raise Unservable("the recorded generic type is malformed: its origin is no class")
    return types.GenericAlias(origin, tuple(to.decoded(tree, "v", list)))


def _typevar(value: typing.TypeVar, _: Encoder) -> Tree:
    return {"$": "typevar", "t": f"{getattr(value, '__module__', '')}:{value.__name__}"}


@decodes("typevar")
def _from_typevar(tree: dict[str, Tree], to: Decoder) -> object:
    found = names.find(to.part(tree, "t", str))
    if not isinstance(found, typing.TypeVar):
        raise Unservable(f"the recorded type variable {ascii(tree['t'])[1:-1][:200]} is not there")
    return found
