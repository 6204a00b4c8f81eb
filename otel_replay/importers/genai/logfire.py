"""Logfire: `@instrument`ed functions, and model calls whose streamed answer stands in a second span.

Source: pydantic/logfire 5.4 (`_internal/integrations/llm_providers`); before 4.0 `request_data` held the whole request
and `response_data` the message. What it scrubs or shortens it lists in `logfire.scrubbed` and `logfire.truncated`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import orjson

from otel_replay.importers.genai import _fields, _messages, otel_genai
from otel_replay.importers.genai._call import Call, Source, model_call, structure, take_io

NAME = "Logfire"
SETTING = "use logfire.instrument_openai or instrument_anthropic: they always capture content"
_REPR = re.compile(r"(Text|Thinking|RedactedThinking|ToolUse)Block\(")
_REPR_CHARS_MAX = 100_000
_STREAM_END = "streaming response from "


def matches(source: Source) -> bool:
    """True where Logfire's SDK wrote the span."""
    return "logfire.msg_template" in source.attributes or source.scope.startswith("logfire")


def read(source: Source) -> Call | None:
    """Return the model call or the function call of the span; None for a plain `logfire.span`."""
    request = source.read("request_data").value
    if isinstance(request, dict) and ("model" in request or "messages" in request):
        return _model(source, request)
    template = source.text("logfire.msg_template")
    if template.startswith("Calling ") or "return" in source.attributes:
        return _function(source)
    return None


def _model(source: Source, request: dict[str, Any]) -> Call:
    call = model_call(source, NAME)
    call.setting = SETTING
    call.model = call.model or str(request.get("model") or "")
    call.joins = source.text("logfire.msg_template").startswith(_STREAM_END)
    otel_genai.fill_messages(call, source.attributes)
    _restore_blocks(call)
    if isinstance(request.get("messages"), list) or "input" in request:
        call.request = request
        call.streamed = call.streamed or request.get("stream") is True
    response = source.read("response_data")
    if response.damage:
        call.damage.append(response.damage)
    if response.whole and isinstance(response.value, dict):
        _old_response(call, response.value)
    return call


def _restore_blocks(call: Call) -> None:
    """Read Anthropic's content blocks that Logfire 5.4 wrote as their Python repr (`TextBlock(text='...')`)."""
    for message in call.messages or ():
        for index, part in enumerate(message["parts"]):
            text = part.get("content")
            if isinstance(text, str) and _REPR.match(text):
                block = _block(text)
                if block is None:
                    call.damage.append("a content block of an earlier turn is a Python repr that cannot be read")
                    return
                message["parts"][index] = _messages.anthropic_block(block)
                call.notes.append("content blocks of earlier turns are read from their Python repr")


def _block(text: str) -> dict[str, Any] | None:
    """Return the keyword arguments of `Name(key=literal, ...)`; None where it is anything else. Nothing is run."""
    if len(text) > _REPR_CHARS_MAX:
        return None
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.Call):
            return None
        found = {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        orjson.dumps(found)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return {key: value for key, value in found.items() if value is not None}


def _old_response(call: Call, data: Mapping[str, Any]) -> None:
    message, text = data.get("message"), data.get("combined_chunk_content")
    if isinstance(message, Mapping):
        call.answers = [_messages.from_openai(message)]
    elif isinstance(text, str):
        call.answers = [{"role": "assistant", "parts": [_messages.text_part(text)]}]
        call.notes.append("lost: tool calls of the streamed answer (Logfire before 4.0 kept its text only)")
    usage = data.get("usage")
    if isinstance(usage, Mapping):
        pairs = (("input", "prompt_tokens", "input_tokens"), ("output", "completion_tokens", "output_tokens"))
        for name, *keys in pairs:
            count = next((n for n in (_fields.as_int(usage.get(key)) for key in keys) if n is not None), None)
            if count is not None:
                call.usage.setdefault(name, count)


def _function(source: Source) -> Call:
    """Return an instrumented function: its arguments are the attributes that `logfire.json_schema` lists."""
    name = source.text("code.function").rpartition(".")[2] or source.span.name.removeprefix("Calling ")
    schema = source.read("logfire.json_schema").value
    listed = schema.get("properties") if isinstance(schema, dict) else None
    fields = [
        source.read(key, text=not _is_json(kind))
        for key, kind in (listed.items() if isinstance(listed, dict) else ())
        if key != "return" and key in source.attributes
    ]
    damage = "; ".join(field.damage for field in fields if field.damage)
    arguments = _fields.Field("arguments", {field.key: field.value for field in fields}, True, damage=damage)
    result = source.read("return", text=not _is_json(listed.get("return") if isinstance(listed, dict) else None))
    call = structure(source, NAME, name, arguments, result)
    call.setting = "@logfire.instrument(record_return=True)"
    take_io(call)
    call.damage.extend(_fields.integrity_problems(source.span, source.attributes))
    return call


def _is_json(kind: object) -> bool:
    return isinstance(kind, Mapping) and kind.get("type") in ("object", "array")


def join_streams(calls: list[Call], notes: list[str]) -> list[Call]:
    """Give a streamed call its answer from the span that Logfire writes when the stream has ended.

    The two are siblings; they belong together by parent, model and messages, the oldest unanswered first.
    """
    kept: list[Call] = []
    for call in calls:
        opener = next((earlier for earlier in kept if _opens(earlier, call)), None) if call.joins else None
        if opener is None:
            kept.append(call)
            continue
        opener.answers, opener.streamed = call.answers, True
        opener.response_id = call.response_id or opener.response_id
        opener.answered_model = call.answered_model or opener.answered_model
        opener.finish_reasons = call.finish_reasons or opener.finish_reasons
        opener.usage = {**opener.usage, **call.usage}
        opener.damage.extend(call.damage)
        opener.spans = (*(opener.spans or (opener.span,)), call.span)
        opener.end_ns = max(call.span.end_ns, opener.span.end_ns)
        note = f"the streamed answer is from span {call.span.span_id}, which Logfire wrote when the stream ended"
        opener.notes.append(note)
        notes.append(note)
    return kept


def _opens(earlier: Call, end: Call) -> bool:
    return (
        earlier.role == "model"
        and not earlier.joins
        and not earlier.has_output
        and earlier.fault is None
        and earlier.span.parent_span_id == end.span.parent_span_id
        and earlier.span.start_ns <= end.span.start_ns
        and earlier.model == end.model
        and (earlier.messages, earlier.request) == (end.messages, end.request)
    )
