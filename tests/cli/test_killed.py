"""`kill -9` in the middle: what had returned is there at once, what was in flight is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.cli.conftest import Project

AGENT = """
import os, sys, time
from otel_replay import boundary

@boundary("step", kind="tool")
def step(n):
    if n == 151 and os.environ.get("HANG"):
        open("hanging", "w").close()
        time.sleep(60)
    return {"n": n}

for n in range(1, int(os.environ.get("STEPS", "200")) + 1):
    step(n)
"""


def _killed(project: Project) -> None:
    (project.folder / "agent.py").write_text(AGENT)
    command = [sys.executable, "-m", "otel_replay", "record", "long", "--", "python", "agent.py"]
    child = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment(HANG="1"),
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not (project.folder / "hanging").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)  # the program and its recorder both, nothing is left to tidy up
    child.wait()


def test_a_killed_run_of_200_crossings(project: Project) -> None:
    _killed(project)
    counted = project.run("sql", "SELECT count(*) FROM crossings WHERE outcome = 'returned'", "--format", "csv")
    assert counted.out.split() == ['"count_star()"', "150"]
    states = project.run("sql", "SELECT state, crossings, unfinished FROM runs", "--format", "csv")
    assert states.out.splitlines()[1] == '"interrupted",151,1'
    shown = project.run("show", "long").out
    assert shown.count("step[") == 152  # 150 that returned, the one in flight, and it once more under what is missing
    assert "  step[150] [tool]" in shown
    assert "  step[151] [tool] IN FLIGHT when the recording stopped\n" in shown
    assert "  ! it was interrupted: the run never closed\n" in shown
    assert "  ! in flight when it stopped: step[151]\n" in shown

    refused = project.replay("long")
    assert refused.code == 5
    assert "in flight when it stopped: step[151]" in refused.err
    allowed = project.replay("long", "--allow-incomplete", STEPS="150")
    assert allowed.code == 0, allowed.err
    assert "150 served" in allowed.err
    beyond = project.replay("long", "--allow-incomplete")
    assert beyond.code == 3, beyond.err
    assert "step[151]" in beyond.err
    said = project.run("doctor")
    assert said.code == 1
    assert "is interrupted" in said.out
