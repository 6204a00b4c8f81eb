"""Replacing methods of client libraries, and putting them back.

A method is replaced on the class that defines it: clients made before and after, subclasses and copies are all
covered, whatever was imported first. What another tool has since wrapped is left where it is and becomes inert.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """The replaced methods of one library. `missing` names those that this version of it does not have."""

    def __init__(self) -> None:
        self.on = True
        self.missing: list[str] = []
        self.done: list[str] = []
        self._kept: list[tuple[Any, str, Any, Any]] = []

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
