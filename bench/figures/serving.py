"""P1 and P2: what loading a recording and serving a crossing from it cost."""

from __future__ import annotations

import gc
import time
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from bench import measure
from bench.base import Counting, bare, of_size
from bench.measure import Figure, interleaved
from otel_replay import boundary, exporting, record, replay, run_digest, sources
from otel_replay.envelope import Recording
from otel_replay.errors import Diverged
from otel_replay.settings import load as settings_now
from otel_replay.store import open_store

REQUEST = of_size(1)


@boundary("asked", kind="tool")
def _asked(q: Any) -> Any:
    return q


def measured() -> list[Figure]:
    with TemporaryDirectory() as folder:
        recording = _recorded(Path(folder))
        return [*_loading(recording, Path(folder)), *_serving(recording)]


def _recorded(folder: Path) -> Recording:
    with record("bench", store=folder) as run:
        _asked(REQUEST)
    with open_store(folder) as store:
        return store.recording(run.id)


def of_length(recording: Recording, count: int) -> Recording:
    """Return the recording with its one crossing repeated, as if the run had made it `count` times."""
    first = recording.envelopes[0]
    envelopes = tuple(
        with_fields(first, address=f"asked[{at}]", seq=at, end_seq=at, span_id=f"{at:016x}")
        for at in range(1, count + 1)
    )
    run = with_fields(recording.run, crossings=count, digest=run_digest.of_run(envelopes))
    return with_fields(recording, envelopes=envelopes, run=run)


def _loading(recording: Recording, folder: Path) -> list[Figure]:
    figures = []
    for count, goal in ((100, 3.0), (10_000, 150.0)):
        path = folder / f"{count}.otlp.jsonl"
        exporting.write_fixture(path, exporting.spans_of_recording(of_length(recording, count)))
        load = partial(sources.load, path, store=None, run="", headers=None, settings=settings_now())
        assert len(load().envelopes) == count
        found = interleaved({"load": load}, calls=1, rounds=9 if count == 100 else 1)["load"]
        what = f"load {count:,} crossings of 1 KB + 1 KB from a fixture, CPU"
        figures.append(Figure("P1", what, found.cpu_us / 1000, " ms", goal, {"wall_ms": found.wall_us / 1000}))
    return figures


def _serving(recording: Recording) -> list[Figure]:
    tracer = TracerProvider()
    tracer.add_span_processor(Counting())
    figures = []
    for spans, goal in ((False, 0.35), (True, 0.85)):
        for count in (100, 10_000, 100_000) if measure.LARGE else (100, 10_000):
            tape = of_length(recording, count)
            ratio, served_us = _served(tape, tracer, spans, min(count, 500))
            what = f"serve a 1 KB crossing of {count:,}, {'with the replay span' if spans else 'no provider'}"
            figures.append(Figure("P2", what, ratio, "x", goal, {"cpu_us": served_us}))
    return figures


def _served(tape: Recording, provider: TracerProvider, spans: bool, calls: int) -> tuple[float, float]:
    """Return (ratio to the bare span, CPU us a crossing) over the first `calls` crossings, in turns of ten."""
    tracer = provider.get_tracer("bench")
    base = ours = 0
    session = replay(tape, tracer_provider=provider if spans else None)
    gc.collect()  # what loading left to be looked through is not serving's
    try:
        with session:
            for _ in range(calls // 10):
                start = time.thread_time_ns()
                for _turn in range(10):
                    bare(tracer, REQUEST)
                middle = time.thread_time_ns()
                for _turn in range(10):
                    _asked(REQUEST)
                base, ours = base + middle - start, ours + time.thread_time_ns() - middle
    except Diverged:
        if calls == len(tape.envelopes):  # else most of the tape was left unserved on purpose
            raise
    return ours / base, ours / calls / 1000
