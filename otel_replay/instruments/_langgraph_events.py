"""What a LangGraph node does beside answering: what it puts on the graph's streams, and what resumes it.

A node whose graph streams tokens, custom data or the events of subgraphs is a streamed crossing: its chunks are what it
put there, and its value is its answer. A replay puts them on the streams of its own graph, with the task ids of this
run in place of the recorded ones, which LangGraph draws at random. The answers that resume an interrupted node are part
of its request; that it took them is a chunk too. The first chunk names the node's task and what was listened to.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing
from otel_replay.instruments._cross import Describe, cross
from otel_replay.instruments._patch import Patches
from otel_replay.session import peek_scope

_OUTLETS = "__otel_replay_outlets"
_INSIDE = frozenset({"messages", "custom", "tools"})
_DEPTH_MAX = 32


class Outlet:
    """Where one running graph puts its events. `modes` are those that its consumer asked for."""

    def __init__(self, stream: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        self.modes = frozenset(stream.modes)
        self._put = stream.__call__
        self._loop = loop
        self.queue = getattr(self._put, "__self__", None)

    def put(self, event: Any) -> None:
        """Put an event there, from whatever thread."""
        if self._loop is None or self._loop is asyncio._get_running_loop():
            self._put(event)
        else:
            self._loop.call_soon_threadsafe(self._put, event)


def noted(queue: Any, event: Any) -> None:
    """Keep `event` with each node that is running here and whose graph reads `queue`."""
    scope = peek_scope()
    crossing = scope.crossing if scope is not None else None
    while crossing is not None:
        node = crossing.facts.get("langgraph")
        if isinstance(node, Node):
            node.emitted(queue, event)
        crossing = crossing.parent


def install(patches: Patches) -> None:
    """Replace where running graphs are made and where their events are put."""
    loops = import_module("langgraph.pregel._loop")
    key = import_module("langgraph._internal._constants").CONF

    def loop(original: Any) -> Any:
        def __init__(made: Any, *args: Any, **kwargs: Any) -> None:
            stream, config = kwargs.get("stream"), kwargs.get("config")
            scope = peek_scope()
            if patches.on and scope is not None and stream is not None and config is not None:
                with scope.session.faults.contained("instrument"):
                    outlet = Outlet(stream, asyncio._get_running_loop())
                    conf = config[key]
                    kwargs["config"] = {**config, key: {**conf, _OUTLETS: (*conf.get(_OUTLETS, ()), outlet)}}
            original(made, *args, **kwargs)

        return __init__

    def put(original: Any) -> Any:
        def put(queue: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
            noted(queue, event)
            return original(queue, event, *args, **kwargs)

        return put

    patches.replace(loops.PregelLoop, "__init__", loop)
    queues = import_module("langgraph._internal._queue")
    patches.replace(queues.SyncQueue, "put", put)
    if "put_nowait" not in vars(queues.AsyncQueue):
        queues.AsyncQueue.put_nowait = queues.AsyncQueue.put_nowait  # its own from here on, no longer inherited
    patches.replace(queues.AsyncQueue, "put_nowait", put)


def request(value: Any, config: Any) -> Any:
    """Return what a node was asked: its input, and where it is resumed, the answers that it may take."""
    found = answers(_conf(config))
    return {"input": value, "resume": found} if found else value


def answers(conf: Any) -> list[Any]:
    """Return the values that resume a node: those that it has taken before, the one at hand, those given by id."""
    pad = conf.get("__pregel_scratchpad")
    if pad is None:
        return []
    at_hand = pad.get_null_resume(False)
    by_id = conf.get("__pregel_resume_map") or {}
    return [*pad.resume, *([] if at_hand is None else [at_hand]), *by_id.values()]


def _conf(config: Any) -> Any:
    return (config or {}).get("configurable") or {}


class Node:
    """One execution of a node as a crossing."""

    def __init__(self, crossing: Crossing, config: Any) -> None:
        self.config = config
        self.listening: list[str] = []
        self._crossing = crossing
        self._conf: Any = {}
        self._outlets: tuple[Outlet, ...] = ()
        self._task = ""
        self._begun = False
        self._send: Any = None

    def _read(self) -> None:
        self._conf = _conf(self.config)
        self._outlets = tuple(self._conf.get(_OUTLETS, ()))
        self._task = str(self._conf.get("checkpoint_ns", ""))
        self.listening = [
            f"{at}:{mode}"
            for at, outlet in enumerate(self._outlets)
            for mode in sorted(outlet.modes if "__pregel_stream" in self._conf else outlet.modes & _INSIDE)
        ]

    # Recording -------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Keep from here on what the node does beside answering."""
        self._read()
        self._crossing.facts["langgraph"] = self
        if self.listening:
            self._head()
        send = self._conf.get("__pregel_send")
        if send is None or not answers(self._conf):
            return

        def sent(writes: Any) -> None:
            with self._crossing.session.faults.contained("instrument"):
                self._head()
                self._crossing.chunk({"writes": [list(write) for write in writes]})
            send(writes)

        self._send = send
        self._conf["__pregel_send"] = sent  # in place: a node's code finds its configuration in a context variable

    def end(self) -> None:
        """Take out again what `begin` has put in."""
        if self._send is not None:
            self._conf["__pregel_send"] = self._send

    def _head(self) -> None:
        if not self._begun:
            self._begun = True
            self._crossing.chunk({"task": self._task}, self.listening or None)

    def emitted(self, queue: Any, event: Any) -> None:
        """Keep an event that was put on one of the streams above this node."""
        if not self.listening or self._crossing.ended:
            return
        with self._crossing.session.faults.contained("instrument"):
            for at, outlet in enumerate(self._outlets):
                if outlet.queue is queue:  # others belong to graphs that run within this node
                    namespace, mode, data = event
                    self._crossing.chunk({"to": at, "namespace": list(namespace), "mode": mode, "data": data})

    def returned(self, result: Any) -> None:
        if self._begun:
            self._crossing.stream_end("exhausted", result)
        else:
            self._crossing.returned(result)

    def raised(self, fault: BaseException) -> None:
        if type(fault).__module__ == "langgraph.errors" and not self._begun:
            self._head()  # interrupts and commands for a parent name tasks by their ids
        if self._begun:
            self._crossing.stream_end("raised", fault)
        else:
            self._crossing.raised(fault)

    # Replay ----------------------------------------------------------------------------------------------
    def give(self) -> Any:
        """Do again what the node did beside answering, and return or raise its answer."""
        served = self._crossing.served
        assert served is not None
        self._read()
        if served.outcome.kind != "streamed":
            if self.listening and self._crossing.facts.get("mode") != "override" and served.outcome.kind != "lost":
                raise served.past_end()
            return served.give()
        if self.listening:
            served.check_sent(0, self.listening, None)
        head, *rest = [served.value(chunk.value) for chunk in served.outcome.chunks]
        renamed = dict(zip(str(head["task"]).split("|"), self._task.split("|"), strict=False))  # type: ignore[index]
        for chunk in rest:
            self._again(chunk, renamed)
        try:
            return served.give()
        except Exception as fault:
            if type(fault).__module__ == "langgraph.errors":
                _of_this_run(fault, str(head["task"]), self._task, renamed)  # type: ignore[index]
            raise

    def _again(self, chunk: Any, renamed: dict[str, str]) -> None:
        if "writes" in chunk:
            pad, send = self._conf.get("__pregel_scratchpad"), self._conf.get("__pregel_send")
            if pad is not None and send is not None:
                pad.get_null_resume(True)
                send([tuple(write) for write in chunk["writes"]])
        elif self.listening:
            data = _renamed(chunk["data"], renamed)
            self._outlets[chunk["to"]].put((tuple(_renamed(chunk["namespace"], renamed)), chunk["mode"], data))
            if chunk["mode"] == "messages":
                self._seen(data[0])

    def _seen(self, message: Any) -> None:
        """Tell the graph's own handler that this message is out, lest it send it once more with the node's answer."""
        callbacks = (self.config or {}).get("callbacks")
        for handler in getattr(callbacks, "handlers", callbacks) or ():
            if type(handler).__name__.startswith("StreamMessagesHandler"):
                handler.seen.add(message.id)


