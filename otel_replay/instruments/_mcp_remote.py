"""Transports that connect before any message: server-sent events and websockets.

While recording, what they send and get is part of the requests that they carry. In a replay they connect when the first
message goes out that a live request wants sent, and never else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from types import CellType
from typing import Any

import anyio

from otel_replay.instruments import _mcp_meta
from otel_replay.instruments._cross import carrier
from otel_replay.instruments._patch import Patches
from otel_replay.session import Scope, current_line, current_scope, reset_scope, set_scope

_REMOTE = (("mcp.client.sse", "sse_client"), ("mcp.client.websocket", "websocket_client"))
Connect = Callable[[], AbstractAsyncContextManager[Any]]


def install(patches: Patches) -> None:
    """Replace what these transports run, also where a program imported them before.

    They are generators behind `asynccontextmanager`: whoever holds the function holds the same cell with the generator.
    """
    for module, name in _REMOTE:
        try:
            shell: Any = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue  # not in this version, or without the library that it needs
        cells = [cell for cell in shell.__closure__ or () if callable(cell.cell_contents)]
        if len(cells) != 1:
            patches.missing.append(f"{module}.{name}")
            continue
        patches.replace(_Cell(cells[0], f"{module}.{name}"), "generator", lambda original: _within(original, patches))


class _Cell:
    """A cell of a closure as an owner of one attribute, which `Patches` replaces and puts back."""

    def __init__(self, cell: CellType, name: str) -> None:
        self.__dict__.update(generator=cell.cell_contents, cell=cell, __qualname__=name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        self.__dict__["cell"].cell_contents = value


def _within(original: Any, patches: Patches) -> Any:
    async def transport(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        scope = current_scope() if patches.on else None
        connected: AbstractAsyncContextManager[Any] = asynccontextmanager(original)(*args, **kwargs)
        if scope is not None and scope.session.raises_when_late:
            connected = _asleep(scope, asynccontextmanager(original), args, kwargs)
        elif scope is not None:
            connected = _Carrying(connected)
        async with connected as streams:
            yield streams

    return transport


class _Carrying:
    """Enters a transport as a carrier: the tasks that it begins then are, and what is in its `async with` is not."""

    def __init__(self, inner: AbstractAsyncContextManager[Any]) -> None:
        self._inner = inner

    async def __aenter__(self) -> Any:
        with carrier():
            return await self._inner.__aenter__()

    async def __aexit__(self, *fault: Any) -> Any:
        with carrier():
            return await self._inner.__aexit__(*fault)


@asynccontextmanager
async def _asleep(scope: Scope, connect: Any, args: Any, kwargs: Any) -> AsyncIterator[Any]:
    """Give streams of our own, with the real transport behind them from the first message on."""
    inward, heard = anyio.create_memory_object_stream[Any](0)
    said, outward = anyio.create_memory_object_stream[Any](0)

    async def pump() -> None:
        async with outward, inward:
            async for first in outward:
                live = [one for one in _mcp_meta.in_flight.values() if one.session is scope.session]
                here = live[-1] if live else scope
                token = set_scope(Scope(here.session, here.crossing, here.strand, current_line()))
                try:
                    with carrier():
                        async with connect(*args, **kwargs) as streams, anyio.create_task_group() as both:
                            both.start_soon(_forward, streams[0], inward)
                            await streams[1].send(first)
                            await _forward(outward, streams[1])
                            both.cancel_scope.cancel()
                finally:
                    reset_scope(token)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump)
        try:
            yield heard, said
        finally:
            tasks.cancel_scope.cancel()
            for stream in (inward, heard, said, outward):
                stream.close()


async def _forward(source: Any, target: Any) -> None:
    try:
        async for message in source:
            await target.send(message)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass  # one end has gone: the other side learns it by the end of its stream
