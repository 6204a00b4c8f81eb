"""What Python tells before it reaches the network or begins a process: one audit hook, for all sessions.

An audit hook cannot be taken out again, so it is put in once, by the first session that watches, and does nothing
while none does. Whose call it is follows the context, never the process: the session of the scope, or, for code
that has none, the only replay (or else the only recording) that watches.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from otel_replay import session as _session
from otel_replay.errors import ScopeClosed
from otel_replay.session import Scope, Session

Watcher: TypeAlias = Callable[["Scope | None", str, bool], None]
"""Called with the scope, what the call is ("connect to api.example.com:443"), and whether it begins a process."""

_watchers: Mapping[Session, Watcher] = {}
_lock = threading.Lock()
_installed = False
_SYSLOG = ("/dev/log", "/var/run/log", "/var/run/syslog")
_ASKS_THIS_MACHINE = ("platform", "uuid", "ctypes.util", "distro", "sysconfig", "_osx_support", "_aix_support")
"""Modules that begin a process (`uname`, `lsb_release`, `ldconfig`) to ask this machine about itself."""


# What a call is: "" where it reaches nothing ------------------------------------------------------------------
def _local_name(host: object) -> bool:
    """True where nobody is asked for this name: none, a number, or this machine's own."""
    if isinstance(host, bytes):
        host = host.decode("utf-8", "replace")
    if host is None or host in ("", "localhost", "localhost.localdomain", socket.gethostname()):
        return True
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return True


def _address(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host = address[0].decode("utf-8", "replace") if isinstance(address[0], bytes) else str(address[0])
        return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    return address.decode("utf-8", "replace") if isinstance(address, (bytes, bytearray)) else str(address)


def _connect(verb: str) -> Callable[[tuple[Any, ...]], str]:
    def describe(args: tuple[Any, ...]) -> str:
        address = args[1]
        if address is None:
            return ""  # a message on a socket that is connected: its connecting was seen
        where = _address(address)
        if where in _SYSLOG or "/pymp-" in where or where.startswith("\0listener-"):
            return ""  # the system's log; multiprocessing's own pipes
        return "" if _inside("socket", "socketpair", "_fallback_socketpair") else f"{verb} {where}"

    return describe


def _resolve(args: tuple[Any, ...]) -> str:
    port = f":{args[1]}" if len(args) > 1 and args[1] else ""
    return "" if _local_name(args[0]) else f"look up {_address(args[0])}{port}"


def _http(args: tuple[Any, ...]) -> str:
    return f"HTTP request to {getattr(args[0], 'host', '?')}:{getattr(args[0], 'port', '?')}"


def _program(at: int) -> Callable[[tuple[Any, ...]], str]:
    def describe(args: tuple[Any, ...]) -> str:
        if _caller_asks_this_machine():
            return ""
        found = args[at]
        if isinstance(found, (list, tuple)):
            found = found[0] if found else "?"
        text = os.fsdecode(found) if isinstance(found, (str, bytes, os.PathLike)) else str(found)
        return f"begin the program {text.split(chr(10))[0][:80]}"

    return describe


_PROCESSES: Mapping[str, Callable[[tuple[Any, ...]], str]] = {
    "subprocess.Popen": _program(0),
    "os.system": _program(0),
    "os.exec": _program(0),
    "os.posix_spawn": _program(0),
    "os.spawn": _program(1),
    "os.startfile": _program(0),
    "pty.spawn": _program(0),
}
_EVENTS: Mapping[str, Callable[[tuple[Any, ...]], str]] = {
    "socket.connect": _connect("connect to"),
    "socket.sendto": _connect("send to"),
    "socket.sendmsg": _connect("send to"),
    "socket.getaddrinfo": _resolve,
    "socket.gethostbyname": _resolve,
    "socket.gethostbyaddr": _resolve,
    "http.client.send": _http,  # a connection that was opened before says no more than this
    **_PROCESSES,
}


# Who asks -----------------------------------------------------------------------------------------------------
def _inside(module: str, *functions: str) -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in functions and frame.f_globals.get("__name__") == module:
            return True
        frame = frame.f_back
    return False


def _caller_asks_this_machine() -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module not in (__name__, "subprocess", "os", "contextlib", "otel_replay.lanes"):
            return module in _ASKS_THIS_MACHINE or module.split(".")[0] in _ASKS_THIS_MACHINE
        frame = frame.f_back
    return False


def _exporting() -> bool:
    """True in an exporter of OpenTelemetry: under its suppress key, and called by its SDK (or by our exporter).

    The key alone does not do: tracing libraries also set it around the program's own calls.
    """
    context = sys.modules.get("opentelemetry.context")
    if context is None:
        return False
    key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
    if not (context.get_value(key) or context.get_value("suppress_instrumentation")):
        return False
    frame: Any = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(("opentelemetry.sdk.", "otel_replay.otel.")):
            return True
        frame = frame.f_back
    return False


def _whose(scope: Scope | None) -> Watcher | None:
    watchers = _watchers
    if scope is not None:
        return watchers.get(scope.session)
    found = [watcher for session, watcher in watchers.items() if session.raises_when_late] or list(watchers.values())
    return found[0] if len(found) == 1 else None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    describe = _EVENTS.get(event)
    if describe is None:
        return
    scope = _session.peek_scope()
    late = scope is not None and scope.session.closed and scope.session.raises_when_late
    watcher = None if late else _whose(scope)
    if watcher is None and not late:
        return
    call = describe(args)
    if not call or _exporting():
        return
    if watcher is not None:
        watcher(scope, call, event in _PROCESSES)
    elif scope is not None:
        raise ScopeClosed(
            f"{call} was refused: it came after the replay of {scope.session.name!r} had ended, from something that "
            "the replay started; join its threads and tasks before the `with replay(...)` ends"
        )


# Watching -----------------------------------------------------------------------------------------------------
def watch(session: Session, watcher: Watcher) -> None:
    """Call `watcher` before code of `session` connects, looks up a name or begins a program; its raise stops that."""
    global _watchers, _installed
    with _lock:
        _watchers = {**_watchers, session: watcher}
        if not _installed:
            _installed = True
            sys.addaudithook(_hook)


def unwatch(session: Session) -> None:
    """Watch `session` no longer."""
    global _watchers
    with _lock:
        _watchers = {one: watcher for one, watcher in _watchers.items() if one is not session}
