"""A foreign trace replayed under an unmodified agent: the real SDK, no server, the agent's own tool never run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from otel_replay import Diverged, ReplayPlan, boundary, instrument, replay
from otel_replay.instruments import uninstrument

from ._samples import OWN, recording

SYSTEM = {"role": "system", "content": "You are a weather assistant."}
QUESTION = {"role": "user", "content": "What's the weather in Paris?"}
FINAL = "It is 18 °C and sunny in Paris."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
    "required": ["city"],
}
TOOL = {"name": "get_weather", "description": "Current weather for a city", "parameters": SCHEMA}
ran_live: list[str] = []


def weather(city: str, unit: str = "c") -> dict[str, Any]:
    ran_live.append(city)
    return {"city": city, "temp": 18, "unit": unit, "sky": "sunny"}


@dataclass(frozen=True)
class Sent:
    """What the agent sends, as far as the convention has kept it: what it lost would be a drift."""

    files: tuple[str, ...]
    seed: bool = True
    user: bool = False
    tools: bool = True
    tool_recorded: bool = True
    stream_recorded: bool = True
    stream_options: bool = False

    def __str__(self) -> str:
        return self.files[0]


def agent(sent: Sent, tool: Any) -> list[Any]:
    client: Any = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    create = client.chat.completions.create
    asked: dict[str, Any] = {"model": "gpt-4o-mini", "temperature": 0.2, "top_p": 0.9, "max_tokens": 200}
    asked |= {"seed": 7} if sent.seed else {}
    asked |= {"tools": [{"type": "function", "function": TOOL}]} if sent.tools else {}
    first = create(messages=[SYSTEM, QUESTION], **asked)
    (call,) = first.choices[0].message.tool_calls
    result = json.dumps(tool(**json.loads(call.function.arguments)))
    turn = {"role": "assistant", "content": None, "tool_calls": [
        {"id": call.id, "type": "function",
         "function": {"name": call.function.name, "arguments": call.function.arguments}}]}  # fmt: skip
    answered = {"role": "tool", "tool_call_id": call.id, "content": result}
    second = create(messages=[SYSTEM, QUESTION, turn, answered], **asked)
    told = [type(second), second.choices[0].message.content, second.usage.total_tokens]
    options = {"stream_options": {"include_usage": True}} if sent.stream_options else {}
    if sent.stream_recorded:
        chunks = list(create(model="gpt-4o-mini", messages=[SYSTEM, QUESTION], stream=True, **options))
        told.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
    else:
        told.append(create(model="gpt-4o-mini", messages=[SYSTEM, QUESTION]).choices[0].message.content)
    try:
        create(model="gpt-4o-mini", messages=[SYSTEM, QUESTION], **({"user": "make-error"} if sent.user else {}))
    except openai.BadRequestError as error:
        told.append(error.status_code)
    return told


EACH = [
    Sent(("genai_openai.jsonl",)),
    Sent(("openinference.jsonl",), user=True, stream_options=True),
    Sent(("openllmetry.jsonl",), seed=False, user=True, tool_recorded=False),
    Sent(("openllmetry_047_openai.jsonl",), seed=False, user=True, tool_recorded=False),
    Sent(("logfire_openai.jsonl",)),
    Sent(("openai_v2_21b0.jsonl", "openai_v2_21b0.logs.jsonl"), tools=False, tool_recorded=False,
         stream_recorded=False),
]  # fmt: skip


@pytest.mark.parametrize("sent", EACH, ids=str)
def test_an_unmodified_agent_gives_the_recorded_answers(sent: Sent) -> None:
    ran_live.clear()
    tool = boundary("get_weather", kind="tool")(weather) if sent.tool_recorded else weather
    instrument("openai")
    try:
        with replay(recording(OWN, *sent.files), ReplayPlan()):
            told = agent(sent, tool)
    finally:
        uninstrument("openai")
    assert told == [openai.types.chat.ChatCompletion, FINAL, 78, FINAL, 400]
    assert ran_live == ([] if sent.tool_recorded else ["Paris"])


@pytest.mark.parametrize(
    "sent",
    [
        Sent(("genai_openai.jsonl",), user=True, stream_options=True),
        Sent(("openllmetry.jsonl",), user=True, tool_recorded=False, stream_options=True),
        Sent(("logfire_openai.jsonl",), user=True, stream_options=True),
    ],
    ids=str,
)
def test_what_a_convention_dropped_is_unknown_and_said_so(sent: Sent) -> None:
    """The agent sends a seed, a user and stream options that the trace does not hold: no drift, but named."""
    tool = boundary("get_weather", kind="tool")(weather) if sent.tool_recorded else weather
    instrument("openai")
    try:
        with replay(recording(OWN, *sent.files), ReplayPlan()) as session:
            told = agent(sent, tool)
    finally:
        uninstrument("openai")
    assert told == [openai.types.chat.ChatCompletion, FINAL, 78, FINAL, 400]
    notes = [line.note for line in session.report.lines if "not compared" in line.note]
    assert any("user" in note or "stream_options" in note for note in notes), session.report.text()


def test_what_a_rebuilt_request_does_hold_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUESTION, "content", "What's the weather in Rome?")
    instrument("openai")
    try:
        with pytest.raises(Diverged, match="Paris.*Rome"):
            with replay(recording(OWN, "genai_openai.jsonl"), ReplayPlan()):
                agent(Sent(("genai_openai.jsonl",), user=True), boundary("get_weather", kind="tool")(weather))
    finally:
        uninstrument("openai")
