"""What the other processes of a replay did, told to the one that began it: one line a crossing, in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from otel_replay.envelope import Recording
from otel_replay.errors import Diverged, ReplayError, UsageError
from otel_replay.lanes import began_in
from otel_replay.replay.account import Call
from otel_replay.replay.divergence import left_over
from otel_replay.replay.driver import ReplayDriver
from otel_replay.replay.plan import ReplayPlan
from otel_replay.replay.tape import Tape
from otel_replay.session import Session


class LaneAccount:
    """The account of one replay; in a child it writes, in the parent it reads."""

    def __init__(self, session: Session, path: str = "") -> None:
        self._session = session
        self._path = path
        self._pid = os.getpid()
        self._child = bool(path)
        self._lines: list[dict[str, Any]] | None = None

    @property
    def is_child(self) -> bool:
        """True in a process that another one of this replay began."""
        return self._child or os.getpid() != self._pid

    def prepare(self) -> None:
        """Make the file, before a process is begun."""
        if not self._path:
            descriptor, self._path = tempfile.mkstemp(prefix="otel-replay-lanes-")
            os.close(descriptor)

    def describe(self, lane: str, recording: Recording, plan: ReplayPlan, clock: str) -> str:
        """Return what a spawned process must know to serve `lane`. Raises UsageError for a plan that can't travel."""
        choices = []
        for choice in plan.choices:
            if choice.where is not None or choice.action == "override":
                raise UsageError(f"{choice} cannot be told to a spawned process; name what it selects by address")
            choices.append([choice.action, choice.address or choice.name, choice.occurrence, choice.kind])
        told = {
            "mode": "replay",
            "lane": lane,
            "source": os.path.abspath(recording.source) if os.path.exists(recording.source) else recording.source,
            "run_id": recording.run.run_id,
            "choices": choices,
            "on_drift": plan.on_drift,
            "hybrid": plan.hybrid,
            "shuffle": plan.shuffle,
            "clock": clock,
            "account": self._path,
        }
        return orjson.dumps(told).decode()

    # In a child ------------------------------------------------------------------------------------------
    def _tell(self, line: Mapping[str, Any]) -> None:
        if self.is_child and self._path:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, orjson.dumps(line) + b"\n")
            finally:
                os.close(descriptor)

    def called(self, call: Call) -> None:
        if self.is_child:
            address = call.entry.address if call.entry is not None else ""
            live = call.action in ("live", "new", "override")
            self._tell({"lane": self._session.lane, "address": address, "action": call.action, "live": live})

    def failed(self, fault: ReplayError) -> None:
        if self.is_child:
            self._tell({"lane": self._session.lane, "fault": str(fault), "kind": type(fault).__name__})

    def noted(self, note: str) -> None:
        self._tell({"lane": self._session.lane, "note": note})

    # In the parent ---------------------------------------------------------------------------------------
    def _read(self) -> list[dict[str, Any]]:
        if self._lines is None:
            self._lines = []
            if self._path and not self.is_child:
                path = Path(self._path)
                self._lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
                path.unlink(missing_ok=True)
        return self._lines

    def close(self) -> None:
        """Remove the file; it is the parent's to remove."""
        self._read()

    def notes(self) -> list[str]:
        """Return what other processes had to say; nothing before they have ended."""
        said = [line for line in self._lines or () if "note" in line]
        return sorted(f"in the process {line['lane']}: {line['note']}" for line in said)

    @property
    def compared(self) -> bool:
        """True where another process met a recorded crossing."""
        return any(line.get("address") for line in self._read())

    def fault(self, recording: Recording, driver: ReplayDriver, begun: Sequence[str]) -> ReplayError | None:
        """Return what went apart in another process: its own divergence, or what it did not ask for."""
        lines = self._read()
        for line in lines:
            if "fault" in line:
                return Diverged(
                    f"in the process {line['lane']}: {line['fault']}", address=line["lane"], cause=str(line["kind"])
                )
        met = {line["address"]: line["action"] for line in lines if "address" in line}
        lanes = {envelope.lane for envelope in recording.envelopes} - {driver.tape.lane}
        for lane in sorted(lanes):
            if any(line["lane"] == lane and line.get("live") for line in lines) or driver.any_free():
                continue
            parent = began_in(lane)
            if driver.action_of(parent) in ("stub", "override"):
                continue  # the crossing that began it is served: it never runs
            if parent in self._session.asked_elsewhere and not any(line["lane"] == lane for line in lines):
                continue  # it ran live in a server that is not ours, and that nobody told of this replay
            missing = self._missing(Tape(recording, lane), met)
            if missing:
                return left_over(missing)
        return None

    @staticmethod
    def _missing(tape: Tape, met: Mapping[str, str]) -> list[Any]:
        found = []
        for entry in tape.entries.values():
            around = [entry.address, *(ancestor.address for ancestor in tape.ancestors(entry.address))]
            served = any(met.get(address) in ("stub", "override") for address in around[1:])
            if entry.address not in met and not served:
                found.append(entry)
        return found


def replay_lane(told: Mapping[str, Any]) -> Any:
    """Serve the lane of a replay that another process began."""
    plan = ReplayPlan(on_drift=told["on_drift"], hybrid=bool(told["hybrid"]), shuffle=told.get("shuffle"))
    for action, name, occurrence, kind in told["choices"]:
        if action == "new":
            plan = plan.new(name)
        elif action == "repeat":
            plan = plan.repeat(name)
        else:
            add = {"live": plan.live, "changed": plan.changed}.get(action, plan.stub)
            plan = add(kind=kind) if kind else add(name, occurrence)
    # By name, since the wiring stands above.
    session = import_module("otel_replay.api").replay(
        told["source"], plan, run=told["run_id"], allow_incomplete=True, lane=told["lane"], clock=told["clock"]
    )
    session.be_lane(str(told["account"]))
    return session
