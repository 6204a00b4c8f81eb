"""What the program's own code draws at random passes the tape of its run, where there is one (tapes.py).

Covered: `random`, `random.Random` and `SystemRandom` objects, `secrets`, `uuid`, `os.urandom`, and numpy
(numpy_chance.py). Each draw is made as ever, so that generators stand where they would stand without us; in a replay
what was recorded is then given in its place.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from otel_replay import clock, numpy_chance, tapes
from otel_replay.session import Session
from otel_replay.sites import site_of
from otel_replay.swaps import Swaps
from otel_replay.tapes import Fits, Tape

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
_C: Sequence[tuple[Any, str, str]] = (
    (random, "random", "getrandbits random"),
    (random.Random, "random", "getrandbits random"),
    (os, "os", "urandom"),
)

_users = 0
_swaps = Swaps()
_lock = threading.Lock()


def start(session: Session, tape: Tape) -> None:
    """Have what code of `session` draws, and the times that it reads, pass `tape`."""
    global _users
    tapes.start(session, tape)
    if "clock" in tape.kinds and not clock.start_tape(session):
        tape.remarks.append("clock: the program itself had frozen its clock: there is no tape of it")
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
    clock.stop_tape(session)
    if "chance" in tape.kinds:
        with _lock:
            _users -= 1
            if not _users:
                _swaps.undo_all()


def passed(called: str, value: Any, fits: Fits | None = None, depth: int = 2) -> Any:
    """Return what the caller's caller (`depth` frames up) is given for the `value` that it drew."""
    tape = tapes.tape_here("chance")
    if tape is None:
        return value
    site = site_of(sys._getframe(depth + 1), called, (called.rpartition(".")[2],))
    return value if site is None else tape.passed("chance", site, value, fits)


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

    def draw(*args: Any, **kwargs: Any) -> Any:
        seq, more, others = _population(args, kwargs, "seq")
        if not _is_indexed(seq) or more or others:
            return original(*args, **kwargs)
        length = len(seq)
        at = passed(called, original(args[0], range(length)), lambda at: type(at) is int and 0 <= at < length)
        return seq[at]

    return draw


def _several(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        population, more, others = _population(args, kwargs, "population")
        if not _is_indexed(population) or (called == "random.sample" and not isinstance(population, Sequence)):
            return original(*args, **kwargs)
        length = len(population)
        drawn = original(args[0], range(length), *more, **others)
        given = passed(called, drawn, lambda some: _are_indices(some, length) and len(some) == len(drawn))
        return [population[at] for at in given]

    return draw


def _shuffle(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> None:
        x, more, others = _population(args, kwargs, "x")
        if not _is_indexed(x) or not hasattr(type(x), "__setitem__") or more or others:
            original(*args, **kwargs)
            return
        order = list(range(len(x)))
        original(args[0], order)
        order = passed(called, order, lambda some: _are_indices(some, len(x)) and sorted(some) == list(range(len(x))))
        place = list(range(len(x)))  # the same exchanges as random.shuffle makes, so any sequence comes out the same
        where = list(range(len(x)))
        for i in reversed(range(1, len(x))):
            j = where[order[i]]
            x[i], x[j] = x[j], x[i]
            place[i], place[j] = place[j], place[i]
            where[place[i]], where[place[j]] = i, j

    return draw


def _population(args: Any, kwargs: Mapping[str, Any], name: str) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return what is drawn from, and the arguments beside it; None where the call itself is going to complain."""
    if len(args) > 1:
        return args[1], args[2:], kwargs
    if args and name in kwargs:
        return kwargs[name], (), {key: value for key, value in kwargs.items() if key != name}
    return None, (), kwargs


def _is_indexed(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not hasattr(kind, "keys") and len(value) > 0


def _are_indices(some: Any, length: int) -> bool:
    return type(some) is list and all(type(at) is int and 0 <= at < length for at in some)


# Putting it there --------------------------------------------------------------------------------------------
def _install() -> None:
    for owner, label, names in _PYTHON:
        for name in names.split():
            function = vars(owner).get(name)
            if isinstance(function, FunctionType):
                _swaps.python(function, _uuid if owner is uuid else _number, f"{label}.{name}")
    for name, make in (("choice", _choice), ("choices", _several), ("sample", _several), ("shuffle", _shuffle)):
        _swaps.python(vars(random.Random)[name], make, f"random.{name}")
    for owner, label, names in _C:
        for name in names.split():
            _swaps.c(owner, name, _number, f"{label}.{name}")
    _swaps.in_program()
    numpy_chance.install(passed, _swaps)
