"""The OpenAI SDK, recorded against a local server and replayed without it: every form of a call."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Callable
from typing import Any

import openai
import pydantic
import pytest

from otel_replay import Diverged, ReplayPlan, instrument, uninstrument
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply

from .conftest import Lab

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]


def sync_of(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", **{"max_retries": 0, **options})


def async_of(url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url, api_key="none", **{"max_retries": 0, **options})


def both_ways(lab: Lab, script: Any, agent: Callable[[str], Any]) -> tuple[Any, Any]:
    """Return what the agent returns while recorded, and replayed with the server switched off."""
    instrument("openai")
    with ModelServer(script) as server:
        recorded = lab.record(lambda: agent(server.url))
        count = server.count
    replayed = lab.replay(lambda: agent(server.url))
    assert server.count == count
    return recorded, replayed


class Event(pydantic.BaseModel):
    name: str
    day: int


EVENT = '{"name": "fair", "day": 3}'


def _create(url: str) -> Any:
    return sync_of(url).chat.completions.create(model="m", messages=ASK, temperature=0)


def _stream(url: str) -> Any:
    stream = sync_of(url).chat.completions.create(model="m", messages=ASK, stream=True)
    assert isinstance(stream, openai.Stream)
    return list(stream)


def _parse(url: str) -> Any:
    return sync_of(url).chat.completions.parse(model="m", messages=ASK, response_format=Event)


def _helper(url: str) -> Any:
    with sync_of(url).chat.completions.stream(model="m", messages=ASK) as stream:
        return [event.model_dump() for event in stream], stream.get_final_completion()


def _responses(url: str) -> Any:
    return sync_of(url).responses.create(model="m", input="hello")


def _responses_parse(url: str) -> Any:
    return sync_of(url).responses.parse(model="m", input="hello", text_format=Event)


def _responses_stream(url: str) -> Any:
    return list(sync_of(url).responses.create(model="m", input="hello", stream=True))


def _responses_helper(url: str) -> Any:
    with sync_of(url).responses.stream(model="m", input="hello") as stream:
        return [event.type for event in stream], stream.get_final_response()


def _raw(url: str) -> Any:
    raw = sync_of(url).chat.completions.with_raw_response.create(model="m", messages=ASK)
    return raw.parse(), raw.parse()._request_id, raw.status_code, raw.headers["x-request-id"], raw.text, raw.request_id


def _raw_stream(url: str) -> Any:
    raw = sync_of(url).responses.with_raw_response.create(model="m", input="x", stream=True)
    return raw.headers["x-request-id"], list(raw.parse())


def _streaming(url: str) -> Any:
    with sync_of(url).chat.completions.with_streaming_response.create(model="m", messages=ASK) as raw:
        return raw.headers["x-request-id"], list(raw.iter_lines())


def _streaming_parse(url: str) -> Any:
    with sync_of(url).chat.completions.with_streaming_response.create(model="m", messages=ASK) as raw:
        return raw.parse()


def _acreate(url: str) -> Any:
    return asyncio.run(async_of(url).chat.completions.create(model="m", messages=ASK))


def _astream(url: str) -> Any:
    async def go() -> Any:
        stream = await async_of(url).chat.completions.create(model="m", messages=ASK, stream=True)
        assert isinstance(stream, openai.AsyncStream)
        return [chunk async for chunk in stream]

    return asyncio.run(go())


def _ahelper(url: str) -> Any:
    async def go() -> Any:
        async with async_of(url).chat.completions.stream(model="m", messages=ASK) as stream:
            return [event.type async for event in stream], await stream.get_final_completion()

    return asyncio.run(go())


def _araw(url: str) -> Any:
    async def go() -> Any:
        client = async_of(url)
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=ASK)
        async with client.chat.completions.with_streaming_response.create(model="m", messages=ASK) as streaming:
            lines = [line async for line in streaming.iter_lines()]
        return raw.parse(), raw.headers["x-request-id"], lines, streaming.headers["x-request-id"]

    return asyncio.run(go())


def _parallel(url: str) -> Any:
    async def go() -> Any:
        client = async_of(url)
        ask = client.chat.completions.create
        return await asyncio.gather(*(ask(model="m", messages=[{"role": "user", "content": str(n)}]) for n in range(5)))

    return asyncio.run(go())


FORMS = [
    _create, _stream, _parse, _helper, _responses, _responses_parse, _responses_stream, _responses_helper, _raw,
    _raw_stream, _streaming, _streaming_parse, _acreate, _astream, _ahelper, _araw, _parallel,
]  # fmt: skip


@pytest.mark.parametrize("agent", FORMS, ids=lambda form: form.__name__)
def test_every_form_comes_back_equal_and_of_its_type(lab: Lab, agent: Callable[[str], Any]) -> None:
    recorded, replayed = both_ways(lab, lambda request: reply.text(EVENT), agent)
    assert replayed == recorded
    assert type(replayed) is type(recorded)
    if isinstance(recorded, pydantic.BaseModel):
        assert replayed.model_dump_json(warnings=False) == recorded.model_dump_json(warnings=False)
        assert getattr(replayed, "_request_id", None) == getattr(recorded, "_request_id", None)
    assert all(envelope.kind == "model" and envelope.grade == "exact" for envelope in lab.envelopes())


def test_a_form_with_nothing_recorded_under_it_is_the_sdks_own(lab: Lab) -> None:
    with ModelServer(lambda request: reply.text(EVENT)) as server:
        plain = [form(server.url) for form in FORMS[:4]]
        instrument("openai")
        inert = [form(server.url) for form in FORMS[:4]]
    assert [str(type(item)) for item in plain] == [str(type(item)) for item in inert]


def test_parsed_results_keep_their_class(lab: Lab) -> None:
    recorded, replayed = both_ways(lab, [reply.text(EVENT)], _parse)
    parsed = replayed.choices[0].message.parsed
    assert isinstance(parsed, Event)
    assert parsed == recorded.choices[0].message.parsed == Event(name="fair", day=3)
    assert type(replayed) is type(recorded)


def test_embeddings_come_back_as_floats(lab: Lab) -> None:
    def agent(url: str) -> Any:
        return sync_of(url).embeddings.create(model="e", input=["a", "b"])

    recorded, replayed = both_ways(lab, [reply.embedding([[0.25, -1.5], [3.0, 0.1]])], agent)
    assert replayed == recorded
    assert [item.embedding for item in replayed.data] == [item.embedding for item in recorded.data]
    assert lab.envelopes()[0].boundary == "openai.embeddings"


def test_the_envelope_holds_the_wire_request_the_answer_and_the_pins(lab: Lab) -> None:
    tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]

    def agent(url: str) -> Any:
        create = sync_of(url).chat.completions.create
        return create(model="m", messages=ASK, temperature=0.5, tools=tools, extra_headers={"x-mine": "1"})

    both_ways(lab, [reply.text("blue")], agent)
    (envelope,) = lab.envelopes()
    request: Any = envelope.request.tree()
    assert request == {
        "messages": ASK,
        "model": "m",
        "temperature": 0.5,
        "tools": tools,
        "extra_headers": {"x-mine": "1"},
    }
    outcome: Any = envelope.outcome.value.tree()
    assert (outcome["status"], outcome["form"]) == (200, "json spaced")
    assert outcome["body"]["choices"][0]["message"]["content"] == "blue"
    assert envelope.pins["model"] == envelope.pins["model_answered"] == "m"
    assert envelope.pins["sampling"] == {"temperature": 0.5}
    assert len(str(envelope.pins["tools_sha256"])) == 64
    assert envelope.pins["sdk"] == f"openai {openai.__version__}"


# Errors --------------------------------------------------------------------------------------------------------


def _failing(url: str, **options: Any) -> tuple[Any, ...]:
    try:
        sync_of(url, **options).chat.completions.create(model="m", messages=ASK)
    except openai.APIStatusError as error:
        headers = {name: value for name, value in error.response.headers.items() if name != "date"}
        return type(error), error.status_code, headers, error.body, str(error), error.request_id
    except openai.APIError as error:
        return type(error), str(error), str(error.request.url), type(error.__cause__), error.body
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 429, 500, 503])
def test_status_errors_come_back_with_class_status_headers_and_body(lab: Lab, status: int) -> None:
    recorded, replayed = both_ways(lab, [reply.error(status, "no", code="c", retry_after_s=7)], _failing)
    assert replayed == recorded
    assert recorded[1] == status
    assert lab.envelopes()[0].outcome.kind == "raised"


@pytest.mark.parametrize(
    ("answer", "kind"), [(reply.reset(), openai.APIConnectionError), (reply.hang(5), openai.APITimeoutError)]
)
def test_resets_and_timeouts_come_back(lab: Lab, answer: Any, kind: type) -> None:
    recorded, replayed = both_ways(lab, [answer], lambda url: _failing(url, timeout=0.2))
    assert replayed == recorded
    assert recorded[0] is kind


def test_retries_are_attempts_of_one_crossing_and_are_not_waited_for_again(lab: Lab) -> None:
    script: list[Reply | str] = [
        reply.error(429, retry_after_s=0.6),
        reply.error(503, retry_after_s=0.3),
        reply.text("blue"),
    ]
    instrument("openai")

    def agent(url: str) -> Any:
        raw = sync_of(url, max_retries=2).chat.completions.with_raw_response.create(model="m", messages=ASK)
        return raw.parse(), raw.retries_taken

    with ModelServer(script) as server:
        recorded = lab.record(lambda: agent(server.url))
    seconds = []

    def timed() -> Any:
        began = time.monotonic()
        answer = agent(server.url)
        seconds.append(time.monotonic() - began)
        return answer

    assert lab.replay(timed) == recorded
    assert seconds[0] < 0.9, "the recorded waits"
    (envelope,) = lab.envelopes()
    assert recorded[1] == 2
    assert [attempt.status for attempt in envelope.attempts] == ["429", "503"]
    assert [attempt.wait_ns for attempt in envelope.attempts] == [600_000_000, 300_000_000]
    assert all(0 < attempt.start_ns <= attempt.end_ns for attempt in envelope.attempts)


def test_async_retries_too(lab: Lab) -> None:
    script: list[Reply | str] = [reply.error(429, retry_after_s=0.05), reply.text("blue")]

    def agent(url: str) -> Any:
        return asyncio.run(async_of(url, max_retries=2).chat.completions.create(model="m", messages=ASK))

    recorded, replayed = both_ways(lab, script, agent)
    assert replayed == recorded
    assert [attempt.status for attempt in lab.envelopes()[0].attempts] == ["429"]


def test_an_answer_that_the_sdk_cannot_take_fails_in_the_same_way(lab: Lab) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(openai.LengthFinishReasonError) as caught:
            _parse(url)
        return str(caught.value)

    recorded, replayed = both_ways(lab, [reply.message(EVENT, finish="length")], agent)
    assert replayed == recorded
    assert lab.envelopes()[0].outcome.kind == "returned"


# Patching -------------------------------------------------------------------------------------------------------


def _library(client: Any) -> Any:
    """Return the transport's library that this version of the SDK stands on: httpx or httpx2."""
    tops = (base.__module__.partition(".")[0] for base in type(client._client).__mro__)
    return importlib.import_module(next(top for top in tops if top.startswith("httpx")))


