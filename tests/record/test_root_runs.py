"""Runs without `record()`: a mode in the environment, on code that has boundaries and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from otel_replay import open_store

AGENT = """
from otel_replay import boundary

@boundary("lookup", kind="tool")
def lookup(number):
    return {"customer": number}
"""
SERVER = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from agent import lookup

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("server")

async def step(number):
    await asyncio.sleep(0.001)
    return lookup(number)

async def request(number):
    with tracer.start_as_current_span(f"POST /chat/{number}"):
        await asyncio.gather(step(number), step(number + 100))
        with tracer.start_as_current_span("inner"):
            lookup(number + 1000)

async def main():
    await asyncio.gather(*(request(number) for number in range(5)))
    for number in range(5, 8):
        await request(number)

asyncio.run(main())
"""


def run(folder: Path, program: str, **environment: str) -> None:
    (folder / "agent.py").write_text(AGENT)
    (folder / "program.py").write_text(program)
    env = {**os.environ, "OTEL_REPLAY_STORE": str(folder / "store"), **environment}
    subprocess.run([sys.executable, "program.py"], cwd=folder, env=env, check=True, timeout=60)


def test_each_request_of_a_server_is_a_run(tmp_path: Path) -> None:
    run(tmp_path, SERVER, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1")
    with open_store(tmp_path / "store") as store:
        runs = {run.name: run for run in store.runs()}
        assert sorted(runs) == [f"POST /chat/{number}" for number in range(8)]
        for number in range(8):
            recording = store.recording(runs[f"POST /chat/{number}"].run_id)
            asked = sorted(envelope.request.text for envelope in recording.envelopes)
            assert asked == sorted(f'{{"number":{n}}}' for n in (number, number + 100, number + 1000))
            assert recording.complete
        assert len({run.trace_id for run in runs.values()}) == 8


def test_without_a_provider_the_process_is_the_run(tmp_path: Path) -> None:
    run(tmp_path, "from agent import lookup\nlookup(1)\nlookup(2)\n", OTEL_REPLAY_MODE="record")
    with open_store(tmp_path / "store") as store:
        (found,) = store.runs()
    assert (found.name, found.crossings, found.complete) == ("program", 2, True)


def test_with_no_mode_nothing_is_recorded(tmp_path: Path) -> None:
    run(tmp_path, SERVER)
    assert not (tmp_path / "store").exists()
