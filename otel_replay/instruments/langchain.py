"""LangChain: each call of a tool is a crossing under the tool's name, and of a chat model under its class's name, or
that of the instrumented client beneath it (see `_langchain_models`)."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from otel_replay.crossing import Spec
from otel_replay.instruments import _framework, _langchain_models
from otel_replay.instruments._patch import Patches

_MADE_ID = re.compile(r"(?:(?:lc_)?run-+)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?")
_PLAIN = (str, int, float, bool, type(None), list, dict)
_DEPTH_MAX = 32


def without_made_ids(value: Any, depth: int = 0) -> Any:
    """Return `value` with the ids taken off that LangChain draws at random for messages: no request means them."""
    if depth > _DEPTH_MAX:
        return value
    if isinstance(value, dict) and type(value) is dict:
        return {key: without_made_ids(item, depth + 1) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(without_made_ids(item, depth + 1) for item in value)
    made = getattr(value, "id", None)
    if isinstance(made, str) and _MADE_ID.fullmatch(made) and isinstance(value, _message_class()):
        return value.model_copy(update={"id": None})
    return value


def _message_class() -> Any:
    return import_module("langchain_core.messages").BaseMessage


def _asked(tool: Any, tool_input: Any) -> Any:
    """Return the arguments that the model gave: what the framework injects (state, store, runtime) is not asked for."""
    if isinstance(tool_input, dict) and not all(isinstance(value, _PLAIN) for value in tool_input.values()):
        known = getattr(tool.tool_call_schema, "model_fields", None)
        if known is not None:
            tool_input = {name: value for name, value in tool_input.items() if name in known}
    return without_made_ids(tool_input)


def _changes_things(tool: Any) -> bool:
    metadata = tool.metadata if isinstance(tool.metadata, dict) else {}
    return bool(metadata.get("side_effects")) or "side_effects" in (tool.tags or ())


class _Shells:
    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def _speaks(self, tool: Any) -> bool:
        """True where the call of `tool` is a crossing by itself."""
        return self._patches.covers(tool) and not _framework.is_boundary(
            getattr(tool, "func", None), getattr(tool, "coroutine", None), type(tool)._run, type(tool)._arun
        )

    def _describe(self, tool: Any, tool_input: Any) -> tuple[Spec, object]:
        spec = _framework.spec_of(tool.name, "tool", side_effects=_changes_things(tool))
        return spec, _asked(tool, tool_input)

    def run(self, original: Any) -> Any:
        def run(tool: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._speaks(tool):
                return original(tool, tool_input, *args, **kwargs)
            return _framework.run(
                lambda: self._describe(tool, tool_input), lambda: original(tool, tool_input, *args, **kwargs)
            )

        return run

    def arun(self, original: Any) -> Any:
        async def arun(tool: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._speaks(tool):
                return await original(tool, tool_input, *args, **kwargs)
            return await _framework.arun(
                lambda: self._describe(tool, tool_input), lambda: original(tool, tool_input, *args, **kwargs)
            )

        return arun


def install() -> Patches:
    """Replace the methods of tools and chat models. Returns what undoes it."""
    patches = Patches()
    shells = _Shells(patches)
    base = import_module("langchain_core.tools.base").BaseTool
    patches.replace(base, "run", shells.run)
    patches.replace(base, "arun", shells.arun)
    _langchain_models.install(patches)
    return patches
