"""One agent, recorded by each instrumentation: chat with tools, the tool, the final answer, a stream, a failing chat.

The expectations are written by hand from what the agent did, with what each convention loses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from otel_replay.importers.genai import describe, recordings
from otel_replay.importers.genai.rebuild import CHUNKS_UNKNOWN, response_body
from otel_replay.payload import decode
from otel_replay.wire.logs import span_from_log

from ._reading import read
from ._samples import FOLDERS, answer, at, recording, request

SYSTEM = {"role": "system", "content": "You are a weather assistant."}
QUESTION = {"role": "user", "content": "What's the weather in Paris?"}
FINAL = "It is 18 °C and sunny in Paris."
RESULT = {"city": "Paris", "temp": 18, "unit": "c", "sky": "sunny"}
RESULT_TEXT = '{"city": "Paris", "temp": 18, "unit": "c", "sky": "sunny"}'
SPACED, COMPACT = '{"city": "Paris", "unit": "c"}', '{"city":"Paris","unit":"c"}'
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
    "required": ["city"],
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Current weather for a city", "parameters": SCHEMA},
    }
]


@dataclass(frozen=True)
class Sample:
    """What one instrumentation keeps of the agent's run."""

    files: tuple[str, ...]
    arguments: str = COMPACT
    seed: bool = True
    tools: bool = True
    tool: bool = True
    tool_content: bool = True
    stream_seen: bool = True
    error_body: bool = False

    def __str__(self) -> str:
        return self.files[0]


SAMPLES = [
    Sample(("genai_openai.jsonl",)),
    Sample(("genai_openai.jsonl", "genai_openai.logs.jsonl")),
    Sample(("genai_openai_event_only.jsonl", "genai_openai_event_only.logs.jsonl"), tool_content=False),
    Sample(
        ("openai_v2_21b0.jsonl", "openai_v2_21b0.logs.jsonl"),
        arguments=SPACED,
        tools=False,
        tool=False,
        stream_seen=False,
        error_body=True,
    ),
    Sample(("openinference.jsonl",), arguments=SPACED),
    Sample(("openllmetry.jsonl",), seed=False, tool=False),
    Sample(("openllmetry_047_openai.jsonl",), arguments=SPACED, seed=False, tool=False, error_body=True),
    Sample(("logfire_openai.jsonl",)),
]
EACH = pytest.mark.parametrize("sample", SAMPLES, ids=str)
IN = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
FIRST, SECOND, STREAM, FAILING = (f"openai.chat.completions[{n}]" for n in (1, 2, 3, 4))


