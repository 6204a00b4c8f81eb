"""Imports larger than memory should be: traces stay whole, nothing is lost, what is named stays bounded."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from otel_replay import open_store
from otel_replay.importers import by_trace
from otel_replay.importers.by_trace import ByTrace
from otel_replay.importing import Imported, as_dict, import_source
from otel_replay.span import Span

FILLER = "x" * 2_000


def line(number: int, *, trace: str = "", filler: str = FILLER) -> str:
    """Return one line: a trace of an agent with one model call, as the Collector's file exporter writes it."""
    trace_id = trace or f"{number + 1:032x}"
    told = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    for key, text in (("input", f"q{number} {filler}"), ("output", "a")):
        told[f"gen_ai.{key}.messages"] = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])

    def span(at: int, parent: str, name: str, attributes: dict[str, str]) -> dict[str, Any]:
        start = 1_790_000_000_000_000_000 + number * 1_000 + at
        return {"traceId": trace_id, "spanId": f"{number * 10 + at + 1:016x}", "parentSpanId": parent, "name": name,
                "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 1),
                "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]}  # fmt: skip

    root = f"{number * 10 + 1:016x}"
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"agent {number}"}
    spans = [span(0, "", "invoke_agent", agent), span(1, root, "chat m", told)]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a small file passes."""
    monkeypatch.setattr(by_trace, "HELD_SPANS_MAX", 20)
    monkeypatch.setattr(by_trace, "_BATCH_BYTES", 3_000)


def imported(tmp_path: Path, text: str, name: str = "one") -> tuple[Imported, dict[str, Any]]:
    file = tmp_path / f"{name}.jsonl"
    file.write_text(text)
    with open_store(tmp_path / name, create=True) as store:
        found = import_source(str(file), store)
        rows = store.sql("SELECT trace_id, span_id, name, request, response FROM spans ORDER BY ALL").fetchall()
        runs = store.sql("SELECT run_id, name, complete, crossings FROM runs ORDER BY ALL").fetchall()
        return found, {"rows": rows, "runs": runs}


def test_by_files_and_in_memory_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(line(number, filler="") for number in range(60))
    whole, kept_whole = imported(tmp_path, text, "whole")
    monkeypatch.setattr(by_trace, "HELD_SPANS_MAX", 20)
    parts, kept_parts = imported(tmp_path, text, "parts")
    assert kept_parts == kept_whole
    assert (parts.spans, parts.runs_found, parts.crossings) == (whole.spans, 60, 60)
    assert [run.run.name for run in parts.runs] == [run.run.name for run in whole.runs]
    assert parts.runs[0].envelopes[0].request.text == "null"  # the account names runs, it does not hold them


@pytest.mark.usefixtures("small")
def test_copies_halved_ids_and_orphans_are_mended_in_any_group(tmp_path: Path) -> None:
    lines = [line(number, trace=f"{'a' * 16}{number + 1:016x}", filler="") for number in range(40)]
    cut = json.loads(lines[7])
    spans = cut["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for span in spans:
        span["traceId"] = span["traceId"][16:].rjust(32, "0")  # a hop kept the low half only
    orphan = json.loads(line(90, filler=""))
    orphan["resourceSpans"][0]["scopeSpans"][0]["spans"].pop(0)
    text = "".join([*lines, json.dumps(cut) + "\n", lines[3], json.dumps(orphan) + "\n"])
    found, kept = imported(tmp_path, text)
    assert len(kept["rows"]) == 2 * 40 + 1 + 1  # the orphan's run has a span of our own making
    notes = " ".join(found.account.notes)
    assert "joined 64-bit trace id" in notes
    assert "equal copies of spans collapsed" in notes
    assert "root missing" in notes


@pytest.mark.usefixtures("small")
def test_a_bad_span_is_skipped_counted_and_named_and_notes_stay_few(tmp_path: Path) -> None:
    bad = json.loads(line(99, filler=""))
    bad["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["startTimeUnixNano"] = "soon"
    lines = [line(number, filler="") for number in range(40)]
    lines[11:11] = [json.dumps(bad) + "\n", "{not json\n"]
    found, kept = imported(tmp_path, "".join(lines))
    assert found.runs_found == 41
    assert [(p.kind, p.count) for p in found.account.problems if p.kind == "skipped"] == [("skipped", 1)] * 2
    assert "line 12" in " ".join(str(problem) for problem in found.account.problems)
    assert len(kept["rows"]) == 82  # the run of the bad span is an agent alone, and has a span of our own making
    assert as_dict(found)["runs_found"] == 41


def test_one_trace_too_large_for_memory_is_kept_as_spans_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_trace, "HELD_SPANS_MAX", 20)
    monkeypatch.setattr(by_trace, "GROUP_BYTES_MAX", 20_000)
    huge = "".join(line(number, trace="f" * 32) for number in range(30))
    others = "".join(line(number) for number in range(30, 45))
    found, kept = imported(tmp_path, huge + others)
    assert found.runs_found == 15
    assert len(kept["rows"]) == 90
    (problem,) = [p for p in found.account.problems if "too large for memory" in p.what]
    assert problem.where == ["f" * 32]


def test_memory_is_bounded_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many spans take no more memory: 6 MB and 24 MB of texts."""
    monkeypatch.setattr(by_trace, "HELD_SPANS_MAX", 500)

    def peak(count: int) -> int:
        tracemalloc.start()
        with ByTrace() as spool:
            for number in range(count):
                text = f"{number} {FILLER * 3}"
                spool.add(Span(f"{number // 4:032x}", f"{number:016x}", "s", 1, 2, attributes=(("k", text),)))
            total = sum(len(spans) for spans, _ in spool.groups())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == count
        return found

    few, many = peak(1_000), peak(4_000)
    assert many < few * 1.5


def test_groups_hold_whole_traces_and_give_back_every_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_trace, "HELD_SPANS_MAX", 10)
    spans = [Span(f"{number % 7:032x}", f"{number:016x}", "s", number, number + 1, attributes=(
        ("text", "\ud800 lone"), ("none", None), ("nan", -0.0), ("bytes", b"\xff"), ("list", (1, "a", None))))
        for number in range(50)]  # fmt: skip
    with ByTrace() as spool:
        for span in spans:
            spool.add(span)
        assert spool.spilled
        groups = list(spool.groups())
    assert sorted((s for group, _ in groups for s in group), key=lambda s: s.span_id) == spans
    assert all(whole for _, whole in groups)
    seen = [{span.trace_id for span in group} for group, _ in groups]
    assert sum(map(len, seen)) == 7
