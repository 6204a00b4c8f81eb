"""Pydantic AI: each call of a tool is a crossing under the name that the model calls it by.

Models go through the client of their vendor, which has an instrument of its own; a handover is a tool that runs
another agent. Tools that an MCP server offers are recorded by the instrument `mcp`, where that one is on. The run
context is not part of a request: a tool is asked for its arguments, checked and coerced by the framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from otel_replay import payload
from otel_replay.crossing import Spec
from otel_replay.instruments import _framework, active
from otel_replay.instruments._cross import inner_crossing
from otel_replay.instruments._patch import Patches

_CALL = "pydantic_ai.call"


def _source(tool: Any) -> Any:
    """Return the tool as its own toolset holds it, out of the toolsets that combine others."""
    for _depth in range(32):
        inner = getattr(tool, "source_tool", None)
        if inner is None:
            break
        tool = inner
    return tool


def _speaks_for_itself(tool: Any) -> bool:
    """True where the call of `tool` is recorded elsewhere, or is the model's final answer and no call of a tool."""
    definition = getattr(tool, "tool_def", None)
    if getattr(definition, "kind", "") == "output":
        return True
    source = _source(tool)
    if "mcp" in active() and any(
        base.__module__ == "pydantic_ai.mcp" for base in type(getattr(source, "toolset", None)).__mro__
    ):
        return True
    schema = getattr(getattr(source, "call_func", None), "__self__", None)
    return _framework.is_boundary(getattr(schema, "function", None))


def _describe(name: str, arguments: Any, ctx: Any, tool: Any) -> tuple[Spec, object] | None:
    around = inner_crossing("tool")
    if around is not None and ctx.tool_call_id is not None and around.facts.get(_CALL) == ctx.tool_call_id:
        return None  # one toolset passes the call on to another
    if _speaks_for_itself(tool):
        return None
    metadata = getattr(tool.tool_def, "metadata", None)
    changes_things = isinstance(metadata, dict) and bool(metadata.get("side_effects"))
    return _framework.spec_of(name, "tool", side_effects=changes_things), arguments


def _keep_contexts() -> None:
    """Let a request hold the run context as what it tells of the call: it holds clients and the user's own objects."""
    kind: Any = import_module("pydantic_ai").RunContext
    payload.register(
        kind,
        to_state=lambda context: {"tool": context.tool_name, "retry": context.retry},
        from_state=lambda state: kind(deps=None, model=None, usage=None, tool_name=state["tool"], retry=state["retry"]),
    )


def install() -> Patches:
    """Replace what calls tools. Returns what undoes it."""
    patches = Patches()
    _keep_contexts()

    def make(original: Any) -> Any:
        async def call_tool(toolset: Any, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
            def describe() -> tuple[Spec, object] | None:
                return _describe(name, tool_args, ctx, tool) if patches.on else None

            async def call() -> Any:
                here = inner_crossing("tool")
                if here is not None:
                    here.facts[_CALL] = ctx.tool_call_id
                return await original(toolset, name, tool_args, ctx, tool)

            return await _framework.arun(describe, call)

        return call_tool

    patches.replace(import_module("pydantic_ai.toolsets.combined").CombinedToolset, "call_tool", make)
    return patches
