"""The played server, called by the real Anthropic client, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from otel_replay.testing import CountingIds, ModelServer, StepClock, reply
from otel_replay.testing.reply import ToolCall

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]
ALL_PARTS = reply.message(
    "Let me look.",
    thinking="The colour is in the catalogue.",
    signature="c2ln",
    tool_calls=[ToolCall("lookup", {"id": 7})],
)


def client_of(server: ModelServer, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.root_url, api_key="none", max_retries=0, **options)


def check_all_parts(answer: anthropic.types.Message) -> None:
    thinking, words, asked = answer.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("The colour is in the catalogue.", "c2ln")
    assert words.type == "text"
    assert words.text == "Let me look."
    assert asked.type == "tool_use"
    assert (asked.name, asked.input) == ("lookup", {"id": 7})
    assert asked.id.startswith("toolu_")
    assert answer.stop_reason == "tool_use"


def test_message_with_thinking_text_and_tool_use() -> None:
    with ModelServer([ALL_PARTS]) as server:
        answer = client_of(server).messages.create(model="demo-1", max_tokens=100, messages=ASK)
    check_all_parts(answer)
    assert answer.usage.output_tokens > 0
    (request,) = server.requests
    assert (request.api, request.path) == ("messages", "/v1/messages")
    assert "none" in request.headers.get("x-api-key", request.headers.get("authorization", ""))
    assert request.messages == ASK


def test_stream_joins_to_the_same_message() -> None:
    with (
        ModelServer([ALL_PARTS]) as server,
        client_of(server).messages.stream(model="demo-1", max_tokens=100, messages=ASK) as stream,
    ):
        check_all_parts(stream.get_final_message())
    assert server.requests[0].wants_stream


def test_raw_stream_has_the_vendors_events_in_order() -> None:
    with ModelServer([reply.text("two words")]) as server:
        events = list(client_of(server).messages.create(model="m", max_tokens=9, messages=ASK, stream=True))
    kinds: list[str] = [event.type for event in events]
    delta = "content_block_delta"
    head = ["message_start", "content_block_start"]
    assert [kind for kind in kinds if kind != "ping"] == [
        *head, delta, delta, "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip


def test_async_client_whole_and_streamed() -> None:
    async def ask(url: str) -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none") as client:
            check_all_parts(await client.messages.create(model="m", max_tokens=9, messages=ASK))
            async with client.messages.stream(model="m", max_tokens=9, messages=ASK) as stream:
                check_all_parts(await stream.get_final_message())

    with ModelServer([ALL_PARTS, ALL_PARTS]) as server:
        asyncio.run(ask(server.root_url))
    assert server.count == 2


def test_errors_are_in_the_vendors_form() -> None:
    script = [reply.error(429, "slow down", retry_after_s=2), reply.error(529), reply.error(400, "no")]
    with ModelServer(script) as server:
        client = client_of(server)
        with pytest.raises(anthropic.RateLimitError) as limited:
            client.messages.create(model="m", max_tokens=9, messages=ASK)
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            client.messages.create(model="m", max_tokens=9, messages=ASK)
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(model="m", max_tokens=9, messages=ASK)
    body: Any = limited.value.body
    assert body["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert limited.value.response.headers["retry-after"] == "2"
    assert overloaded.value.status_code == 529


def test_an_error_event_in_the_middle_of_a_stream_raises() -> None:
    broken = reply.stream([{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}])
    with ModelServer([broken]) as server:
        stream = client_of(server).messages.create(model="m", max_tokens=9, messages=ASK, stream=True)
        with pytest.raises(anthropic.APIStatusError, match="busy"):
            list(stream)


def test_texts_and_events_do_not_mix() -> None:
    with pytest.raises(TypeError, match="not both"):
        reply.stream(["a", {"type": "ping"}])


def test_clock_steps_and_ids_count() -> None:
    clock, ids = StepClock(start_ns=5, step_ns=2), CountingIds()
    assert [clock(), clock(), clock()] == [5, 7, 9]
    assert [ids.trace_id(), ids.trace_id(), ids.span_id()] == [1, 2, 1]
    assert [ids.hex(2), ids.hex(4)] == ["0001", "00000002"]
