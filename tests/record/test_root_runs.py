"""Runs without `record()`: a mode in the environment, on code that has boundaries and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


THREADS = """
import http.server, json, os, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from agent import lookup

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("server")

def in_pool(number):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lookup, (number, number + 100, number + 200)))

def in_threads(number):
    threads = [threading.Thread(target=lookup, args=(n,)) for n in (number, number + 100, number + 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def in_thread_pool(number):
    with ThreadPool(3) as pool:
        pool.map(lookup, (number, number + 100, number + 200), chunksize=1)

def before_and_after(number):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lookup, number).result()
    lookup(number + 100)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lookup, number + 200).result()

def idle(number):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

WAY = globals()[os.environ["WAY"]]
together = threading.Barrier(8)

def request(number):
    together.wait()
    with tracer.start_as_current_span(f"GET /{number}"):
        WAY(number)

with ThreadPoolExecutor(8) as clients:
    list(clients.map(request, range(8)))
"""


@pytest.mark.parametrize("way", ["in_pool", "in_threads", "in_thread_pool", "before_and_after"])
def test_requests_that_cross_in_threads_alone_are_runs_too(tmp_path: Path, way: str) -> None:
    run(tmp_path, THREADS, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1", WAY=way)
    with open_store(tmp_path / "store") as store:
        runs = {found.name: found for found in store.runs()}
        assert sorted(runs) == [f"GET /{number}" for number in range(8)]
        for number in range(8):
            recording = store.recording(runs[f"GET /{number}"].run_id)
            asked = {envelope.request.text: envelope.strand for envelope in recording.envelopes}
            assert sorted(asked) == sorted(f'{{"number":{n}}}' for n in (number, number + 100, number + 200))
            strands = {"before_and_after": {0, 1, 2}}.get(way, {1, 2, 3})
            assert set(asked.values()) == strands, "each job is a strand, and nothing of ours is one"
            assert recording.complete
            assert not recording.run.notes
        assert len({found.trace_id for found in runs.values()}) == 8


def test_a_request_whose_threads_cross_nothing_is_no_run(tmp_path: Path) -> None:
    run(tmp_path, THREADS, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1", WAY="idle")
    assert not list((tmp_path / "store").rglob("*.*")) if (tmp_path / "store").exists() else True


def test_a_crossing_under_no_trace_leaves_later_traces_their_runs(tmp_path: Path) -> None:
    program = THREADS.replace("WAY = globals", "lookup(-1)\nWAY = globals")
    run(tmp_path, program, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1", WAY="in_pool")
    with open_store(tmp_path / "store") as store:
        crossings = {found.name: found.crossings for found in store.runs()}
    assert crossings == {"program": 1, **{f"GET /{number}": 3 for number in range(8)}}


def test_tasks_begun_beside_a_crossing_under_no_trace_have_runs_of_their_own(tmp_path: Path) -> None:
    program = SERVER.replace("async def main():\n", "async def main():\n    lookup(-1)\n")
    program = program.replace("        await request(number)\n", "        await request(number)\n    lookup(-2)\n")
    run(tmp_path, program, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1")
    with open_store(tmp_path / "store") as store:
        runs = {found.name: found for found in store.runs()}
        assert {name: found.crossings for name, found in runs.items()} == {
            "program": 2,
            **{f"POST /chat/{number}": 3 for number in range(8)},
        }
        assert all(found.complete for found in runs.values())
        assert len({found.trace_id for found in runs.values()}) == 9, "no request is a part of the process's trace"


AT_ONCE = """
import threading
from agent import lookup

together = threading.Barrier(8)

def work(number):
    together.wait()
    lookup(number)

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_cross_at_once_wait_for_the_run_to_begin(tmp_path: Path) -> None:
    run(tmp_path, AT_ONCE, OTEL_REPLAY_MODE="record", OTEL_REPLAY_STRICT="1")
    with open_store(tmp_path / "store") as store:
        (found,) = store.runs()
        assert (found.name, found.crossings, found.complete) == ("program", 8, True)
    (tmp_path / "agent.py").write_text(AGENT)
    env = {"OTEL_REPLAY_MODE": "replay", "OTEL_REPLAY_SOURCE": "program"}
    program = AT_ONCE.replace("from agent import lookup", "import agent\nfrom agent import lookup") + "print('end')\n"
    (tmp_path / "agent.py").write_text(AGENT.replace("return {", "open('ran', 'a').write('x')\n    return {"))
    (tmp_path / "program.py").write_text(program)
    whole = {**os.environ, "OTEL_REPLAY_STORE": str(tmp_path / "store"), **env}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=whole, timeout=60, capture_output=True)
    assert not (tmp_path / "ran").exists(), "nothing ran live while the replay began"
    assert done.returncode == 0, done.stderr.decode()
    assert "8 recorded: 8 served" in done.stderr.decode()
