"""Traceloop's decorators and its framework instrumentations: workflow, task, agent and tool spans.

Source: traceloop/openllmetry `traceloop-sdk` (`decorators/base.py`): `traceloop.entity.input` is
`{"args": [...], "kwargs": {...}}`; both sides are cut at OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT.
"""

from __future__ import annotations

from dataclasses import replace

from otel_replay.importers.genai import _fields
from otel_replay.importers.genai._call import Call, Source, structure, tool_call

NAME = "Traceloop"
SETTING = "TRACELOOP_TRACE_CONTENT=true"


def matches(source: Source) -> bool:
    """True where the span is one of Traceloop's entities."""
    return "traceloop.span.kind" in source.attributes


def read(source: Source) -> Call | None:
    """Return the tool call, or the place in the tree, that the span stands for."""
    kind = source.text("traceloop.span.kind").lower()
    name = source.text("traceloop.entity.name", "gen_ai.tool.name") or source.span.name.rpartition(".")[0]
    given = source.read("traceloop.entity.input", must_be_json=True)
    result = source.read("traceloop.entity.output", must_be_json=True)
    if kind != "tool":
        return structure(source, NAME, name or source.span.name, given, result)
    call = tool_call(source, NAME, name or source.span.name, arguments_of(given), _result(result))
    call.setting = SETTING
    if isinstance(call.arguments.value, dict) and call.arguments.value.get("args"):
        call.notes.append("positional arguments: their names are not in the record")
    return call


def arguments_of(field: _fields.Field) -> _fields.Field:
    """Return the arguments of a call recorded as args and kwargs: the kwargs, where no positional one was given."""
    value = field.value
    if not isinstance(value, dict):
        return field
    if set(value) <= {"args", "kwargs"} and not value.get("args"):
        return replace(field, value=value.get("kwargs") or {})
    for inner in ("inputs", "arguments"):
        if isinstance(value.get(inner), dict):
            return replace(field, value=value[inner])
    return field


def _result(field: _fields.Field) -> _fields.Field:
    value = field.value
    if isinstance(value, dict) and set(value) <= {"output", "kwargs"} and "output" in value:
        return replace(field, value=value["output"])
    return field
