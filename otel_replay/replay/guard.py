"""Fail closed: while a replay is under way, nothing reaches the network or begins a program that is not live.

What instruments do not know is refused here, before a socket or a process opens, by Python's audit events. Libraries
that connect in C raise none; those that are loaded are named, so that nobody takes silence for safety.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from otel_replay import audit, lanes
from otel_replay.crossing import Crossing
from otel_replay.errors import LiveCallBlocked
from otel_replay.replay.account import Call
from otel_replay.replay.driver import ReplayDriver
from otel_replay.session import Scope, Session

FULLY = "fully intercepted"
UNOBSERVABLE = (
    "aerospike",
    "confluent_kafka",
    "couchbase",
    "curl_cffi",
    "cx_Oracle",
    "deltalake",
    "grpc",
    "hf_xet",
    "lancedb",
    "MySQLdb",
    "nats_core",
    "primp",
    "psycopg",
    "psycopg2",
    "pycurl",
    "pylibmc",
    "pymssql",
    "pyodbc",
    "pyreqwest_impersonate",
    "rnet",
    "uvloop",
    "zmq",
)
"""Modules that connect without an audit event. duckdb and pyarrow are not here: our own store loads them."""


class Guard:
    """Refuses what code of one replay does beside its plan. The first refusal is latched on the driver."""

    def __init__(self, session: Session, driver: ReplayDriver) -> None:
        self._session = session
        self._driver = driver
        self._lanes = {envelope.lane for envelope in driver.tape.recording.envelopes}

    def start(self) -> None:
        audit.watch(self._session, self._asked)

    def stop(self) -> None:
        audit.unwatch(self._session)

    def _asked(self, scope: Scope | None, call: str, process: bool) -> None:
        """Return where `call` may be made. Raises LiveCallBlocked."""
        crossing = scope.crossing if scope is not None else None
        if runs_live(crossing):
            return
        if process and lanes.lane_that_begins() in self._lanes:
            return  # the record holds what it did: it is served there, under a guard of its own
        fault = LiveCallBlocked(_text(self._session.name, call, crossing, process))
        raise self._driver.latch(fault)


def runs_live(crossing: Crossing | None) -> bool:
    """True where `crossing`, or one around it, runs with today's code because the plan says so."""
    while crossing is not None:
        if isinstance(crossing.state, Call) and crossing.state.inside_live:
            return True
        crossing = crossing.parent
    return False


def _text(run: str, call: str, crossing: Crossing | None, process: bool) -> str:
    if crossing is None:
        where = "outside any crossing"
        step = "put it behind a boundary, record again, and it is served"
    else:
        where = f"inside {crossing.address}, whose body runs only because something in it is live"
        step = f'run it live: --live "{crossing.address}"'
    opened = "no process began" if process else "nothing was opened"
    return f"{call} was blocked in the replay of {run!r}, {where}: {opened}. Next: {step}"


def isolated() -> bool:
    """True where this process has no network: no interface but the loopback."""
    try:
        rows = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    except OSError:
        return False
    return {row.partition(":")[0].strip() for row in rows} <= {"lo"}


def interception(modules: Collection[str] | Any = None, *, without_network: bool | None = None) -> str:
    """Return how much of what a program can do was seen: all, or all but what the named libraries do."""
    loaded = sys.modules if modules is None else modules
    found = sorted({name for name in UNOBSERVABLE if name in loaded}, key=str.lower)
    if not found or (isolated() if without_network is None else without_network):
        return FULLY
    return f"intercepted; not observable: {', '.join(found)}"
