"""What a sink is told. Every bound has a default that holds on a small machine."""

from __future__ import annotations

import importlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

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
    body_seconds: float = 300.0
    """How long the body of one HTTP request may take to come in."""
    drain_seconds: float = 30.0
    housekeeper: Callable[..., Any] | str = ""
    """Called as `housekeeper(*housekeeper_args)` in a process of its own; returns a dict of what it did."""
    housekeeper_args: tuple[str, ...] = ()
    housekeeping_seconds: float = 0.0
    """How often, about; 0 means never."""
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


def importable_name(called: Callable[..., Any] | str) -> str:
    """Return `module:name` of what is called in another process. Raises UsageError where it has no such name."""
    if isinstance(called, str):
        if called.count(":") != 1:
            raise UsageError(f"{called!r} is not 'module:name'")
        return called
    module = getattr(called, "__module__", "")
    name = getattr(called, "__qualname__", "")
    if not module or module == "__main__" or not name.replace(".", "").isidentifier():
        raise UsageError(f"{called!r} must be importable by name: it is called in another process")
    return f"{module}:{name}"


def by_name(name: str) -> Callable[..., Any]:
    """Return what `importable_name` named: ours, as the sink's own configuration says, never as a recording does."""
    module_name, path = name.split(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return cast(Callable[..., Any], found)
