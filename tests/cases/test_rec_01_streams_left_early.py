"""REC-01: a stream that is left early leaves one ended crossing, says how it ended, and is served as far as it went."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import boundary, instrument, replay
from otel_replay.errors import StreamEndsHere
from otel_replay.testing import ModelServer, reply

from .clients import ASYNC_STREAMS, STREAMS
from .conftest import Lab

SEEN = 2


def others(clients: Iterable[str], *leave: Any) -> list[tuple[str, Any]]:
    return [(client, how) for client in clients if client != "openai chat" for how in leave]


class Stop(Exception):
    """The agent's own."""


def breaks(stream: Any) -> list[Any]:
    seen = []
    for chunk in stream:
        seen.append(chunk)
        if len(seen) == SEEN:
            break
    return seen


def breaks_in_with(stream: Any) -> list[Any]:
    with stream:
        return breaks(stream)


def closes(stream: Any) -> list[Any]:
    seen = [next(stream) for _ in range(SEEN)]
    stream.close()
    stream.close()
    return seen


def raises(stream: Any) -> list[Any]:
    seen: list[Any] = []
    with contextlib.suppress(Stop):
        for chunk in stream:
            seen.append(chunk)
            if len(seen) == SEEN:
                raise Stop
    return seen


def raises_in_with(stream: Any) -> list[Any]:
    with stream:
        return raises(stream)


def drops(stream: Any) -> list[Any]:
    seen = [next(stream) for _ in range(SEEN)]
    del stream
    return seen


def wraps_and_drops(stream: Any) -> list[Any]:
    def relay() -> Iterator[Any]:
        yield from stream

    wrapped = relay()
    seen = [next(wrapped) for _ in range(SEEN)]
    del wrapped
    return seen


EXITS = [breaks, breaks_in_with, closes, raises, raises_in_with, drops, wraps_and_drops]


async def abreaks(stream: Any) -> list[Any]:
    seen = []
    async for chunk in stream:
        seen.append(chunk)
        if len(seen) == SEEN:
            break
    return seen


async def abreaks_in_with(stream: Any) -> list[Any]:
    async with stream:
        return await abreaks(stream)


async def acloses(stream: Any) -> list[Any]:
    seen = [await anext(stream) for _ in range(SEEN)]
    await stream.close()
    return seen


async def araises(stream: Any) -> list[Any]:
    seen: list[Any] = []
    with contextlib.suppress(Stop):
        async for chunk in stream:
            seen.append(chunk)
            if len(seen) == SEEN:
                raise Stop
    return seen


async def adrops(stream: Any) -> list[Any]:
    seen = [await anext(stream) for _ in range(SEEN)]
    del stream
    await asyncio.sleep(0)
    return seen


async def acloses_elsewhere(stream: Any) -> list[Any]:
    seen = [await anext(stream) for _ in range(SEEN)]
    await asyncio.create_task(stream.close())
    return seen


async def wraps_and_acloses(stream: Any) -> list[Any]:
    async def relay() -> AsyncGenerator[Any, None]:
        async for chunk in stream:
            yield chunk

    wrapped = relay()
    seen = [await anext(wrapped) for _ in range(SEEN)]
    await asyncio.create_task(wrapped.aclose())  # a server closes a response's stream in another task
    return seen


ASYNC_EXITS = [abreaks, abreaks_in_with, acloses, araises, adrops, acloses_elsewhere, wraps_and_acloses]


def check_one_ended_crossing(lab: Lab, spans: InMemorySpanExporter) -> None:
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "streamed"
    assert envelope.outcome.end in ("closed", "dropped")
    assert len(envelope.outcome.chunks) == 1 + SEEN, "the head and what was seen"
    assert not envelope.outcome.lost_reason
    ours = [span for span in spans.get_finished_spans() if (span.attributes or {}).get("otel_replay.address")]
    assert [(span.attributes or {})["otel_replay.outcome"] for span in ours] == ["streamed"]
    assert all(span.end_time for span in ours)


@pytest.mark.parametrize(
    ("client", "leave"),
    [("openai chat", leave) for leave in EXITS] + others(STREAMS, breaks, closes, raises_in_with, drops),
)
def test_rec_01_a_sync_stream(
    lab: Lab, spans: InMemorySpanExporter, client: str, leave: Callable[[Any], list[Any]]
) -> None:
    instrument("openai", "anthropic")
    with ModelServer([reply.text("one two three four five six")]) as server:
        recorded = lab.record(lambda: leave(STREAMS[client](server.root_url)))
    check_one_ended_crossing(lab, spans)
    assert lab.replay(lambda: leave(STREAMS[client]("http://127.0.0.1:9"))) == recorded
    assert len(recorded) == SEEN


@pytest.mark.parametrize(
    ("client", "leave"),
    [("openai chat", leave) for leave in ASYNC_EXITS] + others(ASYNC_STREAMS, abreaks, acloses_elsewhere, adrops),
)
def test_rec_01_an_async_stream(
    lab: Lab, spans: InMemorySpanExporter, client: str, leave: Callable[[Any], Awaitable[list[Any]]]
) -> None:
    async def agent(url: str) -> list[Any]:
        return await leave(await ASYNC_STREAMS[client](url))

    instrument("openai", "anthropic")
    with ModelServer([reply.text("one two three four five six")]) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url)))
    check_one_ended_crossing(lab, spans)
    assert lab.replay(lambda: asyncio.run(agent("http://127.0.0.1:9"))) == recorded
    assert len(recorded) == SEEN


