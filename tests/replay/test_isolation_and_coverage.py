"""A replay without a network (`--isolate`), and what a recording did not see (`coverage=True`)."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_replay import boundary, open_store, record
from otel_replay.showing import as_tree

from .conftest import Lab

PROGRAM = """
import ctypes, os, socket, sys
from otel_replay import boundary

@boundary("tool")
def tool():
    return 1

tool()
if os.environ.get("OTEL_REPLAY_MODE") == "replay":
    libc = ctypes.CDLL(None)  # as a C client does: no audit event
    peer = libc.socket(2, 1, 0)
    port, address = int(sys.argv[1]), socket.inet_aton("127.0.0.1")
    where = bytes([2, 0, port >> 8, port & 255]) + address + bytes(8)
    print("connected" if libc.connect(peer, where, 16) == 0 else "no network")
"""


@boundary("tool", kind="tool")
def tool(x: int) -> int:
    return x + 1


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def _replay(lab: Lab, *options: str, port: int, extra: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    program = Path("agent.py")
    program.write_text(PROGRAM)
    base = [sys.executable, "-m", "otel_replay"]
    tail = ["--store", str(lab.store), "--", "python", str(program), str(port)]
    subprocess.run([*base, "record", "cli", *tail], check=True, capture_output=True)
    command = [*extra, *base, "replay", "cli", *options, *tail]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_isolate_leaves_no_network_even_for_c(lab: Lab, server: socket.socket) -> None:
    port = server.getsockname()[1]
    assert _replay(lab, port=port).stdout == "connected\n", "without it a C library gets through, unseen"
    done = _replay(lab, "--isolate", port=port)
    if "--isolate cannot take the network away here" in done.stderr:  # a machine that forbids it: an error, no run
        assert done.returncode == 2
        assert done.stdout == ""
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no network\n"
    assert "network: fully intercepted" in done.stderr


def test_isolate_needs_a_record_that_is_here(lab: Lab) -> None:
    command = [sys.executable, "-m", "otel_replay", "replay", "http://127.0.0.1:1/run", "--isolate", "--", "python"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "import it first" in done.stderr


# Coverage -----------------------------------------------------------------------------------------------------
def test_coverage_notes_what_was_reached_outside_any_crossing(lab: Lab, server: socket.socket) -> None:
    port = server.getsockname()[1]
    inside = boundary("inside")(lambda: socket.create_connection(("127.0.0.1", port)).close())
    with record("covered", store=lab.store, coverage=True):
        inside()
    with record("uncovered", store=lab.store, coverage=True):
        for _again in range(3):
            socket.create_connection(("127.0.0.1", port)).close()
        subprocess.run(["true"], check=True)
        tool(1)
    with record("not asked", store=lab.store):
        socket.create_connection(("127.0.0.1", port)).close()
    found = {}
    with open_store(lab.store) as store:
        for name in ("covered", "uncovered", "not asked"):
            recording = store.recording(store.find_run(name).run_id)
            found[name] = recording.run.notes
            assert all(note in as_tree(recording) for note in recording.run.notes)
    assert found == {
        "covered": (),
        "uncovered": (
            f"not covered: connect to 127.0.0.1:{port} outside any crossing",
            "not covered: begin the program true outside any crossing",
        ),
        "not asked": (),
    }


# OT-12 --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("provider", [None, TracerProvider()], ids=["no SDK", "SDK"])
def test_OT_12_seeded_programs_get_fresh_ids_and_their_own_numbers(lab: Lab, provider: TracerProvider | None) -> None:
    def agent() -> list[float]:
        found = []
        for step in range(3):
            found += [random.random(), float(tool(step)), random.gauss(0, 1)]
        return found

    random.seed(42)
    alone = agent()
    after = random.random()
    traces, numbers = [], []
    for _again in range(2):
        random.seed(42)
        with record("seeded", store=lab.store, tracer_provider=provider, coverage=True) as run:
            numbers.append(agent())
        numbers[-1].append(random.random())
        traces.append(run.trace_id)
    random.seed(42)
    with lab.session(name="seeded", tracer_provider=provider):
        numbers.append(agent())
    numbers[-1].append(random.random())
    assert numbers == [[*alone, after]] * 3
    assert len(set(traces)) == 2
    assert all(len(trace) == 32 for trace in traces)
    with open_store(lab.store) as store:
        runs = [found for found in store.runs() if found.name == "seeded"]
    assert len({found.run_id for found in runs}) == 2
