"""O1: what recording adds to an agent whose model call takes 50 ms, runs with and without it by turns."""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from bench import measure
from bench.base import Counting, bare, of_size
from bench.measure import Figure
from otel_replay import boundary, record

CALLS = 10
MODEL_MS = 50


@boundary("model", kind="model")
def _model(messages: Any) -> Any:
    time.sleep(MODEL_MS / 1000)
    return {"role": "assistant", "content": messages}


def measured() -> list[Figure]:
    request = of_size(1)
    with TemporaryDirectory() as folder:
        pairs = [_pair(request, Path(folder), at) for at in range(60 if measure.LARGE else 20)]
    _, tracer = traced()
    cold_us = statistics.median(_cold_span(tracer, request) for _ in range(100))
    calls = [(on["calls"] - off["calls"]) / off["calls"] * 100 for off, on in pairs]
    whole = [(on["run"] - off["run"]) / off["run"] * 100 for off, on in pairs]
    cpu_us = [(on["cpu"] - off["cpu"]) / CALLS * 1e6 for off, on in pairs]
    low, high = measure.interval(calls)
    cpu = statistics.median(cpu_us) / MODEL_MS / 10
    detail = {
        "pairs": len(pairs),
        "interval_95_percent": [low, high],
        "with_opening_and_closing_percent": statistics.median(whole),
        "cpu_us_per_call": statistics.median(cpu_us),
        "bare_span_cpu_us_after_a_wait": cold_us,
    }
    what = f"latency added to a run of {CALLS} model calls of {MODEL_MS} ms, on disk"
    return [
        Figure("O1", what, statistics.median(calls), " %", 0.1, detail),
        Figure("O1", "the same in the caller's CPU: what is left on a machine with nothing else to do", cpu, " %"),
    ]


def traced() -> tuple[TracerProvider, Any]:
    """Return a provider with the base's processor, and a tracer of it."""
    provider = TracerProvider()
    provider.add_span_processor(Counting())
    return provider, provider.get_tracer("bench")


def _cold_span(tracer: Any, request: object) -> float:
    """Return the CPU that the base's span takes after a wait as long, when the processor's caches have gone cold."""
    time.sleep(MODEL_MS / 1000)
    start = time.thread_time()
    bare(tracer, request)
    return (time.thread_time() - start) * 1e6


def _pair(request: object, folder: Path, at: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return (without, with); which comes first changes from pair to pair."""
    ways: list[tuple[str, AbstractContextManager[Any]]] = [
        ("off", nullcontext()),
        ("on", record("bench", store=folder)),
    ]
    found = {name: _run(context, request) for name, context in (ways if at % 2 else ways[::-1])}
    return found["off"], found["on"]


def _run(context: AbstractContextManager[Any], request: object) -> dict[str, float]:
    opened = time.perf_counter()
    with context:
        start, cpu = time.perf_counter(), time.thread_time()
        for _ in range(CALLS):
            _model(request)
        calls, cpu = time.perf_counter() - start, time.thread_time() - cpu
    return {"calls": calls, "run": time.perf_counter() - opened, "cpu": cpu}
