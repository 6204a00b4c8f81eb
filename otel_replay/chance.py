"""What the program's own code draws at random passes the tape of its run, where there is one (tapes.py).

Covered: `random`, `random.Random` and `SystemRandom` objects, `secrets`, `uuid`, `os.urandom`, and numpy
(numpy_chance.py), however the program got hold of the function. A function that is written in Python keeps its
identity: while a tape is in force it has other code. Each draw is made as ever, so that generators stand where they
would stand without us; in a replay what was recorded is then given in its place.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import types
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from otel_replay import numpy_chance, tapes
from otel_replay.session import Session
from otel_replay.sites import is_project, site_of
from otel_replay.tapes import Tape

Fits = Callable[[Any], bool]
_HOOK = "otel_replay: what runs in its place"
_NUMBERS = (
    "betavariate binomialvariate expovariate gammavariate gauss lognormvariate normalvariate paretovariate randbytes "
    "randint randrange triangular uniform vonmisesvariate weibullvariate"
)
_PYTHON: Sequence[tuple[Any, str, str]] = (
    (random.Random, "random", _NUMBERS),
    (random.SystemRandom, "random", "getrandbits randbytes random"),
    (secrets, "secrets", "randbelow token_bytes token_hex token_urlsafe"),
    (uuid, "uuid", "uuid1 uuid4 uuid6 uuid7 uuid8"),
)
_C: Sequence[tuple[Any, str, str]] = ((random, "random", "getrandbits random"), (os, "os", "urandom"))
"""Written in C: what the program holds of them is replaced by name."""

_users = 0
_undo: list[Callable[[], None]] = []
_lock = threading.Lock()


def start(session: Session, tape: Tape) -> None:
    """Have what code of `session` draws pass `tape`."""
    global _users
    tapes.start(session, tape)
    if "chance" in tape.kinds:
        with _lock:
            earlier = numpy_chance.made_before()
            if earlier:
                tape.remarks.append(f"chance: {earlier} numpy generators were made before: their numbers are live")
            _users += 1
            if _users == 1:
                _install()


def stop(session: Session, tape: Tape) -> None:
    global _users
    tapes.stop(session)
    if "chance" in tape.kinds:
        with _lock:
            _users -= 1
            if not _users:
                while _undo:
                    _undo.pop()()


def passed(called: str, value: Any, fits: Fits | None = None, depth: int = 2) -> Any:
    """Return what the caller's caller (`depth` frames up) is given for the `value` that it drew."""
    here = tapes.tape_here("chance")
    if here is None:
        return value
    site = site_of(sys._getframe(depth + 1), called)
    if site is None:
        return value
    tape, scope = here
    return tape.passed("chance", scope, site, value, fits)


# What runs in place of a function ----------------------------------------------------------------------------
def _number(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        return passed(called, original(*args, **kwargs))

    return draw


def _uuid(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        given = passed(called, made)
        # Whether the clock was read safely is no part of the number, nor of the tape.
        return made if given is made else uuid.UUID(int=given.int, is_safe=made.is_safe)

    return draw


def _choice(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    """Which one was taken is kept, not what it is: the program gets its own object."""

    def draw(self: Any, seq: Any) -> Any:
        if not _is_indexed(seq):
            return original(self, seq)
        length = len(seq)
        at = passed(called, original(self, range(length)), lambda at: type(at) is int and 0 <= at < length)
        return seq[at]

    return draw


def _several(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(self: Any, population: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_indexed(population) or (called == "random.sample" and not isinstance(population, Sequence)):
            return original(self, population, *args, **kwargs)
        length = len(population)
        drawn = original(self, range(length), *args, **kwargs)
        given = passed(called, drawn, lambda some: _are_indices(some, length) and len(some) == len(drawn))
        return [population[at] for at in given]

    return draw


def _shuffle(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(self: Any, x: Any) -> None:
        if not _is_indexed(x) or not hasattr(type(x), "__setitem__"):
            original(self, x)
            return
        order = list(range(len(x)))
        original(self, order)
        order = passed(called, order, lambda some: _are_indices(some, len(x)) and sorted(some) == list(range(len(x))))
        place = list(range(len(x)))  # the same exchanges as random.shuffle makes, so any sequence comes out the same
        where = list(range(len(x)))
        for i in reversed(range(1, len(x))):
            j = where[order[i]]
            x[i], x[j] = x[j], x[i]
            place[i], place[j] = place[j], place[i]
            where[place[i]], where[place[j]] = i, j

    return draw


def _is_indexed(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not hasattr(kind, "keys") and len(value) > 0


def _are_indices(some: Any, length: int) -> bool:
    return type(some) is list and all(type(at) is int and 0 <= at < length for at in some)


# Putting it there --------------------------------------------------------------------------------------------
def _standing_in(*args: Any, **kwargs: Any) -> Any:
    hook: Any = "otel_replay: what runs in its place"
    return hook(*args, **kwargs)


def _swap_code(function: types.FunctionType, make: Callable[[Callable[..., Any], str], Any], called: str) -> None:
    """Let `function` run what `make` makes, whoever holds it."""
    before = function.__code__
    original = types.FunctionType(
        before, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    hook = make(original, called)
    template = _standing_in.__code__
    ours = template.replace(
        co_consts=tuple(hook if const == _HOOK else const for const in template.co_consts),
        co_name=before.co_name,
    )
    function.__code__ = ours

    def undo() -> None:
        if function.__code__ is ours:
            function.__code__ = before

    _undo.append(undo)


def put(owner: Any, name: str, new: Any) -> None:
    """Set an attribute until no tape is in force any more."""
    had = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, new)

    def undo() -> None:
        if vars(owner).get(name) is new:
            if had:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

    _undo.append(undo)


def _c_function(owner: Any, label: str, name: str) -> tuple[Any, Callable[..., Any]]:
    original = getattr(owner, name)
    new = types.FunctionType(_standing_in.__code__, {}, name)
    new.__module__, new.__qualname__, new.__doc__ = label, name, original.__doc__
    new.__wrapped__ = original  # type: ignore[attr-defined]
    _swap_into(new, _number(original, f"{label}.{name}"))
    return original, new


def _swap_into(new: types.FunctionType, hook: Callable[..., Any]) -> None:
    template = new.__code__
    new.__code__ = template.replace(co_consts=tuple(hook if c == _HOOK else c for c in template.co_consts))


def _install() -> None:
    for owner, label, names in _PYTHON:
        make = _uuid if owner is uuid else _number
        for name in names.split():
            function = vars(owner).get(name)
            if isinstance(function, types.FunctionType):
                _swap_code(function, make, f"{label}.{name}")
    for name, wrap in (("choice", _choice), ("choices", _several), ("sample", _several), ("shuffle", _shuffle)):
        _swap_code(vars(random.Random)[name], wrap, f"random.{name}")
    made: dict[int, Any] = {}
    for owner, label, names in _C:
        for name in names.split():
            original, new = _c_function(owner, label, name)
            made[id(original)] = new
            put(owner, name, new)
    for name in ("random", "getrandbits"):  # of Random objects; the type itself is written in C
        _original, new = _c_function(random.Random, "random", name)
        put(random.Random, name, new)
    for module in list(sys.modules.values()):  # `from random import random` in the program's own modules
        if is_project(getattr(module, "__file__", None) or "<frozen"):
            for name, value in list(vars(module).items()):
                if callable(value) and id(value) in made:
                    put(module, name, made[id(value)])
    numpy_chance.install(passed, put, _undo)
