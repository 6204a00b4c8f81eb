"""P1 from a large store, P3 and P4: what replays of incidents cost, from loading to the verdict."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import openai

from bench.base import of_size
from bench.figures.serving import of_length
from bench.large_store import built
from bench.measure import Figure
from bench.peers.environments import run_inside
from otel_replay import boundary, exporting, instrument, record, replay, uninstrument
from otel_replay.store import open_store

ROUNDS = 15
_LOAD = """
import sys, time
from otel_replay import settings, sources
from otel_replay.store import open_store
wall, cpu = time.perf_counter(), time.process_time()
found = sources.load(sys.argv[1], run="hundred", settings=settings.load())
print((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000, len(found.envelopes))
"""


def measured() -> list[Figure]:
    with TemporaryDirectory(prefix="otel-replay-bench-") as folder:
        return [*_from_store(Path(folder)), *_plain(), *_with_client(Path(folder))]


# P1 --------------------------------------------------------------------------------------------------------


@boundary("asked", kind="tool")
def _asked(q: Any) -> Any:
    return q


def _from_store(folder: Path) -> list[Figure]:
    """A run of 100 crossings, by its name, out of a store of a million spans; a fresh process each time."""
    kept, _ = built(1_000_000)
    shutil.copytree(kept, folder / "store", copy_function=_linked)
    with record("hundred", store=folder / "one") as run:
        _asked(of_size(1))
    with open_store(folder / "one") as one, open_store(folder / "store") as store:
        store.write(exporting.spans_of_recording(of_length(one.recording(run.id), 100)))
    took = []
    for _ in range(8):
        words = [sys.executable, "-c", _LOAD, str(folder / "store")]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        wall, cpu, count = map(float, done.stdout.split())
        assert count == 100
        took.append((wall, cpu))
    wall, cpu = (min(column) for column in zip(*took[1:], strict=True))  # a fresh process is only ever slowed down
    return [Figure("P1", "load 100 crossings from a store of 1M spans", wall, " ms", 100, {"cpu_ms": cpu})]


def _linked(source: str, target: str) -> None:
    Path(target).hardlink_to(source)  # a store's files never change


# P3 --------------------------------------------------------------------------------------------------------


def _plain() -> list[Figure]:
    found = json.loads(run_inside("chronicle-0.5.0", "-m", "bench.peers.incidents_inside").strip().splitlines()[-1])
    times, version = found["times"], found["versions"]["agent-chronicle"]
    figures = []
    for way in ("full stub", "cut-point"):
        ours, theirs = times[f"ours, {way}"], times[f"theirs, {way}"]
        detail = {"ours": ours, f"agent-chronicle {version}": theirs}
        what = f"six plain incidents, {way}: CPU over agent-chronicle {version}"
        figures.append(Figure("P3", what, ours["cpu_ms"] / theirs["cpu_ms"], "x", 1.0, detail))
    (few, few_times), (more, more_times) = ((int(count), both) for count, both in found["many"].items())
    each = (more_times[1] / more) / (few_times[1] / few)
    detail = {"cpu_ms": {few: few_times[1], more: more_times[1]}, "wall_ms": {few: few_times[0], more: more_times[0]}}
    figures.append(Figure("P3", f"CPU an incident among {more:,}, over one among {few}", each, "x", 1.1, detail))
    return figures


# P4 --------------------------------------------------------------------------------------------------------

TOOLS: Any = [{"type": "function", "function": {"name": "act", "parameters": {"type": "object", "properties": {}}}}]


def _canned(request: httpx2.Request) -> httpx2.Response:
    messages = json.loads(request.content)["messages"]
    answer: dict[str, Any] = {"role": "assistant", "content": "Done."}
    finish = "stop"
    if messages[-1]["role"] != "tool":
        call = {"id": "call_1", "type": "function", "function": {"name": "act", "arguments": '{"qty": 5000}'}}
        answer, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "demo-1",
        "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
        "usage": {"prompt_tokens": 31, "completion_tokens": 12, "total_tokens": 43},
    }
    return httpx2.Response(200, json=body)


@boundary("act", kind="tool", side_effects=True)
def _act(qty: int) -> dict[str, Any]:
    return {"filled": qty}


def _agent(client: openai.OpenAI, topic: str) -> str:
    messages: list[Any] = [
        {"role": "system", "content": f"You look after {topic}."},
        {"role": "user", "content": "Please see to it."},
    ]
    first = client.chat.completions.create(model="demo-1", messages=messages, tools=TOOLS).choices[0].message
    assert first.tool_calls
    call: Any = first.tool_calls[0]
    messages += [
        first,
        {"role": "tool", "tool_call_id": call.id, "content": json.dumps(_act(**json.loads(call.function.arguments)))},
    ]
    return (
        client.chat.completions.create(model="demo-1", messages=messages, tools=TOOLS).choices[0].message.content or ""
    )


def _with_client(folder: Path) -> list[Figure]:
    """Six incidents through the real client: replayed from their fixtures by us, and over a canned transport."""
    client = openai.OpenAI(
        api_key="none",
        base_url="http://canned.invalid/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(_canned)),
    )
    topics = [f"incident {number}" for number in range(6)]

    def live() -> None:
        for topic in topics:
            assert _agent(client, topic) == "Done."

    canned_before = _took(live)  # our instrument is not there yet
    instrument("openai")
    try:
        for topic in topics:
            with record(topic, store=folder / "p4") as run:
                _agent(client, topic)
            with open_store(folder / "p4") as store:
                found = exporting.spans_of_recording(store.recording(run.id))
            exporting.write_fixture(folder / f"{topic}.otlp.jsonl", found)

        def replayed() -> None:
            for topic in topics:
                with replay(folder / f"{topic}.otlp.jsonl"):
                    assert _agent(client, topic) == "Done."

        took: dict[str, list[tuple[float, float]]] = {"canned": [], "ours": []}
        for at in range(ROUNDS + 1):
            for name, call in (("canned", live), ("ours", replayed)):
                found_times = _took(call)
                if at:
                    took[name].append(found_times)
    finally:
        uninstrument("openai")
    medians = {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in took.items()}
    detail = {name: {"wall_ms": wall, "cpu_ms": cpu} for name, (wall, cpu) in medians.items()}
    detail["canned, before we were there"] = dict(zip(("wall_ms", "cpu_ms"), canned_before, strict=True))
    ratio = medians["ours"][1] / medians["canned"][1]
    what = f"six incidents with the openai client {openai.__version__}: CPU over a canned transport"
    return [Figure("P4", what, ratio, "x", 1.5, detail)]


def _took(call: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
