"""OpenInference (Arize Phoenix): `input.value` and `output.value`, and the flattened `llm.*_messages.N.message.*`.

Source: Arize-ai/openinference `spec/semantic_conventions.md`. The OpenAI instrumentation keeps the whole request and
response; others put a text there. What is whole and richer wins; the flattened form is read by number (12 after 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_replay.importers.genai import _fields, _messages
from otel_replay.importers.genai._call import Call, Message, Source, model_call, structure, tool_call

NAME = "OpenInference"
HIDE = "OPENINFERENCE_HIDE_INPUTS, _HIDE_OUTPUTS, _HIDE_INPUT_MESSAGES, _HIDE_OUTPUT_MESSAGES=false"

_WIRE = frozenset((
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "stop",
    "stop_sequences", "n", "user", "stream", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs",
    "top_logprobs", "response_format", "tool_choice", "stream_options", "parallel_tool_calls", "reasoning",
    "reasoning_effort", "service_tier", "store", "metadata", "thinking", "modalities", "prediction",
    "instructions", "previous_response_id", "text", "truncation", "include", "verbosity", "dimensions",
    "encoding_format",
))  # fmt: skip
"""What a vendor's request may hold beside messages and tools: frameworks put their own settings there too."""


def matches(source: Source) -> bool:
    """True where the span bears OpenInference's kind, or its flattened messages."""
    return "openinference.span.kind" in source.attributes or any(
        key.startswith(("llm.input_messages.", "llm.output_messages.")) for key in source.attributes
    )


def read(source: Source) -> Call | None:
    """Return what the span says of one call."""
    kind = source.text("openinference.span.kind").upper() or "LLM"
    if kind == "LLM":
        return _model(source)
    if kind == "EMBEDDING":
        call = _model(source)
        call.operation = "embeddings"
        return call
    if kind == "TOOL" and source.span.name.startswith("handoff to "):
        return structure(source, NAME, source.span.name, value_field(source, "input"), value_field(source, "output"))
    if kind in ("TOOL", "RETRIEVER", "RERANKER"):
        name = source.text("tool.name") or source.span.name
        call = tool_call(source, NAME, name, value_field(source, "input"), value_field(source, "output"))
        call.setting = HIDE
        return call
    if kind == "GUARDRAIL" or kind == "EVALUATOR":
        return tool_call(source, NAME, source.span.name, value_field(source, "input"), value_field(source, "output"))
    return structure(source, NAME, source.span.name, value_field(source, "input"), value_field(source, "output"))


def value_field(source: Source, side: str) -> _fields.Field:
    """Return `input.value` or `output.value`: parsed where its mime type says JSON, or where it plainly is JSON."""
    mime = source.text(f"{side}.mime_type")
    if mime == "text/plain":
        return source.read(f"{side}.value", text=True)
    return source.read(f"{side}.value", must_be_json=mime == "application/json")


def _model(source: Source) -> Call:
    call = model_call(source, NAME)
    call.setting = HIDE
    call.model = source.text("gen_ai.request.model", "llm.model_name")
    parameters = source.read("llm.invocation_parameters", must_be_json=True).value
    if isinstance(parameters, dict):
        call.params = {key: value for key, value in parameters.items() if key in _WIRE}
    given, answered = value_field(source, "input"), value_field(source, "output")
    for field in (given, answered):
        if field.damage:
            call.damage.append(field.damage)
    _flattened(call, source)
    if given.whole and isinstance(given.value, dict) and _is_request(given.value):
        call.request = dict(given.value)
        call.streamed = call.streamed or given.value.get("stream") is True
    elif given.whole and isinstance(given.value, list):
        call.messages = call.messages or _messages.from_responses(given.value)
        if isinstance(answered.value, dict) and answered.value.get("object") == "response":
            _responses_request(call, given.value, answered.value)
    if answered.whole and isinstance(answered.value, dict):
        _response(call, answered.value)
    elif answered.whole and isinstance(answered.value, str) and not call.answers:
        call.answers = [{"role": "assistant", "parts": [_messages.text_part(answered.value)]}]
        call.notes.append("output.value is text: read as the assistant's answer")
    _prompts(call, source)
    return call


