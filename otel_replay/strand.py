"""One line of control of a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_replay.crossing import Crossing


class Strand:
    """One line of control of a run. `tainted`: a live crossing in it, or joined into it, came out differently."""

    __slots__ = (
        "_births",
        "adrift",
        "alive_at_birth",
        "begun_in",
        "children",
        "matching",
        "number",
        "parent",
        "place",
        "tainted",
        "until",
    )

    def __init__(self, number: int, begun_in: Strand | None, parent: Crossing | None) -> None:
        self.number = number
        self.begun_in = begun_in
        self.parent = parent
        self._births: dict[int, Iterator[int]] = {}
        self.place: str = begun_in.place_of_next(parent) if begun_in is not None else ""
        """Where it was begun within its parent crossing: `.2` is the second strand begun there, `.2.1` one in that."""
        self.tainted: bool = begun_in is not None and begun_in.tainted
        self.children: list[Strand] = []
        self.until: Callable[[], bool] | None = None
        self.alive_at_birth: tuple[Strand, ...] = ()  # its elders that still ran when it was begun, where known
        self.matching: object = None
        self.adrift: bool = False  # its context was lost, and it was attached because only one run was active
        if begun_in is not None:
            begun_in.children.append(self)

    def place_of_next(self, parent: Crossing | None) -> str:
        """Return the place of the strand that this one begins now, in the crossing `parent`."""
        number = next(self._births.setdefault(parent.seq if parent is not None else 0, itertools.count(1)))
        return f"{self.place if parent is self.parent else ''}.{number}"

    def done(self) -> bool:
        """True once its task, job or thread has ended."""
        return self.until is not None and self.until()

    def join(self) -> None:
        """Take over what strands begun in this one and ended by now bring with them."""
        for child in tuple(self.children):
            if child.done():
                child.join()
                self.tainted = self.tainted or child.tainted
                try:
                    self.children.remove(child)
                except ValueError:
                    pass  # joined on another thread just now
