"""Strands whose first requests are equal: each is served what the one begun in its own place got, whoever is first.

Which of two threads crosses first is an accident, and a thread may cross for itself only after the tasks it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace as with_fields
from functools import partial
from typing import Any

import pytest

from otel_replay import boundary, open_store, record, replay

from .conftest import Lab

REPEATS = 8


speaker: ContextVar[tuple[str, float]] = ContextVar("speaker")
"""Who asks and how long an answer takes: no part of the request."""


@boundary("ask", kind="model")
async def ask(what: str) -> str:
    name, delay = speaker.get()
    await asyncio.sleep(delay)
    return f"{what} for {name}"


async def asked(name: str, *words: str, delay: float = 0) -> list[str]:
    speaker.set((name, delay))
    return [await ask(word) for word in words]


async def tasks_of_threads() -> Any:
    """Two threads; the first begins three tasks, two of which ask alike, while the second is still being begun."""

    async def first() -> Any:
        return await asyncio.gather(asked("A", "x", delay=0.001), asked("B", "y"), asked("C", "y"))

    return await threads(first, lambda: asked("D", "z", "w"))


async def a_thread_that_asks_after_its_tasks() -> Any:
    """What the thread itself asks at last is what its first task asked at first."""

    async def second() -> Any:
        jobs = await asyncio.gather(asked("A", "x", "y"), asked("B", "y"))
        return jobs, await asked("the thread", "x")

    return await threads(lambda: asked("C", "z"), second)


async def threads_that_ask_alike() -> Any:
    """Three jobs on two workers."""
    return await threads(*(partial(asked, name, "x", f"then {name}") for name in "ABC"))


async def threads(*blocks: Callable[[], Any]) -> list[Any]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        return await asyncio.gather(*(loop.run_in_executor(pool, _alone, block) for block in blocks))


def _alone(block: Callable[[], Any]) -> Any:
    return asyncio.run(block())


async def a_gather_within_an_arrival() -> Any:
    """The first to arrive holds a `gather`, which comes to its end some rounds of the loop after its last crossing."""

    async def both() -> Any:
        return await asyncio.gather(asked("A", "x"), asked("B", "y"))

    # So long that C's answer is not due as well when the process was put aside for a while: whether both ends then
    # fell into one round of the loop, the record does not tell.
    begun = [asyncio.ensure_future(asked("C", "z", delay=0.05)), asyncio.ensure_future(both())]
    return [await first for first in asyncio.as_completed(begun)]


AGENTS = [
    tasks_of_threads,
    a_thread_that_asks_after_its_tasks,
    threads_that_ask_alike,
    a_gather_within_an_arrival,
]


@pytest.mark.parametrize("agent", AGENTS)
def test_each_is_given_its_own(lab: Lab, agent: Callable[[], Any]) -> None:
    for at in range(REPEATS):
        with record(f"run{at}", store=lab.store):
            then = asyncio.run(agent())
        with replay(f"run{at}", store=lab.store) as session:
            assert asyncio.run(agent()) == then
        assert session.report.verdict == "passed"


def test_the_place_is_kept(lab: Lab) -> None:
    with record("run", store=lab.store) as run:
        asyncio.run(a_thread_that_asks_after_its_tasks())
    with open_store(lab.store) as store:
        places = {e.outcome.value.tree(): e.place for e in store.recording(run.id).envelopes}
    assert places == {
        "z for C": ".1",
        "x for A": ".2.1",
        "y for A": ".2.1",
        "y for B": ".2.2",
        "x for the thread": ".2",
    }


def test_a_record_without_places_goes_by_recorded_order(lab: Lab) -> None:
    async def polls() -> Any:
        return await asyncio.gather(*(asked(name, "x") for name in "ABC"))

    with record("run", store=lab.store) as run:
        then = asyncio.run(polls())
    with open_store(lab.store) as store:
        recording = store.recording(run.id)
    older = with_fields(recording, envelopes=tuple(with_fields(e, place="") for e in recording.envelopes))
    with replay(older, store=lab.store) as session:
        assert asyncio.run(polls()) == then
    assert "answered differently" in session.report.text()
