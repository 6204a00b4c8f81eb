"""An MCP server of three tools, of either generation of the SDK: python -m tests.frameworks.mcp_server stdio|PORT."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from otel_replay import boundary, instrument

try:
    from mcp.server.fastmcp import FastMCP as Made
except ImportError:
    from mcp.server.mcpserver import MCPServer as Made

instrument("mcp")
server: Any = Made("desk")
_done = Path(os.environ.get("DESK_DONE", os.devnull))


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


def _note(line: str) -> None:
    with _done.open("a") as file:
        file.write(line + "\n")


def main(how: str) -> None:
    """Serve over stdio, or over streamable HTTP on the port `how`."""
    if how == "stdio":
        server.run("stdio")
        return
    import uvicorn

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(how), log_level="error")


if __name__ == "__main__":
    main(sys.argv[1])
