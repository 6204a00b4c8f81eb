"""An MCP server of either generation of the SDK: python -m tests.frameworks.mcp_server stdio, or http|sse|ws PORT."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from otel_replay import boundary, instrument

try:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Made
except ImportError:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Made
from mcp import types

instrument("mcp")
server: Any = Made("desk")
_done = Path(os.environ.get("DESK_DONE", os.devnull))


class Agreed(BaseModel):
    """What a user says."""

    ok: bool


@boundary("rates")
def rates(symbol: str) -> float:
    """Ask somebody for the rate: a crossing of the server's own."""
    _note(f"rates {symbol}")
    return 12.5


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
def quote(symbol: str) -> str:
    """The price now."""
    return f"{symbol} {rates(symbol)}"


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
def place_order(symbol: str, qty: int) -> dict[str, int]:
    """Buy."""
    _note(f"bought {qty} {symbol}")
    return {"qty": qty}


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
def refuse(word: str) -> str:
    """Fail."""
    raise ValueError(f"no {word} today")


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
async def research(topic: str, ctx: Context) -> str:
    """Tell how far it is, then ask the client: its model, its user, its roots."""
    _note(f"research {topic}")
    await ctx.report_progress(1, 2, "half")
    said = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=topic))],
        max_tokens=9,
        related_request_id=ctx.request_id,
    )
    await ctx.report_progress(2, 2)
    agreed = await ctx.elicit("Go on?", Agreed)
    roots = await ctx.session.list_roots()
    await ctx.info("done")
    return f"{said.content.text} {agreed} {[str(root.uri) for root in roots.roots]}"


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
async def slow(seconds: float) -> str:
    """Take its time."""
    _note("slow")
    await asyncio.sleep(seconds)
    return "at last"


@server.resource("desk://rules")  # type: ignore[untyped-decorator, unused-ignore]
def rules() -> str:
    """What holds here."""
    _note("rules")
    return "buy low"


@server.prompt()  # type: ignore[untyped-decorator, unused-ignore]
def brief(topic: str) -> str:
    """What to ask a model."""
    _note("brief")
    return f"Be brief about {topic}."


def _note(line: str) -> None:
    with _done.open("a") as file:
        file.write(line + "\n")


def main(how: str, port: str = "") -> None:
    """Serve over stdio, or on `port` over streamable HTTP, server-sent events or a websocket."""
    if how == "stdio":
        server.run("stdio")
        return
    import uvicorn

    app: Any = {"http": "streamable_http_app", "sse": "sse_app"}.get(how)
    uvicorn.run(getattr(server, app)() if app else _websocket, host="127.0.0.1", port=int(port), log_level="error")


async def _websocket(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "websocket":
        return
    from mcp.server.websocket import websocket_server

    inner = server._mcp_server
    async with websocket_server(scope, receive, send) as streams:
        await inner.run(*streams, inner.create_initialization_options())


if __name__ == "__main__":
    main(*sys.argv[1:])
