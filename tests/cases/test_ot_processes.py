"""OT-08: a process ends in every way, and all that had returned is there. OT-15: a call is served in another trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from otel_replay import boundary, open_store, replay
from otel_replay.errors import IncompleteRecording
from otel_replay.importing import import_source
from otel_replay.showing import as_tree
from otel_replay.wire.json import json_line
from tests.importers.genai._spans import span
from tests.importers.genai.test_stitch import ask, inner, serve

AGENT = """
import asyncio, os, signal, sys, threading, time
from otel_replay import boundary, record

signal.signal(signal.SIGINT, signal.default_int_handler)  # as from a terminal, also where the suite runs behind `&`

@boundary("tool", kind="tool")
def tool(x):
    if x == "in flight":
        end()
    return {"x": x}

def ready():
    open("ready", "w").close()

def wait():
    ready()
    time.sleep(60)

def end():
    how = sys.argv[1]
    if how == "sys.exit":
        sys.exit(3)
    if how == "uncaught":
        raise LookupError("uncaught")
    if how == "os._exit":
        os._exit(0)
    if how == "abort":
        os.abort()
    if how == "SystemExit in a thread":
        threading.Thread(target=sys.exit, args=(0,)).start()
        raise SystemExit(4)
    if how == "execv":
        os.execv(sys.executable, [sys.executable, "-c", "pass"])
    if how == "fork":
        if not os.fork():
            tool("child")
            os._exit(0)
        os.wait()
        os._exit(5)
    if how == "daemon":
        threading.Thread(target=wait, daemon=True).start()
        while not os.path.exists("ready"):
            time.sleep(0.01)
        return
    wait()

mode = sys.argv[2]
if mode == "with":
    with record("run", store="store"):
        tool("done")
        tool("in flight")
else:
    tool("done")
    tool("in flight")
"""
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "SIGKILL": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}
UNWINDING = ("sys.exit", "uncaught", "SIGINT", "SystemExit in a thread")
ENDS = [*UNWINDING, "os._exit", "abort", "execv", "fork", "SIGTERM", "SIGKILL", "SIGSTOP"]


def started(folder: Path, how: str, mode: str) -> subprocess.Popen[str]:
    (folder / "agent.py").write_text(AGENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for name in [name for name in environment if name.startswith("OTEL")]:
        del environment[name]
    program = [sys.executable, "agent.py", how, mode]
    if mode == "environment":
        environment |= {"OTEL_REPLAY_MODE": "record", "OTEL_REPLAY_NAME": "run", "OTEL_REPLAY_STORE": "store"}
    return subprocess.Popen(
        program, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(folder: Path, how: str, mode: str) -> int:
    child = started(folder, how, mode)
    if how in SIGNALS:
        until = time.monotonic() + 60
        while not (folder / "ready").exists() and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(SIGNALS[how])
        if how == "SIGSTOP":  # frozen: what had returned can be read while it is
            until = time.monotonic() + 10
            while os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is None:
                assert time.monotonic() < until
                time.sleep(0.01)
            with open_store(folder / "store") as store:
                (run,) = store.runs()
                assert run.state == "running"
                assert [e.address for e in store.recording(run.run_id).envelopes] == ["tool[1]"]
            child.kill()
    child.communicate(timeout=60)
    return child.returncode


EXPECTED = {"sys.exit": 3, "uncaught": 1, "SystemExit in a thread": 4, "os._exit": 0, "execv": 0, "fork": 5}


@pytest.mark.parametrize("mode", ["with", "environment"])
@pytest.mark.parametrize("how", ENDS)
def test_ot_08_what_had_returned_is_there_and_what_was_in_flight_is_named(tmp_path: Path, how: str, mode: str) -> None:
    code = ended(tmp_path, how, mode)
    assert code == EXPECTED.get(how, code)
    with open_store(tmp_path / "store") as store:
        (run,) = store.runs()
        found = store.recording(run.run_id)
        ((known,),) = store.sql("SELECT count(*) FROM crossings WHERE outcome = 'returned' AND lane = ''").fetchall()
    kinds = {envelope.address: envelope.outcome.kind for envelope in found.envelopes}
    assert kinds["tool[1]"] == "returned"
    assert known == 1
    tree = as_tree(found)
    if how in UNWINDING:
        assert run.state == "complete"
        assert kinds["tool[2]"] == ("cancelled" if how == "SIGINT" else "raised")
        return
    assert run.state == "interrupted"
    assert [mark.address for mark in found.unfinished] == ["tool[2]"]
    assert "tool[2] [tool] IN FLIGHT when the recording stopped" in tree
    assert "it was interrupted: the run never closed" in tree
    if how == "fork":
        assert kinds["tool[2]~1/tool[1]"] == "returned", "the child's crossing is in the child's lane"


def test_ot_08_an_interrupted_run_is_usable_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(tmp_path, "SIGKILL", "with")

    @boundary("tool", kind="tool")
    def tool(x: str) -> Any:
        return "live"

    with pytest.raises(IncompleteRecording, match=r"in flight when it stopped: tool\[2\]"):
        replay("run", store=tmp_path / "store")
    with replay("run", store=tmp_path / "store", allow_incomplete=True):
        assert tool("done") == {"x": "done"}


def test_ot_08_a_daemon_thread_that_still_runs_holds_nothing_up(tmp_path: Path) -> None:
    assert ended(tmp_path, "daemon", "with") == 0
    with open_store(tmp_path / "store") as store:
        (run,) = store.runs()
        assert (run.state, run.crossings) == ("complete", 2)


def test_ot_15_a_server_in_another_trace_is_joined_and_only_the_boundary_is_replayed(tmp_path: Path) -> None:
    root = span("agent")
    one, two = ask(3, '{"s": "A"}', under=root), ask(4, '{"s": "B"}', under=root)
    second, first = serve(two, at=3), serve(one, at=5)
    file = tmp_path / "traces.otlp.jsonl"
    file.write_bytes(json_line([root, one, two, second, inner(second, at=4), first, inner(first, at=6)]))
    with open_store(tmp_path / "store", create=True) as store:
        (imported,) = import_source(str(file), store).runs
    assert imported.complete
    shown = as_tree(imported)
    assert "is joined to span" in shown
    assert shown.count("in another process (desk): only what it gave back is replayed") == 2
    ran: list[str] = []

    @boundary("quote", kind="mcp")
    def quote(s: str) -> Any:
        ran.append(s)

    with replay("agent", store=tmp_path / "store") as session:
        assert [quote("A"), quote("B")] == [{"content": [{"type": "text", "text": "1"}]}] * 2
    assert ran == []
    report = session.report.text()
    assert "2 served, 2 covered" in report
    assert report.count("in another process (desk)") == 2
