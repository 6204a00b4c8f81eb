"""The server side of MCP: while a request is handled, what is crossed belongs to the run that asked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from otel_replay.faults import Faults
from otel_replay.instruments import _mcp_meta
from otel_replay.instruments._cross import carrier
from otel_replay.instruments._patch import Patches
from otel_replay.session import reset_scope, set_scope

_faults = Faults()


class Server:
    """The shells around what handles a request, in either generation of the SDK."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def install(self) -> None:
        try:
            runner = import_module("mcp.server.runner").ServerRunner
        except ImportError:
            server = import_module("mcp.server.lowlevel.server").Server
            self._patches.replace(server, "_handle_request", self._handle_request)
        else:
            self._patches.replace(runner, "_on_request", self._on_request)

    def _on_request(self, original: Any) -> Any:
        async def on_request(runner: Any, dctx: Any, method: str, params: Any) -> Any:
            return await self._handled(
                lambda: (params or {}).get("_meta"), lambda: original(runner, dctx, method, params)
            )

        return on_request

    def _handle_request(self, original: Any) -> Any:
        async def handle_request(server: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
            return await self._handled(
                lambda: message.request_meta and message.request_meta.model_dump(),
                lambda: original(server, message, *args, **kwargs),
            )

        return handle_request

    async def _handled(self, meta: Callable[[], Any], call: Callable[[], Awaitable[Any]]) -> Any:
        scope, end = None, None
        if not self._patches.on:
            return await call()
        with _faults.contained("instrument"):
            scope, end = _place(meta())
        token = set_scope(scope) if scope is not None else None
        try:
            with carrier(False):  # what handles it in the client's own process may have the client's context
                return await call()
        finally:
            if end is not None:
                with _faults.contained("instrument"):
                    end()
            if token is not None:
                reset_scope(token)


def _place(meta: Any) -> tuple[Any, Callable[[], None] | None]:
    """Return the scope that a request is handled in, and what ends it; (None, None) where it tells of no run."""
    if not isinstance(meta, Mapping):
        return None, None
    here = _mcp_meta.scope_of(meta)
    if here is not None:
        return here, None  # client and server in one process: it is nested in the request
    asked = _mcp_meta.read(meta)
    if asked is None:
        return None, None
    # By name, since the wiring stands above.
    lane = import_module("otel_replay.called").lane_of(asked)
    return (lane, lane.end) if lane is not None else (None, None)