def _renamed(value: Any, names: dict[str, str], depth: int = 0) -> Any:
    """Return `value` with the recorded task's names replaced by this run's, in plain containers."""
    if depth > _DEPTH_MAX:
        return value
    if type(value) is str:
        for then, now in names.items():
            value = value.replace(then, now) if then else value
        return value
    if type(value) is dict:
        return {key: _renamed(item, names, depth + 1) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renamed(item, names, depth + 1) for item in value)
    return value


def _of_this_run(fault: Any, then: str, now: str, renamed: dict[str, str]) -> None:
    """Give an interrupt the id by which this run can be resumed, and a command the parent that it has in this run."""
    first: Any = fault.args[0] if fault.args else None
    if isinstance(getattr(first, "graph", None), str):
        fault.args = (dataclasses.replace(first, graph=_renamed(first.graph, renamed)), *fault.args[1:])
        return
    id_of = getattr(import_module("langgraph.types"), "_interrupt_id", None)
    if id_of is None or not isinstance(first, (list, tuple)):
        return
    ids = {id_of(then, answered): id_of(now, answered) for answered in range(64)}
    for interrupt in first:
        interrupt.id = ids.get(interrupt.id, interrupt.id)


def run(describe: Describe, config: Any, call: Callable[[], Any]) -> Any:
    """Return what `call` returns, as the crossing that `describe` tells; in a replay, what was recorded."""
    crossing = cross(describe)
    if crossing is None:
        return call()
    node = Node(crossing, config)
    if crossing.served is not None:
        crossing.served.wait()
        return node.give()
    token = crossing.open()
    with crossing.session.faults.contained("instrument"):
        node.begin()
    try:
        result = call()
    except BaseException as fault:
        node.raised(fault)
        raise
    finally:
        node.end()
        crossing.close(token)
    node.returned(result)
    return result


async def arun(describe: Describe, config: Any, call: Callable[[], Awaitable[Any]]) -> Any:
    """As `run`, for a coroutine."""
    crossing = cross(describe)
    if crossing is None:
        return await call()
    node = Node(crossing, config)
    if crossing.served is not None:
        await crossing.served.wait_async()
        return node.give()
    token = crossing.open()
    with crossing.session.faults.contained("instrument"):
        node.begin()
    try:
        result = await call()
        if node.listening:
            await asyncio.sleep(0)  # the loop is still to put down what the node has sent to it
    except BaseException as fault:
        node.raised(fault)
        raise
    finally:
        node.end()
        crossing.close(token)
    node.returned(result)
    return result
