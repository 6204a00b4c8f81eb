"""The conventions in the order in which they are asked, and the best reading of a span that several can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from otel_replay.importers.genai import openinference, otel_genai
from otel_replay.importers.genai._call import Call, Source
from otel_replay.importers.genai.resolve import fill


class Convention(NamedTuple):
    """One convention: whether it can read a span, and what it reads."""

    name: str
    matches: Callable[[Source], bool]
    read: Callable[[Source], Call | None]


CONVENTIONS: tuple[Convention, ...] = tuple(
    Convention(module.NAME, module.matches, module.read)
    for module in (
        openinference,
        otel_genai,
    )
)


def best_reading(source: Source) -> Call | None:
    """Return what the span says of a call: of several readings the fullest, then the first, gaps filled by the rest."""
    readings = [convention.read(source) for convention in CONVENTIONS if convention.matches(source)]
    found = [reading for reading in readings if reading is not None]
    if not found:
        return None
    definite = [reading for reading in found if reading.role != "structure"] or found
    best = max(definite, key=lambda reading: reading.fullness)
    for other in definite:
        if other is not best and other.role == best.role:
            fill(best, other)
    return best


def after(calls: Sequence[Call], notes: list[str]) -> list[Call]:
    """Let conventions that spread one call over several spans join them."""
    return list(calls)
