"""MCP: each request of a client is a crossing of kind `mcp`; a server's requests belong to the run that asks.

A call of a tool stands under the tool's name, the rest under `mcp.` and its method. The run, its lane and a
`traceparent` travel in the request's `_meta` (SEP-414), so one server serves several runs at once. In a replay the
client neither connects nor begins a server before something is live.
"""

from __future__ import annotations

from otel_replay.instruments import _mcp_remote
from otel_replay.instruments._mcp_client import Client
from otel_replay.instruments._mcp_server import Server
from otel_replay.instruments._mcp_transport import Transports
from otel_replay.instruments._patch import Patches


def install() -> Patches:
    """Replace what sends and what handles requests. Returns what undoes it."""
    patches = Patches()
    Client(patches).install()
    Transports(patches).install()
    _mcp_remote.install(patches)
    Server(patches).install()
    return patches
