"""MLflow: `mlflow.spanInputs` and `mlflow.spanOutputs`, the whole arguments and result of the patched call.

Source: mlflow/mlflow `tracing/constant.py`, `entities/span.py`. Every attribute value is a JSON text, also of text.
"""

from __future__ import annotations

from typing import Any

from otel_replay.importers.genai import _fields, _messages
from otel_replay.importers.genai._call import Call, Source, model_call, structure, tool_call

NAME = "MLflow"
_MODEL = ("CHAT_MODEL", "LLM", "EMBEDDING")
_TOOL = ("TOOL", "RETRIEVER", "RERANKER")


def matches(source: Source) -> bool:
    """True where MLflow's tracing wrote the span."""
    return "mlflow.spanType" in source.attributes or "mlflow.spanInputs" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call of the span, or its place in the tree."""
    kind = str(source.read("mlflow.spanType").value or "UNKNOWN").upper()
    given = source.read("mlflow.spanInputs", must_be_json=True)
    result = source.read("mlflow.spanOutputs", must_be_json=True)
    if kind in _MODEL:
        return _model(source, kind, given, result)
    if kind in _TOOL:
        return tool_call(source, NAME, source.span.name, given, result)
    return structure(source, NAME, source.span.name, given, result)


def _model(source: Source, kind: str, given: _fields.Field, result: _fields.Field) -> Call:
    call = model_call(source, NAME)
    call.damage.extend(field.damage for field in (given, result) if field.damage)
    if kind == "EMBEDDING":
        call.operation = "embeddings"
    call.model = str(source.read("mlflow.llm.model").value or call.model)
    call.provider = call.provider or str(source.read("mlflow.llm.provider").value or "")
    usage = source.read("mlflow.chat.tokenUsage").value
    for name, key in (("input", "input_tokens"), ("output", "output_tokens"), ("total", "total_tokens")):
        count = _fields.as_int(usage.get(key)) if isinstance(usage, dict) else None
        if count is not None:
            call.usage[name] = count
    tools = source.read("mlflow.chat.tools").value
    call.tools = tools if isinstance(tools, list) and tools else None
    if given.whole and isinstance(given.value, dict) and ("messages" in given.value or "input" in given.value):
        call.request = dict(given.value)
        call.streamed = given.value.get("stream") is True
    elif given.whole:
        call.messages = _messages.from_parts(given.value)
    if result.whole:
        _answer(call, result.value)
    return call


def _answer(call: Call, value: Any) -> None:
    """Take the outputs: the vendor's response where they have its shape, a message, or the streamed text."""
    if isinstance(value, dict) and any(key in value for key in ("choices", "output", "candidates", "data")):
        call.response = dict(value)
        call.answered_model = call.answered_model or str(value.get("model") or "")
    elif isinstance(value, dict) and value.get("type") == "message":
        call.response = dict(value)
    elif isinstance(value, dict) and "content" in value:
        call.answers = [_messages.from_openai({"role": "assistant", **value})]
    elif isinstance(value, str):
        call.answers = [{"role": "assistant", "parts": [_messages.text_part(value)]}]
    elif value is not None:
        call.notes.append("mlflow.spanOutputs has no known response form")
