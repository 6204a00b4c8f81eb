"""One agent through four instrumentations, today's packages: OpenAI chat, Responses, embeddings, Anthropic messages.

The agent asks `2+2?`, is told to call `add`, sends 4 back, streams, and meets a 429. Whatever the convention, the same
conversation must come out, in the SDK's own form; what each one loses is written down here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from otel_replay.envelope import Recording
from otel_replay.importers.genai import describe, recordings
from otel_replay.importers.genai._messages import UNSIGNED
from otel_replay.importers.genai.rebuild import CHUNKS_UNKNOWN, response_body
from otel_replay.payload import decode

from ._reading import read
from ._samples import OWN, answer, at, request

CHAT, RESPONSES, ANTHROPIC = "openai.chat.completions", "openai.responses", "anthropic.messages"
SUM = "The sum is 4."


@dataclass(frozen=True)
class Kept:
    """What an instrumentation keeps."""

    name: str
    arguments: str = '{"a":2,"b":2}'
    seed: bool = True
    vectors: bool = False
    signature: str = ""

    def __str__(self) -> str:
        return self.name


EACH = pytest.mark.parametrize(
    "kept",
    [
        Kept("otel_genai"),
        Kept("openinference", arguments='{"a": 2, "b": 2}', vectors=True, signature="c2ln"),
        Kept("openllmetry", seed=False),
        Kept("logfire", signature="c2ln"),
    ],
    ids=str,
)


def run(kept: Kept, name: str) -> Recording:
    (found,) = (one for one in recordings(*read(OWN / "fresh" / f"{kept.name}.jsonl")) if one.run.name == name)
    return found


def addresses(found: Recording) -> list[str]:
    return [envelope.address for envelope in found.envelopes]


@EACH
def test_openai_chat(kept: Kept) -> None:
    found = run(kept, "chat")
    assert found.complete
    assert addresses(found) == [f"{CHAT}[{n}]" for n in range(1, 6)]
    first = request(found, f"{CHAT}[1]")
    question = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "2+2?"}]
    assert first["messages"] == question
    assert first.get("seed") == (7 if kept.seed else None)
    assert first["tools"][0]["function"]["name"] == "add"
    asked = ChatCompletion.model_validate(response_body(at(found, f"{CHAT}[1]")))
    assert asked.choices[0].finish_reason == "tool_calls"
    (call,) = asked.choices[0].message.tool_calls or []
    assert (call.id, call.function.name, call.function.arguments) == ("call_add_1", "add", kept.arguments)  # type: ignore[union-attr]
    turns = request(found, f"{CHAT}[2]")["messages"]
    assert turns[:2] == question
    assert turns[2]["tool_calls"][0]["function"] == {"name": "add", "arguments": kept.arguments}
    assert turns[3] == {"role": "tool", "tool_call_id": "call_add_1", "content": "4"}
    told = ChatCompletion.model_validate(response_body(at(found, f"{CHAT}[2]")))
    assert told.choices[0].message.content == SUM
    assert told.usage is not None
    assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (126, 4)


@EACH
def test_openai_chat_streams_and_fails(kept: Kept) -> None:
    found = run(kept, "chat")
    for number, text in ((3, SUM), (4, None)):
        envelope = at(found, f"{CHAT}[{number}]")
        streamed = ChatCompletion.model_validate(response_body(envelope))
        assert (streamed.choices[0].message.content or None) == text
        assert request(found, envelope.address)["stream"] is True
        assert CHUNKS_UNKNOWN in envelope.notes
    (call,) = answer(found, f"{CHAT}[4]")["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": kept.arguments}
    raised = decode(at(found, f"{CHAT}[5]").outcome.value)
    assert (type(raised), raised.status_code, str(raised)) == (
        openai.RateLimitError, 429, "Error code: 429 - slow down",
    )  # fmt: skip


@EACH
def test_openai_responses(kept: Kept) -> None:
    found = run(kept, "responses")
    assert found.complete
    assert addresses(found) == [f"{RESPONSES}[{n}]" for n in range(1, 5)]
    asked = Response.model_validate(response_body(at(found, f"{RESPONSES}[1]")))
    (call,) = asked.output
    assert call.type == "function_call"
    assert (call.call_id, call.name, call.arguments) == ("call_add_1", "add", kept.arguments)
    sent = request(found, f"{RESPONSES}[2]")["input"]
    assert sent[1]["call_id"] == sent[2]["call_id"] == "call_add_1"
    assert (sent[1]["type"], sent[2]["type"], sent[2]["output"]) == ("function_call", "function_call_output", "4")
    assert Response.model_validate(response_body(at(found, f"{RESPONSES}[2]"))).output_text == SUM
    assert Response.model_validate(response_body(at(found, f"{RESPONSES}[3]"))).output_text == SUM
    assert CHUNKS_UNKNOWN in at(found, f"{RESPONSES}[3]").notes
    assert type(decode(at(found, f"{RESPONSES}[4]").outcome.value)) is openai.RateLimitError


@EACH
def test_embeddings_are_kept_or_said_to_be_lost(kept: Kept) -> None:
    found = run(kept, "embeddings")
    (line,) = describe(found)
    if kept.vectors:
        body = CreateEmbeddingResponse.model_validate(response_body(found.envelopes[0]))
        assert body.data[0].embedding == [0.5, -0.25]
    else:
        assert "output" in line.missing
        assert line.setting == "use an instrumentation that keeps vectors: OpenInference does"


@EACH
def test_anthropic(kept: Kept) -> None:
    """The SDK writes spans of its own, below the instrumentation's or beside them: five calls all the same."""
    found = run(kept, "anthropic")
    assert found.complete
    assert addresses(found) == [f"{ANTHROPIC}[{n}]" for n in range(1, 6)]
    first = request(found, f"{ANTHROPIC}[1]")
    assert (first["system"], first["messages"]) == ("Be exact.", [{"role": "user", "content": "2+2?"}])
    assert (first["max_tokens"], first["tools"][0]["name"]) == (2000, "add")
    assert first["tools"][0]["input_schema"]["type"] == "object"
    asked = Message.model_validate(response_body(at(found, f"{ANTHROPIC}[1]")))
    assert [block.type for block in asked.content] == ["thinking", "text", "tool_use"]
    thinking = asked.content[0]
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("Add the two.", kept.signature)
    assert (UNSIGNED in at(found, f"{ANTHROPIC}[1]").notes) == (not kept.signature)
    assert asked.stop_reason == "tool_use"
    turns = request(found, f"{ANTHROPIC}[2]")["messages"]
    use = turns[1]["content"][2]
    assert (use["type"], use["id"], use["input"]) == ("tool_use", "call_add_1", {"a": 2, "b": 2})
    assert turns[2] == {
        "role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_add_1", "content": "4"}],
    }  # fmt: skip
    for number in (2, 3, 4):
        told: Any = Message.model_validate(response_body(at(found, f"{ANTHROPIC}[{number}]")))
        assert [block.text for block in told.content] == [SUM]
    raised = decode(at(found, f"{ANTHROPIC}[5]").outcome.value)
    assert (type(raised), raised.status_code) == (anthropic.RateLimitError, 429)
    assert raised.body["error"]["message"] == "slow down"
