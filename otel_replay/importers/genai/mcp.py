"""MCP spans: `tools/call get_weather`, compatible with `execute_tool`, and not counted beside it.

Source: open-telemetry/semantic-conventions-genai `mcp.md`.
"""

from __future__ import annotations

from otel_replay.importers.genai import otel_genai
from otel_replay.importers.genai._call import Call, Source, tool_call

NAME = "MCP"
_CALLS = ("tools/call", "prompts/get", "resources/read")


def matches(source: Source) -> bool:
    """True where the span names a method of the Model Context Protocol."""
    return "mcp.method.name" in source.attributes


def read(source: Source) -> Call | None:
    """Return the protocol call that an agent waits for; None for handshakes, lists and notifications."""
    method = source.text("mcp.method.name")
    if method not in _CALLS:
        return None
    name = source.text("gen_ai.tool.name", "gen_ai.prompt.name", "mcp.resource.uri")
    result = source.read("gen_ai.tool.call.result")
    call = tool_call(source, NAME, name or source.span.name.removeprefix(method).strip(),
                     source.read("gen_ai.tool.call.arguments"), result)  # fmt: skip
    call.mcp = True
    call.setting = otel_genai.CAPTURE
    return call
