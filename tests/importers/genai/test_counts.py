"""One call that several spans tell of counts once in the views of the store, imported or as the sink wrote it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_replay import open_store
from otel_replay.importing import import_source
from otel_replay.span import Span

from ._samples import OWN
from ._spans import span
from .test_resolve import mcp, tool
from .test_resolve import model as told_by

CASE = OWN / "cases" / "ot10_one_call_three_spans.otlp.json"


def model(scope: str, **where: Any) -> Span:
    made = told_by(scope, **where)
    return replace(made, attributes=(*made.attributes, ("llm.model_name", "gpt-4o")))


def counted(store: Any) -> tuple[int, int, int]:
    models = store.sql("SELECT count(*), coalesce(sum(input_tokens), 0) FROM model_calls").fetchall()[0]
    return int(models[0]), int(models[1]), int(store.sql("SELECT count(*) FROM tool_calls").fetchall()[0][0])


def test_three_spans_of_one_call_are_one_row(tmp_path: Path) -> None:
    with open_store(tmp_path, create=True) as store:
        found = import_source(str(CASE), store)
        (run,) = found.runs
        calls = [e for e in run.envelopes if e.kind == "model"]
        assert counted(store)[0] == len(calls)
        assert len(store.sql("SELECT * FROM spans").fetchall()) >= found.spans  # none was dropped for it
        assert store.sql("SELECT count(*) FROM spans WHERE kind = 'double'").fetchall() == [(2,)]


def nested() -> list[Span]:
    root = span("agent")
    outer = model("framework", under=root, start=1)
    inner = model("openai", under=outer, start=2)
    return [root, outer, inner, model("sdk", content=False, under=inner, start=3)]


def called() -> list[Span]:
    root = span("agent")
    outer = tool("framework", under=root, start=1)
    return [root, outer, mcp(under=outer, start=2), tool("framework", under=root, start=5)]


@pytest.mark.parametrize(
    ("spans", "models", "tools"),
    [
        (nested(), 1, 0),
        (called(), 0, 2),
        ([model("a", start=1), model("a", start=2)], 2, 0),
        ([outer := model("a", start=1), span("between", under=outer), tool("x", under=outer)], 1, 1),
        ([first := tool("a", name="plan"), tool("a", name="search", under=first)], 0, 2),
    ],
    ids=["nested models", "MCP under a tool", "siblings", "a tool under a model", "another tool inside"],
)
def test_as_the_sink_wrote_them(tmp_path: Path, spans: list[Span], models: int, tools: int) -> None:
    with open_store(tmp_path, create=True) as store:
        store.write(spans)
        assert (counted(store)[0], counted(store)[2]) == (models, tools)
