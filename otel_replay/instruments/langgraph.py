"""LangGraph: each attempt at a node is a crossing under the node's name, each conditional edge one under its router's.

The shells are put around a task's parts when the graph runs it, so that graphs compiled before are covered too. What a
node answers is kept as its function returned it; the framework's own writers then run on it, also in a replay. What it
does beside that (streams, interrupts) is in `_langgraph_events`.
"""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module
from typing import Any

from otel_replay import payload
from otel_replay.instruments import _framework, _langgraph_events
from otel_replay.instruments._patch import Patches
from otel_replay.instruments.langchain import without_made_ids
from otel_replay.session import active_sessions, on_unscoped


class _Kit:
    """LangGraph's classes, and ours that derive from them."""

    def __init__(self, patches: Patches) -> None:
        runnable = import_module("langchain_core.runnables").Runnable
        inner = import_module("langgraph._internal._runnable")
        self.patches = patches
        self.sequence = inner.RunnableSeq
        self.callable = inner.RunnableCallable
        self.write = import_module("langgraph.pregel._write").ChannelWrite

        class Shell(runnable):  # type: ignore[misc, valid-type]
            """A node or router whose every call is a crossing."""

            def __init__(self, inside: Any, name: str, kind: str) -> None:
                self.inside = inside
                self.name = name
                self.kind = kind

            def _describe(self, value: Any, config: Any) -> Any:
                asked = without_made_ids(value)
                if self.kind != "router":
                    asked = _langgraph_events.request(asked, config)
                return _framework.spec_of(self.name, self.kind), asked

            def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
                return _langgraph_events.run(
                    lambda: self._describe(input, config),
                    config,
                    lambda: self.inside.invoke(input, config, **kwargs),
                )

            async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
                return await _langgraph_events.arun(
                    lambda: self._describe(input, config),
                    config,
                    lambda: self.inside.ainvoke(input, config, **kwargs),
                )

        self.shell = Shell

    def task(self, task: Any) -> Any:
        """Return `task` with its node and routers in shells; as it is where no session is near."""
        if not self.patches.on or not (active_sessions() or on_unscoped):
            return task
        proc = task.proc
        steps = list(proc.steps) if isinstance(proc, self.sequence) else [proc]
        made = [self._step(step, task.name, first=at == 0) for at, step in enumerate(steps)]
        if all(a is b for a, b in zip(steps, made, strict=True)):
            return task
        if not isinstance(proc, self.sequence):
            return dataclasses.replace(task, proc=made[0])
        again = self._copy(proc)
        again.steps = made
        return dataclasses.replace(task, proc=again)

    def _step(self, step: Any, name: str, *, first: bool) -> Any:
        spec = getattr(getattr(step, "func", None), "__self__", None)
        # By name: a program that draws no graph has not imported it, and it cannot be while LangGraph itself is.
        branches = sys.modules.get("langgraph.graph._branch")
        if branches is not None and isinstance(spec, branches.BranchSpec):
            router = spec.path
            shell = self.shell(router, getattr(router, "name", None) or "router", "router")
            again = self._copy(step)
            inside = spec._replace(path=shell)
            again.func, again.afunc = inside._route, inside._aroute
            return again
        if isinstance(step, self.write) or not first or name == "__start__":
            return step
        return self.shell(step, name, "custom")

    @staticmethod
    def _copy(value: Any) -> Any:
        again = object.__new__(type(value))
        again.__dict__.update(value.__dict__)
        return again


def _keep_sends() -> None:
    """Let recordings hold `Send`, what a router answers for nodes in parallel: a class of slots, no dataclass."""
    kind: Any = import_module("langgraph.types").Send

    def to_state(value: Any) -> Any:
        timeout = getattr(value, "timeout", None)
        return [value.node, value.arg] if timeout is None else [value.node, value.arg, timeout]

    def from_state(state: Any) -> Any:
        return kind(*state[:2], **({"timeout": state[2]} if len(state) > 2 else {}))

    payload.register(kind, to_state=to_state, from_state=from_state)


def install() -> Patches:
    """Replace what runs a graph's tasks. Returns what undoes it."""
    patches = Patches()
    kit = _Kit(patches)
    _keep_sends()
    runner = import_module("langgraph.pregel._runner")

    def sync(original: Any) -> Any:
        def run_with_retry(task: Any, *args: Any, **kwargs: Any) -> Any:
            return original(kit.task(task), *args, **kwargs)

        return run_with_retry

    def later(original: Any) -> Any:
        async def arun_with_retry(task: Any, *args: Any, **kwargs: Any) -> Any:
            return await original(kit.task(task), *args, **kwargs)

        return arun_with_retry

    patches.replace(runner, "run_with_retry", sync)
    patches.replace(runner, "arun_with_retry", later)
    _langgraph_events.install(patches)
    return patches
