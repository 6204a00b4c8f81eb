"""What a sink is told. Every bound has a default that holds on a small machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import UsageError
from ..limits import MESSAGE_BYTES_MAX

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of the server. With `client_ca_file`, clients must show a certificate that it signed (mTLS)."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """`span_sink` makes the SpanSink that keeps the spans: a module-level callable, or its name `module:name`.

    It is called as `span_sink(*span_sink_args)` in another process, hence by name. `wal_folder` is local disk; any
    number of sinks may share it. An address is `host:port`; port 0 takes a free one, "" switches the receiver off.
    """

    span_sink: Callable[..., Any] | str
    wal_folder: str
    span_sink_args: tuple[str, ...] = ()
    grpc_address: str = "127.0.0.1:4317"
    http_address: str = "127.0.0.1:4318"
    tokens: tuple[str, ...] = ()
    """Bearer tokens that are accepted; none means that no token is asked for."""
    tls: Tls | None = None
    message_bytes_max: int = MESSAGE_BYTES_MAX
    memory_bytes_max: int = 512 * MIB
    """Bytes of request bodies held at once; more wait, then are told to come back."""
    wal_bytes_max: int = 8 * 1024 * MIB
    """Bytes that wait for conversion; at this point senders are told to come back."""
    disk_free_bytes_min: int = 128 * MIB
    segment_bytes: int = 32 * MIB
    seal_seconds: float = 2.0
    """A segment with spans in it is handed to conversion after this long, full or not."""
    write_bytes_max: int = 16 * MIB
    """Bytes of requests that are handed to the SpanSink in one write."""
    connections_max: int = 512
    grpc_workers: int = 32
    idle_seconds: float = 120.0
    drain_seconds: float = 30.0
    log_format: Literal["auto", "text", "json", "none"] = "auto"
    """`auto`: a progress line on a terminal, JSON lines anywhere else."""


def split_address(address: str) -> tuple[str, int]:
    """Return (host, port) of `host:port` or `[v6]:port`. Raises UsageError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"address {address!r} is not host:port, for example 127.0.0.1:4318 or [::1]:4318")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  # an empty host is how people ask for all


def is_loopback(address: str) -> bool:
    """Return True where only this machine can reach `address`."""
    host = split_address(address)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def span_sink_name(span_sink: Callable[..., Any] | str) -> str:
    """Return `module:name` of the callable that makes the SpanSink. Raises UsageError where it has no such name."""
    if isinstance(span_sink, str):
        if span_sink.count(":") != 1:
            raise UsageError(f"span_sink {span_sink!r} is not 'module:name'")
        return span_sink
    module = getattr(span_sink, "__module__", "")
    name = getattr(span_sink, "__qualname__", "")
    if not module or module == "__main__" or not name.replace(".", "").isidentifier():
        raise UsageError(f"span_sink {span_sink!r} must be importable by name: it is called in another process")
    return f"{module}:{name}"
