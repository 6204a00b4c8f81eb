"""The Google GenAI SDK, recorded against a local server and replayed with the server switched off."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, record, uninstrument
from otel_replay.errors import Diverged
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply, ToolCall
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("google.genai") is not None:
    from google import genai
    from google.genai import errors, types

    WITH_TOOLS = types.GenerateContentConfig(
        temperature=0.5, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )

ASK = "Colour of item 7?"
ANSWER = reply.message("It is blue.", tool_calls=(ToolCall("lookup", {"id": 7, "é": [1]}, "call_1"),))
KEPT: list[Any] = []
RETRIES = {"attempts": 3, "initial_delay": 0.01, "max_delay": 0.02}


def client(url: str, **options: Any) -> Any:
    made = genai.Client(api_key="none", http_options={"base_url": url, **options})
    KEPT.append(made)  # one that is dropped closes its connections, also under what was taken from it
    return made


def play(request: Any) -> Reply:
    return reply.embedding() if request.api == "embed_content" else ANSWER


def _whole(url: str) -> Any:
    answer = client(url).models.generate_content(model="m", contents=ASK, config=WITH_TOOLS)
    assert answer.function_calls[0].args == {"id": 7, "é": [1]}
    return answer


def _stream(url: str) -> Any:
    return list(client(url).models.generate_content_stream(model="m", contents=ASK))


def _embedding(url: str) -> Any:
    return client(url).models.embed_content(model="m", contents=["a", "b"])


def _chat(url: str) -> Any:
    chat = client(url).chats.create(model="m")
    return [chat.send_message(ASK), chat.send_message("And 8?")]


def _later(url: str) -> Any:
    return asyncio.run(client(url).aio.models.generate_content(model="m", contents=ASK))


def _stream_later(url: str) -> Any:
    async def go() -> Any:
        stream = await client(url).aio.models.generate_content_stream(model="m", contents=ASK)
        return [chunk async for chunk in stream]

    return asyncio.run(go())


FORMS = [_whole, _stream, _embedding, _chat, _later, _stream_later]


@pytest.mark.parametrize("others", [(), ("all",)])
@pytest.mark.parametrize("agent", FORMS)
def test_every_form_comes_back_equal_and_of_its_type(
    lab: Lab, agent: Callable[[str], Any], others: tuple[str, ...]
) -> None:
    instrument("google_genai", *others)
    with ModelServer(play) as server:
        recorded = lab.record(lambda: agent(server.root_url))
        count = server.count
    replayed = lab.replay(lambda: agent(server.root_url))
    assert replayed == recorded
    for again, first in zip(*[x if isinstance(x, list) else [x] for x in (replayed, recorded)], strict=True):
        assert type(again) is type(first)
        assert again.model_dump_json() == first.model_dump_json()
        assert again.sdk_http_response == first.sdk_http_response
    name = "google_genai.embed_content" if agent is _embedding else "google_genai.generate_content"
    assert lab.addresses() == [(f"{name}[{number + 1}]", "model") for number in range(count)]


def test_pins_name_the_model_and_the_sampling(lab: Lab) -> None:
    instrument("google_genai")
    with ModelServer(play) as server:
        lab.record(lambda: _whole(server.root_url))
    pins = lab.envelopes()[0].pins
    assert (pins["model"], pins["model_answered"], pins["sampling"]) == ("m", "m", {"temperature": 0.5})
    assert str(pins["sdk"]).startswith("google-genai ")


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_come_back(lab: Lab, status: int, is_async: bool) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(errors.APIError) as caught:
            _later(url) if is_async else _whole(url)
        error: Any = caught.value
        headers = dict(error.response.headers)
        return type(error), type(error.response), error.code, error.status, headers, error.details, str(error)

    instrument("google_genai")
    with ModelServer(lambda request: reply.error(status, "no", retry_after_s=1)) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    assert recorded[0] is (errors.ServerError if status >= 500 else errors.ClientError)
    assert recorded[2] == status
    assert recorded[4].get("retry-after", recorded[4].get("Retry-After")) == "1"


@pytest.mark.parametrize("answer", [reply.reset(), reply.hang()])
def test_a_lost_connection_comes_back(lab: Lab, answer: Reply) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(Exception, match=".") as caught:
            client(url, timeout=500).models.generate_content(model="m", contents=ASK)
        return type(caught.value), str(caught.value)

    instrument("google_genai")
    with ModelServer(lambda request: answer) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    assert recorded[0].__module__.startswith("httpx")


@pytest.mark.parametrize("is_async", [False, True])
def test_retries_are_attempts_of_one_crossing(lab: Lab, is_async: bool) -> None:
    def agent(url: str) -> Any:
        ours = client(url, retry_options=RETRIES)
        if is_async:
            return asyncio.run(ours.aio.models.generate_content(model="m", contents=ASK))
        return ours.models.generate_content(model="m", contents=ASK)

    instrument("google_genai")
    with ModelServer([reply.error(429), reply.error(503), ANSWER]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    (envelope,) = lab.envelopes()
    assert [attempt.status for attempt in envelope.attempts] == ["429", "503"]
    assert all(attempt.wait_ns > 0 for attempt in envelope.attempts)


def _two(url: str) -> Any:
    stream = client(url).models.generate_content_stream(model="m", contents=ASK)
    return next(stream), next(stream)


def _two_later(url: str) -> Any:
    async def go() -> Any:
        stream = await client(url).aio.models.generate_content_stream(model="m", contents=ASK)
        found = await anext(stream), await anext(stream)
        await stream.aclose()
        return found

    return asyncio.run(go())


@pytest.mark.parametrize("agent", [_two, _two_later])
def test_a_stream_left_early_ends_once(lab: Lab, agent: Callable[[str], Any]) -> None:
    instrument("google_genai")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == ("closed", 3)


def test_a_stream_torn_off_fails_again_after_the_same_chunks(lab: Lab) -> None:
    def agent(url: str) -> Any:
        seen: list[Any] = []
        with pytest.raises(Exception, match=".") as caught:
            seen.extend(client(url).models.generate_content_stream(model="m", contents=ASK))
        return seen, type(caught.value), str(caught.value)

    first = b'data: {"candidates": [{"content": {"parts": [{"text": "It"}], "role": "model"}}]}\r\n\r\n'
    instrument("google_genai")
    with ModelServer([reply.raw_sse(first, reset_at_end=True)]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded
    assert len(recorded[0]) == 1


def test_a_cancelled_call_is_cancelled_again(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        task = asyncio.create_task(client(url).aio.models.generate_content(model="m", contents=ASK))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    instrument("google_genai")
    with ModelServer([reply.hang()]) as server:
        lab.record(lambda: asyncio.run(agent(server.root_url)))
    assert lab.replay(lambda: asyncio.run(agent(server.root_url))) == "cancelled"
    assert lab.envelopes()[0].outcome.kind == "cancelled"


def test_parallel_calls_keep_their_answers(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        models = client(url).aio.models
        asked = [models.generate_content(model="m", contents=f"item {number}") for number in range(5)]
        return [answer.text for answer in await asyncio.gather(*asked)]

    def echo(request: Any) -> Reply:
        number = int(request.messages[0]["parts"][0]["text"].split()[1])
        return reply.after(0.05 * (5 - number), reply.text(f"about {number}"))

    instrument("google_genai")
    with ModelServer(echo) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url)))
    assert lab.replay(lambda: asyncio.run(agent(server.root_url))) == recorded == [f"about {n}" for n in range(5)]


def test_tools_that_the_sdk_calls_itself_and_one_live(lab: Lab) -> None:
    looked: list[int] = []

    @boundary("lookup", kind="tool")
    def found(id: int) -> str:
        looked.append(id)
        return "blue"

    def agent(url: str) -> Any:
        def lookup(id: int) -> str:
            """The colour of an item."""
            return found(id)

        lookup.__annotations__ = {"id": int, "return": str}  # older versions of the SDK read no annotation's text
        config = types.GenerateContentConfig(tools=[lookup])
        return client(url).models.generate_content(model="m", contents=ASK, config=config).text

    instrument("google_genai")
    with ModelServer([reply.tool_call("lookup", {"id": 7}), reply.text("Blue.")]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert lab.replay(lambda: agent(server.root_url)) == recorded == "Blue."
    assert looked == [7]
    assert lab.replay(lambda: agent(server.root_url), ReplayPlan().live("lookup")) == recorded
    assert looked == [7, 7]


def test_another_question_is_refused_and_nothing_is_sent(lab: Lab) -> None:
    instrument("google_genai")
    with ModelServer([ANSWER, ANSWER]) as server:
        lab.record(lambda: client(server.root_url).models.generate_content(model="m", contents=ASK))
        with pytest.raises(Diverged, match="purple"):
            lab.replay(lambda: client(server.root_url).models.generate_content(model="m", contents="purple"))
        assert server.count == 1


def test_twice_is_once_and_undone_is_undone(lab: Lab) -> None:
    instrument("google_genai")
    instrument("google_genai")
    with ModelServer([ANSWER, ANSWER]) as server:
        lab.record(lambda: _whole(server.root_url))
        assert len(lab.envelopes()) == 1
        uninstrument("google_genai")
        lab.record(lambda: _whole(server.root_url))
    assert lab.envelopes() == ()


def test_a_fault_of_the_instrument_reaches_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    instrument("google_genai")
    from otel_replay.instruments import google_genai as ours

    for name in ("told", "Tap", "_answered"):
        with monkeypatch.context() as patch, ModelServer(play) as server:
            patch.setattr(ours, name, fault)
            with record("faulty", store=lab.store) as run:
                assert _whole(server.root_url).text == "It is blue."
                assert len(_stream(server.root_url)) > 2
            assert run.faults


def test_a_dry_call_covers_it(lab: Lab) -> None:
    found = {coverage.name: coverage for coverage in dry_calls()}["google_genai"]
    assert (found.layers, found.problem) == (("content", "streams", "async"), "")
