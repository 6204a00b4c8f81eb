"""numpy's generators pass the tape as `random` does: the legacy functions, `default_rng()` and whatever it makes.

Its generators are of C types that cannot be changed. So while a tape is in force `numpy.random.Generator` and
`RandomState` are subclasses under the same names; `isinstance` holds both ways. A generator that was made before is
not seen: its number is noted. numpy is never imported here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

from otel_replay.imports import WhenImported
from otel_replay.swaps import Swaps

_NOT_DRAWN = ("bit_generator", "get_state", "seed", "set_state", "spawn")
_IN_PLACE = ("shuffle",)


def install(passed: Callable[..., Any], swaps: Swaps) -> None:
    """Have numpy's draws pass: now where the program has imported numpy, else as soon as it does."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and hasattr(numpy, "default_rng"):
        _install(numpy, passed, swaps.put)
        return
    later = WhenImported("numpy.random", lambda: _install(sys.modules["numpy.random"], passed, swaps.put))
    swaps.on_undo(later.forget)


def made_before() -> int:
    """Return how many generators the program holds whose numbers are not kept."""
    numpy = sys.modules.get("numpy.random")
    kind = getattr(numpy, "Generator", None)
    plain = getattr(kind, "__otel_replay__", kind)
    return sum(type(one) is plain for one in gc.get_objects()) if plain is not None else 0


def _install(numpy: Any, passed: Callable[..., Any], put: Callable[[Any, str, Any], None]) -> None:
    generator, state = numpy.Generator, numpy.RandomState
    if hasattr(generator, "__otel_replay__"):
        return
    shared = numpy.mtrand._rand
    default_rng = numpy.default_rng
    for name in dir(numpy):
        function = getattr(numpy, name)
        if getattr(function, "__self__", None) is shared and name not in _NOT_DRAWN:
            put(numpy, name, _draw(function, f"numpy.random.{name}", passed, bound=True))
    ours = _subclass(generator, passed)
    put(numpy, "Generator", ours)
    put(numpy, "RandomState", _subclass(state, passed))

    def taped_default_rng(seed: Any = None) -> Any:
        made = default_rng(seed)
        return made if made is seed else ours(made.bit_generator)

    taped_default_rng.__wrapped__ = default_rng  # type: ignore[attr-defined]
    taped_default_rng.__name__ = taped_default_rng.__qualname__ = "default_rng"
    taped_default_rng.__doc__ = default_rng.__doc__
    put(numpy, "default_rng", taped_default_rng)


def _subclass(plain: Any, passed: Callable[..., Any]) -> Any:
    """Return a class that looks like `plain` and whose draws pass."""

    class Alike(type(plain)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, plain) if cls is made else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, plain) if cls is made else type.__subclasscheck__(cls, kind)

    members: dict[str, Any] = {"__module__": plain.__module__, "__doc__": plain.__doc__, "__otel_replay__": plain}
    for name in dir(plain):
        function = getattr(plain, name)
        if not name.startswith("_") and name not in _NOT_DRAWN and callable(function):
            members[name] = _draw(function, f"numpy.random.{name}", passed, bound=False)
    made = Alike(plain.__name__, (plain,), members)
    return made


def _draw(original: Any, called: str, passed: Callable[..., Any], *, bound: bool) -> Any:
    in_place = called.rpartition(".")[2] in _IN_PLACE

    def draw(*args: Any, **kwargs: Any) -> Any:
        if in_place:
            _shuffled(original, called, passed, args if bound else args[1:], args, kwargs)
            return None
        drawn = original(*args, **kwargs)
        given = passed(called, drawn, lambda value: _alike(value, drawn), depth=1)
        out = kwargs.get("out")
        if given is drawn or out is None:
            return given
        out[...] = given
        return out

    draw.__name__ = called.rpartition(".")[2]
    draw.__doc__ = getattr(original, "__doc__", None)
    return draw


def _alike(value: Any, drawn: Any) -> bool:
    """True where a recorded value can stand for one of now: the same type, shape and kind of numbers."""
    if type(value) is not type(drawn):
        return False
    facts = ("shape", "dtype")
    return all(getattr(value, fact, None) == getattr(drawn, fact, None) for fact in facts)


def _shuffled(
    original: Any, called: str, passed: Callable[..., Any], given: Sequence[Any], args: Sequence[Any], kwargs: Any
) -> None:
    """Shuffle in place; of a list the order is kept, of an array what came out."""
    x = given[0] if given else kwargs.get("x")
    ndarray = sys.modules["numpy"].ndarray
    if isinstance(x, ndarray):
        original(*args, **kwargs)
        kept = passed(called, x.copy(), lambda value: _alike(value, x), depth=2)
        x[...] = kept
    elif type(x) is list:
        before = list(x)
        order = list(range(len(x)))
        marks = [_Mark(at) for at in order]
        x[:] = marks
        try:
            original(*args, **kwargs)
        finally:
            order = [mark.at for mark in x]
            x[:] = [before[at] for at in order]
        taken = passed(called, order, lambda some: type(some) is list and sorted(some) == sorted(order), depth=2)
        x[:] = [before[at] for at in taken]
    else:
        original(*args, **kwargs)


class _Mark:
    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at
