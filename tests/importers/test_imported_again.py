"""IM-09: a trace that was imported before it was whole, or that changed: neither version spoils the other."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

import pytest

from otel_replay import boundary, open_store, replay
from otel_replay.importing import Imported, import_source
from otel_replay.span import Span
from otel_replay.store import Store
from otel_replay.wire.json import json_line

from .genai._spans import span


def spans(*tools: str, ended: bool = True, result: str = "1") -> list[Span]:
    root = span("agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent"}, start=0)
    root = replace_fields(root, span_id="f" * 16)
    made = [root] if ended else []
    for at, tool in enumerate("abc", 1):
        if tool in tools:
            given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool,
                     "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": result}  # fmt: skip
            made.append(replace_fields(span(f"execute_tool {tool}", given, under=root, start=at), span_id=f"{at:016x}"))
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def bring(store: Store, tmp_path: Path, what: list[Span]) -> Imported:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(json_line(what))
    return import_source(str(file), store)


GROWN = spans("a", "b", "c")
LESS = {
    "a call short": spans("a", "c", ended=False),
    "without its root": spans("a", "b", "c", ended=False),
    "other results": spans("a", "b", "c", result="2"),
}


@pytest.mark.parametrize("less", LESS.values(), ids=LESS)
@pytest.mark.parametrize("less_first", [True, False])
def test_im_09_each_version_is_whole_in_itself(
    store: Store, tmp_path: Path, less: list[Span], less_first: bool
) -> None:
    versions = [less, GROWN] if less_first else [GROWN, less]
    brought = [bring(store, tmp_path, version).runs[0] for version in versions]
    ids = [run.run.run_id for run in brought]
    assert len(set(ids)) == 2
    assert any(f"as run {ids[0]}" in note for note in brought[1].run.notes)
    for run in brought:
        kept = store.recording(run.run.run_id)
        assert [(e.address, e.outcome.value) for e in kept.envelopes] == [
            (e.address, e.outcome.value) for e in run.envelopes
        ]
        assert (kept.problems, kept.complete) == (run.problems, run.complete)
    # Brought again, each is what is there already.
    for version, run_id in zip(versions, ids, strict=True):
        assert bring(store, tmp_path, version).runs[0].run.run_id == run_id
    assert sorted(row.run_id for row in store.runs()) == sorted(ids)
    assert store.sql("SELECT count(*) FROM duplicates").fetchall() == [(0,)]
    grown = ids[versions.index(GROWN)]

    def tool(name: str) -> Any:
        @boundary(name, kind="tool")
        def call() -> Any:
            raise AssertionError("live")

        return call()

    with replay(grown, store=store.root) as session:
        assert [tool(name) for name in "abc"] == ["1"] * 3
    assert session.report.verdict == "passed"
