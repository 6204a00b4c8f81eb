"""Functions of the standard library that run ours while a tape is in force, whoever holds them and by what name.

A function that is written in Python keeps its identity and gets other code, so that a `default_factory=uuid4` made
long before is ours too. One that is written in C is replaced by name: in its module and in the program's own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias

from otel_replay.sites import is_project

Make: TypeAlias = Callable[[Callable[..., Any], str], Callable[..., Any]]
"""Makes what is to run of (the original, what it is called)."""
_HOOK = "otel_replay: what runs in its place"


def _standing_in(*args: Any, **kwargs: Any) -> Any:
    hook: Any = "otel_replay: what runs in its place"
    return hook(*args, **kwargs)


class Swaps:
    """What has been swapped, and back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._made: dict[int, Any] = {}

    def undo_all(self) -> None:
        """Put everything back that nobody has changed meanwhile."""
        while self._undo:
            self._undo.pop()()
        self._made.clear()

    def on_undo(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def python(self, function: FunctionType, make: Make, called: str) -> None:
        """Let `function` run what `make` makes."""
        before = function.__code__
        signature = inspect.signature(function)
        original = FunctionType(
            before, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        ours = function.__code__ = _code(make(original, called), before.co_name)
        function.__signature__ = signature  # type: ignore[attr-defined]

        def undo() -> None:
            if function.__code__ is ours:
                function.__code__ = before
            vars(function).pop("__signature__", None)

        self._undo.append(undo)

    def c(self, owner: Any, name: str, make: Make, called: str) -> None:
        """Put what `make` makes at `owner.name`."""
        original = getattr(owner, name)
        new = FunctionType(_code(make(original, called), name), {}, name)
        new.__module__, new.__qualname__, new.__doc__ = called.rpartition(".")[0], name, original.__doc__
        new.__wrapped__ = original  # type: ignore[attr-defined]
        self._made[id(original)] = new
        self.put(owner, name, new)

    def in_program(self) -> None:
        """Put what stands for C functions also where the program's modules have imported them by name."""
        for module in list(sys.modules.values()):
            if is_project(getattr(module, "__file__", None) or "<frozen"):
                for name, value in list(vars(module).items()):
                    if callable(value) and id(value) in self._made:
                        self.put(module, name, self._made[id(value)])

    def put(self, owner: Any, name: str, new: Any) -> None:
        """Set an attribute of a module or class."""
        had = name in vars(owner)
        before = getattr(owner, name)
        setattr(owner, name, new)

        def undo() -> None:
            if vars(owner).get(name) is new:
                if had:
                    setattr(owner, name, before)
                else:
                    delattr(owner, name)

        self._undo.append(undo)


def _code(hook: Callable[..., Any], name: str) -> Any:
    template = _standing_in.__code__
    return template.replace(
        co_consts=tuple(hook if const == _HOOK else const for const in template.co_consts), co_name=name
    )