def _is_request(value: dict[str, Any]) -> bool:
    """True for a vendor's whole request; frameworks put their own call's arguments there (`{"args": [...]}`)."""
    return isinstance(value.get("messages"), list) or isinstance(value.get("input"), (list, str))


def _responses_request(call: Call, given: list[Any], body: dict[str, Any]) -> None:
    """Take the request of OpenAI's Agents SDK: its input is whole; instructions and tools are the response's echo."""
    echoed = {key: body[key] for key in ("instructions", "tools") if body.get(key)}
    call.request = {"model": str(body.get("model") or call.model), "input": given, **echoed}
    call.notes.append("lost: sampling parameters and the model asked for (the response's own stand for them)")


def _response(call: Call, body: dict[str, Any]) -> None:
    """Take `output.value`: the vendor's response where it has its shape, else a message, else nothing."""
    if any(isinstance(body.get(key), list) for key in ("choices", "output", "candidates", "data")) or (
        isinstance(body.get("content"), list) and body.get("type") == "message"
    ):
        call.response = dict(body)
    elif "content" in body and not call.answers:
        call.answers = [_messages.from_openai({"role": "assistant", **body})]
    elif not call.answers:
        call.notes.append("output.value has no known response form")
    name = body.get("model")
    if isinstance(name, str):
        call.answered_model = call.answered_model or name


def _prompts(call: Call, source: Source) -> None:
    """Take `llm.prompts` (older: a list) for completions without messages."""
    if call.messages or call.request:
        return
    prompts = source.read("llm.prompts").value
    if isinstance(prompts, list) and all(isinstance(prompt, str) for prompt in prompts) and prompts:
        call.messages = [{"role": "user", "parts": [_messages.text_part(prompt)]} for prompt in prompts]
        call.notes.append("llm.prompts are read as the user's messages")


def _flattened(call: Call, source: Source) -> None:
    call.messages = _list(call, source, "llm.input_messages")
    call.answers = _list(call, source, "llm.output_messages")
    tools = []
    for item in _fields.indexed(source.attributes, "llm.tools").items:
        schema = _fields.read(item, "tool.json_schema").value
        if isinstance(schema, dict):
            tools.append(schema)
    call.tools = tools or None


def _list(call: Call, source: Source, prefix: str) -> list[Message] | None:
    entries = _fields.indexed(source.attributes, prefix)
    side = "input" if prefix == "llm.input_messages" else "output"
    if entries.missing and not value_field(source, side).whole:
        call.damage.append(f"{prefix}: messages {_fields.ranges(entries.missing)} are missing")
        return None  # a conversation with holes is no conversation
    call.notes.extend(f"{index}: absurd index, left out" for index in entries.ignored)
    found = [_message(item) for item in entries.items]
    return found or None


def _message(item: Mapping[str, object]) -> Message:
    content: object = item.get("message.content")
    blocks = _fields.indexed(item, "message.contents").items
    parts: list[dict[str, Any]] = [_messages.text_part(content)] if isinstance(content, str) and content else []
    parts += [part for part in (_block(block) for block in blocks) if part]
    role = _messages.role_of(item.get("message.role"))
    if role == "tool":
        response: object = content if content is not None else "".join(str(part.get("content", "")) for part in parts)
        return {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "id": item.get("message.tool_call_id") or "", "response": response}
            ],
        }
    for call in _fields.indexed(item, "message.tool_calls").items:
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("tool_call.id") or "",
                "name": call.get("tool_call.function.name") or "",
                "arguments": call.get("tool_call.function.arguments", {}),
            }
        )
    if item.get("message.function_call_name"):
        parts.append(
            {
                "type": "tool_call",
                "id": "",
                "name": item["message.function_call_name"],
                "arguments": item.get("message.function_call_arguments_json"),
            }
        )
    return {"role": role, "parts": parts}


def _block(block: Mapping[str, object]) -> dict[str, Any] | None:
    kind = block.get("message_content.type")
    if kind == "image":
        return {"type": "uri", "uri": block.get("message_content.image.image.url"), "modality": "image"}
    if kind == "reasoning":
        return {"type": "reasoning", "content": block.get("message_content.text"),
                "signature": block.get("message_content.signature")}  # fmt: skip
    text = block.get("message_content.text")
    return _messages.text_part(text) if text is not None else None
