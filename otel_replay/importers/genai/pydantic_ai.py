"""Pydantic AI: OpenTelemetry messages with its own spellings, and older keys for tools, agents and events.

Source: pydantic/pydantic-ai `models/instrumented.py`, instrumentation versions 1 to 4.
"""

from __future__ import annotations

from typing import Any

from otel_replay.importers.genai import _messages, otel_genai
from otel_replay.importers.genai._call import Call, Source, structure, tool_call

NAME = "Pydantic AI"
SETTING = "InstrumentationSettings(include_content=True)"


def matches(source: Source) -> bool:
    """True where Pydantic AI wrote the span."""
    return source.scope == "pydantic-ai"


def read(source: Source) -> Call | None:
    """Return the tool call, agent run or model call of the span; None for "running 3 tools"."""
    if "tool_arguments" in source.attributes or "tool_response" in source.attributes:
        result = source.read("tool_response")
        call = tool_call(source, NAME, source.text("gen_ai.tool.name"), source.read("tool_arguments"), result)
        call.setting = SETTING
        return call
    if "model_request_parameters" in source.attributes or source.text("gen_ai.operation.name") == "chat":
        return _model(source)
    agent = source.text("gen_ai.agent.name", "agent_name")
    if agent and source.text("gen_ai.operation.name") in ("", "invoke_agent"):
        given = source.read("pydantic_ai.all_messages")
        given = given if given.present else source.read("all_messages_events")
        return structure(source, NAME, agent, given, source.read("final_result"))
    if source.text("gen_ai.operation.name", "gen_ai.tool.name"):
        found = otel_genai.read(source)
        if found is not None:
            found.convention, found.setting = NAME, SETTING
        return found
    return None


def _model(source: Source) -> Call | None:
    call = otel_genai.read(source)
    if call is None or call.role != "model":
        return call
    call.convention, call.setting = NAME, SETTING
    parameters = source.read("model_request_parameters")
    if parameters.whole and isinstance(parameters.value, dict):
        call.tools = call.tools or _tools(parameters.value) or None
    events = source.read("events")
    if events.damage:
        call.damage.append(events.damage)
    if call.messages is None and call.answers is None and isinstance(events.value, list):
        _events(call, events.value)
    return call


def _tools(parameters: dict[str, Any]) -> list[Any]:
    found = []
    for tool in [*(parameters.get("function_tools") or []), *(parameters.get("output_tools") or [])]:
        if isinstance(tool, dict):
            function = {"name": tool.get("name"), "description": tool.get("description"),
                        "parameters": tool.get("parameters_json_schema")}  # fmt: skip
            found.append({"type": "function", "function": {k: v for k, v in function.items() if v is not None}})
    return found


def _events(call: Call, events: list[Any]) -> None:
    """Read instrumentation version 1: one event a message, the answer as `gen_ai.choice`."""
    messages, answers = [], []
    for event in events:
        if not isinstance(event, dict):
            continue
        name = str(event.get("event.name", ""))
        if name == "gen_ai.choice":
            inner = event.get("message")
            answers.append(_messages.from_openai(inner if isinstance(inner, dict) else event))
        elif name.endswith(".message"):
            messages.append(_messages.from_openai({"role": name.split(".")[1], **event}))
    call.messages, call.answers = messages or None, answers or None
