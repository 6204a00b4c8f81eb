"""Langfuse: its SDK's attributes, and its exports once a reader has put them under the same names.

Source: langfuse/langfuse-python `_client/attributes.py`. An export parses JSON inside JSON and names null what it does
not hold; the SDK fills in default sampling parameters, so what was really asked is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from otel_replay.importers.genai import _fields, _messages, traceloop
from otel_replay.importers.genai._call import Call, Fault, Source, model_call, structure, tool_call
from otel_replay.importers.genai.langsmith import langchain_message

NAME = "Langfuse"
SETTING = "use an export with input and output (the UI leaves them out of large traces; use the API)"
_P = "langfuse.observation."
_NUMBERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "frequency_penalty", "presence_penalty")


def matches(source: Source) -> bool:
    """True where the span bears Langfuse's own attributes."""
    return any(key.startswith(_P) and not key.startswith(f"{_P}metadata") for key in source.attributes)


def read(source: Source) -> Call | None:
    """Return the call of the observation, or its place in the tree."""
    kind = source.text(f"{_P}type").lower() or "span"
    given, result = _side(source, "input"), _side(source, "output")
    if kind in ("generation", "embedding"):
        call = _model(source, given, result)
        call.operation = "embeddings" if kind == "embedding" else call.operation
    elif kind in ("tool", "retriever", "guardrail", "evaluator"):
        call = tool_call(source, NAME, _tool_name(source), traceloop.arguments_of(given), _tool_result(result))
    elif kind in ("span", "event") and not given.present and not result.present:
        return None  # the user's own span: neither a call nor an agent
    else:
        call = structure(source, NAME, source.span.name, traceloop.arguments_of(given), _tool_result(result))
    call.setting = SETTING
    if call.fault is None and source.text(f"{_P}level").upper() == "ERROR":
        call.fault = _fault(source.text(f"{_P}status_message"))
    return call


def _fault(text: str) -> Fault:
    """Return the failure of a status message like "BadRequestError: Error code: 400"; mostly it is the bare text."""
    name, colon, rest = text.partition(": ")
    if colon and name.isidentifier() and name.endswith(("Error", "Exception")):
        return Fault(name, rest)
    return Fault("BadRequestError" if text.startswith("Error code: 400") else "", text)


def _side(source: Source, side: str) -> _fields.Field:
    field = source.read(_P + side)
    return field if field.value is not None else _fields.Field(field.key)


def _tool_name(source: Source) -> str:
    return source.text("gen_ai.tool.name", "tool.name") or source.span.name


def _tool_result(field: _fields.Field) -> _fields.Field:
    """Return what a tool gave; of LangChain's dump of a tool message its content."""
    value = field.value
    if isinstance(value, Mapping) and value.get("type") == "tool" and "content" in value and "tool_call_id" in value:
        return replace(field, value=value["content"], note="the result is the content of LangChain's tool message")
    return field


def _model(source: Source, given: _fields.Field, result: _fields.Field) -> Call:
    call = model_call(source, NAME)
    call.damage.extend(field.damage for field in (given, result) if field.damage)
    if not call.model and source.text(f"{_P}model.name"):
        call.model = source.text(f"{_P}model.name")
        call.notes.append("Langfuse keeps one model name: the one asked for and the one that answered may differ")
    call.answered_model = call.answered_model or source.text(f"{_P}model.name")
    _parameters(call, source)
    usage = source.read(f"{_P}usage_details").value
    for name in ("input", "output", "total"):
        count = _fields.as_int(usage.get(name)) if isinstance(usage, dict) else None
        if count is not None:
            call.usage.setdefault(name, count)
    if given.whole:
        _input(call, given.value)
    if result.whole:
        _answer(call, result.value)
    if "streaming" in source.span.name.lower() or source.attributes.get(f"{_P}completion_start_time"):
        call.streamed = True
    return call


def _parameters(call: Call, source: Source) -> None:
    parameters = source.read(f"{_P}model.parameters").value
    if not isinstance(parameters, dict) or call.params:
        return
    numbers = {name: _fields.as_number(parameters.get(name)) for name in _NUMBERS}
    call.params = {name: value for name, value in numbers.items() if value is not None and 0 <= value < 1e12}
    if call.params:
        call.notes.append("sampling parameters are Langfuse's view: it fills in defaults that were never sent")


def _input(call: Call, value: Any) -> None:
    if isinstance(value, Mapping) and isinstance(value.get("contents"), list):
        call.request = dict(value)  # Google's form, kept as it is
        return
    if isinstance(value, Mapping) and isinstance(value.get("tools"), list):
        call.tools = list(value["tools"])
    listed = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(value, Mapping) and listed is None and isinstance(value.get("args"), list):
        listed = [{"role": "user", "content": text} for text in value["args"] if isinstance(text, str)]
    if isinstance(listed, str):
        call.messages = [{"role": "user", "parts": [_messages.text_part(listed)]}]
        call.notes.append("the input is text: read as the user's message; the messages behind it are not in the record")
        return
    if not isinstance(listed, list):
        return
    plain = [langchain_message(item) for item in listed if isinstance(item, Mapping)]
    definitions = [item["content"] for item in plain if _is_definition(item)]
    call.tools = call.tools or definitions or None
    messages = [item for item in plain if not _is_definition(item)]
    responses_form = any(item.get("type") in ("function_call", "function_call_output") for item in messages)
    call.messages = _messages.from_responses(messages) if responses_form else _messages.from_parts(messages)


def _is_definition(item: Mapping[str, Any]) -> bool:
    """True for a tool's definition, which Langfuse's LangChain handler writes as a message of role tool."""
    content = item.get("content")
    return item.get("role") == "tool" and isinstance(content, Mapping) and isinstance(content.get("function"), Mapping)


def _answer(call: Call, value: Any) -> None:
    if isinstance(value, str):
        call.answers = [{"role": "assistant", "parts": [_messages.text_part(value)]}]
    elif isinstance(value, list):
        call.answers = _messages.from_parts(value)
    elif isinstance(value, Mapping):
        shaped = any(isinstance(value.get(key), list) for key in ("choices", "output", "candidates"))
        if shaped or value.get("type") == "message" or "usage_metadata" in value:
            call.response = dict(value)
        else:
            call.answers = [_messages.from_openai({"role": "assistant", **langchain_message(value)})]
