"""Verbatim tapes of clock, random and uuid, on request: what the program's own code drew, by call site.

A value is bound to its site (module, function, text of the line, what was called), the crossing around it, and its
occurrence there; never to one sequence, so that one more draw elsewhere shifts nothing. The tape stands on the run,
as `pins["chance"]`: {"address|site": [value, ...]}, and is written when the run ends. A site that it lacks is live,
and named. Calls from the standard library and from installed packages are theirs, and stay as they are.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import random
import secrets
import sys
import sysconfig
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import orjson

from otel_replay import payload
from otel_replay import session as _session
from otel_replay.envelope import Payload
from otel_replay.limits import CHANCE_VALUES_MAX
from otel_replay.session import Session

_STDLIB = sysconfig.get_paths()["stdlib"]
_OWN = os.path.dirname(__file__)
_BY_INDEX = ("choice", "sample", "choices", "shuffle")
_PLACES: Sequence[tuple[Any, Sequence[str]]] = (
    (
        random,
        [
            "random",
            "uniform",
            "randint",
            "randrange",
            "gauss",
            "normalvariate",
            "expovariate",
            "triangular",
            "betavariate",
        ],
    ),
    (
        random,
        [
            "getrandbits",
            "randbytes",
            "lognormvariate",
            "vonmisesvariate",
            "gammavariate",
            "paretovariate",
            "weibullvariate",
        ],
    ),
    (random, _BY_INDEX),
    (secrets, ["token_hex", "token_bytes", "token_urlsafe", "randbelow", "randbits"]),
    (uuid, ["uuid1", "uuid4"]),
    (os, ("urandom",)),
)
_NUMPY = ["random", "rand", "randn", "randint", "normal", "uniform", "standard_normal"]
_chances: Mapping[Session, Chance] = {}
_patched: list[tuple[Any, str, Any, Any]] = []
_lock = threading.Lock()


class Chance:
    """The tape of one session: written while recording (`tape` None), read in a replay."""

    def __init__(self, tape: Mapping[str, Any] | None = None) -> None:
        self.tape = tape
        self.drawn: dict[str, list[Any]] = {}
        self.live: dict[str, None] = {}
        self._counts: dict[str, itertools.count[int]] = {}
        self._total = itertools.count(1)

    def start(self, session: Session) -> None:
        global _chances
        with _lock:
            _chances = {**_chances, session: self}
            if len(_chances) == 1:
                _install()

    @staticmethod
    def stop(session: Session) -> None:
        global _chances
        with _lock:
            if session in _chances:
                _chances = {one: chance for one, chance in _chances.items() if one is not session}
                if not _chances:
                    _uninstall()

    def passed(self, where: str, site: str, value: object) -> object:
        """Keep `value`, or return the one that was recorded in its place."""
        key = f"{where}|{site}"
        if self.tape is None:
            if next(self._total) <= CHANCE_VALUES_MAX:
                kept = payload.encode(value)
                self.drawn.setdefault(key, []).append([kept.encoding, orjson.Fragment(kept.text)])
            return value
        at = next(self._counts.setdefault(key, itertools.count()))
        recorded = self.tape.get(key, ())
        if at >= len(recorded):
            self.live.setdefault(site)
            return value
        encoding, tree = recorded[at]
        return payload.decode(Payload(encoding, orjson.dumps(tree).decode()))

    def taped(self) -> dict[str, Any]:
        """Return the tape as JSON."""
        found: dict[str, Any] = orjson.loads(orjson.dumps(self.drawn))
        return found


def _is_project(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    if "site-packages" in path or path.startswith(("<frozen", _STDLIB)):
        return False
    return not path.startswith(_OWN + os.sep)


def _site(frame: FrameType, called: str) -> str:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip() or str(frame.f_lineno)
    module = frame.f_globals.get("__name__", "")
    return f"{module}:{getattr(code, 'co_qualname', code.co_name)}:{called}:{line}"


def _drawn(frame: FrameType, called: str, value: object) -> object:
    scope = _session.peek_scope()
    chance = _chances.get(scope.session) if scope is not None else None
    if chance is None or scope is None or scope.session.closed or not _is_project(frame):
        return value
    crossing = scope.crossing
    return chance.passed(crossing.address if crossing is not None else "", _site(frame, called), value)


def _wrapped(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def draw(*args: Any, **kwargs: Any) -> Any:
        return _drawn(sys._getframe(1), called, original(*args, **kwargs))

    return draw


def _wrapped_by_index(original: Callable[..., Any], called: str) -> Callable[..., Any]:
    """Keep which were taken, not what they are: the program gets its own objects, with the same numbers drawn."""

    @functools.wraps(original)
    def draw(population: Any, *args: Any, **kwargs: Any) -> Any:
        if called == "random.shuffle":
            order = list(range(len(population)))
            original(order)
            order = list(_drawn(sys._getframe(1), called, order))  # type: ignore[call-overload]
            if len(order) == len(population):
                population[:] = [population[at] for at in order]
            return None
        if not isinstance(population, Sequence) or not len(population):
            return original(population, *args, **kwargs)
        found: Any = _drawn(sys._getframe(1), called, original(range(len(population)), *args, **kwargs))
        return population[found] if isinstance(found, int) else [population[at] for at in found]

    return draw


def _install() -> None:
    places = list(_PLACES)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        places.append((numpy, _NUMPY))
    for owner, names in places:
        for name in names:
            original = getattr(owner, name)
            wrap = _wrapped_by_index if owner is random and name in _BY_INDEX else _wrapped
            _put(owner, name, original, wrap(original, f"{owner.__name__}.{name}"))
    made = {id(original): new for _owner, _name, original, new in _patched}
    for module in list(sys.modules.values()):  # `from random import random` in the program's own modules
        path = getattr(module, "__file__", None) or ""
        if not path or "site-packages" in path or path.startswith((_STDLIB, _OWN + os.sep)):
            continue
        for name, value in list(vars(module).items()):
            if callable(value) and id(value) in made:
                _put(module, name, value, made[id(value)])


def _put(owner: Any, name: str, original: Any, new: Any) -> None:
    _patched.append((owner, name, original, new))
    setattr(owner, name, new)


def _uninstall() -> None:
    for owner, name, original, new in reversed(_patched):
        if vars(owner).get(name) is new:
            setattr(owner, name, original)
    _patched.clear()
