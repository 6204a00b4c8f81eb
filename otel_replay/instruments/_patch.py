"""Replacing methods of client libraries, and putting them back.

A method is replaced on the class that defines it: clients made before and after, subclasses and copies are all
covered, whatever was imported first. What another tool has since wrapped is left where it is and becomes inert.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any


class Patches:
    """The replaced methods of one library. `missing` names those that this version of it does not have."""

    def __init__(self) -> None:
        self.on = True
        self.missing: list[str] = []
        self.done: list[str] = []
        self.only: weakref.WeakValueDictionary[int, Any] | None = None
        """The objects that are covered, by identity; None where all are."""
        self._kept: list[tuple[Any, str, Any, Any]] = []

    def covers(self, thing: Any) -> bool:
        """True where a call of `thing` is ours to record: the library is instrumented, or this object is wrapped."""
        return self.on and (self.only is None or self.only.get(id(thing)) is thing)

    def cover(self, thing: Any) -> None:
        """Cover `thing` too, where not all are covered anyway."""
        if self.only is not None:
            self.only[id(thing)] = thing

    def follow(self, owner: Any, name: str) -> None:
        """Cover also what the method `owner.name` of a covered object returns: a copy, a pool, an adapter."""
        if getattr(vars(owner).get(name), "__otel_replay__", False):
            return

        def make(original: Any) -> Any:
            def call(thing: Any, *args: Any, **kwargs: Any) -> Any:
                made = original(thing, *args, **kwargs)
                if self.only is not None and self.covers(thing):
                    self.cover(made)
                return made

            return call

        self.replace(owner, name, make, required=False)

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any], *, required: bool = True) -> None:
        """Put `make(original)` in the place of `owner.name`, which `owner` itself must define."""
        original = vars(owner).get(name)
        where = f"{getattr(owner, '__qualname__', getattr(owner, '__name__', owner))}.{name}"
        if original is None:
            if required:
                self.missing.append(where)
            return
        made = make(original)
        functools.update_wrapper(made, original)
        made.__otel_replay__ = True
        setattr(owner, name, made)
        self._kept.append((owner, name, original, made))
        self.done.append(where)

    def undo(self) -> None:
        """Put the originals back, and make inert what cannot be taken out any more."""
        self.on = False
        for owner, name, original, made in reversed(self._kept):
            if vars(owner).get(name) is made:
                setattr(owner, name, original)
        self._kept = []
