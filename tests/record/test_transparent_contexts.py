"""The program's contexts, spans and random numbers are its own, with a recorder and without."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider

from otel_replay import boundary, record, replay

from .worlds import Worlds

mine: contextvars.ContextVar[int] = contextvars.ContextVar("mine", default=0)


@boundary("counts up")
def counts_up() -> int:
    mine.set(mine.get() + 1)
    return mine.get()


@boundary("acounts up")
async def acounts_up() -> int:
    await asyncio.sleep(0)
    mine.set(mine.get() + 1)
    return mine.get()


@boundary("counts by steps")
def counts_by_steps() -> Iterator[int]:
    for _ in range(3):
        mine.set(mine.get() + 1)
        yield mine.get()


@boundary("acounts by steps")
async def acounts_by_steps() -> AsyncGenerator[int, None]:
    for _ in range(3):
        mine.set(mine.get() + 1)
        yield mine.get()


@pytest.mark.parametrize("world", ["recorded", "recorded with spans"])
def test_context_variables_are_neither_leaked_nor_lost(worlds: Worlds, world: str) -> None:
    def agent() -> list[Any]:
        async def awaits() -> list[Any]:
            found: list[Any] = [await acounts_up(), mine.get()]
            found.append([(item, mine.get()) async for item in acounts_by_steps()])
            await asyncio.create_task(acounts_up())
            return [*found, mine.get()]

        found: list[Any] = [counts_up(), mine.get(), [(item, mine.get()) for item in counts_by_steps()], mine.get()]
        before = mine.get()
        return [*found, asyncio.run(awaits()), mine.get() == before]

    off = contextvars.Context().run(worlds.run, "off", agent)
    assert contextvars.Context().run(worlds.run, world, agent) == off
    assert off[4] == [5, 5, [(6, 6), (7, 7), (8, 8)], 8]


def test_what_the_program_puts_in_opentelemetrys_context_stays_there(worlds: Worlds) -> None:
    @boundary("tags")
    def tags() -> None:
        context.attach(baggage.set_baggage("customer", "c-7"))  # as libraries do that set properties for what follows

    def agent() -> tuple[Any, Any]:
        before = trace.get_current_span()
        tags()
        return baggage.get_baggage("customer"), trace.get_current_span() is before

    for world in ("off", "recorded", "recorded with spans"):
        assert contextvars.Context().run(worlds.run, world, agent) == ("c-7", True), world


def parents_of_steps(tracer: trace.Tracer, found: list[bool]) -> tuple[Any, Any]:
    """Return two generators that hold a span of the program over their yields; `found` is whether it stays parent."""

    def step(turn: trace.Span) -> None:
        with tracer.start_as_current_span("step") as span:
            found.append(span.parent.span_id == turn.get_span_context().span_id)  # type: ignore[attr-defined]

    @boundary("turns")
    def turns() -> Iterator[int]:
        with tracer.start_as_current_span("turn") as turn:
            for number in range(3):
                step(turn)
                yield number

    @boundary("aturns")
    async def aturns() -> AsyncGenerator[int, None]:
        with tracer.start_as_current_span("turn") as turn:
            for number in range(3):
                step(turn)
                yield number

    return turns, aturns


def test_spans_that_the_program_holds_over_a_yield_stay_the_parents(tmp_path: Path) -> None:
    provider = TracerProvider()
    found: list[bool] = []
    turns, aturns = parents_of_steps(provider.get_tracer("app"), found)

    async def read() -> list[int]:
        return [item async for item in aturns()]

    with record("run", store=tmp_path, tracer_provider=provider, strict=True) as run:
        current = trace.get_current_span()
        assert list(turns()) == asyncio.run(read()) == [0, 1, 2]
        assert trace.get_current_span() is current, "nothing of the stream is left behind"
        assert f"{current.get_span_context().trace_id:032x}" == run.trace_id
    assert found == [True] * 6
    assert not trace.get_current_span().get_span_context().is_valid


# Random numbers --------------------------------------------------------------------------------------------------
@boundary("draws", kind="tool")
def draws(count: int) -> int:
    return count


@pytest.mark.parametrize("provider", [None, TracerProvider()], ids=["no SDK", "SDK"])
def test_the_programs_random_numbers_are_its_own(tmp_path: Path, provider: TracerProvider | None) -> None:
    def agent() -> list[Any]:
        random.seed(42)
        found: list[Any] = []
        for step in range(5):
            found += [random.random(), draws(step), random.getrandbits(128), random.choice("abcdef")]
        asyncio.run(acounts_up())
        return [*found, random.getstate()]

    off = agent()
    with record("run", store=tmp_path, tracer_provider=provider):
        recorded = agent()
    with replay("run", store=tmp_path, tracer_provider=provider):
        replayed = agent()
    assert recorded == off
    assert replayed == off
