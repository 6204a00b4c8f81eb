"""LiteLLM, recorded against a local server and replayed with the server switched off."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, record, uninstrument
from otel_replay.errors import Diverged
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply, ToolCall
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("litellm") is not None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its first use fetches a list of prices
    import litellm
    from litellm import acompletion as acompletion_from_before
    from litellm import completion as completion_from_before

    litellm.suppress_debug_info = True
    OLD = version("litellm").startswith("1.80.")

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]
ANSWER = reply.message("It is blue.", tool_calls=(ToolCall("lookup", {"id": 7, "é": [1]}, "call_1"),))


def given(url: str, **more: Any) -> dict[str, Any]:
    return {"model": "openai/m", "messages": ASK, "api_base": url, "api_key": "none", "max_retries": 0, **more}


def play(request: Any) -> Reply:
    return reply.embedding() if request.api == "embeddings" else ANSWER


def _whole(url: str) -> Any:
    return litellm.completion(**given(url, temperature=0.5))


def _positional(url: str) -> Any:
    return completion_from_before("openai/m", ASK, api_base=url, api_key="none")


def _stream(url: str) -> Any:
    stream = litellm.completion(**given(url, stream=True))
    assert isinstance(stream, litellm.CustomStreamWrapper)
    return list(stream)


def _embedding(url: str) -> Any:
    return litellm.embedding(model="openai/m", input=["a", "b"], api_base=url, api_key="none")


def _later(url: str) -> Any:
    return asyncio.run(acompletion_from_before(**given(url)))


def _stream_later(url: str) -> Any:
    async def go() -> Any:
        stream: Any = await litellm.acompletion(**given(url, stream=True))
        assert isinstance(stream, litellm.CustomStreamWrapper)
        return [chunk async for chunk in stream]

    return asyncio.run(go())


def _embedding_later(url: str) -> Any:
    return asyncio.run(litellm.aembedding(model="openai/m", input=["a"], api_base=url, api_key="none"))


def _other_provider(url: str) -> Any:
    root = url.removesuffix("/v1")
    return litellm.completion("anthropic/m", ASK, api_base=root, api_key="none", max_tokens=9)


def _router(url: str) -> Any:
    params = {"model": "openai/m", "api_base": url, "api_key": "none"}
    router = litellm.Router([{"model_name": "ours", "litellm_params": params} for _ in range(2)])
    return router.completion("ours", ASK)


FORMS = [
    _whole, _positional, _stream, _embedding, _later, _stream_later, _embedding_later, _other_provider, _router,
]  # fmt: skip


@pytest.mark.parametrize("agent", FORMS)
def test_every_form_comes_back_equal_and_of_its_type(lab: Lab, agent: Callable[[str], Any]) -> None:
    instrument("all")
    with ModelServer(play) as server:
        recorded = lab.record(lambda: agent(server.url))
        assert server.count == 1
    replayed = lab.replay(lambda: agent(server.url))
    assert type(replayed) is type(recorded)
    pairs = list(zip(*[x if isinstance(x, list) else [x] for x in (replayed, recorded)], strict=True))
    for again, first in pairs:
        assert type(again) is type(first)
        assert again.model_dump_json() == first.model_dump_json()
    if OLD and agent is _stream_later:
        pairs.pop()  # it writes the usage into the last chunk's hidden parameters from a task, some time later
    for again, first in pairs:
        assert again == first
        assert again._hidden_params == first._hidden_params
    name = "litellm.embedding" if agent in (_embedding, _embedding_later) else "litellm.completion"
    assert lab.addresses() == [(f"{name}[1]", "model")]


def test_an_answer_given_back_to_the_model_asks_the_same(lab: Lab) -> None:
    def agent(url: str) -> Any:
        first: Any = litellm.completion(**given(url))
        message = first.choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "blue"}
        return litellm.completion(**given(url, messages=[*ASK, message, result]))

    instrument("litellm")
    with ModelServer([ANSWER, reply.text("Blue.")]) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url)) == recorded
    assert "litellm.types" not in lab.envelopes()[1].request.text  # what was asked, not in which class it was held


ERRORS = {400: "BadRequestError", 401: "AuthenticationError", 429: "RateLimitError", 500: "InternalServerError"}


@pytest.mark.parametrize("status", ERRORS)
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_come_back(lab: Lab, status: int, is_async: bool) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(Exception, match="no") as caught:
            _later(url) if is_async else _whole(url)
        error: Any = caught.value
        headers = dict(error.response.headers)
        return type(error), error.status_code, headers, error.llm_provider, error.model, error.args, str(error)

    instrument("litellm", "openai")
    with ModelServer(lambda request: reply.error(status, "no", retry_after_s=1)) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url)) == recorded
    assert (recorded[0].__name__, recorded[1]) == (ERRORS[status], status)


@pytest.mark.parametrize(("answer", "kind"), [(reply.reset(), "InternalServerError"), (reply.hang(), "Timeout")])
def test_a_lost_connection_comes_back(lab: Lab, answer: Reply, kind: str) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(Exception, match="litellm") as caught:
            litellm.completion(**given(url, timeout=0.5))
        return type(caught.value), str(caught.value)

    instrument("litellm", "openai")
    with ModelServer(lambda request: answer) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url)) == recorded
    assert recorded[0].__name__ == kind


def test_retries_are_inside_one_crossing(lab: Lab) -> None:
    instrument("litellm", "openai", "httpx")
    with ModelServer([reply.error(429, retry_after_s=0.05), reply.text("blue")]) as server:

        def agent() -> Any:
            return litellm.completion(**given(server.url, max_retries=2))

        recorded = lab.record(agent)
        assert server.count == 2
    assert lab.replay(agent) == recorded
    (envelope,) = lab.envelopes()
    assert [(attempt.status, attempt.wait_ns) for attempt in envelope.attempts] == [("429", 50_000_000)]


def test_a_stream_torn_off_fails_again_after_the_same_chunks(lab: Lab) -> None:
    def agent(url: str) -> Any:
        seen: list[Any] = []
        stream = litellm.completion(**given(url, stream=True))
        with pytest.raises(Exception, match="litellm") as caught:
            seen.extend(stream)
        return seen, type(caught.value), str(caught.value)

    first = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
    first += b'"delta":{"role":"assistant","content":"It"},"finish_reason":null}]}\n\n'
    instrument("litellm", "openai")
    with ModelServer([reply.raw_sse(first, reset_at_end=True)]) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url)) == recorded
    assert len(recorded[0]) == 1


def _two(url: str) -> Any:
    stream = iter(litellm.completion(**given(url, stream=True)))
    return next(stream), next(stream)


def _two_later(url: str) -> Any:
    async def go() -> Any:
        stream: Any = await litellm.acompletion(**given(url, stream=True))
        found = await anext(stream), await anext(stream)
        if hasattr(stream, "aclose"):
            await stream.aclose()
        return found

    return asyncio.run(go())


@pytest.mark.parametrize("agent", [_two, _two_later])
def test_a_stream_left_early_ends_once(lab: Lab, agent: Callable[[str], Any]) -> None:
    end = "closed" if agent is _two_later and hasattr(litellm.CustomStreamWrapper, "aclose") else "dropped"
    instrument("litellm", "openai")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url)) == recorded
    (envelope,) = lab.envelopes()
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == (end, 3)


def test_a_cancelled_call_is_cancelled_again(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        task = asyncio.create_task(litellm.acompletion(**given(url)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    instrument("litellm", "openai")
    with ModelServer([reply.hang()]) as server:
        lab.record(lambda: asyncio.run(agent(server.url)))
    assert lab.replay(lambda: asyncio.run(agent(server.url))) == "cancelled"
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "cancelled"


def test_parallel_calls_keep_their_answers(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        def ask(number: int) -> Any:
            return litellm.acompletion(**given(url, messages=[{"role": "user", "content": f"item {number}"}]))

        found: Any = await asyncio.gather(*map(ask, range(5)))
        return [answer.choices[0].message.content for answer in found]

    def echo(request: Any) -> Reply:
        number = int(request.messages[0]["content"].split()[1])
        return reply.after(0.05 * (5 - number), reply.text(f"about {number}"))

    instrument("litellm", "openai")
    with ModelServer(echo) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.url)))
    assert lab.replay(lambda: asyncio.run(agent(server.url))) == recorded == [f"about {n}" for n in range(5)]


def test_another_question_is_refused_and_nothing_is_sent(lab: Lab) -> None:
    instrument("litellm", "openai")
    with ModelServer([ANSWER, ANSWER]) as server:
        lab.record(lambda: _whole(server.url))
        with pytest.raises(Diverged, match="purple"):
            lab.replay(
                lambda: litellm.completion(**given(server.url, messages=[{"role": "user", "content": "purple"}]))
            )
        assert server.count == 1


def test_one_tool_live(lab: Lab) -> None:
    guarded: list[int] = []

    @boundary("lookup", kind="tool")
    def lookup(id: int) -> str:
        guarded.append(id)
        return "blue"

    def agent(url: str) -> Any:
        first: Any = litellm.completion(**given(url))
        found = lookup(len(first.choices[0].message.tool_calls))
        told = [*ASK, {"role": "user", "content": found}]
        return litellm.completion(**given(url, messages=told)).choices[0].message.content

    instrument("litellm", "openai")
    with ModelServer([ANSWER, reply.text("Blue.")]) as server:
        recorded = lab.record(lambda: agent(server.url))
    assert lab.replay(lambda: agent(server.url), ReplayPlan().live("lookup")) == recorded == "Blue."
    assert len(guarded) == 2


def test_twice_is_once_and_undone_is_undone(lab: Lab) -> None:
    before = litellm.completion, litellm.acompletion, litellm.CustomStreamWrapper.__next__
    instrument("litellm")
    instrument("litellm")
    with ModelServer([ANSWER, ANSWER]) as server:
        lab.record(lambda: _whole(server.url))
        assert len(lab.envelopes()) == 1
        uninstrument("litellm")
        assert (litellm.completion, litellm.acompletion, litellm.CustomStreamWrapper.__next__) == before
        lab.record(lambda: completion_from_before(**given(server.url)))
    assert lab.envelopes() == ()


def test_a_fault_of_the_instrument_reaches_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    instrument("litellm")
    from otel_replay.instruments import _litellm_streams
    from otel_replay.instruments import litellm as ours

    for module, name in ((ours, "asked_of"), (ours, "_answered"), (_litellm_streams, "_state")):
        with monkeypatch.context() as patch, ModelServer(play) as server:
            patch.setattr(module, name, fault)
            with record("faulty", store=lab.store) as run:
                assert _whole(server.url).choices[0].message.content == "It is blue."
                assert len(_stream(server.url)) > 2
            assert run.faults


def test_a_dry_call_covers_it(lab: Lab) -> None:
    found = {coverage.name: coverage for coverage in dry_calls()}["litellm"]
    assert (found.layers, found.problem) == (("completion", "streams", "async"), "")
