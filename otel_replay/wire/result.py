"""What a reader hands back: the spans that could be read, and what was wrong with the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_logger = logging.getLogger("otel_replay.wire")


@dataclass(frozen=True, slots=True)
class Problem:
    """One item that was refused: `where` names it by its place (and name, where it has one), `reason` says why."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Read(NamedTuple, Generic[T]):
    """`items` in their order; `problems` of those that were refused, each alone."""

    items: list[T]
    problems: list[Problem]


def items_of(read: Read[T], what: str) -> list[T]:
    """Return the items, and log what was refused: for callers that take what they can get."""
    if read.problems:
        _logger.warning(
            "%d of %d %s refused; first: %s",
            len(read.problems),
            len(read.problems) + len(read.items),
            what,
            read.problems[0],
        )
    return read.items
