"""LangSmith's OpenTelemetry export: `gen_ai.prompt` and `gen_ai.completion` hold a run's inputs and outputs as JSON.

Source: langchain-ai/langsmith-sdk `python/langsmith/_internal/otel/_otel_exporter.py`. Messages may stand in
LangChain's own dump (`{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_replay.importers.genai import _messages
from otel_replay.importers.genai._call import Call, Source, model_call, structure, tool_call

NAME = "LangSmith"
SETTING = "LANGSMITH_HIDE_INPUTS=false, LANGSMITH_HIDE_OUTPUTS=false"


def matches(source: Source) -> bool:
    """True where LangSmith exported the span."""
    return "langsmith.span.kind" in source.attributes or "langsmith.trace.name" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call of the span, or its place in the tree."""
    kind = source.text("langsmith.span.kind").lower()
    given = source.read("gen_ai.prompt", must_be_json=True)
    result = source.read("gen_ai.completion", must_be_json=True)
    if kind in ("tool", "retriever"):
        call = tool_call(source, NAME, source.span.name, given, result)
        call.setting = SETTING
        return call
    if kind != "llm":
        return structure(source, NAME, source.span.name, given, result)
    call = model_call(source, NAME)
    call.setting = SETTING
    call.damage.extend(field.damage for field in (given, result) if field.damage)
    if given.whole:
        call.messages = _conversation(given.value)
    if result.whole and isinstance(result.value, dict):
        _answer(call, result.value)
    return call


def _conversation(value: Any) -> list[dict[str, Any]] | None:
    messages = value.get("messages", value.get("prompts")) if isinstance(value, Mapping) else value
    if isinstance(messages, list) and messages and isinstance(messages[0], list):
        messages = messages[0]  # LangChain calls models with a batch of conversations
    if not isinstance(messages, list):
        return None
    return [
        _messages.from_openai(langchain_message(item))
        if isinstance(item, Mapping)
        else {"role": "user", "parts": [_messages.text_part(str(item))]}
        for item in messages
    ]


def langchain_message(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return LangChain's dump of a message as a plain one; others as they are."""
    if "lc" not in item or not isinstance(item.get("kwargs"), Mapping):
        return item
    kind = item.get("id")
    name = str(kind[-1]) if isinstance(kind, list) and kind else ""
    role = name.removesuffix("Chunk").removesuffix("Message").lower()
    return {"role": role, **item["kwargs"]}


def _answer(call: Call, value: dict[str, Any]) -> None:
    if isinstance(value.get("choices"), list) or value.get("type") == "message":
        call.response = value
        return
    generations = value.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    if isinstance(generations, Mapping):
        message = generations.get("message")
        if isinstance(message, Mapping):
            call.answers = [_messages.from_openai(langchain_message(message))]
        elif isinstance(generations.get("text"), str):
            call.answers = [{"role": "assistant", "parts": [_messages.text_part(generations["text"])]}]
        return
    messages = value.get("messages", [value] if "content" in value else None)
    if isinstance(messages, list):
        call.answers = _conversation(messages)
