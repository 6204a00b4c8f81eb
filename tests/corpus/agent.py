"""What `tests/corpus/v1` was recorded from. Never changed: old recordings are replayed against it for ever.

A later version of the corpus gets an agent of its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from otel_replay import boundary


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass
class Order:
    symbol: str
    quantity: int
    legs: list[Order] = dataclasses.field(default_factory=list)


class Rejected(Exception):
    """An error of the program's own."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)
        self.code = code


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -(2**200), 0.1, -0.0, float("inf"), "", "é🙂", "lone \ud800", "{\"not\": \"ours\"}",
    b"\x00\xff", [], [1, [2, [3]]], (1, "a", (b"x",)), {1, 2}, frozenset({"a"}), {}, {"a": 1, "b": {"c": None}},
    {1: "int key", (2, 3): "tuple key"}, date(2026, 12, 1), time(1, 2, 3, 4), timedelta(days=-1, microseconds=7),
    datetime(2026, 12, 1, 12, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2026, 12, 1, 12, 30, 15, 999_999), Decimal("12.3400"), Decimal("-0"), uuid.UUID(int=7),
    PurePosixPath("/a/b"), Colour.RED, Point(1, 2.5), Order("NVDA", 4, [Order("AMD", 1)]), "x" * 5_000,
)  # fmt: skip


@boundary("value", kind="tool")
def value(number: int) -> Any:
    return VALUES[number]


def values() -> list[Any]:
    """Each kind of value comes back as it went."""
    return [value(number) for number in range(len(VALUES))]


@boundary("refuse", kind="tool")
def refuse(kind: str) -> None:
    if kind == "own":
        raise Rejected(17, "too large")
    if kind == "group":
        raise ExceptionGroup("two at once", [KeyError("a"), TimeoutError(1)])
    raise ValueError("no such symbol", "NVDX")


def errors() -> list[str]:
    """Each kind of error is raised again, and caught by its class."""
    found = []
    for kind in ("value", "own", "group"):
        try:
            refuse(kind)
        except Rejected as fault:
            found.append(f"Rejected {fault.code} {fault.args}")
        except (ValueError, ExceptionGroup) as fault:
            found.append(f"{type(fault).__name__} {fault}")
    return found


@boundary("tokens", kind="model")
def tokens(text: str) -> Iterator[str]:
    yield from text.split()


@boundary("chunks", kind="model")
async def chunks(count: int) -> AsyncIterator[dict[str, int]]:
    for number in range(count):
        yield {"n": number}


async def _read() -> list[dict[str, int]]:
    return [chunk async for chunk in chunks(3)]


def streams() -> list[Any]:
    """Streams are handed out piece by piece."""
    return [list(tokens("one two three")), asyncio.run(_read())]


@boundary("plan", kind="custom")
def plan(goal: str) -> list[Any]:
    return [value(2), value(9), goal]


@boundary("place_order", kind="tool", side_effects=True)
def place_order(symbol: str, quantity: int) -> dict[str, Any]:
    return {"placed": symbol, "quantity": quantity}


def nested() -> list[Any]:
    """Crossings within a crossing, and in threads."""
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = value(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (20, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [plan("sell"), place_order("NVDA", 4), found[20], found[21]]


AGENTS = {"values": values, "errors": errors, "streams": streams, "nested": nested}