class Mine(openai.OpenAI):
    """A client of the program's own."""


def test_clients_made_before_subclasses_options_and_own_transports_are_covered(lab: Lab) -> None:
    with ModelServer(lambda request: reply.text("blue")) as server:
        before, mine = sync_of(server.url), Mine(base_url=server.url, api_key="none")
        own = sync_of(server.url, http_client=_library(before).Client())

        def agent() -> Any:
            clients = [before, mine, own, before.with_options(timeout=3)]
            return [client.chat.completions.create(model="m", messages=ASK) for client in clients]

        instrument("openai")
        recorded = lab.record(agent)
    assert lab.replay(agent) == recorded
    assert [envelope.address for envelope in lab.envelopes()] == [f"openai.chat.completions[{n}]" for n in (1, 2, 3, 4)]


def test_twice_is_once_and_undone_is_undone(lab: Lab) -> None:
    from openai._base_client import SyncAPIClient

    original = SyncAPIClient.request
    assert instrument("openai") == instrument("openai") == ("openai",)
    with ModelServer(lambda request: reply.text("blue")) as server:
        lab.record(lambda: _create(server.url))
        assert len(lab.envelopes()) == 1
        assert uninstrument("openai") == ()
        assert SyncAPIClient.request is original
        lab.record(lambda: _create(server.url))
        assert len(lab.envelopes()) == 0


