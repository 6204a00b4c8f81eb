"""CrewAI: each call of a tool is a crossing under the name that the model calls it by, handing work over included.

Models go through the client of their vendor, which has an instrument of its own. Crews, tasks and flows always run:
they keep their state between steps. A tool's count of its uses goes up in a replay too: it decides what is called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from otel_replay.crossing import Spec
from otel_replay.instruments import _framework
from otel_replay.instruments._patch import Patches

Count = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def _count_run(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Count a call of a BaseTool that was served: after its arguments were checked, as `run` does."""
    if not args:
        tool._validate_kwargs(kwargs)
    tool._claim_usage()


def _count_invoke(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Count a call of a CrewStructuredTool that was served."""
    tool._parse_args(args[0] if args else kwargs["input"])
    if not tool.has_reached_max_usage_count():
        tool._increment_usage_count()


class _Shells:
    def __init__(self, patches: Patches, name_of: Callable[[str], str]) -> None:
        self._patches = patches
        self._name_of = name_of

    def _describe(self, tool: Any, asked: Any) -> tuple[Spec, object] | None:
        source = getattr(tool, "_original_tool", None) or tool
        if not self._patches.on or _framework.is_boundary(
            getattr(source, "func", None), getattr(type(source), "_run", None), getattr(type(source), "_arun", None)
        ):
            return None
        changes_things = bool(getattr(source, "side_effects", False))
        return _framework.spec_of(self._name_of(tool.name), "tool", side_effects=changes_things), asked

    def shell(self, count: Count, asked: Callable[[tuple[Any, ...], dict[str, Any]], Any], *, later: bool) -> Any:
        """Return what makes a shell of a method: `asked` reads its request, `count` counts a call that was served."""

        def make(original: Any) -> Any:
            def run(tool: Any, *args: Any, **kwargs: Any) -> Any:
                live: list[bool] = []

                def call() -> Any:
                    live.append(True)
                    return original(tool, *args, **kwargs)

                try:
                    return _framework.run(lambda: self._describe(tool, asked(args, kwargs)), call)
                finally:
                    if not live:
                        self._counted(count, tool, args, kwargs)

            async def arun(tool: Any, *args: Any, **kwargs: Any) -> Any:
                live: list[bool] = []

                async def call() -> Any:
                    live.append(True)
                    return await original(tool, *args, **kwargs)

                try:
                    return await _framework.arun(lambda: self._describe(tool, asked(args, kwargs)), call)
                finally:
                    if not live:
                        self._counted(count, tool, args, kwargs)

            return arun if later else run

        return make

    @staticmethod
    def _counted(count: Count, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            count(tool, args, kwargs)
        except Exception:  # noqa: BLE001 - what `run` itself refuses it does not count either
            return


def _of_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return {"args": list(args), **kwargs} if args else kwargs


def _of_invoke(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the arguments alone: the configuration beside them holds the fingerprints of this very run."""
    return args[0] if args else kwargs.get("input")


def install() -> Patches:
    """Replace the methods that call tools. Returns what undoes it."""
    patches = Patches()
    shells = _Shells(patches, import_module("crewai.utilities.string_utils").sanitize_tool_name)
    base = import_module("crewai.tools.base_tool")
    for kind in (base.BaseTool, base.Tool):  # each defines its own
        patches.replace(kind, "run", shells.shell(_count_run, _of_run, later=False))
        patches.replace(kind, "arun", shells.shell(_count_run, _of_run, later=True), required=False)
    structured = import_module("crewai.tools.structured_tool").CrewStructuredTool
    patches.replace(structured, "invoke", shells.shell(_count_invoke, _of_invoke, later=False))
    patches.replace(structured, "ainvoke", shells.shell(_count_invoke, _of_invoke, later=True))
    return patches
