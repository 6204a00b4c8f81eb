"""Which strands a live difference frees: those begun after it or that it is joined into, not what ran beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from otel_replay import Diverged, ReplayPlan, boundary

from .conftest import Lab
from .scenes import calls

Words: TypeAlias = tuple[str, ...]
version = 1
LIVE = ReplayPlan(on_drift="live").live("start", 1)


@boundary("start", kind="tool")
def start() -> int:
    return version


@boundary("step", kind="tool")
async def step(word: str) -> str:
    calls.append(word)
    return word.upper()


@boundary("step", kind="tool")
def step_blocking(word: str) -> str:
    calls.append(word)
    return word.upper()


# The live difference comes while another strand is half done: `words` are what that one asks for after it.


def beside_tasks(words: Words) -> Any:
    async def other(gate: asyncio.Event) -> list[str]:
        first = await step("first")
        await gate.wait()
        return [first, *[await step(word) for word in words]]

    async def main() -> Any:
        gate = asyncio.Event()
        task = asyncio.create_task(other(gate))
        await asyncio.sleep(0.01)
        start()
        gate.set()
        return await task

    return asyncio.run(main())


def beside_threads(words: Words) -> Any:
    gate, half = threading.Event(), threading.Event()

    def other() -> list[str]:
        first = step_blocking("first")
        half.set()
        gate.wait(5)
        return [first, *[step_blocking(word) for word in words]]

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(other)
        half.wait(5)
        start()
        gate.set()
        return job.result()


def after_tasks(words: Words) -> Any:
    async def other() -> list[str]:
        return [await step(word) for word in ("first", *words)]

    async def main() -> Any:
        start()
        return await asyncio.create_task(other())

    return asyncio.run(main())


def after_threads(words: Words) -> Any:
    start()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: [step_blocking(word) for word in ("first", *words)]).result()


def joined_tasks(words: Words) -> Any:
    async def other() -> None:
        await step("first")
        start()

    async def main() -> Any:
        await asyncio.create_task(other())
        return [await step(word) for word in words]

    return asyncio.run(main())


def joined_threads(words: Words) -> Any:
    def other() -> None:
        step_blocking("first")
        start()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(other).result()
    return [step_blocking(word) for word in words]


RECORDED: Words = ("a", "b", "z")
DRIFTS = [
    pytest.param(("a", "b2", "z"), "input drifted", id="input"),
    pytest.param(("a", "b", "z", "x"), "one more than recorded", id="one more"),
    pytest.param(("a", "b"), "one fewer than recorded", id="one fewer"),
    pytest.param(("b", "a", "z"), "order swapped", id="swapped"),
]
drifts = pytest.mark.parametrize(("words", "cause"), DRIFTS)


@drifts
@pytest.mark.parametrize("agent", [beside_tasks, beside_threads])
def test_a_strand_begun_before_the_difference_is_not_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Callable[[Words], Any], words: Words, cause: str
) -> None:
    lab.record(lambda: agent(RECORDED))
    calls.clear()
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(LIVE) as session:
        agent(RECORDED)
    assert session.report.verdict == "passed"
    with pytest.raises(Diverged) as caught, lab.session(LIVE):
        agent(words)
    assert caught.value.cause == cause
    assert calls == []


@drifts
@pytest.mark.parametrize("agent", [after_tasks, after_threads, joined_tasks, joined_threads])
def test_a_strand_begun_after_it_or_that_it_is_joined_into_is_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Callable[[Words], Any], words: Words, cause: str
) -> None:
    lab.record(lambda: agent(RECORDED))
    calls.clear()
    with pytest.raises(Diverged) as caught, lab.session(LIVE):
        agent(words)
    assert caught.value.cause == cause, "the same outcome excuses nothing"
    calls.clear()
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(LIVE) as session:
        agent(words)
    assert session.report.verdict == "passed"
    assert calls == [word for word in words if word not in RECORDED]


# A guard may stop strands that run beside it: what those did not come to is explained -------------------------


def stopped_tasks(*, stops: bool, says: str = "b") -> Any:
    async def other(gate: asyncio.Event) -> Any:
        await step("a")
        await gate.wait()
        return await step(says)

    async def main() -> Any:
        gate = asyncio.Event()
        task = asyncio.create_task(other(gate))
        await asyncio.sleep(0.01)
        if start() == 2 and stops:
            task.cancel()
            return "stopped"
        gate.set()
        return await task

    return asyncio.run(main())


def group_that_fails(*, stops: bool, says: str = "b") -> Any:
    async def other(gate: asyncio.Event) -> Any:
        await step("a")
        await gate.wait()
        return await step(says)

    async def guard(gate: asyncio.Event) -> None:
        await asyncio.sleep(0.01)
        if start() == 2 and stops:
            raise ValueError("stop")
        gate.set()

    async def main() -> Any:
        gate = asyncio.Event()
        try:
            return await asyncio.gather(other(gate), guard(gate))
        except ValueError:
            return "stopped"

    return asyncio.run(main())


@pytest.mark.parametrize("agent", [stopped_tasks, group_that_fails])
def test_what_a_guard_cancelled_beside_it_is_not_reached(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Callable[..., Any]
) -> None:
    lab.record(lambda: agent(stops=True))
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(LIVE) as session:
        assert agent(stops=True) == "stopped"
    assert session.report.verdict == "passed"
    assert [line.address for line in session.report.lines if line.section == "not reached"] == ["step[2]"]


@pytest.mark.parametrize("agent", [stopped_tasks, group_that_fails])
def test_what_was_cancelled_though_nothing_differed_is_missing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Callable[..., Any]
) -> None:
    monkeypatch.setitem(globals(), "version", 2)
    lab.record(lambda: agent(stops=False))
    with pytest.raises(Diverged) as caught, lab.session(LIVE):
        agent(stops=True)
    assert caught.value.cause == "one fewer than recorded"
