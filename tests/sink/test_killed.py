"""kill -9 at random points under load, into a real store: what was acknowledged is there after the restart, once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from otel_replay import open_store

from .processes import Load, SinkProcess

KILLS = int(os.environ.get("OTEL_REPLAY_TEST_KILLS", "4"))
"""How many times the sink is killed under load; .ci/run sets it to 100."""


def test_kill_9_at_random_points_under_load(tmp_path: Path) -> None:
    chance = random.Random(7)
    options = ('span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{tmp_path / "store"}"]')
    load = Load()
    sink = SinkProcess(tmp_path, *options).ready()
    load.address = sink.http_address
    with load:
        for _ in range(KILLS):
            before = len(load.acknowledged)
            following = SinkProcess(tmp_path, *options)  # comes up meanwhile: two may share a disk
            time.sleep(chance.uniform(0.05, 0.6))
            if chance.random() < 0.5:
                following.ready()
            sink.kill(group=chance.random() < 0.5)  # with its converter, or leaving it behind
            sink = following if following.http_address else following.ready()
            load.address = sink.http_address
            deadline = time.monotonic() + 10
            while len(load.acknowledged) == before and time.monotonic() < deadline:
                time.sleep(0.01)
    assert sink.end() == 0
    assert len(load.acknowledged) > KILLS * 5
    stored = _stored(tmp_path / "store", set(load.acknowledged))
    assert set(load.acknowledged) - set(stored) == set()
    assert len(stored) == len(set(stored)), "a segment that was converted twice is kept once"
    assert list((tmp_path / "wal").iterdir()) == [], "what is kept must not wait on in the log"


def _stored(folder: Path, wanted: set[int]) -> list[int]:
    """Return the numbers of the spans in the store; a converter that outlived its sink may still be at it."""
    deadline = time.monotonic() + 60
    with open_store(folder) as store:
        while True:
            table = store.arrow("SELECT attr(attributes, 'n')::BIGINT AS n FROM stored")
            rows: list[int] = table.column("n").to_pylist()
            if wanted <= set(rows) or time.monotonic() > deadline:
                return rows
            time.sleep(0.2)
