"""R1 to R7: what recording costs. The base is a bare SDK span with eight attributes and a minimal processor."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider

from bench.base import TINY, Counting, bare, of_size, plain, without_journal
from bench.measure import Figure, interleaved
from otel_replay import boundary, record
from otel_replay.store import open_store


def measured() -> list[Figure]:
    with TemporaryDirectory() as folder:
        return [*_crossings(Path(folder)), _burst(Path(folder) / "burst"), _idle()]


@boundary("crossed", kind="tool")
def _crossed(q: Any) -> Any:
    return q


def _crossings(folder: Path) -> list[Figure]:
    provider = TracerProvider()
    processor = Counting()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench")
    payloads = {"tiny": TINY, "1 KB": of_size(1), "5 KB": of_size(5), "20 KB": of_size(20)}
    figures = []
    times: dict[str, dict[str, float]] = {}
    for way in ("journal off", "journal on"):
        for size, value in payloads.items():
            run = record("bench", store=folder, tracer_provider=provider)
            if way == "journal off":
                without_journal(run)
            with run:
                found = interleaved(
                    {"base": partial(bare, tracer, value), "ours": partial(_crossed, value)},
                    calls=200 if size != "20 KB" else 60,
                )
            times[f"{way}, {size}"] = {"base": found["base"].cpu_us, "ours": found["ours"].cpu_us}
    ratio = {name: time["ours"] / time["base"] for name, time in times.items()}
    slope = (times["journal off, 20 KB"]["ours"] - times["journal off, 1 KB"]["ours"]) / 38
    figures += [
        Figure("R1", "caller's CPU a crossing, 1 KB + 1 KB, journal off", ratio["journal off, 1 KB"], "x", 0.75, times),
        Figure("R2", "the same, tiny payload", ratio["journal off, tiny"], "x", 0.45),
        Figure("R3", "slope with the payload", slope, " us/KB", 2.2),
        _with_encoding(folder, provider, processor, tracer),
        Figure("R5", "durable on SIGKILL: entry mark and append included", ratio["journal on, 1 KB"], "x", 1.3),
    ]
    return figures


def _with_encoding(folder: Path, provider: Any, processor: Counting, tracer: Any) -> Figure:
    """Both through the SDK's own OTLP encoder: what a program with a stock exporter pays in its whole process."""
    value = of_size(1)
    processor.keeping = True

    def encoded(call: Any) -> None:
        for _ in range(64):
            call()
        encode_spans(processor.ended).SerializeToString()
        processor.ended.clear()

    with without_journal(record("bench", store=folder, tracer_provider=provider)):
        found = interleaved(
            {"base": lambda: encoded(lambda: bare(tracer, value)), "ours": lambda: encoded(lambda: _crossed(value))},
            calls=4,
            clock=time.process_time_ns,
        )
    processor.keeping = False
    ratio = found["ours"].cpu_us / found["base"].cpu_us
    return Figure("R4", "the whole process, the SDK's encoding to OTLP included", ratio, "x", 0.45)


def _burst(folder: Path) -> Figure:
    with record("burst", store=folder) as run:
        for _ in range(20_000):
            _crossed(TINY)
    with open_store(folder) as store:
        kept = len(store.recording(run.id).envelopes)
    return Figure("R6", "crossings lost of 20,000 in a burst", 20_000 - kept, "", 0, {"faults": dict(run.faults)})


def _idle() -> Figure:
    found = interleaved({"plain": lambda: plain(TINY), "marked": lambda: _crossed(TINY)}, calls=20_000, rounds=11)
    more = found["marked"].cpu_us - found["plain"].cpu_us
    return Figure("R7", "a boundary with nothing active, over the plain call", more, " us", 0.3)
