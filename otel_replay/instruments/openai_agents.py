"""The OpenAI Agents SDK: each call of a function tool is a crossing under the tool's name.

Its models go through the OpenAI client, which has an instrument of its own; a handover is the model's choice and
follows from its answer. Tools made before and after are covered: the shell is put on when a tool is called.
"""

from __future__ import annotations

import copy
import functools
from importlib import import_module
from typing import Any

import orjson

from otel_replay.crossing import Spec
from otel_replay.instruments import _framework
from otel_replay.instruments._patch import Patches


def _asked(arguments: object) -> object:
    """Return the arguments as the model meant them: an object, or the text itself where it is no JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments) if arguments else {}
    except orjson.JSONDecodeError:
        return arguments


def _shelled(tool: Any) -> Any:
    """Return a copy of `tool` whose every call is a crossing; itself where its function is a boundary."""
    if _framework.is_boundary(getattr(tool, "__wrapped__", None)):
        return tool
    call = tool.on_invoke_tool

    @functools.wraps(call)
    async def on_invoke_tool(context: Any, arguments: Any) -> Any:
        def describe() -> tuple[Spec, object]:
            return _framework.spec_of(tool.name, "tool"), _asked(arguments)

        return await _framework.arun(describe, lambda: call(context, arguments))

    again = copy.copy(tool)
    again.on_invoke_tool = on_invoke_tool
    return again


def install() -> Patches:
    """Replace what calls function tools. Returns what undoes it."""
    patches = Patches()

    def make(original: Any) -> Any:
        async def invoke(*args: Any, **kwargs: Any) -> Any:
            if patches.on and "function_tool" in kwargs:
                kwargs["function_tool"] = _shelled(kwargs["function_tool"])
            return await original(*args, **kwargs)

        return invoke

    execution = import_module("agents.run_internal.tool_execution")
    patches.replace(execution, "_invoke_function_tool_with_metadata", make)
    return patches
