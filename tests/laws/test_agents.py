"""Arbitrary small agents: recorded, replayed in full, and changed in one place."""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import Diverged, boundary, record, replay
from otel_replay.errors import ReplayError

live: list[str] = []


@dataclass(frozen=True)
class Step:
    """Cross a boundary: with a value, maybe raising, maybe with steps nested in it."""

    name: str
    value: Any
    raises: bool = False
    delay: float = 0.0
    inner: tuple[Any, ...] = field(default=())


@dataclass(frozen=True)
class Together:
    """Run blocks side by side, and take their answers in the order of arrival or of asking."""

    blocks: tuple[tuple[Any, ...], ...]
    how: str


@boundary("a", kind="tool")
async def tool_a(value: Any, agent: Any) -> Any:
    return await _body("a", value, agent)


@boundary("b", kind="model")
async def tool_b(value: Any, agent: Any) -> Any:
    return await _body("b", value, agent)


TOOLS = {"a": tool_a, "b": tool_b}


class Body:
    """What a crossing does inside; it is no part of its request."""

    def __init__(self, step: Step) -> None:
        self.step = step


async def _body(name: str, value: Any, agent: Any) -> Any:
    live.append(name)
    step = agent.step
    if step.delay:
        await asyncio.sleep(step.delay)
    inner = await _block(step.inner)
    if step.raises:
        raise ValueError(name, value)
    return {"name": name, "value": value, "inner": inner}


def _arrives_by_its_crossings(block: tuple[Any, ...]) -> bool:
    """True for a block of one event loop that is done when its last crossing is.

    What comes home from threads, or from tasks at its end, does so some time after their crossings: of two such that
    take about as long, no record tells who arrives first.
    """
    return bool(block) and isinstance(block[-1], Step) and not any(map(_threaded, block))


def _threaded(part: Any) -> bool:
    if isinstance(part, Step):
        return any(map(_threaded, part.inner))
    return part.how == "threads" or any(_threaded(inner) for block in part.blocks for inner in block)


def _alone(block: tuple[Any, ...]) -> list[Any]:
    return asyncio.run(_block(block))


async def _block(block: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for part in block:
        if isinstance(part, Step):
            try:
                found.append(await TOOLS[part.name](part.value, Body(part)))
            except ValueError as fault:
                found.append(("raised", fault.args))
        elif part.how == "gather" or (part.how == "arrival" and not all(map(_arrives_by_its_crossings, part.blocks))):
            found.append(await asyncio.gather(*(_block(inner) for inner in part.blocks)))
        elif part.how == "arrival":
            # Begun here, in order: given coroutines, `as_completed` begins them in the order of a set, by accident.
            begun = [asyncio.ensure_future(_block(inner)) for inner in part.blocks]
            found.append([await first for first in asyncio.as_completed(begun)])
        elif part.how == "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_block(inner)) for inner in part.blocks]
            found.append([task.result() for task in tasks])
        else:
            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(2) as pool:
                jobs = [loop.run_in_executor(pool, _alone, inner) for inner in part.blocks]
                found.append(await asyncio.gather(*jobs))
    return found


VALUES = st.integers(0, 3) | st.sampled_from(["x", (1, 2), None, 2.5, b"\x00", {1: "one"}])
DELAYS = st.sampled_from([0.0, 0.0, 0.001, 0.004])
LEAVES = st.builds(Step, st.sampled_from("ab"), VALUES, st.booleans(), DELAYS)
STEPS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Step, st.sampled_from("ab"), VALUES, st.booleans(), DELAYS, st.lists(inner, max_size=2).map(tuple))
        | st.builds(
            Together,
            st.lists(st.lists(inner, min_size=1, max_size=2).map(tuple), min_size=2, max_size=3).map(tuple),
            st.sampled_from(["gather", "arrival", "group", "threads"]),
        )
    ),
    max_leaves=7,
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=3).map(tuple)


def same(first: Any, second: Any) -> bool:
    return repr(first) == repr(second) and type(first) is type(second)


@settings(max_examples=60, deadline=None)
@given(PROGRAMS)
def test_full_replay_gives_the_recorded_answer_and_runs_nothing(program: tuple[Any, ...]) -> None:
    def agent() -> list[Any]:
        return asyncio.run(_block(program))

    with tempfile.TemporaryDirectory() as store:
        with record("run", store=store) as run:
            recorded = agent()
            run.answer(recorded)
        assert run.faults == {}
        live.clear()
        with replay("run", store=store) as session:
            answer = agent()
        assert same(answer, recorded), session.report.text()
        assert live == []


def _count(block: tuple[Any, ...]) -> int:
    """How many crossings of a block are served in a full replay: those that lie in no other."""
    return sum(1 if isinstance(part, Step) else sum(map(_count, part.blocks)) for part in block)


def _with_one_changed(block: tuple[Any, ...], at: int, change: str) -> tuple[tuple[Any, ...], int]:
    found: list[Any] = []
    for part in block:
        if isinstance(part, Step):
            if at == 0:
                if change == "argument":
                    found.append(Step(part.name, "changed", part.raises, part.delay, part.inner))
                elif change == "one more":
                    found += [part, Step("a", "added")]
                at -= 1
                continue  # "one fewer" leaves it out
            at -= 1
            found.append(part)
        else:
            blocks = []
            for inner in part.blocks:
                changed, at = _with_one_changed(inner, at, change)
                blocks.append(changed)
            found.append(Together(tuple(blocks), part.how))
    return tuple(found), at


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, st.sampled_from(["argument", "one more", "one fewer"]), st.data())
def test_one_change_is_a_named_divergence(program: tuple[Any, ...], change: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, _count(program) - 1))
    changed, _left = _with_one_changed(program, at, change)
    with tempfile.TemporaryDirectory() as store:
        with record("run", store=store):
            asyncio.run(_block(program))
        live.clear()
        with pytest.raises(ReplayError) as caught:
            with replay("run", store=store):
                asyncio.run(_block(changed))
        assert isinstance(caught.value, Diverged) or _count(changed) == 0
        assert live == []
        if isinstance(caught.value, Diverged):
            assert caught.value.cause
            assert "[" in caught.value.address


def test_folder_of_a_store_is_made(tmp_path: Path) -> None:
    with record("run", store=tmp_path / "deep" / "store"):
        asyncio.run(_block((Step("a", 1),)))
    assert (tmp_path / "deep" / "store" / "journal").is_dir()
