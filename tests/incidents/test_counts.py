"""One crossing more, one fewer, two swapped: a named divergence each, also where the agent catches everything."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan, boundary, record, replay
from otel_replay.errors import NothingCompared

Loop = Callable[[Sequence[int], bool], list[Any]]
ran_live: list[int] = []


@boundary("lookup", kind="tool")
def lookup(number: int) -> int:
    ran_live.append(number)
    return number * 10


@boundary("lookup", kind="tool")
async def lookup_async(number: int) -> int:
    ran_live.append(number)
    await asyncio.sleep(0)
    return number * 10


def loop(numbers: Sequence[int], swallow: bool = False) -> list[Any]:
    """Cross `lookup` for each number; with `swallow`, go on whatever it raises, as frameworks do."""
    found: list[Any] = []
    for number in numbers:
        try:
            found.append(lookup(number))
        except Exception as error:
            if not swallow:
                raise
            found.append(f"the tool failed: {error}")
    return found


def loop_in_a_thread(numbers: Sequence[int], swallow: bool = False) -> list[Any]:
    found: list[Any] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.extend(loop(numbers, swallow))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found


async def _loop_async(numbers: Sequence[int], swallow: bool) -> list[Any]:
    found: list[Any] = []
    for number in numbers:
        try:
            found.append(await lookup_async(number))
        except Exception as error:
            if not swallow:
                raise
            found.append(f"the tool failed: {error}")
    return found


def loop_in_a_coroutine(numbers: Sequence[int], swallow: bool = False) -> list[Any]:
    return asyncio.run(_loop_async(numbers, swallow))


LOOPS = pytest.mark.parametrize("run", [loop, loop_in_a_thread, loop_in_a_coroutine])
SWALLOW = pytest.mark.parametrize("swallow", [False, True], ids=["strict", "catches everything"])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def recorded(run: Loop, store: Path, numbers: Sequence[int] = (1, 2, 3)) -> None:
    with record("loop", store=store):
        run(numbers, False)
    ran_live.clear()


def diverges(run: Loop, store: Path, numbers: Sequence[int], swallow: bool, plan: ReplayPlan | None = None) -> Diverged:
    """Replay with other numbers; return the divergence that leaving the replay raised, which is the report's, too."""
    session = replay("loop", plan, store=store)

    def in_the_with() -> None:
        with session:
            run(numbers, swallow)

    with pytest.raises(Diverged) as raised:
        in_the_with()
    assert session.report.verdict == "diverged"
    assert session.report.cause == raised.value.cause
    assert session.report.exit_code() == 3
    return raised.value


@LOOPS
def test_unchanged_code_is_served(run: Loop, store: Path) -> None:
    recorded(run, store)
    with replay("loop", store=store) as session:
        assert run((1, 2, 3), False) == [10, 20, 30]
    assert ran_live == []
    assert session.report.counts() == {"served": 3}


@SWALLOW
@LOOPS
def test_one_more(run: Loop, swallow: bool, store: Path) -> None:
    recorded(run, store)
    fault = diverges(run, store, (1, 2, 3, 4), swallow)
    assert fault.cause == "one more than recorded"
    assert fault.address == "lookup[4]"
    assert "recorded 3 time(s)" in str(fault)
    assert ran_live == []


@SWALLOW
@LOOPS
def test_one_more_in_the_middle(run: Loop, swallow: bool, store: Path) -> None:
    recorded(run, store)
    fault = diverges(run, store, (1, 7, 2, 3), swallow)
    assert fault.address == "lookup[2]"
    assert "7" in str(fault)
    assert ran_live == []


@SWALLOW
@LOOPS
def test_one_fewer(run: Loop, swallow: bool, store: Path) -> None:
    recorded(run, store)
    fault = diverges(run, store, (1, 2), swallow)
    assert fault.cause == "one fewer than recorded"
    assert fault.address == "lookup[3]"
    assert ran_live == []


