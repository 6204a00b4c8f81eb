"""The Anthropic SDK: messages, streams, thinking with signatures, tool use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from otel_replay import instrument, uninstrument
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply, ToolCall

from .conftest import Lab

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]
ANSWER = reply.message(
    "It is blue.", tool_calls=(ToolCall("lookup", {"id": 7, "é": [1]}, "toolu_1"),), thinking="hm", signature="c2ln=="
)


def sync_of(url: str, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", **{"max_retries": 0, **options})


def _create(url: str) -> Any:
    return sync_of(url).messages.create(model="m", max_tokens=9, messages=ASK)


def _stream(url: str) -> Any:
    stream = sync_of(url).messages.create(model="m", max_tokens=9, messages=ASK, stream=True)
    assert isinstance(stream, anthropic.Stream)
    return list(stream)


def _helper(url: str) -> Any:
    with sync_of(url).messages.stream(model="m", max_tokens=9, messages=ASK) as stream:
        return [event.type for event in stream], stream.get_final_message()


def _raw(url: str) -> Any:
    raw = sync_of(url).messages.with_raw_response.create(model="m", max_tokens=9, messages=ASK)
    return raw.parse(), raw.headers["request-id"], raw.status_code


def _streaming(url: str) -> Any:
    with sync_of(url).messages.with_streaming_response.create(model="m", max_tokens=9, messages=ASK) as raw:
        return list(raw.iter_lines()), raw.headers["request-id"]


def _beta(url: str) -> Any:
    return sync_of(url).beta.messages.create(model="m", max_tokens=9, messages=ASK, betas=["x-1"])


def _async(url: str) -> Any:
    async def go() -> Any:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            answer = await client.messages.create(model="m", max_tokens=9, messages=ASK)
            async with client.messages.stream(model="m", max_tokens=9, messages=ASK) as stream:
                return answer, [event.type async for event in stream], await stream.get_final_message()

    return asyncio.run(go())


@pytest.mark.parametrize("agent", [_create, _stream, _helper, _raw, _streaming, _beta, _async])
def test_every_form_comes_back_equal_and_of_its_type(lab: Lab, agent: Callable[[str], Any]) -> None:
    instrument("anthropic")
    with ModelServer(lambda request: ANSWER) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    replayed = lab.replay(lambda: agent(server.root_url))
    assert replayed == recorded
    assert type(replayed) is type(recorded)
    assert {envelope.boundary for envelope in lab.envelopes()} == {"anthropic.messages"}
    if agent is _create:
        assert replayed.model_dump_json() == recorded.model_dump_json()
        assert [block.type for block in replayed.content] == ["thinking", "text", "tool_use"]
        assert replayed.content[0].signature == "c2ln=="


@pytest.mark.parametrize("status", [400, 429, 500, 529])
def test_errors_come_back(lab: Lab, status: int) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(anthropic.APIStatusError) as caught:
            _create(url)
        error = caught.value
        return type(error), error.status_code, dict(error.response.headers), error.body, error.request_id, str(error)

    instrument("anthropic")
    with ModelServer([reply.error(status, "no", retry_after_s=1)]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    assert recorded[1] == status


def test_retries_are_attempts_of_one_crossing(lab: Lab) -> None:
    instrument("anthropic")
    script: list[Reply | str] = [reply.error(529, retry_after_s=0.05), reply.text("blue")]
    with ModelServer(script) as server:

        def agent() -> Any:
            return sync_of(server.root_url, max_retries=2).messages.create(model="m", max_tokens=9, messages=ASK)

        recorded = lab.record(agent)
    assert lab.replay(agent) == recorded
    (envelope,) = lab.envelopes()
    assert [(attempt.status, attempt.wait_ns) for attempt in envelope.attempts] == [("529", 50_000_000)]


def test_a_stream_left_early_ends_once(lab: Lab) -> None:
    def agent(url: str) -> Any:
        with sync_of(url).messages.create(model="m", max_tokens=9, messages=ASK, stream=True) as stream:
            return next(stream), next(stream)

    instrument("anthropic")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == ("closed", 3)


@pytest.mark.parametrize(
    "broken", ["_stainless.request_of", "_stainless.boundary_name", "answer_to", "head_to", "event_to", "body_to"]
)
def test_a_fault_inside_the_instrument_does_not_reach_the_agent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from otel_replay.instruments import _stainless
    from otel_replay.wire import exchange

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setenv("OTEL_REPLAY_STRICT", "")
    monkeypatch.setattr(_stainless if "." in broken else exchange, broken.rpartition(".")[2], fails)
    instrument("anthropic")
    with ModelServer(lambda request: ANSWER) as server:

        def agent() -> tuple[Any, Any]:
            return _create(server.root_url), _stream(server.root_url)

        answer, events = lab.record(agent, strict=False)
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    assert [events[0].type, events[-1].type] == ["message_start", "message_stop"]


@pytest.mark.parametrize(
    ("answer", "kind"), [(reply.reset(), anthropic.APIConnectionError), (reply.hang(), anthropic.APITimeoutError)]
)
def test_resets_and_timeouts_come_back(lab: Lab, answer: Reply, kind: type[Exception]) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(kind) as caught:
            sync_of(url, timeout=0.3).messages.create(model="m", max_tokens=9, messages=ASK)
        return type(caught.value), str(caught.value)

    instrument("anthropic")
    with ModelServer([answer]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded


def test_parallel_calls_keep_their_answers_and_a_cancelled_one_is_cancelled_again(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:

            def ask(words: str) -> Any:
                told: list[Any] = [{"role": "user", "content": words}]
                return client.messages.create(model="m", max_tokens=9, messages=told)

            hung = asyncio.create_task(ask("hang"))
            found = await asyncio.gather(*(ask(str(number)) for number in range(4)))
            hung.cancel()
            return [answer.content[0].text for answer in found], await asyncio.gather(hung, return_exceptions=True)

    def play(request: Any) -> Reply:
        words = request.messages[0]["content"]
        return reply.hang() if words == "hang" else reply.after(0.05 * (4 - int(words)), reply.text(f"about {words}"))

    instrument("anthropic")
    with ModelServer(play) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url)))
    again = lab.replay(lambda: asyncio.run(agent(server.root_url)))
    assert again[0] == recorded[0] == [f"about {number}" for number in range(4)]
    assert [type(fault) for fault in again[1]] == [type(fault) for fault in recorded[1]] == [asyncio.CancelledError]


def test_twice_is_once_and_undone_is_undone(lab: Lab) -> None:
    instrument("anthropic")
    instrument("anthropic")
    with ModelServer([ANSWER, ANSWER]) as server:
        lab.record(lambda: _create(server.root_url))
        assert len(lab.envelopes()) == 1
        uninstrument("anthropic")
        lab.record(lambda: _create(server.root_url))
    assert lab.envelopes() == ()
