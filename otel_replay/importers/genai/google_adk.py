"""Google's ADK: `gcp.vertex.agent.llm_request` and `.llm_response`, `.tool_call_args` and `.tool_response`.

Source: google/adk-python `telemetry/tracing.py`. Request and response stand in ADK's own form (`LlmRequest`,
`LlmResponse`); with ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false they are `{}`.
"""

from __future__ import annotations

from otel_replay.importers.genai import _fields
from otel_replay.importers.genai._call import Call, Source, model_call, structure, tool_call

NAME = "Google ADK"
SETTING = "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"
_PREFIX = "gcp.vertex.agent."


def matches(source: Source) -> bool:
    """True where ADK wrote the span."""
    return source.scope == "gcp.vertex.agent" or any(key.startswith(_PREFIX) for key in source.attributes)


def read(source: Source) -> Call | None:
    """Return the model or tool call of the span, else its place in the tree."""
    if source.text("gen_ai.operation.name") == "execute_tool" or f"{_PREFIX}tool_call_args" in source.attributes:
        return _tool(source)
    given, answered = _kept(source, "llm_request"), _kept(source, "llm_response")
    if f"{_PREFIX}llm_request" in source.attributes:
        call = model_call(source, NAME)
        call.setting = SETTING
        call.damage.extend(field.damage for field in (given, answered) if field.damage)
        call.request = given.value if given.whole and isinstance(given.value, dict) else None
        call.response = answered.value if answered.whole and isinstance(answered.value, dict) else None
        call.notes.append("request and response are in ADK's form (LlmRequest, LlmResponse)")
        return call
    if source.text("gen_ai.operation.name", "gen_ai.agent.name") or source.scope == "gcp.vertex.agent":
        name = source.text("gen_ai.agent.name") or source.span.name
        return structure(source, NAME, name, _fields.Field(""), _fields.Field(""))
    return None


def _tool(source: Source) -> Call | None:
    name = source.text("gen_ai.tool.name") or source.span.name.removeprefix("execute_tool ").strip()
    if name == "(merged tools)":
        return None  # ADK's summary of parallel tools: each has its own span
    result = source.read(f"{_PREFIX}tool_response", must_be_json=True)
    call = tool_call(source, NAME, name, source.read(f"{_PREFIX}tool_call_args", must_be_json=True), result)
    call.setting = SETTING
    return call


def _kept(source: Source, name: str) -> _fields.Field:
    """Return a field; `{}` is how ADK writes that it captured nothing."""
    field = source.read(_PREFIX + name, must_be_json=True)
    return field if field.value != {} else _fields.Field(field.key)
