"""What the tests run in processes of their own: writers that are killed, readers, sealers.

`python -m store.processes ACTION FOLDER [ARGUMENT ...]`, from the folder of the tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import astuple
from pathlib import Path

import pyarrow as pa

from otel_replay.store import blobs, compact, objects, open_store, parquet, seal
from otel_replay.store.store import Store

from .making import START, illustrated, make_run, mark_of, open_journal, run_spans

TESTS = Path(__file__).parent.parent


def start(action: str, folder: Path | str, *arguments: object) -> subprocess.Popen[str]:
    """Start `action` in a process of its own."""
    command = [sys.executable, "-m", "store.processes", action, str(folder), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    return subprocess.Popen(
        command, cwd=TESTS, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str], *, killed: bool = False) -> str:
    """Wait for `process` and return what it printed; it must have ended as expected."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if killed else 0), err
    return out


def die_at(step: str) -> None:
    """Make the storing code kill this process, as kill -9 does, when it comes to `step`."""

    def point(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for module in (parquet, seal, objects, blobs, compact):
        setattr(module, "fault_point", point)  # noqa: B010 - a name that each of them holds


def write_until_killed(store: Store, acknowledged: Path) -> None:
    """Write run after run, and note each one after its write returned."""
    number = 0
    while True:
        number += 1
        run, envelopes = make_run(number, start_ns=START + number * 10_000_000, name=f"run {number}")
        store.write(run_spans(run, envelopes))
        with acknowledged.open("a") as file:
            file.write(f"{run.run_id}\n")


def record_until_killed(folder: Path, acknowledged: Path) -> None:
    """Record crossing after crossing into a journal, and note each one after its append returned."""
    run, envelopes = make_run(1, crossings=20_000)
    journal = open_journal(folder, run)
    with acknowledged.open("a", buffering=1) as file:
        for envelope in envelopes:
            journal.mark(*astuple(mark_of(envelope)))
            journal.crossing(envelope)
            file.write(f"{envelope.seq}\n")
            time.sleep(0.001)


def count_repeatedly(store: Store, seconds: float) -> None:
    """Ask for the number of rows again and again; no answer may shrink or hold half a batch."""
    until = time.monotonic() + seconds
    last = asked = 0
    while time.monotonic() < until or asked < 3:
        rows = store.arrow("SELECT count(*) AS n, count(DISTINCT run_id) AS r FROM spans").to_pylist()[0]
        assert rows["n"] == rows["r"] * 4, rows
        assert rows["n"] >= last, (rows, last)
        last = rows["n"]
        asked += 1
    print(asked, last)


def main(action: str, folder: str, *arguments: str) -> None:
    store = open_store(folder, create=True)
    if action == "write":
        write_until_killed(store, Path(arguments[0]))
    elif action == "record":
        record_until_killed(Path(folder), Path(arguments[0]))
    elif action == "count":
        count_repeatedly(store, float(arguments[0]))
    elif action == "write-runs":
        for number in range(int(arguments[0]), int(arguments[1])):
            store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    elif action == "write-same":
        for number in range(1, int(arguments[0]) + 1):
            store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    elif action == "write-and-die":
        die_at(arguments[0])
        store.write(run_spans(*make_run(2, start_ns=START + 20_000_000)))
    elif action == "write-pictures":
        for number in range(int(arguments[0]), int(arguments[1])):
            store.write(run_spans(*illustrated(number, turns=2)))
    elif action == "write-pictures-and-die":
        die_at(arguments[0])
        store.write(run_spans(*illustrated(2, turns=2)))
    elif action == "sweep-repeatedly":
        for _ in range(int(arguments[0])):
            compact.sweep(store.folder, grace_s=-60)
    elif action == "seal":
        print(store.seal())
    elif action == "seal-and-die":
        die_at(arguments[0])
        store.seal()
    elif action == "compact-and-die":
        die_at(arguments[0])
        store.compact()
    elif action == "compact":
        for _ in range(int(arguments[0])):
            store.compact(grace_s=60)
    else:
        raise SystemExit(f"unknown action {action}, with pyarrow {pa.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