def called(arguments: str) -> dict[str, object]:
    return {"id": "call_weather_001", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


@IN
@EACH
def test_the_crossings_stand_in_start_order(folder: Path, sample: Sample) -> None:
    found = recording(folder, *sample.files)
    addresses = [FIRST, "get_weather[1]", SECOND, STREAM, FAILING]
    assert [envelope.address for envelope in found.envelopes] == [
        address for address in addresses if sample.tool or address != "get_weather[1]"
    ]
    assert [envelope.seq for envelope in found.envelopes] == list(range(1, len(found.envelopes) + 1))
    assert {envelope.strand for envelope in found.envelopes} == {0}
    assert found.run.name == "agent run"
    assert found.run.notes[0] == "imported: order by start time"
    assert found.complete == (sample.tool_content or not sample.tool)


@IN
@EACH
def test_the_first_chat_asks_for_the_tool(folder: Path, sample: Sample) -> None:
    found = recording(folder, *sample.files)
    asked = request(found, FIRST)
    assert asked["model"] == "gpt-4o-mini"
    assert asked["messages"] == [SYSTEM, QUESTION]
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"]) == (0.2, 0.9, 200)
    assert asked.get("seed") == (7 if sample.seed else None)
    assert asked.get("tools") == (TOOLS if sample.tools else None)
    body = response_body(at(found, FIRST))
    assert (body["object"], body["id"], body["model"]) == (
        "chat.completion",
        "chatcmpl-sample-002",
        "gpt-4o-mini-2024-07-18",
    )
    (choice,) = body["choices"]
    assert (choice["index"], choice["finish_reason"], choice["message"]["content"]) == (0, "tool_calls", None)
    (call,) = choice["message"]["tool_calls"]
    assert call == called(sample.arguments)
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (61, 17)
    assert at(found, FIRST).grade == "semantic"
    assert at(found, FIRST).pins["model.answered"] == "gpt-4o-mini-2024-07-18"


@IN
@EACH
def test_the_tool_call(folder: Path, sample: Sample) -> None:
    found = recording(folder, *sample.files)
    if not sample.tool:
        assert not [envelope for envelope in found.envelopes if envelope.kind == "tool"]
    elif sample.tool_content:
        envelope = at(found, "get_weather[1]")
        assert (envelope.kind, envelope.boundary, envelope.grade) == ("tool", "get_weather", "semantic")
        assert request(found, "get_weather[1]") == {"city": "Paris", "unit": "c"}
        assert answer(found, "get_weather[1]") == RESULT
    else:
        line = next(line for line in describe(found) if line.address == "get_weather[1]")
        assert (line.grade, line.missing) == ("insufficient", ("input", "output"))
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in line.setting


@IN
@EACH
def test_the_second_chat_has_the_tools_answer_and_gives_the_final_one(folder: Path, sample: Sample) -> None:
    found = recording(folder, *sample.files)
    messages = request(found, SECOND)["messages"]
    assert messages[:2] == [SYSTEM, QUESTION]
    assert messages[2] == {"role": "assistant", "content": None, "tool_calls": [called(sample.arguments)]}
    assert messages[3] == {"role": "tool", "tool_call_id": "call_weather_001", "content": messages[3]["content"]}
    assert messages[3]["content"] in (RESULT_TEXT, RESULT_TEXT.replace(": ", ":").replace(", ", ","))
    body = answer(found, SECOND)
    assert body["choices"][0]["message"]["content"] == FINAL
    assert (body["choices"][0]["finish_reason"], body["id"]) == ("stop", "chatcmpl-sample-004")


@IN
@EACH
def test_the_streamed_chat_is_one_aggregated_answer(folder: Path, sample: Sample) -> None:
    envelope = at(recording(folder, *sample.files), STREAM)
    assert response_body(envelope)["choices"][0]["message"]["content"] == FINAL
    assert response_body(envelope)["object"] == "chat.completion"
    assert (CHUNKS_UNKNOWN in envelope.notes) == sample.stream_seen


@IN
@EACH
def test_the_failing_chat_raises(folder: Path, sample: Sample) -> None:
    found = recording(folder, *sample.files)
    assert request(found, FAILING)["messages"] == [SYSTEM, QUESTION]
    envelope = at(found, FAILING)
    assert envelope.outcome.kind == "raised"
    raised = decode(envelope.outcome.value)
    assert type(raised) is openai.BadRequestError, "the SDK's own class"
    assert str(raised).startswith("Error code: 400 - ")
    assert (raised.status_code, raised.response.status_code) == (400, 400)
    assert raised.code == ("unsupported_value" if sample.error_body else None)
    assert ("lost: the body of the error response" in envelope.notes) != sample.error_body


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder_of_each(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


def test_pydantic_ai_keeps_the_raw_argument_text_and_the_agents_answer(folder_of_each: Path) -> None:
    found = recording(folder_of_each, "logfire_pydantic.jsonl")
    assert [envelope.address for envelope in found.envelopes] == [FIRST, "get_weather[1]", SECOND]
    assert found.run.name == "weather_agent"
    assert found.run.answer is not None
    assert found.run.answer.tree() == FINAL
    asked = request(found, FIRST)
    assert (asked["messages"], asked["seed"], asked["max_tokens"]) == ([SYSTEM, QUESTION], 7, 200)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["get_weather"]
    (call,) = answer(found, FIRST)["choices"][0]["message"]["tool_calls"]
    assert call == called(SPACED)
    assert request(found, "get_weather[1]") == {"city": "Paris", "unit": "c"}
    assert answer(found, "get_weather[1]") == RESULT
    assert request(found, SECOND)["messages"][2]["tool_calls"] == [called(SPACED)]
    assert json.loads(request(found, SECOND)["messages"][3]["content"]) == RESULT
    assert answer(found, SECOND)["choices"][0]["message"]["content"] == FINAL
    assert found.complete


def test_logfires_two_spans_of_a_stream_are_one_crossing(folder_of_each: Path) -> None:
    envelope = at(recording(folder_of_each, "logfire_openai.jsonl"), STREAM)
    assert envelope.span_id == "85c938519b3ec0ec"
    assert (
        "the streamed answer is from span ee8bf3054a035b57, which Logfire wrote when the stream ended" in envelope.notes
    )
    assert response_body(envelope)["id"] == "chatcmpl-sample-002"


def test_event_only_content_is_lost_without_its_log_file(folder_of_each: Path) -> None:
    found = recording(folder_of_each, "genai_openai_event_only.jsonl")
    lines = {line.address: line for line in describe(found)}
    assert lines[FIRST].missing == ("input", "output")
    assert lines[FAILING].missing == ("input",), "what it raised is known"
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in lines[FIRST].setting
    assert not found.complete


def test_log_records_that_a_store_kept_as_spans_are_joined_too() -> None:
    spans, logs = read(*(FOLDERS[0] / f"genai_openai_event_only{end}" for end in (".jsonl", ".logs.jsonl")))
    (direct,) = recordings(spans, logs)
    (kept,) = recordings([*spans, *map(span_from_log, logs)])
    assert kept == direct
    assert at(kept, FIRST).grade == "semantic"
