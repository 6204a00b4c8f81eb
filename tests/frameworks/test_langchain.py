"""LangChain chat models: by their instrumented client where they have one, else by themselves."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from otel_replay import ReplayPlan, instrument, record, uninstrument, wrap
from otel_replay.errors import Diverged
from otel_replay.instruments.check import dry_calls
from otel_replay.instruments.langchain import without_made_ids
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply, ToolCall
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("langchain_core") is not None:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def lookup(id: int) -> str:
        """The colour of an item."""
        return "blue"

    class Gateway(BaseChatModel):  # type: ignore[misc]
        """A company's own gateway, as people write them: plain HTTP, sync only where nothing else is asked for."""

        url: str
        model_name: str = "gateway-1"
        temperature: float = 0.5

        @property
        def _llm_type(self) -> str:
            return "gateway"

        def _body(self, messages: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
            told = [{"role": message.type, "content": message.content} for message in messages]
            return {"model": self.model_name, "messages": told, **{k: v for k, v in kwargs.items() if k == "stream"}}

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            answer = httpx.post(self.url + "/chat/completions", json=self._body(messages, {}), timeout=2)
            answer.raise_for_status()
            said = answer.json()["choices"][0]["message"]
            calls = [
                {"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"]), "id": call["id"]}
                for call in said.get("tool_calls") or []
            ]
            message = AIMessage(said["content"] or "", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

    class Streaming(Gateway):
        """The same, and it streams."""

        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            body = self._body(messages, {"stream": True})
            with httpx.stream("POST", self.url + "/chat/completions", json=body) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        delta = json.loads(line[6:])["choices"][0]["delta"].get("content")
                        if delta:
                            yield ChatGenerationChunk(message=AIMessageChunk(delta))

    class Native(Streaming):
        """The same, asynchronous by itself."""

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            async with httpx.AsyncClient() as client:
                answer = await client.post(self.url + "/chat/completions", json=self._body(messages, {}))
            answer.raise_for_status()
            said = AIMessage(answer.json()["choices"][0]["message"]["content"])
            return ChatResult(generations=[ChatGeneration(message=said)])

        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            for chunk in self._stream(messages):
                yield chunk

    class Tokens(BaseCallbackHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
            self.seen.append(token)


ANSWER = reply.message("It is blue.", tool_calls=(ToolCall("lookup", {"id": 7}, "call_1"),))


async def _gathered(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


def _invoke(model: Any) -> Any:
    return [model.bind(stop=["x"]).invoke("Colour of item 7?")]


def _stream(model: Any) -> Any:
    return list(model.stream("Colour of item 7?"))


def _batch(model: Any) -> Any:
    return model.batch(["a", "b", "c"], config={"max_concurrency": 3})


def _ainvoke(model: Any) -> Any:
    return [asyncio.run(model.ainvoke("Colour of item 7?"))]


def _astream(model: Any) -> Any:
    return asyncio.run(_gathered(model.astream("Colour of item 7?")))


def _abatch(model: Any) -> Any:
    return asyncio.run(model.abatch(["a", "b"]))


def _with_a_tool(model: Any) -> Any:
    first = model.invoke("Colour of item 7?")
    (call,) = first.tool_calls
    return [first, model.invoke(["Colour?", first, ToolMessage(lookup.invoke(call["args"]), tool_call_id=call["id"])])]


FORMS = [_invoke, _stream, _batch, _ainvoke, _astream, _abatch, _with_a_tool]
KINDS = ["Gateway", "Streaming", "Native", "ChatOpenAI"]


def model_of(kind: str, url: str) -> Any:
    if kind == "ChatOpenAI":
        return ChatOpenAI(model="gpt-x", base_url=url, api_key="none", max_retries=0)
    return {"Gateway": Gateway, "Streaming": Streaming, "Native": Native}[kind](url=url)


@pytest.mark.parametrize("agent", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_comes_back_equal_and_of_its_type(lab: Lab, kind: str, agent: Callable[[Any], Any]) -> None:
    instrument("langchain", "openai", "httpx", "httpx2")
    if kind == "Native" and agent is _with_a_tool:
        agent = _invoke
    with ModelServer(lambda request: ANSWER) as server:
        recorded = lab.record(lambda: agent(model_of(kind, server.url)))
        url, count = server.url, server.count
    replayed = lab.replay(lambda: agent(model_of(kind, url)))
    assert without_made_ids(replayed) == without_made_ids(recorded)
    assert [type(message) for message in replayed] == [type(message) for message in recorded]
    name = "openai.chat.completions" if kind == "ChatOpenAI" else kind
    models = [address for address, of in lab.addresses() if of == "model"]
    assert models == [f"{name}[{number + 1}]" for number in range(count)]
    assert all(of in ("model", "tool") for _address, of in lab.addresses())


def test_without_its_client_instrumented_the_model_speaks_for_it(lab: Lab) -> None:
    instrument("langchain", "httpx", "httpx2")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: model_of("ChatOpenAI", server.url).invoke("hi"))
        url = server.url
    assert lab.addresses() == [("ChatOpenAI[1]", "model")]
    replayed = lab.replay(lambda: model_of("ChatOpenAI", url).invoke("hi"))
    assert without_made_ids(replayed) == without_made_ids(recorded)
    assert lab.envelopes()[0].pins["class"] == "langchain_openai.chat_models.base.ChatOpenAI"


def test_callbacks_see_the_tokens_in_a_replay_too(lab: Lab) -> None:
    def agent(url: str) -> Any:
        seen = Tokens()
        list(model_of("Streaming", url).stream("hi", config={"callbacks": [seen]}))
        return seen.seen

    instrument("langchain")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: agent(server.url))
        url = server.url
    assert lab.replay(lambda: agent(url)) == recorded
    assert recorded[:3] == ["It", " is", " blue."]


@pytest.mark.parametrize("kind", ["Gateway", "ChatOpenAI"])
@pytest.mark.parametrize("answer", [reply.error(400, "no"), reply.error(500, "no"), reply.reset()])
def test_errors_come_back(lab: Lab, kind: str, answer: Reply) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(Exception, match=".") as caught:
            model_of(kind, url).invoke("hi")
        error: Any = caught.value
        response = getattr(error, "response", None)
        return type(error), str(error), response and (response.status_code, dict(response.headers))

    instrument("langchain", "openai")
    with ModelServer(lambda request: answer) as server:
        recorded = lab.record(lambda: agent(server.url))
        url = server.url
    assert lab.replay(lambda: agent(url)) == recorded


def _two(model: Any) -> Any:
    stream = model.stream("hi")
    found = next(stream), next(stream)
    stream.close()
    return found


def _two_later(model: Any) -> Any:
    async def go() -> Any:
        stream = model.astream("hi")
        found = await anext(stream), await anext(stream)
        await stream.aclose()
        return found

    return asyncio.run(go())


@pytest.mark.parametrize("agent", [_two, _two_later])
def test_a_stream_left_early_ends_once(lab: Lab, agent: Callable[[Any], Any]) -> None:
    instrument("langchain")
    with ModelServer([ANSWER]) as server:
        recorded = lab.record(lambda: agent(model_of("Native", server.url)))
        url = server.url
    replayed = lab.replay(lambda: agent(model_of("Native", url)))
    assert without_made_ids(replayed) == without_made_ids(recorded)
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "streamed"
    assert (envelope.outcome.end, len(envelope.outcome.chunks)) == ("closed", 2)


def test_a_cancelled_call_is_cancelled_again(lab: Lab) -> None:
    async def agent(url: str) -> Any:
        task = asyncio.create_task(model_of("Native", url).ainvoke("hi"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    instrument("langchain")
    with ModelServer([reply.hang()]) as server:
        lab.record(lambda: asyncio.run(agent(server.url)))
        url = server.url
    assert lab.replay(lambda: asyncio.run(agent(url))) == "cancelled"
    assert lab.envelopes()[0].outcome.kind == "cancelled"


def test_one_tool_live_and_another_question_refused(lab: Lab) -> None:
    instrument("langchain")
    with ModelServer(lambda request: ANSWER) as server:
        lab.record(lambda: _with_a_tool(model_of("Gateway", server.url)))
        url = server.url
    lab.replay(lambda: _with_a_tool(model_of("Gateway", url)), ReplayPlan().live("lookup"))
    with pytest.raises(Diverged, match="purple"):
        lab.replay(lambda: model_of("Gateway", url).invoke("purple"))


def test_twice_is_once_undone_is_undone_and_one_may_be_wrapped(lab: Lab) -> None:
    instrument("langchain")
    instrument("langchain")
    with ModelServer(lambda request: ANSWER) as server:
        lab.record(lambda: model_of("Streaming", server.url).invoke("hi"))
        assert len(lab.envelopes()) == 1
        uninstrument("langchain")
        lab.record(lambda: model_of("Streaming", server.url).invoke("hi"))
        assert lab.envelopes() == ()
        assert not hasattr(Streaming._stream, "__otel_replay__")
        ours, other = wrap(model_of("Streaming", server.url)), model_of("Streaming", server.url)
        lab.record(lambda: [ours.invoke("hi"), other.invoke("hi")])
        assert len(lab.envelopes()) == 1


def test_a_fault_of_the_instrument_reaches_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    instrument("langchain")
    from otel_replay.instruments import _langchain_models as ours

    for name in ("asked_of", "_made_by", "_pins"):
        with monkeypatch.context() as patch, ModelServer(lambda request: ANSWER) as server:
            patch.setattr(ours, name, fault)
            with record("faulty", store=lab.store) as run:
                assert model_of("Streaming", server.url).invoke("hi").content == "It is blue."
                assert len(_stream(model_of("Streaming", server.url))) >= 3
            assert run.faults


def test_a_dry_call_covers_it(lab: Lab) -> None:
    found = {coverage.name: coverage for coverage in dry_calls()}["langchain"]
    layers = ("tools", "async tools", "chat models", "model streams", "async models")
    assert (found.layers, found.problem) == (layers, "")
