"""The sink: OTLP/gRPC and OTLP/HTTP receivers -> write-ahead log -> a SpanSink in another process.

`serve(config)` runs until SIGTERM or SIGINT; `Sink(config)` is the same under your own control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config import SinkConfig, Tls

if TYPE_CHECKING:
    from .server import Sink, serve

__all__ = ["Sink", "SinkConfig", "Tls", "serve"]


def __getattr__(name: str) -> object:
    if name in ("Sink", "serve"):
        from . import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
