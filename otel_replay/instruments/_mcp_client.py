"""The client side of MCP: each request is a crossing, and what is served is never sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments import _framework, _mcp_meta
from otel_replay.instruments._cross import Describe, carrier, cross
from otel_replay.instruments._mcp_heard import Heard, Progress
from otel_replay.instruments._patch import Patches
from otel_replay.session import current_scope

Send = Callable[[dict[str, str]], Awaitable[Any]]
"""Sends one message, with this more in its `_meta` where it is a request."""
_asking: ContextVar[Crossing | None] = ContextVar("asking", default=None)
"""The crossing whose request is given its JSON-RPC id next."""


class _Peer:
    """One connection. In a replay: what its server would have to be told before anything on it runs live."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.owed: list[Send] = []
        self._lock: Any = import_module("anyio").Lock()
        self.awake = False

    async def wake(self, more: dict[str, str]) -> None:
        """Send what was only served or held back so far, in order, in the name of the request with `more`."""
        async with self._lock:
            owed, self.owed = self.owed, []
            self.awake = True
            for send in owed:
                await send(more)


def _asked(request: Any) -> tuple[Spec, object]:
    data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    method, params = data["method"], data.get("params") or {}
    meta = {key: value for key, value in params.pop("_meta", {}).items() if key not in _mcp_meta.OURS}
    if meta:
        params["_meta"] = meta
    if method != "tools/call":
        return _spec("mcp." + method.replace("/", ".")), params
    name = params.pop("name")
    arguments = params.pop("arguments", {})
    return _spec(name), {**arguments, "_call": params} if params else arguments


def _spec(name: str) -> Spec:
    spec = _framework.spec_of(name, "mcp")
    spec.pins = _pins
    return spec


def _pins(crossing: Crossing) -> Mapping[str, object]:
    """Return the id by which the server knows the request: its spans may be in another trace."""
    number = crossing.facts.get("mcp.request_id")
    return {"mcp": {"method": crossing.facts.get("mcp.method", ""), "request_id": number}} if number else {}


def _told_id(original: Any) -> Any:
    def allocate_id(dispatcher: Any) -> Any:
        number = original(dispatcher)
        crossing = _asking.get()
        if crossing is not None:
            crossing.facts["mcp.request_id"] = str(number)
        return number

    return allocate_id


def _with_meta(request: Any, more: dict[str, str]) -> Any:
    """Return `request` with `more` in its `_meta`; itself where it has no parameters."""
    inner = getattr(request, "root", request)
    params = getattr(inner, "params", None)
    if params is None or not more:
        return request
    before = params.meta
    kept = before if isinstance(before, dict) else {} if before is None else before.model_dump(exclude_none=True)
    meta: Any = {**kept, **more}
    kind = getattr(type(params), "Meta", None)
    if kind is not None:
        meta = kind.model_validate(meta)
    again = inner.model_copy(update={"params": params.model_copy(update={"meta": meta})})
    return type(request)(again) if inner is not request else again


class Client:
    """The shells around a client session's methods."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._kind: Any = import_module("mcp.client.session").ClientSession

    def install(self) -> None:
        kind = self._kind
        sends = kind if "send_request" in vars(kind) else import_module("mcp.shared.session").BaseSession
        self._patches.replace(kind, "_on_request", self._on_request, required=sends is kind)
        self._patches.replace(sends, "send_request", self._send_request)
        self._patches.replace(sends, "send_notification", self._send_notification)
        self._patches.replace(kind, "send_discover", self._send_discover, required=sends is kind)
        if sends is kind:
            dispatcher = import_module("mcp.shared.jsonrpc_dispatcher").JSONRPCDispatcher
            self._patches.replace(dispatcher, "_allocate_id", _told_id, required=False)

    def _send_request(self, original: Any) -> Any:
        async def send_request(session: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._patches.on or not isinstance(session, self._kind):
                return await original(session, request, *args, **kwargs)
            peer = self._peer(session)
            progress = Progress(peer.heard, args, kwargs)
            return await self._cross(
                session,
                lambda: _asked(request),
                request,
                lambda sent: original(session, sent, *progress.args, **progress.kwargs),
                progress,
            )

        return send_request

    def _send_discover(self, original: Any) -> Any:
        async def send_discover(session: Any, version: str) -> Any:
            if not self._patches.on:
                return await original(session, version)
            return await self._cross(
                session,
                lambda: (_spec("mcp.server.discover"), {"version": version}),
                None,
                lambda _none: original(session, version),
            )

        return send_discover

    def _send_notification(self, original: Any) -> Any:
        async def send_notification(session: Any, notification: Any, *args: Any, **kwargs: Any) -> None:
            scope = current_scope() if self._patches.on and isinstance(session, self._kind) else None
            if scope is not None and scope.session.raises_when_late:
                peer = self._peer(session)
                if not peer.awake:
                    peer.owed.append(lambda _more: original(session, notification, *args, **kwargs))
                    return
            if scope is None:
                await original(session, notification, *args, **kwargs)
                return
            with carrier():
                await original(session, notification, *args, **kwargs)

        return send_notification

    def _on_request(self, original: Any) -> Any:
        """A request of the server's, in SDKs whose callbacks also answer what a result asks for."""

        async def on_request(session: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._patches.on:
                return await original(session, *args, **kwargs)
            with self._peer(session).heard.answering():
                return await original(session, *args, **kwargs)

        return on_request

    def _peer(self, session: Any) -> _Peer:
        # On the session itself, which it holds: in a table of ours neither would ever go.
        found: _Peer | None = vars(session).get("_otel_replay_peer")
        if found is None:
            found = session._otel_replay_peer = _Peer(Heard(session, lambda: self._patches.on))
        return found

    async def _cross(
        self,
        session: Any,
        describe: Describe,
        request: Any,
        send: Callable[[Any], Awaitable[Any]],
        progress: Progress | None = None,
    ) -> Any:
        crossing = cross(describe)
        if crossing is None:
            return await send(request)
        heard = self._peer(session).heard
        if crossing.served is not None:
            if crossing.name == "mcp.initialize":
                self._peer(session).owed.append(lambda more: send(_with_meta(request, more)))
            await heard.again(crossing, progress)
            await crossing.served.wait_async()
            return crossing.served.give()
        return await heard.through(crossing, lambda: self._live(session, crossing, request, send), progress)

    async def _live(self, session: Any, crossing: Crossing, request: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
        more: dict[str, str] = {}
        attached, key = None, None
        with crossing.session.faults.contained("instrument"):
            more = _mcp_meta.written(crossing)
            request = _with_meta(request, more)
            key, attached = _mcp_meta.key_of(more), _mcp_meta.attach(more)
        try:
            with _mcp_meta.flying(key), carrier():  # newer SDKs also send in the context of whoever asks
                if crossing.session.raises_when_late:
                    await self._peer(session).wake(more)
                crossing.facts["mcp.method"] = str(getattr(getattr(request, "root", request), "method", ""))
                following = getattr(session, "_request_id", None)  # of the SDK's first generation
                if isinstance(following, int):
                    crossing.facts["mcp.request_id"] = str(following)
                asking = _asking.set(crossing)
                try:
                    return await send(request)
                finally:
                    _asking.reset(asking)
        finally:
            _mcp_meta.detach(attached)