@SWALLOW
@LOOPS
def test_one_fewer_in_the_middle(run: Loop, swallow: bool, store: Path) -> None:
    recorded(run, store)
    assert "lookup[2]" in str(diverges(run, store, (1, 3), swallow))
    assert ran_live == []


@SWALLOW
@LOOPS
def test_two_swapped(run: Loop, swallow: bool, store: Path) -> None:
    recorded(run, store)
    fault = diverges(run, store, (1, 3, 2), swallow)
    assert fault.address == "lookup[2]"
    assert fault.cause == "order swapped"
    assert "lookup[3], further on in the record, is equal" in str(fault)
    assert ran_live == []


@SWALLOW
def test_two_of_different_names_swapped(swallow: bool, store: Path) -> None:
    @boundary("other", kind="tool")
    def other(number: int) -> int:
        return number

    def run(order: Sequence[int], swallow: bool) -> list[Any]:
        for at in order:
            with contextlib.suppress(*((Exception,) if swallow else ())):
                (lookup, other)[at](7)
        return []

    recorded(run, store, (0, 1, 0))
    fault = diverges(run, store, (1, 0, 0), swallow)
    assert fault.cause == "order swapped"
    assert "lookup[1] and then other[1]" in str(fault)


@LOOPS
def test_what_was_swallowed_is_raised_again_by_every_later_crossing(run: Loop, store: Path) -> None:
    recorded(run, store)
    found: list[Any] = []
    with contextlib.suppress(Diverged), replay("loop", store=store):
        found = run((1, 7, 2), True)
        assert found[0] == 10
        assert str(found[1]).startswith("the tool failed: lookup[2] diverged")
        assert found[2] == found[1]
    assert len(found) == 3


@LOOPS
def test_equal_calls_are_served_in_their_order_and_counted(run: Loop, store: Path) -> None:
    answers = iter("ABC")

    @boundary("lookup", kind="tool")
    def poll() -> str:
        return next(answers)

    def polls(times: int) -> list[str]:
        return [poll() for _ in range(times)]

    with record("loop", store=store):
        assert polls(3) == ["A", "B", "C"]
    with replay("loop", store=store):
        assert polls(3) == ["A", "B", "C"]
    for times, cause in ((4, "one more than recorded"), (2, "one fewer than recorded")):
        fault = diverges(lambda _numbers, _swallow, n=times: polls(n), store, (), False)  # type: ignore[misc]
        assert fault.cause == cause


def test_a_guard_that_ends_the_loop_early_is_green(store: Path) -> None:
    def until(limit: int) -> list[int]:
        found = []
        for number in (1, 2, 3):
            found.append(check(number, limit))
            if found[-1] < 0:
                break
        return found

    @boundary("check", kind="tool", side_effects=True)
    def check(number: int, limit: int) -> int:
        return number if number <= LIMITS[limit] else -1

    LIMITS = {0: 9}
    with record("loop", store=store):
        assert until(0) == [1, 2, 3]
    LIMITS[0] = 1
    with replay("loop", ReplayPlan().live("check", 2), store=store) as session:
        assert until(0) == [1, -1]
    assert session.report.verdict == "passed"
    assert session.report.counts() == {"served": 1, "live": 1, "not reached": 1}
    fault = diverges(lambda _numbers, _swallow: until(0)[:0] or [check(1, 0)], store, (), False)
    assert fault.cause


def test_an_assertion_of_ones_own_is_not_hidden_by_calls_that_were_not_made(store: Path) -> None:
    recorded(loop, store)
    session = replay("loop", store=store)

    def asserts() -> None:
        with session:
            assert loop((1,)) == [], "mine"

    with pytest.raises(AssertionError, match="mine"):
        asserts()
    assert session.report.verdict == "failed"


def test_a_run_that_crosses_nothing_has_compared_nothing(store: Path) -> None:
    recorded(loop, store)
    with pytest.raises(NothingCompared), replay("loop", store=store):
        loop(())
