"""Old stores are read for ever: counts, values, exact spans and replays of each version's corpus."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from otel_replay import open_store, replay
from otel_replay.errors import Diverged
from otel_replay.store import Store
from otel_replay.store.rows import from_row
from otel_replay.wire.json import json_line, loads, spans_from_json

from . import agent as agent_v1
from .make import digests

SERVED = {"values": len(agent_v1.VALUES), "errors": 3, "streams": 2, "nested": 4, "by-otlp": 3}
"""How many crossings a replay of each run meets; those within a served one are not entered."""
VERSIONS = {"v1": agent_v1}
HERE = Path(__file__).parent
EACH = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def store(version: str, tmp_path: Path) -> Store:
    """A copy: reading takes in the journal that was left."""
    shutil.copytree(HERE / version / "store", tmp_path / "store")
    return open_store(tmp_path / "store")


@EACH
def test_it_was_never_made_again(version: str) -> None:
    assert digests(HERE / version) == (HERE / version / "SHA256").read_text()


@EACH
def test_it_is_whole(store: Store) -> None:
    assert store.runs() != []
    assert store.problems == ()
    verified = store.verify()
    assert verified.problems == ()
    assert verified.envelopes > 50
    assert all(run.complete for run in store.runs())


@EACH
def test_sql_answers_what_it_answered_on_the_day(version: str, store: Store) -> None:
    answers = json.loads((HERE / version / "answers.json").read_text())
    for question, answer in answers.items():
        assert json.loads(json.dumps(store.arrow(question).to_pylist())) == answer, question


@EACH
def test_spans_are_given_back_exactly(version: str, store: Store) -> None:
    expected = (HERE / version / "foreign.otlp.jsonl").read_bytes()
    found = _spans(store, "a" * 32)
    assert json_line(found) == expected
    assert json_line(spans_from_json(loads(expected), lenient=False)) == expected


@EACH
@pytest.mark.parametrize("name", SERVED)
def test_each_run_is_replayed(version: str, store: Store, name: str) -> None:
    agent = VERSIONS[version].AGENTS["errors" if name == "by-otlp" else name]
    live = agent()
    with replay(name, store=store.root) as session:
        served: Any = agent()
        session.answer(served)
    assert _typed(served) == _typed(live)
    assert (session.report.verdict, session.report.count("served")) == ("passed", SERVED[name])


@EACH
def test_compaction_and_a_new_run_beside_it_change_no_answer(version: str, store: Store) -> None:
    answers = json.loads((HERE / version / "answers.json").read_text())
    store.compact(grace_s=0)
    again = open_store(store.root)
    for question, answer in answers.items():
        assert json.loads(json.dumps(again.arrow(question).to_pylist())) == answer, question


@EACH
def test_a_replay_of_something_else_is_refused(version: str, store: Store) -> None:
    with pytest.raises(Diverged):
        with replay("errors", store=store.root):
            VERSIONS[version].value(0)


def _spans(store: Store, trace_id: str) -> list[Any]:
    store.refresh()
    text = "SELECT * FROM stored WHERE trace_id = ? AND difference IS NULL ORDER BY start_ns"
    return [from_row(row) for row in store.connection.sql(text, params=[trace_id]).to_arrow_table().to_pylist()]


def _typed(value: object) -> object:
    """Return `value` with the type of each part beside it: 1, True and 1.0 are equal, and not one another."""
    if isinstance(value, dict):
        return type(value), [(_typed(key), _typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [_typed(item) for item in value]
    return type(value), repr(value) if isinstance(value, float) else value
