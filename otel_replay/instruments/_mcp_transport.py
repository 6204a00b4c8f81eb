"""What carries MCP: a server as a program of ours, or one at an address.

In a replay a server's program begins when the first request to it runs live, and never else. Requests over HTTP are
part of the crossing that they carry, in whichever task the SDK sends them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from otel_replay import lanes
from otel_replay.instruments import _mcp_meta
from otel_replay.instruments._cross import carrier
from otel_replay.instruments._patch import Patches
from otel_replay.session import Scope, current_line, current_scope, reset_scope, set_scope

_BOOTSTRAP = str(Path(__file__).parent.parent / "bootstrap")


def _moved(scope: Scope) -> Scope:
    """Return `scope` for the line of control that runs now, without a strand of its own."""
    return Scope(scope.session, scope.crossing, scope.strand, current_line())


class Transports:
    """The shells around the SDK's transports."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def install(self) -> None:
        stdio = import_module("mcp.client.stdio")
        self._patches.replace(stdio, "_create_platform_compatible_process", self._create)
        http = import_module("mcp.client.streamable_http").StreamableHTTPTransport
        for name in ("_handle_post_request", "_handle_resumption_request"):
            self._patches.replace(http, name, self._post)
        for name in ("handle_get_stream", "terminate_session"):
            self._patches.replace(http, name, self._beside)

    def _create(self, original: Any) -> Any:
        async def create(command: Any, args: Any, env: Any = None, *rest: Any, **kwargs: Any) -> Any:
            scope = current_scope() if self._patches.on else None
            if scope is None:
                return await original(command, args, env, *rest, **kwargs)
            env = _telling(env)
            if not scope.session.raises_when_late:
                return await original(command, args, env, *rest, **kwargs)
            return Asleep(scope, lambda: original(command, args, env, *rest, **kwargs))

        return create

    def _post(self, original: Any) -> Any:
        async def post(transport: Any, ctx: Any, *args: Any, **kwargs: Any) -> Any:
            scope = _scope_of(ctx) if self._patches.on else None
            if scope is None:
                scope = vars(transport).get("_otel_replay_scope") if self._patches.on else None
            else:
                transport._otel_replay_scope = scope
                scope.session.asked_elsewhere.add(scope.crossing.address if scope.crossing is not None else "")
            return await _within(scope, lambda: original(transport, ctx, *args, **kwargs))

        return post

    def _beside(self, original: Any) -> Any:
        """The stream of what the server says by itself, and the end of its session: part of the last request."""

        async def beside(transport: Any, *args: Any, **kwargs: Any) -> Any:
            scope = vars(transport).get("_otel_replay_scope") if self._patches.on else None
            return await _within(scope, lambda: original(transport, *args, **kwargs))

        return beside


async def _within(scope: Scope | None, call: Callable[[], Awaitable[Any]]) -> Any:
    if scope is None or scope.session.closed:
        return await call()
    token = set_scope(_moved(scope))
    try:
        with carrier():
            return await call()
    finally:
        reset_scope(token)


def _scope_of(ctx: Any) -> Scope | None:
    """Return the scope of the request that a transport sends now, by the span id in its `_meta`."""
    try:
        message = ctx.session_message.message
        params = getattr(getattr(message, "root", message), "params", None)
        return _mcp_meta.scope_of(params.get("_meta")) if params else None
    except Exception:  # noqa: BLE001 - of another shape than those we know: sent as it is
        return None


def _telling(env: Any) -> Any:
    """Return the environment of a server, with what begins a run's lane there where the program itself has it.

    The SDK hands on few variables, and PYTHONPATH is not one of them.
    """
    ours = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if not isinstance(env, dict) or _BOOTSTRAP not in ours:
        return env
    theirs = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {**env, "PYTHONPATH": os.pathsep.join([_BOOTSTRAP, *theirs])}


class Asleep(Process):
    """A server's program that begins when something is written to it."""

    def __init__(self, scope: Scope, begin: Callable[[], Awaitable[Process]]) -> None:
        self._scope = scope
        self._begin = begin
        self._lock = anyio.Lock()
        self._moved = anyio.Event()
        self._real: Process | None = None
        self._in = _In(self)
        self._out = _Out(self)

    async def awake(self) -> Process:
        """Return the program, begun now where it is not yet: in the live request that wants it."""
        async with self._lock:
            if self._real is None:
                live = [scope for scope in _mcp_meta.in_flight.values() if scope.session is self._scope.session]
                token = set_scope(_moved(live[-1] if live else self._scope))
                try:
                    with lanes.begun_in_name_of(self._scope.crossing):
                        self._real = await self._begin()
                finally:
                    reset_scope(token)
                self._moved.set()
            return self._real

    async def begun(self) -> Process | None:
        """Wait until it has begun, or will not any more: then None."""
        await self._moved.wait()
        return self._real

    def over(self) -> None:
        """Nothing will be written any more."""
        self._moved.set()

    async def aclose(self) -> None:
        self.over()
        if self._real is not None:
            await self._real.aclose()

    async def wait(self) -> int:
        real = await self.begun()
        return await real.wait() if real is not None else 0

    def terminate(self) -> None:
        if self._real is not None:
            self._real.terminate()

    def kill(self) -> None:
        if self._real is not None:
            self._real.kill()

    def send_signal(self, signal: Any) -> None:
        if self._real is not None:
            self._real.send_signal(signal)

    @property
    def pid(self) -> int:
        return self._real.pid if self._real is not None else 0

    @property
    def returncode(self) -> int | None:
        if self._real is not None:
            return self._real.returncode
        return 0 if self._moved.is_set() else None

    @property
    def stdin(self) -> ByteSendStream:
        return self._in

    @property
    def stdout(self) -> ByteReceiveStream:
        return self._out

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return None


class _In(ByteSendStream):
    def __init__(self, owner: Asleep) -> None:
        self._owner = owner

    async def send(self, item: bytes) -> None:
        real = await self._owner.awake()
        assert real.stdin is not None
        await real.stdin.send(item)

    async def aclose(self) -> None:
        self._owner.over()
        real = await self._owner.begun()
        if real is not None and real.stdin is not None:
            await real.stdin.aclose()


class _Out(ByteReceiveStream):
    def __init__(self, owner: Asleep) -> None:
        self._owner = owner

    async def receive(self, max_bytes: int = 65536) -> bytes:
        real = await self._owner.begun()
        if real is None or real.stdout is None:
            raise anyio.EndOfStream
        return await real.stdout.receive(max_bytes)

    async def aclose(self) -> None:
        real = self._owner._real
        if real is not None and real.stdout is not None:
            await real.stdout.aclose()
