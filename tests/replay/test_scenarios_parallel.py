"""What tells a right matcher from a plausible one, side by side: with coroutines, and with threads where it applies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan

from .conftest import Lab
from .scenes import calls, model, model_blocking, search, search_blocking, start

# 1. Two sub-agents ---------------------------------------------------------------------------------------------


def two_sub_agents() -> Any:
    async def sub_agent(name: str, delay: float) -> list[str]:
        answer = await model(f"{name} plan", delay)
        return await search(answer, delay)

    async def main() -> Any:
        return await asyncio.gather(sub_agent("a", 0.02), sub_agent("b", 0.001))

    return asyncio.run(main())


def two_sub_agents_in_threads() -> Any:
    def sub_agent(name: str, delay: float) -> list[str]:
        return search_blocking(model_blocking(f"{name} plan", delay), delay)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(sub_agent, ["a", "b"], [0.02, 0.001]))


@pytest.mark.parametrize("agent", [two_sub_agents, two_sub_agents_in_threads])
def test_01_two_sub_agents_are_served_whoever_was_faster(lab: Lab, agent: Callable[[], Any]) -> None:
    recorded = lab.record(agent)
    calls.clear()
    for _ in range(30):
        answer, session = lab.replay(agent)
        assert answer == recorded
        assert session.report.count("served") == 4
    assert calls == []


# 2. Order of arrival -------------------------------------------------------------------------------------------


def ranked_by_arrival() -> Any:
    async def main() -> Any:
        tasks = [asyncio.create_task(search("slow", 0.03)), asyncio.create_task(search("fast", 0.001))]
        return [(await first)[0] for first in asyncio.as_completed(tasks)]

    return asyncio.run(main())


def ranked_in_threads() -> Any:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(search_blocking, "slow", 0.05), pool.submit(search_blocking, "fast", 0.001)]
        return [job.result()[0] for job in as_completed(jobs)]


@pytest.mark.parametrize("agent", [ranked_by_arrival, ranked_in_threads])
def test_02_answers_arrive_in_recorded_order(lab: Lab, agent: Callable[[], Any]) -> None:
    assert lab.record(agent) == ["fast", "slow"]
    for _ in range(30):
        assert lab.replay(agent)[0] == ["fast", "slow"]


def test_02_a_cancelled_loser_stays_suspended_until_the_agent_cancels_it(lab: Lab) -> None:
    def agent() -> Any:
        async def main() -> Any:
            tasks = {asyncio.create_task(search("slow", 5.0)), asyncio.create_task(search("fast", 0.001))}
            done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in losers:
                task.cancel()
            await asyncio.gather(*losers, return_exceptions=True)
            return [task.result()[0] for task in done], [task.cancelled() for task in losers]

        return asyncio.run(main())

    assert lab.record(agent) == (["fast"], [True])
    for _ in range(10):
        assert lab.replay(agent)[0] == (["fast"], [True])


# 8. Parallel drift ---------------------------------------------------------------------------------------------


def booking(first: str, second: str, version: int) -> Callable[[], Any]:
    def agent() -> Any:
        async def main() -> Any:
            start(version)
            return await asyncio.gather(search(first), search(second))

        return asyncio.run(main())

    return agent


def booking_in_threads(first: str, second: str, version: int) -> Callable[[], Any]:
    def agent() -> Any:
        start(version)
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(search_blocking, [first, second]))

    return agent


@pytest.mark.parametrize("make", [booking, booking_in_threads])
def test_08_in_parallel_a_drift_is_served_only_where_one_strand_is_left(lab: Lab, make: Any) -> None:
    lab.record(make("flights", "hotels", 1))
    monkey = ReplayPlan(on_drift="serve").override("start", 1, 2)
    with lab.session(monkey) as session:
        assert make("hotels in Rome", "flights", 1)() == [["hotels", "sletoh"], ["flights", "sthgilf"]]
    assert session.report.verdict == "passed on drift"
    with pytest.raises(Diverged, match="would be a guess"), lab.session(monkey):
        make("hotels in Rome", "flights at dawn", 1)()


def test_08_without_a_cause_parallel_drift_raises(lab: Lab) -> None:
    lab.record(booking("flights", "hotels", 1))
    with pytest.raises(Diverged, match="hotels"), lab.session(ReplayPlan(on_drift="serve")):
        booking("flights", "hotels in Rome", 1)()


# 14. Sequential after parallel ---------------------------------------------------------------------------------


def in_parallel() -> Any:
    async def main() -> Any:
        return await asyncio.gather(search("flights", 0.002), search("hotels"))

    return asyncio.run(main())


def in_sequence() -> Any:
    async def main() -> Any:
        return [await search("flights", 0.002), await search("hotels")]

    return asyncio.run(main())


def threads_in_parallel() -> Any:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(search_blocking, ["flights", "hotels"], [0.002, 0.0]))


def threads_in_sequence() -> Any:
    return [search_blocking("flights", 0.002), search_blocking("hotels", 0.0)]


@pytest.mark.parametrize(
    ("parallel", "sequence"), [(in_parallel, in_sequence), (threads_in_parallel, threads_in_sequence)]
)
def test_14_what_ran_side_by_side_may_be_awaited_in_turn_but_not_the_other_way_round(
    lab: Lab, parallel: Callable[[], Any], sequence: Callable[[], Any]
) -> None:
    recorded = lab.record(parallel, "parallel")
    assert lab.replay(sequence, name="parallel")[0] == recorded
    lab.record(sequence, "sequence")
    for _ in range(5):
        with pytest.raises(Diverged, match="recorded one after the other"), lab.session(name="sequence"):
            parallel()