def test_a_replay_asks_nothing_that_was_not_recorded(lab: Lab) -> None:
    instrument("openai")
    with ModelServer([reply.text("blue")]) as server:
        lab.record(lambda: _create(server.url))

        def asks_more(url: str) -> None:
            _create(url)
            sync_of(url).models.list()

        with pytest.raises(Diverged):
            lab.replay(lambda: asks_more(server.url))
        assert server.count == 1


@pytest.mark.parametrize("broken", ["request_of", "boundary_name"])
def test_a_fault_inside_the_instrument_does_not_reach_the_agent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from otel_replay.instruments import _stainless

    def fails(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setenv("OTEL_REPLAY_STRICT", "")
    monkeypatch.setattr(_stainless, broken, fails)
    instrument("openai")
    with ModelServer([reply.text("blue")]) as server:
        answer = lab.record(lambda: _create(server.url), strict=False)
    assert answer.choices[0].message.content == "blue"


@pytest.mark.parametrize("broken", ["answer_to", "head_to", "event_to", "body_to"])
def test_a_fault_while_keeping_an_answer_does_not_reach_the_agent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from otel_replay.wire import exchange as _exchange

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setenv("OTEL_REPLAY_STRICT", "")
    monkeypatch.setattr(_exchange, broken, fails)
    instrument("openai")
    with ModelServer(lambda request: reply.text("one two")) as server:
        chunks = lab.record(lambda: (_create(server.url), _stream(server.url))[1], strict=False)
    assert len(chunks) == 4


def test_an_override_may_be_the_vendors_body_or_the_sdks_object(lab: Lab) -> None:
    recorded, _ = both_ways(lab, [reply.text("blue")], _create)
    body = {**json.loads(recorded.model_dump_json()), "choices": []}
    name = "openai.chat.completions"
    assert lab.replay(lambda: _create("http://127.0.0.1:9"), ReplayPlan().override(name, 1, body)).choices == []
    assert lab.replay(lambda: _create("http://127.0.0.1:9"), ReplayPlan().override(name, 1, recorded)) == recorded
