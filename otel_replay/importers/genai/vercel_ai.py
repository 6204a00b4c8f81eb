"""Vercel's AI SDK: `ai.generateText` around its steps, `ai.generateText.doGenerate` for each call, `ai.toolCall`.

Source: vercel/ai `packages/ai/src/generate-text`, and its telemetry page. Recorded by programs in JavaScript; read all
the same, since prompts, answers and tools are the same things.
"""

from __future__ import annotations

from typing import Any

from otel_replay.importers.genai import _fields, _messages
from otel_replay.importers.genai._call import Call, Source, model_call, structure, tool_call

NAME = "Vercel AI SDK"
SETTING = "experimental_telemetry: {recordInputs: true, recordOutputs: true}"
_FINISH = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


def matches(source: Source) -> bool:
    """True where the AI SDK wrote the span."""
    return source.scope == "ai" or "ai.operationId" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call of the span; the outer span of several steps is only a place."""
    operation = source.text("ai.operationId") or source.span.name.partition(" ")[0]
    if operation == "ai.toolCall":
        name = source.text("ai.toolCall.name") or source.span.name
        call = tool_call(source, NAME, name, source.read("ai.toolCall.args"), source.read("ai.toolCall.result"))
        call.setting = SETTING
        return call
    if ".do" in operation:
        return _model(source, operation)
    if operation.startswith("ai."):
        answer = source.read("ai.response.text", text=True)
        return structure(source, NAME, operation, source.read("ai.prompt"), answer)
    return None


def _model(source: Source, operation: str) -> Call:
    call = model_call(source, NAME)
    call.setting = SETTING
    call.model = source.text("ai.model.id") or call.model
    provider = source.text("ai.model.provider") or call.provider
    call.provider, _, interface = provider.partition(".")
    call.api = "responses" if interface == "responses" else call.api
    call.answered_model = source.text("ai.response.model") or call.answered_model
    call.response_id = source.text("ai.response.id") or call.response_id
    call.streamed = operation.endswith("doStream")
    if operation.endswith("doEmbed"):
        call.operation = "embeddings"
    prompt = source.read("ai.prompt.messages", must_be_json=True)
    if prompt.damage:
        call.damage.append(prompt.damage)
    if prompt.whole and isinstance(prompt.value, list):
        call.messages = [_message(item) for item in prompt.value if isinstance(item, dict)]
    tools = source.read("ai.prompt.tools").value
    call.tools = [_tool(item) for item in tools] if isinstance(tools, list) and tools else None
    _answer(call, source)
    return call


def _message(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(content, list):
        parts = [
            {"type": "tool_call_response", "id": part.get("toolCallId"), "response": _output(part)}
            for part in content
            if isinstance(part, dict)
        ]
        return {"role": "tool", "parts": parts}
    return _messages.from_openai(item)


def _output(part: dict[str, Any]) -> Any:
    output = part.get("result", part.get("output"))
    if isinstance(output, dict) and set(output) == {"type", "value"}:  # v5: {"type": "json" | "text", "value": ...}
        return output["value"]
    return output


def _tool(item: Any) -> Any:
    tool = _fields.parse("ai.prompt.tools", item).value if isinstance(item, str) else item
    if not isinstance(tool, dict) or "name" not in tool:
        return tool
    function = {"name": tool["name"], "description": tool.get("description"),
                "parameters": tool.get("parameters", tool.get("inputSchema"))}  # fmt: skip
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


def _answer(call: Call, source: Source) -> None:
    parts: list[dict[str, Any]] = []
    text = source.text("ai.response.text", "ai.response.object")
    if text:
        parts.append(_messages.text_part(text))
    calls = source.read("ai.response.toolCalls", must_be_json=True)
    if calls.damage:
        call.damage.append(calls.damage)
    for item in calls.value if isinstance(calls.value, list) else ():
        if isinstance(item, dict):
            arguments = item.get("args", item.get("input"))
            parts.append({"type": "tool_call", "id": item.get("toolCallId"), "name": item.get("toolName"),
                          "arguments": arguments})  # fmt: skip
    if not parts:
        return
    answer: dict[str, Any] = {"role": "assistant", "parts": parts}
    reason = source.text("ai.response.finishReason")
    if reason:
        answer["finish_reason"] = _FINISH.get(reason, reason)
    call.answers = [answer]
