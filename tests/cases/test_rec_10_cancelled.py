"""REC-10: a cancelled call is ended once, as `cancelled`, and the cancellation goes on its way unchanged."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import boundary, instrument
from otel_replay.errors import Unservable
from otel_replay.testing import ModelServer, reply

from .clients import ASYNC_STREAMS, CALLS
from .conftest import Lab

SOON_S = 0.15
SERVED = importlib.import_module("otel_replay.replay.served")


@boundary("slow", kind="tool")
async def slow() -> str:
    await asyncio.sleep(30)
    return "too late"


# How the agent ends a call: each returns what it saw, and raises nothing.
async def cancels(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    task = asyncio.ensure_future(call())
    await asyncio.sleep(soon_s)
    task.cancel("enough")
    try:
        await task
    except asyncio.CancelledError as fault:
        return f"cancelled {fault.args}"
    return "answered"


async def times_out(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    try:
        async with asyncio.timeout(soon_s):
            await call()
    except TimeoutError as fault:
        return f"timeout from {type(fault.__cause__).__name__}"
    return "answered"


async def waits_for(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    try:
        await asyncio.wait_for(call(), soon_s)
    except TimeoutError:
        return "timeout"
    return "answered"


async def sibling_fails(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    async def fails() -> None:
        await asyncio.sleep(soon_s)
        raise LookupError("sibling")

    async def calls() -> None:
        await call()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(calls())
            group.create_task(fails())
    except BaseExceptionGroup as group_fault:
        return str(group_fault.exceptions)
    return "answered"


async def gathers(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    both = asyncio.gather(call(), asyncio.sleep(30))
    await asyncio.sleep(soon_s)
    both.cancel()
    try:
        await both
    except asyncio.CancelledError:
        return "cancelled"
    return "answered"


async def first_wins(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> int:
    done, pending = await asyncio.wait(
        [asyncio.ensure_future(call()), asyncio.create_task(asyncio.sleep(soon_s))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return len(done)


async def leaves_it_to_the_loop(call: Callable[[], Awaitable[Any]], soon_s: float = SOON_S) -> str:
    KEPT.append(asyncio.ensure_future(call()))  # asyncio.run cancels what still runs
    await asyncio.sleep(soon_s)
    return "left"


KEPT: list[Any] = []
ENDS: list[Callable[..., Coroutine[Any, Any, Any]]] = [
    cancels, times_out, waits_for, sibling_fails, gathers, first_wins, leaves_it_to_the_loop,
]  # fmt: skip


def check_cancelled(lab: Lab, spans: InMemorySpanExporter, *, end: str = "") -> None:
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.kind, envelope.outcome.end) == ("streamed" if end else "cancelled", end)
    (span,) = [s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.address")]
    assert span.end_time is not None
    assert span.status.status_code.name == "UNSET", "neither an error that alarms people, nor a success"
    assert (span.attributes or {})["otel_replay.outcome"] == envelope.outcome.kind


@pytest.mark.parametrize("end", ENDS)
def test_rec_10_a_tool_is_cancelled(
    lab: Lab, spans: InMemorySpanExporter, end: Callable[..., Coroutine[Any, Any, Any]]
) -> None:
    without = asyncio.run(end(slow))
    recorded = lab.record(lambda: asyncio.run(end(slow)))
    assert recorded == without
    check_cancelled(lab, spans)
    began = time.monotonic()
    assert lab.replay(lambda: asyncio.run(end(slow))) == recorded, "the cancellation point is that of the record"
    assert time.monotonic() - began < 20


MODEL_CALLS = [("openai chat", end) for end in (cancels, times_out, waits_for, sibling_fails)]


@pytest.mark.parametrize(("client", "end"), [*MODEL_CALLS, ("openai responses", cancels), ("anthropic", cancels)])
def test_rec_10_a_model_call_is_cancelled(lab: Lab, spans: InMemorySpanExporter, client: str, end: Any) -> None:
    async def agent(url: str) -> Any:
        call = CALLS[client](url)  # the client is made before the time runs
        return await end(call, 0.8)

    instrument("openai", "anthropic")
    with ModelServer([reply.hang(10)]) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url)))
    check_cancelled(lab, spans)
    assert lab.replay(lambda: asyncio.run(agent("http://127.0.0.1:9"))) == recorded


@pytest.mark.parametrize("client", ASYNC_STREAMS)
def test_rec_10_a_stream_is_cancelled_between_two_chunks(lab: Lab, spans: InMemorySpanExporter, client: str) -> None:
    async def agent(url: str) -> list[Any]:
        seen: list[Any] = []

        async def read() -> None:
            async for chunk in await ASYNC_STREAMS[client](url):
                seen.append(chunk)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 1.5)
        return seen

    instrument("openai", "anthropic")
    with ModelServer([reply.stream(["one", "two", "three"], between_s=20)]) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url)))
    assert recorded
    check_cancelled(lab, spans, end="cancelled")
    assert lab.replay(lambda: asyncio.run(agent("http://127.0.0.1:9"))) == recorded


def test_rec_10_a_replay_that_waits_for_the_result_is_told_that_there_is_none(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.record(lambda: asyncio.run(cancels(slow)))
    monkeypatch.setattr(SERVED, "CANCELLED_WAIT_MS_MAX", 50)
    with pytest.raises(Unservable, match="the recorded call has no result"):
        lab.replay(lambda: asyncio.run(slow()))


# Ctrl-C and other ends from outside --------------------------------------------------------------------------------
@boundary("interrupted", kind="tool")
def interrupted() -> None:
    raise KeyboardInterrupt


@boundary("ainterrupted", kind="tool")
async def ainterrupted() -> None:
    raise KeyboardInterrupt


@boundary("words", kind="tool")
def words() -> Iterator[str]:
    yield "one"
    raise KeyboardInterrupt


@boundary("waited for", kind="tool")
def waited_for() -> None:
    raise concurrent.futures.CancelledError


INTERRUPTED: list[Callable[[], Any]] = [
    interrupted,
    lambda: asyncio.run(ainterrupted()),
    lambda: list(words()),
]


@pytest.mark.parametrize("call", INTERRUPTED)
def test_rec_10_ctrl_c_is_a_cancellation_and_no_replay_raises_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]
) -> None:
    def agent() -> str:
        try:
            call()
        except KeyboardInterrupt:
            return "interrupted"
        return "went on"

    assert lab.record(agent) == "interrupted"
    outcome = lab.envelopes()[0].outcome
    assert "cancelled" in (outcome.kind, outcome.end)
    monkeypatch.setattr(SERVED, "CANCELLED_WAIT_MS_MAX", 50)
    with pytest.raises(Unservable, match="the recorded call has no result"):
        lab.replay(agent)


def test_rec_10_a_cancelled_future_is_one_too(lab: Lab, spans: InMemorySpanExporter) -> None:
    def agent() -> str:
        try:
            waited_for()
        except concurrent.futures.CancelledError as fault:
            return type(fault).__name__
        return "went on"

    assert lab.record(agent) == "CancelledError"
    check_cancelled(lab, spans)


def test_rec_10_a_coroutine_that_is_closed_while_it_waits(lab: Lab, spans: InMemorySpanExporter) -> None:
    def agent() -> str:
        @boundary("by hand", kind="tool")
        async def by_hand() -> None:
            await asyncio.sleep(0)

        coroutine = by_hand()
        coroutine.send(None)
        coroutine.close()
        return "closed"

    assert lab.record(agent) == "closed"
    check_cancelled(lab, spans)


def test_rec_10_a_call_that_swallows_its_cancellation_returned(lab: Lab) -> None:
    @boundary("stubborn", kind="tool")
    async def stubborn() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "rest"
        return "all"

    async def agent() -> str:
        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0.05)
        task.cancel()
        return await task

    assert lab.record(lambda: asyncio.run(agent())) == "rest"
    assert lab.envelopes()[0].outcome.kind == "returned"


def test_rec_10_generator_exit_inside_a_stream_is_no_error(lab: Lab, spans: InMemorySpanExporter) -> None:
    @boundary("letters", kind="tool")
    async def letters() -> AsyncGenerator[str, None]:
        for letter in "abc":
            yield letter

    async def agent() -> str:
        stream = letters()
        first = await anext(stream)
        with pytest.raises(GeneratorExit):
            await stream.athrow(GeneratorExit())
        return first

    recorded = lab.record(lambda: asyncio.run(agent()))
    assert lab.envelopes()[0].outcome.end == "closed"
    (span,) = [s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.address")]
    assert span.status.status_code.name == "UNSET"
    assert lab.replay(lambda: asyncio.run(agent())) == recorded
