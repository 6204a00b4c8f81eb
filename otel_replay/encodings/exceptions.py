"""Exceptions: class, arguments, attributes, built-in members, notes, cause, context and group.

Rebuilt with the constructor of the built-in base and the recorded state; the class's own `__init__` (which in
client libraries asks for a response and a body) never runs. Tracebacks and `AttributeError.obj` are not kept.

An explicit cause must come back, or the exception is not served. An implicit context is a diagnostic like the
traceback: where it cannot be kept or rebuilt it is left out.
"""

from __future__ import annotations

from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.classes import set_state, state_of
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Lost, Tree, decodes, family
from otel_replay.errors import Unservable
from otel_replay.limits import EXCEPTION_CHAIN_MAX

_UNICODE = ("encoding", "object", "start", "end", "reason")
_SYNTAX = ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset", "print_file_and_line")
_MEMBERS: dict[type[BaseException], tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    BlockingIOError: ("characters_written",),
    StopIteration: ("value",),
    SystemExit: ("code",),
    ImportError: ("msg", "name", "path", "name_from"),
    AttributeError: ("name",),
    NameError: ("name",),
    SyntaxError: _SYNTAX,
    UnicodeEncodeError: _UNICODE,
    UnicodeDecodeError: _UNICODE,
    UnicodeTranslateError: _UNICODE[1:],
}
"""What the built-in classes keep outside of `args` and `__dict__`. Source: the C structs in CPython's pyerrors.h."""


def _member_names(cls: type) -> list[str]:
    return [name for base in cls.__mro__ for name in _MEMBERS.get(base, ())]


def _builtin_base(cls: type) -> Any:
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


@family(20)
def _pick_exception(cls: type) -> EncodeFn | None:
    if not issubclass(cls, BaseException):
        return None
    try:
        _make(cls, ("", [ValueError()]) if issubclass(cls, BaseExceptionGroup) else ())
    except TypeError:
        return _built_in_c
    return _exception


def _built_in_c(value: BaseException, _: Encoder) -> Tree:
    raise Lost(f"{names.readable(type(value))} is built in C and cannot be rebuilt; register() it to keep it")


def _exception(value: BaseException, to: Encoder) -> Tree:
    cls = type(value)
    tree: dict[str, Tree] = {"$": "exception", "t": names.name_of(cls), "args": to.value(_args(value), ".args")}
    members = {name: _member(value, name) for name in _member_names(cls)}
    members = {name: item for name, item in members.items() if item is not None}
    if members:
        tree["members"] = to.mapping(members)
    state = state_of(value)
    if state:
        tree["state"] = to.state(state)
    chain(value, tree, to)
    return tree


def _args(value: BaseException) -> tuple[Any, ...]:
    if isinstance(value, BaseExceptionGroup):
        # What the group was made of may have been a list that changed since; its members are what counts.
        return (value.message, list(value.exceptions))
    return value.args


def _member(value: BaseException, name: str) -> object:
    try:
        return getattr(_builtin_base(type(value)), name).__get__(value)
    except (AttributeError, TypeError):
        return None


def chain(value: BaseException, tree: dict[str, Tree], to: Encoder) -> None:
    """Add cause, context and suppression to the tree of an exception."""
    cause, context = value.__cause__, value.__context__
    if value.__suppress_context__ != (cause is not None):
        tree["suppress_context"] = value.__suppress_context__
    if cause is not None:
        tree["cause"] = _link(cause, ".__cause__", to)
    if context is cause:
        if cause is not None:
            tree["context"] = "cause"
        return
    if context is not None:
        before = to.reason
        tree["context"] = _link(context, ".__context__", to)
        to.reason = before


def _link(value: BaseException, step: str, to: Encoder) -> Tree:
    to.chain += 1
    try:
        if to.chain >= EXCEPTION_CHAIN_MAX:
            return to.lost(value, f"the chain of exceptions is longer than {EXCEPTION_CHAIN_MAX}")
        return to.value(value, step)
    finally:
        to.chain -= 1


@decodes("exception")
def _from_exception(tree: dict[str, Tree], to: Decoder) -> object:
    args = to.decoded(tree, "args", tuple)
    cls = _class(tree, args)
    made = _make(cls, args)
    for name, item in (to.decoded(tree, "members", dict) if "members" in tree else {}).items():
        if name not in _member_names(cls):
            raise Unservable(f"{names.readable(cls)} has no member {name!r}")
        if hasattr(_builtin_base(cls), name):  # a newer Python may have recorded one that this one lacks
            getattr(_builtin_base(cls), name).__set__(made, item)
    if "state" in tree:
        set_state(made, to.decoded(tree, "state", dict))
    restore_chain(made, tree, to)
    return made


def _class(tree: dict[str, Tree], args: tuple[Any, ...]) -> Any:
    try:
        return names.resolve(tree.get("t"), lambda found: issubclass(found, BaseException), "exception")
    except Unservable as error:
        shown = ", ".join(ascii(arg)[:100] for arg in args)
        raise Unservable(f"{error} (it was raised with: {shown or 'no arguments'})") from error


def _make(cls: Any, args: tuple[Any, ...]) -> BaseException:
    if issubclass(cls, BaseExceptionGroup):
        group: BaseException = BaseExceptionGroup.__new__(cls, *args)
        return group
    made: BaseException = _builtin_base(cls).__new__(cls)
    made.args = args
    return made


def restore_chain(made: BaseException, tree: dict[str, Tree], to: Decoder) -> None:
    """The inverse of `chain`."""
    cause = _exception_or_none(tree, "cause", to)
    if cause is not None:
        made.__cause__ = cause
    if tree.get("context") == "cause":
        made.__context__ = cause
    else:
        try:
            made.__context__ = _exception_or_none(tree, "context", to)
        except Unservable:
            made.__context__ = None
    made.__suppress_context__ = bool(tree.get("suppress_context", cause is not None))


def _exception_or_none(tree: dict[str, Tree], key: str, to: Decoder) -> BaseException | None:
    if key not in tree:
        return None
    found = to.value(tree[key])
    if not isinstance(found, BaseException):
        raise Unservable(f"the recorded {key} of an exception is no exception")
    return found
