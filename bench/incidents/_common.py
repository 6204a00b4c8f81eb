"""What the incidents share: the interface that each module has, the conversation loop, and the model's vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import openai

from otel_replay import ReplayPlan, ReplaySession
from otel_replay.testing import Request
from otel_replay.testing.reply import Reply

MODEL = "demo-1"
FIXTURES = Path(__file__).parent / "fixtures"
TURNS_MAX = 8

Tool = Callable[..., Any]


class Incident(Protocol):
    """What a module of this folder holds. `python -m bench.incidents.record` makes the fixtures from it."""

    NAME: str
    """The run's name and the fixture's."""
    TOOL: str
    """The boundary of the tool that did the damage; it is crossed once, as occurrence 1."""
    CHECK: str
    """The boundary that `guarded_with_check` crosses and the recording lacks."""
    WRONG: Mapping[str, Any]
    """The arguments that the model gave the tool on the day."""
    RIGHT: Mapping[str, Any]
    """The arguments that it should have given."""

    unguarded: Tool
    """As it was on the day."""
    guarded: Tool
    """The fix: refuses, or corrects."""
    guarded_with_check: Tool
    """Another fix, which asks CHECK first."""
    benign: Tool
    """The fix, written otherwise: the same results for the same arguments."""

    def run_agent(self, url: str, tool: Tool) -> str:
        """Run the agent against the model at `url` with `tool` in the place of TOOL; return its answer."""

    def model(self, request: Request, arguments: Mapping[str, Any] = ...) -> Reply:
        """Play the model: the answer to `request`, with `arguments` for TOOL."""

    def plan(self) -> ReplayPlan:
        """Return the cut-point: TOOL and the model call that reads its result are live."""

    def prepare(self, folder: Path) -> None:
        """Put into the empty working directory what the tools work on."""

    def assert_safe(self, session: ReplaySession) -> None:
        """Raise AssertionError if the tool did damage in this replay."""


def fixture(name: str) -> Path:
    """Return where the recorded run of that name is kept, as OTLP JSON Lines."""
    return FIXTURES / f"{name}.otlp.jsonl"


def nothing_to_prepare(folder: Path) -> None:
    """Most tools need nothing in the working directory."""


# The agent's side ----------------------------------------------------------------------------------------


def client(url: str) -> openai.OpenAI:
    """Return the client of the model at `url`. It is not called in a full replay, so nobody need be there."""
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=10)


def function(name: str, description: str, **parameters: str) -> Any:
    """Return a tool's description for the model: `parameters` are names and JSON types."""
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def opening(role: str, request: str) -> list[Any]:
    """Return the messages that a conversation begins with."""
    return [{"role": "system", "content": role}, {"role": "user", "content": request}]


def converse(agent: Callable[[list[Any]], Any], tools: Mapping[str, Tool], messages: list[Any]) -> str:
    """Ask `agent`, run the tools that it asks for, tell it their results, until it answers in words.

    Raises RuntimeError after TURNS_MAX turns.
    """
    for _ in range(TURNS_MAX):
        message = agent(messages).choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        for call in message.tool_calls:
            result = tools[call.function.name](**json.loads(call.function.arguments))
            messages.append(tool_message(call.id, result))
    raise RuntimeError(f"no answer after {TURNS_MAX} turns")


def tool_message(call_id: str, result: object) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result)}


# The model's side ----------------------------------------------------------------------------------------


def results(request: Request) -> list[Any]:
    """Return the tools' results that the model has been told of so far, in their order."""
    return [json.loads(message["content"]) for message in request.messages if message["role"] == "tool"]
