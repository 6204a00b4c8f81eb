"""Streams of the OpenAI SDK: left early, torn off, cancelled, and in the chunks that vendors send."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from otel_replay import instrument
from otel_replay.errors import StreamEndsHere
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import ToolCall

from .conftest import Lab
from .test_openai import ASK, _stream, async_of, both_ways, sync_of

SHARED = Path(__file__).parents[3] / "shared" / "cases"
OWN = Path(__file__).parent / "files"

# Streams that end before their end ------------------------------------------------------------------------------


def _leave_by_break(stream: Any) -> Any:
    with stream:
        for chunk in stream:
            return chunk


def _leave_by_close(stream: Any) -> Any:
    chunk = next(stream)
    stream.close()
    return chunk


def _leave_by_raise(stream: Any) -> Any:
    seen = []
    with contextlib.suppress(ZeroDivisionError), stream:
        for chunk in stream:
            seen.append(chunk)
            raise ZeroDivisionError
    return seen


def _leave_by_drop(stream: Any) -> Any:
    chunk = next(stream)
    del stream
    return chunk


@pytest.mark.parametrize("leave", [_leave_by_break, _leave_by_close, _leave_by_raise, _leave_by_drop])
def test_a_stream_left_early_is_one_ended_crossing_with_what_was_seen(lab: Lab, leave: Callable[[Any], Any]) -> None:
    def agent(url: str) -> Any:
        return leave(sync_of(url).chat.completions.create(model="m", messages=ASK, stream=True))

    recorded, replayed = both_ways(lab, [reply.text("one two three four")], agent)
    assert replayed == recorded
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "streamed"
    assert envelope.outcome.end in ("closed", "dropped")
    assert len(envelope.outcome.chunks) == 2, "the head and one event"


def test_a_stream_never_started_is_ended_too(lab: Lab) -> None:
    def agent(url: str) -> Any:
        return type(sync_of(url).chat.completions.create(model="m", messages=ASK, stream=True))

    both_ways(lab, [reply.text("one two")], agent)
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == ("dropped", 1)


def test_who_reads_on_past_the_recorded_end_is_told(lab: Lab) -> None:
    instrument("openai")
    ask: dict[str, Any] = {"model": "m", "messages": ASK, "stream": True}
    with ModelServer([reply.text("one two three four")]) as server:
        lab.record(lambda: _leave_by_break(sync_of(server.url).chat.completions.create(**ask)))
    seen = []
    with pytest.raises(StreamEndsHere, match="recording"):
        lab.replay(lambda: seen.extend(sync_of(server.url).chat.completions.create(**ask)))


def _read(stream: Any, seen: list[Any]) -> None:
    for chunk in stream:
        seen.append(chunk)


def test_a_stream_torn_off_raises_after_the_same_chunks(lab: Lab) -> None:
    whole = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

    def agent(url: str) -> Any:
        seen: list[Any] = []
        stream = sync_of(url).chat.completions.create(model="m", messages=ASK, stream=True)
        with pytest.raises((openai.APIConnectionError, httpx.ReadError)) as caught:  # older SDKs raise httpx's own
            _read(stream, seen)
        return seen, type(caught.value), str(caught.value), type(caught.value.__cause__)

    script = [reply.raw_sse(whole + whole + b'data: {"id', [7, 70, 75], reset_at_end=True)]
    recorded, replayed = both_ways(lab, script, agent)
    assert replayed == recorded
    assert len(recorded[0]) == 2
    assert lab.envelopes()[0].outcome.end == "raised"


# Cancelled ------------------------------------------------------------------------------------------------------


def test_a_cancelled_call_is_cancelled_and_passes_through(lab: Lab) -> None:
    def agent(url: str) -> Any:
        async def go() -> str:
            task = asyncio.create_task(async_of(url).chat.completions.create(model="m", messages=ASK))
            await asyncio.sleep(0.15)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"
            return "answered"

        return asyncio.run(go())

    recorded, replayed = both_ways(lab, [reply.hang(3)], agent)
    assert recorded == replayed == "cancelled"
    assert lab.envelopes()[0].outcome.kind == "cancelled"


def test_a_stream_cancelled_in_the_middle(lab: Lab) -> None:
    def agent(url: str) -> Any:
        async def go() -> Any:
            seen: list[Any] = []

            async def read() -> None:
                async for chunk in await async_of(url).chat.completions.create(model="m", messages=ASK, stream=True):
                    seen.append(chunk)

            task = asyncio.create_task(read())
            await asyncio.sleep(0.25)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return seen

        return asyncio.run(go())

    recorded, replayed = both_ways(lab, [reply.stream(["one", "two"], between_s=5)], agent)
    assert replayed == recorded
    assert lab.envelopes()[0].outcome.end == "cancelled"


# Chunks as vendors send them -------------------------------------------------------------------------------------


def _accumulated(chunks: list[Any]) -> list[tuple[str, str]]:
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        for call in chunk.choices[0].delta.tool_calls or []:
            held = calls.setdefault(call.index, ["", ""])
            held[0] += call.function.name or ""
            held[1] += call.function.arguments or ""
    return [(name, arguments) for name, arguments in calls.values()]


STREAMS = [path for path in (OWN / "parallel.sse", OWN / "same_index.sse") if path.exists()] + [
    path
    for path in (SHARED / "rec05_parallel_interleaved.sse", SHARED / "rec06_dup_index_first_chunk.sse")
    if path.exists()
]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_tool_call_deltas_come_back_chunk_by_chunk(lab: Lab, path: Path, cut: int) -> None:
    content = path.read_bytes()
    script = [reply.raw_sse(content, range(cut * 10, len(content), cut * 10))]
    recorded, replayed = both_ways(lab, script, _stream)
    assert replayed == recorded
    assert recorded
    for _name, arguments in _accumulated(replayed):
        json.loads(arguments)
    events = content.replace(b"\r\n", b"\n").count(b"\n\n")
    assert len(lab.envelopes()[0].outcome.chunks) == events + 1


def test_interleaved_calls_of_a_stream_are_kept_apart(lab: Lab) -> None:
    calls = (ToolCall("weather", {"city": "Oslo"}, "c1"), ToolCall("stock", {"symbol": "ACME"}, "c2"))
    recorded, replayed = both_ways(lab, [reply.tool_calls(*calls, interleaved=True)], _stream)
    assert _accumulated(replayed) == _accumulated(recorded)
    assert [name for name, _ in _accumulated(replayed)] == ["weather", "stock"]


def test_what_happens_to_the_messages_after_the_call_is_not_in_the_record(lab: Lab) -> None:
    def agent(url: str) -> Any:
        messages = list(ASK)
        stream = sync_of(url).chat.completions.create(model="m", messages=messages, stream=True)
        messages.append({"role": "assistant", "content": "later"})
        return list(stream)

    recorded, replayed = both_ways(lab, [reply.text("blue")], agent)
    assert replayed == recorded
    request: Any = lab.envelopes()[0].request.tree()
    assert request["messages"] == ASK
