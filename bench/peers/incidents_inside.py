"""`python -m bench.peers.incidents_inside`, in Chronicle's environment: P3, ours and Chronicle's in turns, as JSON.

A pass takes six incidents from their committed files, one after the other: all from the record ("full stub"), then
with the tool and what follows it live ("cut-point"), asserting each time what a test would assert.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chronicle

import otel_replay
from bench.plain_incidents import PlainIncident, incidents
from otel_replay import exporting
from otel_replay.store import open_store

ROUNDS = 15
MANY = (100, 1000)


def ours_recorded(folder: Path, found: Sequence[PlainIncident]) -> dict[str, Path]:
    """Record each incident as it was, and return its fixture."""
    paths = {}
    for incident in found:
        with otel_replay.record(incident.name, store=folder / "store") as run:
            incident.run(False)
        with open_store(folder / "store") as store:
            recording = store.recording(run.id)
        paths[incident.name] = folder / f"{incident.name}.otlp.jsonl"
        exporting.write_fixture(paths[incident.name], exporting.spans_of_recording(recording))
    return paths


def theirs_recorded(folder: Path, found: Sequence[PlainIncident]) -> dict[str, Path]:
    paths = {}
    for incident in found:
        paths[incident.name] = folder / f"{incident.name}-theirs"
        with chronicle.record(incident.name, export=paths[incident.name]):
            incident.run(False)
    return paths


def one(replay: Callable[..., Any], plan: Any, path: Path, incident: PlainIncident) -> None:
    with replay(path, plan) as session:
        answer = incident.run(plan is not None)
        if plan is None:
            assert answer == "Done."
        else:
            assert incident.safe(session.captured_result(incident.tool, 1))


def passes(found: Sequence[PlainIncident], paths: dict[str, Path], library: Any) -> dict[str, Callable[[], None]]:
    replay = library.replay if library is otel_replay else library.replay_trace

    def full() -> None:
        for incident in found:
            one(replay, None, paths[incident.name], incident)

    def cut() -> None:
        for incident in found:
            plan = library.ReplayPlan().stub("agent", 1).live(incident.tool, 1).live("agent", 2)
            one(replay, plan, paths[incident.name], incident)

    return {"full stub": full, "cut-point": cut}


def timed(call: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def main() -> None:
    ours = incidents(lambda name, kind: otel_replay.boundary(name, kind=kind))
    theirs = incidents(lambda name, kind: chronicle.boundary(name, kind=kind), model_kind="llm")
    with TemporaryDirectory() as text:
        folder = Path(text)
        our_paths = ours_recorded(folder, ours)
        calls = {f"ours, {name}": call for name, call in passes(ours, our_paths, otel_replay).items()}
        their_paths = theirs_recorded(folder, theirs)
        calls |= {f"theirs, {name}": call for name, call in passes(theirs, their_paths, chronicle).items()}
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for at in range(ROUNDS + 1):
            for name, call in calls.items():
                found = timed(call)
                if at:
                    took[name].append(found)
        many = {count: timed(partial(_many, ours, our_paths, count)) for count in MANY}
    times = {
        name: {"wall_ms": statistics.median(w for w, _ in both), "cpu_ms": statistics.median(c for _, c in both)}
        for name, both in took.items()
    }
    versions = {"agent-chronicle": metadata.version("agent-chronicle")}
    print("\n" + json.dumps({"times": times, "versions": versions, "many": many}))


def _many(found: Sequence[PlainIncident], paths: dict[str, Path], count: int) -> None:
    for at in range(count):
        incident = found[at % len(found)]
        one(otel_replay.replay, None, paths[incident.name], incident)


if __name__ == "__main__":
    main()
