"""Traces of Anthropic and of OpenAI's Responses API, from real instrumentations, replayed under the unmodified SDK.

No server, no instrumentation: the agent gets the same tool calls and the same final answer, and what a convention lost
is named, not guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from otel_replay import Diverged, instrument, replay
from otel_replay.instruments import uninstrument

from .test_fresh import SUM, Kept, run

NAMES = ["otel_genai", "openinference", "openllmetry", "logfire"]
PROPERTIES = {"a": {"type": "integer"}, "b": {"type": "integer"}}
PARAMETERS = {"type": "object", "properties": PROPERTIES}


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    instrument("openai", "anthropic")
    yield
    uninstrument()


def claude(question: str = "2+2?") -> list[Any]:
    client: Any = anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="none", max_retries=0)
    tool = {"name": "add", "description": "adds", "input_schema": PARAMETERS}
    ask = {"role": "user", "content": question}
    common = {"model": "claude-x", "max_tokens": 2000, "system": "Be exact.", "tools": [tool]}
    first = client.messages.create(messages=[ask], thinking={"type": "enabled", "budget_tokens": 1024}, **common)
    use = first.content[-1]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": str(use.input["a"] + use.input["b"])}
    turns = [ask, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(messages=turns, **common)
    with client.messages.stream(model="claude-x", max_tokens=100, messages=[ask]) as stream:
        streamed = "".join(stream.text_stream)
    chunks = client.messages.create(model="claude-x", max_tokens=100, messages=[ask], stream=True)
    texts = [event.delta.text for event in chunks if event.type == "content_block_delta"]
    with pytest.raises(anthropic.RateLimitError) as raised:
        client.messages.create(model="claude-x", max_tokens=100, messages=[ask], metadata={"user_id": "boom"})
    told = [type(first), use.name, use.input, second.content[0].text, streamed, "".join(texts)]
    return [*told, raised.value.status_code]


@pytest.mark.parametrize("name", NAMES)
def test_anthropic_messages(name: str) -> None:
    with replay(run(Kept(name), "anthropic"), clock="live") as session:
        told = claude()
    assert told == [anthropic.types.Message, "add", {"a": 2, "b": 2}, SUM, SUM, SUM, 429]
    losses = " ".join(note for e in session.recording.envelopes for note in e.notes)
    assert "streamed: one aggregated answer, chunk boundaries unknown" in losses
    not_compared = " ".join(line.note for line in session.report.lines)
    assert ("thinking" in not_compared) == (name != "openinference")  # only OpenInference keeps that it was asked for


def responses(question: str = "2+2?", *, as_items: bool = False) -> list[Any]:
    client: Any = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "name": "add", "parameters": PARAMETERS, "strict": False}]
    ask = {"role": "user", "content": [{"type": "input_text", "text": question}] if as_items else question}
    asked = [ask] if as_items else question
    first = client.responses.create(model="gpt-5", input=asked, instructions="Be exact.", tools=tools)
    (call,) = [item for item in first.output if item.type == "function_call"]
    given = json.loads(call.arguments)
    output = {"type": "function_call_output", "call_id": call.call_id, "output": str(given["a"] + given["b"])}
    turn = call if as_items else {"type": "function_call", "call_id": call.call_id, "name": call.name,
                                  "arguments": call.arguments}  # fmt: skip
    second = client.responses.create(model="gpt-5", input=[ask, turn, output], tools=tools)
    events = client.responses.create(model="gpt-5", input=asked, stream=True)
    streamed = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    with pytest.raises(openai.RateLimitError) as raised:
        client.responses.create(model="gpt-5", input=asked, user="boom")
    return [type(first), call.name, given, second.output_text, streamed, raised.value.status_code]


@pytest.mark.parametrize("as_items", [False, True], ids=["as recorded", "the same in longer words"])
@pytest.mark.parametrize("name", NAMES)
def test_openai_responses(name: str, as_items: bool) -> None:
    """A trace keeps the meaning of a request, not which of the SDK's ways to say it was taken.

    OpenInference keeps the request as it was: there another way to say it is another request.
    """
    if name == "openinference" and as_items:
        with pytest.raises(Diverged, match="text became list"), replay(run(Kept(name), "responses"), clock="live"):
            responses(as_items=True)
        return
    with replay(run(Kept(name), "responses"), clock="live"):
        told = responses(as_items=as_items)
    assert told == [openai.types.responses.Response, "add", {"a": 2, "b": 2}, SUM, SUM, 429]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("agent", [claude, responses])
def test_another_question_is_refused(name: str, agent: Any) -> None:
    recording = run(Kept(name), "anthropic" if agent is claude else "responses")
    with pytest.raises(Diverged, match=r"2\+2.*3\+3"), replay(recording, clock="live"):
        agent("3+3?")
