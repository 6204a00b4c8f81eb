"""How cost grows: with payload, crossings, threads, runs and spans. No goals here; the curves are the figures."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import measure
from bench.base import TINY, of_size
from bench.figures.querying import QUESTIONS, questions
from bench.figures.serving import of_length
from bench.large_store import built
from bench.measure import Figure, interleaved
from otel_replay import boundary, record, replay
from otel_replay.store import open_store


def measured() -> list[Figure]:
    figures: list[Figure] = []
    for work in (_payload, _crossings, _served, _threads, _runs):
        with TemporaryDirectory(prefix="otel-replay-bench-") as folder:
            figures += work(Path(folder))
    return [*figures, *_spans()]


def _figure(what: str, by: str, unit: str, curves: dict[str, dict[float, float]]) -> Figure:
    """Return a figure whose value is the last point of the first curve, over its first."""
    points = list(next(iter(curves.values())).values())
    detail = {"by": by, "unit": unit, "curves": curves}
    return Figure("growth", f"{what}: last over first", points[-1] / points[0], "x", detail=detail)


@boundary("crossed", kind="tool")
def _crossed(q: Any) -> Any:
    return q


def _payload(folder: Path) -> list[Figure]:
    sizes = (0.125, 1, 4, 16, 64, 256)
    curve = {}
    for kilobytes in sizes:
        value = of_size(kilobytes)
        with record("bench", store=folder):
            found = interleaved({"ours": partial(_crossed, value)}, calls=max(4, int(100 / (1 + kilobytes))), rounds=7)
        curve[kilobytes] = found["ours"].cpu_us
    return [_figure("CPU a recorded crossing, by payload each way", "KB each way", "us", {"recorded, on disk": curve})]


def _crossings(folder: Path) -> list[Figure]:
    """The whole run, from opening to closed, over its crossings."""
    value = of_size(1)
    curve: dict[float, float] = {}
    for count in (100, 1_000, 10_000, *((100_000,) if measure.LARGE else ())):
        start = time.thread_time()
        with record("bench", store=folder):
            for _ in range(count):
                _crossed(value)
        curve[count] = (time.thread_time() - start) / count * 1e6
    what = "CPU a crossing of a run, its opening and closing included"
    return [_figure(what, "crossings in the run", "us", {"recorded, on disk": curve})]


@boundary("asked", kind="tool")
def _asked(q: Any) -> Any:
    return q


def _served(folder: Path) -> list[Figure]:
    value = of_size(1)
    with record("bench", store=folder) as run:
        _asked(value)
    with open_store(folder) as store:
        recording = store.recording(run.id)
    curve: dict[float, float] = {}
    for count in (10, 100, 1_000, 10_000):
        tape = of_length(recording, count)
        start = time.thread_time()
        with replay(tape):
            for _ in range(count):
                _asked(value)
        curve[count] = (time.thread_time() - start) / count * 1e6
    del curve[10]  # the first replay of a process also loads what replays need
    return [
        _figure("CPU a served crossing, laying out the tape included", "crossings on the tape", "us", {"served": curve})
    ]


def _threads(folder: Path) -> list[Figure]:
    """The same crossings, shared out among threads within one run."""
    total = 4_000
    cpu: dict[float, float] = {}
    wall: dict[float, float] = {}

    def work(count: int) -> None:
        for _ in range(count):
            _crossed(TINY)

    for threads in (1, 2, 4, 8, 16):
        rounds = []
        for _ in range(3):
            with record("bench", store=folder):
                started = [threading.Thread(target=work, args=(total // threads,)) for _ in range(threads)]
                start_wall, start_cpu = time.perf_counter(), time.process_time()
                for thread in started:
                    thread.start()
                for thread in started:
                    thread.join()
                rounds.append((time.process_time() - start_cpu, time.perf_counter() - start_wall))
        cpu[threads] = statistics.median(c for c, _ in rounds) / total * 1e6
        wall[threads] = statistics.median(w for _, w in rounds) / total * 1e6
    curves = {"CPU of the process": cpu, "wall": wall}
    return [_figure("one tiny crossing, by threads that cross at once", "threads", "us", curves)]


def _runs(folder: Path) -> list[Figure]:
    """Looking one run up, and listing the newest, as a store fills with runs of ten crossings."""
    load: dict[float, float] = {}
    newest: dict[float, float] = {}
    made = 0
    with open_store(folder, create=True) as store:
        for count in (10, 100, 1_000):
            while made < count:
                with record(f"run-{made}", store=folder):
                    for _ in range(10):
                        _crossed(TINY)
                made += 1
            store.seal()
            load[count] = _median_ms(lambda: store.recording(store.find_run("run-5").run_id))
            newest[count] = _median_ms(lambda: store.runs(limit=20))
    curves = {"load one by its name": load, "the newest twenty": newest}
    return [_figure("CPU of a question, by runs in the store", "runs in the store", "ms", curves)]


def _spans() -> list[Figure]:
    curves: dict[str, dict[float, float]] = {name: {} for name in QUESTIONS}
    for count in (10_000, 100_000, 1_000_000, *((10_000_000,) if measure.LARGE else ())):
        folder, facts = built(count)
        with open_store(folder) as store:
            store.refresh()
            for name, ask in zip(QUESTIONS, questions(store, facts), strict=True):
                curves[name][count] = _median_ms(ask)
    return [_figure("CPU of a question in the engine, by spans in the store", "spans in the store", "ms", curves)]


def _median_ms(call: Callable[[], Any], rounds: int = 5) -> float:
    """Return the median CPU of the process; the first call warms up."""
    call()
    took = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        took.append((time.process_time() - start) * 1000)
    return statistics.median(took)
