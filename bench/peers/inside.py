"""`python -m bench.peers.inside NAME`, in the peer's environment: base, ours and the peer in turns, as JSON.

Each round records one run each way, 1 KB in and 1 KB out.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from bench.base import Counting, bare, of_size, plain, without_journal
from bench.peers import http_ways, ways
from bench.peers.environments import PEERS
from bench.peers.ways import Way
from otel_replay import boundary, record

CALLS = {"mlflow": 30, "vcrpy": 40}
"""Crossings a run; 200 where nothing else is said."""
ROUNDS = {"mlflow": 3}


def ours(folder: Path, provider: TracerProvider) -> dict[str, Way]:
    crossed = boundary("crossed", kind="tool")(plain)

    def recording(journal: bool) -> Any:
        run = record("bench", store=folder, tracer_provider=provider)
        return run if journal else without_journal(run)

    return {"ours, memory": (lambda: recording(False), crossed), "ours, disk": (lambda: recording(True), crossed)}


def measured(all_ways: dict[str, Way], value: object, calls: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return way -> medians in microseconds a crossing: the caller's CPU, the process's, and wall time."""
    took: dict[str, list[tuple[float, ...]]] = {name: [] for name in all_ways}
    for at in range(rounds + 1):
        for name, (context, call) in all_ways.items():
            found = _timed(context, partial(call, value), calls, whole="disk" in name)
            if at:
                took[name].append(found)
    names = ("cpu_us", "process_us", "wall_us")
    return {
        name: dict(zip(names, map(statistics.median, zip(*times, strict=True)), strict=True))
        for name, times in took.items()
    }


def _timed(context: Callable[[], Any], call: Callable[[], Any], calls: int, *, whole: bool) -> tuple[float, ...]:
    def now() -> tuple[float, float, float]:
        return time.thread_time(), time.process_time(), time.perf_counter()

    with context():
        start = now()
        for _ in range(calls):
            call()
        end = now()
    if whole:
        end = now()
    return tuple((after - before) / calls * 1e6 for before, after in zip(start, end, strict=True))


def main() -> None:
    name = sys.argv[1]
    provider = TracerProvider()
    provider.add_span_processor(Counting())
    tracer = provider.get_tracer("bench")
    value = of_size(1)
    with TemporaryDirectory() as text:
        folder = Path(text)
        base: Way = (nullcontext, partial(bare, tracer))
        calls, rounds = CALLS.get(name, 200), ROUNDS.get(name, 7)
        if name == "vcrpy":
            with http_ways.all_of(folder, provider) as found:
                times = measured({"base": base, **found}, value, calls, rounds)
        else:
            peer = {f"peer, {way}": how for way, how in ways.WAYS[name](folder).items()}
            times = measured({"base": base, **ours(folder / "ours", provider), **peer}, value, calls, rounds)
    packages = [text.partition("==")[0] for text in PEERS[name]]
    versions = {package: metadata.version(package) for package in [*packages, "opentelemetry-sdk"]}
    print("\n" + json.dumps({"times": times, "versions": versions}))


if __name__ == "__main__":
    main()