@pytest.mark.parametrize("client", STREAMS)
def test_rec_01_who_reads_on_is_told_that_the_recording_ends_here(lab: Lab, client: str) -> None:
    instrument("openai", "anthropic")
    with ModelServer([reply.text("one two three four five six")]) as server:
        recorded = lab.record(lambda: closes(STREAMS[client](server.root_url)))
    seen: list[Any] = []

    def reads_on() -> None:
        for chunk in STREAMS[client]("http://127.0.0.1:9"):
            seen.append(chunk)

    with pytest.raises(StreamEndsHere, match=r"the recording of .* ends here"):
        lab.replay(reads_on)
    assert seen == recorded, "what was recorded, and no invented end"


@pytest.mark.parametrize("leave", [closes, drops, breaks_in_with])
@pytest.mark.parametrize("client", STREAMS)
def test_rec_01_who_leaves_sooner_than_recorded_is_named(
    lab: Lab, client: str, leave: Callable[[Any], list[Any]]
) -> None:
    instrument("openai", "anthropic")
    with ModelServer([reply.text("one two three four five six")]) as server:
        recorded = lab.record(lambda: list(STREAMS[client](server.root_url)))
    (envelope,) = lab.envelopes()
    chunks = len(envelope.outcome.chunks)
    with replay("run", store=lab.store) as session:
        assert leave(STREAMS[client]("http://127.0.0.1:9")) == recorded[:SEEN]
    assert session.report.verdict == "passed"
    assert f"left after {1 + SEEN} of {chunks} recorded chunks" in session.report.text()
    with replay("run", store=lab.store) as session:
        assert list(STREAMS[client]("http://127.0.0.1:9")) == recorded
    assert "left after" not in session.report.text()


# Boundaries that are generators ------------------------------------------------------------------------------------
CLOSED: list[str] = []


@boundary("words", kind="model")
def words() -> Iterator[str]:
    try:
        yield from ("one", "two", "three")
    finally:
        CLOSED.append("words")


@boundary("awords", kind="model")
async def awords() -> AsyncGenerator[str, None]:
    try:
        for word in ("one", "two", "three"):
            await asyncio.sleep(0)
            yield word
    finally:
        CLOSED.append("awords")


def keeps(stream: Any) -> list[Any]:
    """Still holds the stream when the run ends."""
    KEPT.append(stream)
    return [next(stream) for _ in range(SEEN)]


async def akeeps(stream: Any) -> list[Any]:
    KEPT.append(stream)
    return [await anext(stream) for _ in range(SEEN)]


KEPT: list[Any] = []


@pytest.mark.parametrize("leave", [closes, drops, wraps_and_drops, breaks, raises, keeps])
def test_rec_01_a_generator(lab: Lab, spans: InMemorySpanExporter, leave: Callable[[Any], list[Any]]) -> None:
    CLOSED.clear()
    assert lab.record(lambda: leave(words())) == ["one", "two"]
    KEPT.clear()
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.kind, len(envelope.outcome.chunks)) == ("streamed", SEEN)
    assert envelope.outcome.end == ("dropped" if leave is keeps else "closed")
    assert CLOSED == ["words"]
    assert len([s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.address")]) == 1
    assert lab.replay(lambda: leave(words())) == ["one", "two"]
    assert CLOSED == ["words"], "nothing ran in the replay"
    with pytest.raises(StreamEndsHere):
        lab.replay(lambda: list(words()))
    KEPT.clear()


async def closes_agen(stream: Any) -> list[Any]:
    seen = [await anext(stream) for _ in range(SEEN)]
    await stream.aclose()
    return seen


@pytest.mark.parametrize("leave", [closes_agen, abreaks, araises, adrops, wraps_and_acloses, akeeps])
def test_rec_01_an_async_generator(lab: Lab, leave: Callable[[Any], Awaitable[list[Any]]]) -> None:
    CLOSED.clear()

    async def agent() -> list[Any]:
        return await leave(awords())

    assert lab.record(lambda: asyncio.run(agent())) == ["one", "two"]
    KEPT.clear()
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.kind, len(envelope.outcome.chunks)) == ("streamed", SEEN)
    # What is dropped just before the loop ends is closed by the loop, which cancels that, with us or without.
    assert envelope.outcome.end in ("closed", "dropped", "cancelled")
    assert CLOSED == ["awords"]
    assert lab.replay(lambda: asyncio.run(agent())) == ["one", "two"]
    assert CLOSED == ["awords"]
    KEPT.clear()


@pytest.mark.parametrize("leave", [closes, breaks, keeps])
def test_rec_01_a_generator_left_sooner_than_recorded_is_named(lab: Lab, leave: Callable[[Any], list[Any]]) -> None:
    assert lab.record(lambda: list(words())) == ["one", "two", "three"]
    with replay("run", store=lab.store) as session:
        assert leave(words()) == ["one", "two"]
    assert "words[1] (left after 2 of 3 recorded chunks)" in session.report.text()
    KEPT.clear()


def test_rec_01_an_error_in_the_stream_is_the_reason(lab: Lab) -> None:
    @boundary("torn", kind="model")
    def torn() -> Iterator[int]:
        yield 1
        raise ConnectionResetError(104, "reset")

    def agent() -> list[Any]:
        seen: list[Any] = []
        try:
            for item in torn():
                seen.append(item)
        except ConnectionResetError as fault:
            seen.append(str(fault))
        return seen

    recorded = lab.record(agent)
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == ("raised", 1)
    assert lab.replay(agent) == recorded == [1, "[Errno 104] reset"]
