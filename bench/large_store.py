"""A store of a million spans and more, as agents leave it: built once, kept in a cache folder, with what it must hold.

Runs of twenty spans: the run's own, ten model calls (0.9 KB asked, 0.4 KB told), nine tool calls, spread over thirty
days. One span in a hundred is delivered twice. The spans come from the codec and go through the store's own door.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from bench import measure
from bench.load import words
from otel_replay import codec
from otel_replay.envelope import Envelope, Outcome, Payload, Run
from otel_replay.span import Span
from otel_replay.store import open_store, schema

VERSION = 1
"""Raised when what is put in changes. Older builds are then thrown away."""
RUN_SPANS = 20
MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-5", "gemini-3-flash", "qwen3-8b")
_BATCH_SPANS = 40_000
_DAYS_30_NS = 30 * 86_400 * 1_000_000_000
_START_NS = 1_790_000_000_000_000_000
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-replay" / "bench"


@dataclass
class Facts:
    """What was put in, to compare answers with."""

    spans: int = 0
    twice: int = 0
    trace_id: str = ""
    build_s: float = 0.0
    commit: str = ""
    calls: dict[str, list[int]] = field(default_factory=dict)
    """model -> [calls, input tokens, output tokens]"""


def built(count: int) -> tuple[Path, Facts]:
    """Return (the folder of a store of `count` spans, its facts), made now where it is not there yet."""
    folder = _CACHE / f"store-{count}-{VERSION}.{schema.VERSION}"
    facts = _CACHE / f"{folder.name}.json"
    if not facts.exists():
        for old in _CACHE.glob(f"store-{count}-*/"):
            shutil.rmtree(old)
        found = _build(folder, count)
        facts.write_text(json.dumps(vars(found)))
    return folder, Facts(**json.loads(facts.read_text()))


def _build(folder: Path, count: int) -> Facts:
    facts = Facts()
    rng = random.Random(11)
    started = time.perf_counter()
    with open_store(folder, create=True) as store:
        several = _spans(count, rng, facts)
        again: list[Span] = []
        while batch := list(islice(several, _BATCH_SPANS)):
            store.write([*batch, *again])
            facts.twice += len(again)
            again = rng.sample(batch, len(batch) // 100)
        store.write(again)
        facts.twice += len(again)
        store.compact(grace_s=0)
    facts.build_s = time.perf_counter() - started
    facts.commit = str(measure.machine()["commit"])
    return facts


def _spans(count: int, rng: random.Random, facts: Facts) -> Iterator[Span]:
    runs = count // RUN_SPANS
    step_ns = _DAYS_30_NS // runs
    for at in range(runs):
        start_ns = _START_NS + at * step_ns
        run = Run(
            run_id=f"{rng.getrandbits(128):032x}",
            name=f"agent-{at % 50}",
            start_ns=start_ns,
            end_ns=start_ns + RUN_SPANS * 900_000_000,
            crossings=RUN_SPANS - 1,
            trace_id=f"{rng.getrandbits(128):032x}",
            span_id=f"{rng.getrandbits(64):016x}",
        )
        if at == runs // 2:
            facts.trace_id = run.trace_id
        facts.spans += RUN_SPANS
        yield codec.run_to_span(run)
        for seq in range(1, RUN_SPANS):
            yield codec.to_span(_crossing(run, seq, rng, facts))


def _crossing(run: Run, seq: int, rng: random.Random, facts: Facts) -> Envelope:
    request, told = _model_call(rng, facts) if seq % 2 else _tool_call(rng)
    start_ns = run.start_ns + seq * 800_000_000
    return Envelope(
        run_id=run.run_id,
        run_name=run.name,
        address=f"{'agent' if seq % 2 else 'search'}[{(seq + 1) // 2}]",
        boundary="agent" if seq % 2 else "search",
        kind="model" if seq % 2 else "tool",
        request=Payload(text=orjson.dumps(request).decode()),
        outcome=Outcome("returned", Payload(text=orjson.dumps(told).decode())),
        seq=seq,
        end_seq=seq,
        start_ns=start_ns,
        end_ns=start_ns + rng.randrange(1_000_000, 790_000_000),
        key=f"1:{rng.getrandbits(240):060x}",
        trace_id=run.trace_id,
        span_id=f"{rng.getrandbits(64):016x}",
        parent_span_id=run.span_id,
    )


def _model_call(rng: random.Random, facts: Facts) -> tuple[dict[str, Any], dict[str, Any]]:
    model = MODELS[rng.randrange(5)]
    asked, told = rng.randrange(4000), rng.randrange(800)
    sums = facts.calls.setdefault(model, [0, 0, 0])
    sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + asked, sums[2] + told
    return (
        {"model": model, "temperature": 0.2, "messages": [{"role": "user", "content": words(rng, 900)}]},
        {
            "model": f"{model}-2026-08",
            "choices": [{"message": {"role": "assistant", "content": words(rng, 400)}}],
            "usage": {"prompt_tokens": asked, "completion_tokens": told},
        },
    )


def _tool_call(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"q": words(rng, 60)}, {"hits": rng.randrange(90), "price": rng.randrange(5000), "text": words(rng, 200)}
