"""Compaction sorts in little memory, and where that is too little it sorts all the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from otel_replay.span import Span
from otel_replay.store import compact, open_store


def spans(rng: random.Random) -> list[Span]:
    ids = [(f"{rng.getrandbits(128):032x}", f"{rng.getrandbits(64):016x}") for _ in range(400)]
    return [Span(*place, "n", 1, 2, attributes=(("text", rng.randbytes(2_000).hex()),)) for place in ids]


@pytest.mark.parametrize("memory", ["1MB", "20MB", compact.SORT_MEMORY])
def test_nothing_is_lost_under_any_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    monkeypatch.setattr(compact, "SORT_MEMORY", memory)
    settings = "SELECT current_setting('memory_limit'), current_setting('threads')"
    rows = "SELECT trace_id, attributes FROM spans ORDER BY trace_id"
    rng = random.Random(1)
    with open_store(tmp_path, create=True) as store:
        for _ in range(4):
            store.write(spans(rng))
        before, limits = store.arrow(rows), store.connection.execute(settings).fetchall()
        assert store.compact(grace_s=0).files_after == 1
        assert store.arrow(rows) == before
        assert store.connection.execute(settings).fetchall() == limits
