"""OpenLLMetry (Traceloop): since 0.60 the OpenTelemetry messages, before that `gen_ai.prompt.N.*` one key a field.

Sources: traceloop/openllmetry 0.62 and 0.47, `opentelemetry-semantic-conventions-ai`. Koog (JetBrains) writes the
older keys too, with the tool calls as JSON in `content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_replay.importers.genai import _fields, _messages, otel_genai
from otel_replay.importers.genai._call import Call, Message, Source, model_call

NAME = "OpenLLMetry"
SETTING = "TRACELOOP_TRACE_CONTENT=true"
_MARKS = ("llm.request.type", "gen_ai.is_streaming", "llm.is_streaming", "gen_ai.openai.api_base")


def matches(source: Source) -> bool:
    """True where the span bears OpenLLMetry's own keys, or the flattened prompts and completions."""
    return any(mark in source.attributes for mark in _MARKS) or any(
        key.startswith(("gen_ai.prompt.0.", "gen_ai.completion.0.")) for key in source.attributes
    )


def read(source: Source) -> Call | None:
    """Return the model call that the span tells of."""
    call = model_call(source, NAME)
    call.setting = SETTING
    kind = source.text("llm.request.type")
    if kind in ("embedding", "completion"):
        call.operation = "embeddings" if kind == "embedding" else "text_completion"
    if "gen_ai.input.messages" in source.attributes or "gen_ai.output.messages" in source.attributes:
        otel_genai.fill_messages(call, source.attributes)
        call.notes.append("lost: the seed (OpenLLMetry does not record it)")
        return call
    prompts = _fields.indexed(source.attributes, "gen_ai.prompt")
    answers = _fields.indexed(source.attributes, "gen_ai.completion")
    for name, entries in (("gen_ai.prompt", prompts), ("gen_ai.completion", answers)):
        if entries.missing:
            call.damage.append(f"{name}: messages {_fields.ranges(entries.missing)} are missing")
        call.notes.extend(f"{index}: absurd index, left out" for index in entries.ignored)
    if prompts.items and not prompts.missing:
        call.messages = _linked([_message(item) for item in prompts.items])
    if answers.items:
        call.answers = [_message(item) for item in answers.items]
    call.tools = _tools(source) or None
    return call


def _tools(source: Source) -> list[Any]:
    found = []
    for item in _fields.indexed(source.attributes, "llm.request.functions").items:
        function: dict[str, Any] = {"name": item.get("name")}
        if item.get("description") is not None:
            function["description"] = item["description"]
        parameters = _fields.read(item, "parameters")
        if parameters.whole:
            function["parameters"] = parameters.value
        found.append({"type": "function", "function": function})
    return found


def _message(item: Mapping[str, object]) -> Message:
    role = str(item.get("role") or "assistant")
    content: object = item.get("content")
    calls = [
        {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("arguments")}}
        for call in _fields.indexed(item, "tool_calls").items
    ]
    listed = _fields.read(item, "content").value if isinstance(content, str) and content[:1] in "[{" else content
    if isinstance(listed, list) and listed and all(isinstance(one, Mapping) for one in listed):
        if all(isinstance(one.get("function"), Mapping) for one in listed):
            role, content, calls = "assistant", None, [*calls, *(dict(one) for one in listed)]
        elif all("type" in one for one in listed):
            content = listed
    wire: dict[str, Any] = {"role": role, "content": content, "tool_calls": calls}
    if item.get("tool_call_id"):
        wire["tool_call_id"] = item["tool_call_id"]
    if item.get("finish_reason"):
        wire["finish_reason"] = item["finish_reason"]
    return _messages.from_openai(wire)


def restore_call_ids(calls: Sequence[Call]) -> None:
    """Give tool calls of the Responses API their call id again, from the request in which the agent sent them back.

    OpenLLMetry 0.62 records the item's id ("fc_...") in its place; tool and arguments must be equal.
    """
    for index, call in enumerate(calls):
        for part in _lost_ids(call):
            later = (
                sent for other in calls[index + 1 :] for message in other.messages or () for sent in message["parts"]
            )
            twin = next((sent for sent in later if _same_tool_call(part, sent)), None)
            if twin is not None:
                part["id"] = twin["id"]
                call.notes.append(f"the call id {twin['id']} is from the request that sent the call back")


def _lost_ids(call: Call) -> list[dict[str, Any]]:
    parts = [part for message in call.answers or () for part in message["parts"]]
    return [part for part in parts if part.get("type") == "tool_call" and str(part.get("id")).startswith("fc_")]


def _same_tool_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if other.get("type") != "tool_call" or str(other.get("id")).startswith("fc_") or not other.get("id"):
        return False
    texts = [_messages.json_text(part.get("arguments")) for part in (one, other)]
    return one.get("name") == other.get("name") and texts[0] == texts[1]


def _linked(messages: list[Message]) -> list[Message]:
    """Give tool answers without an id the id of the oldest call that is still unanswered."""
    open_ids: list[str] = []
    for message in messages:
        for part in message["parts"]:
            if part.get("type") == "tool_call" and part.get("id"):
                open_ids.append(str(part["id"]))
            elif part.get("type") == "tool_call_response":
                identity = str(part.get("id") or "")
                if identity in open_ids:
                    open_ids.remove(identity)
                elif not identity and open_ids:
                    part["id"] = open_ids.pop(0)
    return messages
