"""AutoGen: each call of a tool is a crossing under the name that the model calls it by; a handover is such a tool.

Models go through the OpenAI client, which has an instrument of its own. A tool that runs another agent or a team
streams what they say, and so does its crossing; what they ask and call stands beneath it. Agents themselves always run:
they keep their conversation between turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib import import_module
from typing import Any

from otel_replay.crossing import Spec
from otel_replay.instruments import _framework
from otel_replay.instruments._cross import cross
from otel_replay.instruments._patch import Patches
from otel_replay.streams import LiveAsyncSource, ServedSource, adrive


class _Shells:
    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._called: dict[tuple[int, str], str] = {}
        """(tool, call) -> the name that the model used, where a workbench gave the tool another one."""

    def _describe(self, tool: Any, arguments: Any, call_id: Any) -> tuple[Spec, object] | None:
        if not self._patches.on or _framework.is_boundary(getattr(tool, "_func", None), type(tool).run):
            return None
        return _framework.spec_of(self._called.get((id(tool), str(call_id)), tool.name), "tool"), arguments

    def call_tool(self, original: Any) -> Any:
        async def call_tool(
            bench: Any, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: Any = None
        ) -> Any:
            given = getattr(bench, "_override_name_to_original", {}).get(name)
            called = [(id(tool), str(call_id)) for tool in bench._tools if tool.name == given] if given else []
            self._called.update(dict.fromkeys(called, name))
            try:
                return await original(bench, name, arguments, cancellation_token, call_id)
            finally:
                for key in called:
                    self._called.pop(key, None)

        return call_tool

    def run_json(self, original: Any) -> Any:
        async def run_json(tool: Any, args: Any, cancellation_token: Any, call_id: Any = None) -> Any:
            return await _framework.arun(
                lambda: self._describe(tool, args, call_id),
                lambda: original(tool, args, cancellation_token, call_id),
            )

        return run_json

    def run_json_stream(self, original: Any) -> Any:
        async def run_json_stream(
            tool: Any, args: Any, cancellation_token: Any, call_id: Any = None
        ) -> AsyncIterator[Any]:
            crossing = cross(lambda: self._describe(tool, args, call_id))
            source: Any
            if crossing is None:
                source = original(tool, args, cancellation_token, call_id)
            elif crossing.served is not None:
                source = adrive(ServedSource(crossing))
            else:
                source = adrive(LiveAsyncSource(crossing, original(tool, args, cancellation_token, call_id)))
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    yield chunk

        return run_json_stream


def install() -> Patches:
    """Replace what calls tools. Returns what undoes it."""
    patches = Patches()
    shells = _Shells(patches)
    tools = import_module("autogen_core.tools")
    patches.replace(tools.BaseTool, "run_json", shells.run_json)
    patches.replace(tools.BaseStreamTool, "run_json_stream", shells.run_json_stream)
    patches.replace(tools.StaticWorkbench, "call_tool", shells.call_tool, required=False)
    return patches
