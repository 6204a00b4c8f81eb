"""Chronicle's local traces, replayed under the agent with our `@boundary` in the place of theirs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from otel_replay import Diverged, boundary, replay
from otel_replay.errors import ImportFault, IncompleteRecording, Unservable
from otel_replay.importers import open_source
from otel_replay.sources import load

DATA = Path(__file__).parent / "data"
FILES = ["chronicle_03", "chronicle_04", "chronicle_05"]
ran: list[str] = []


def live(name: str) -> Any:
    ran.append(name)
    raise AssertionError(f"{name} ran")


@boundary("agent", kind="model")
def agent(messages: list[Any]) -> Any:
    return live("agent")


@boundary("place_order", kind="tool", side_effects=True)
def place_order(symbol: str, qty: int, note: str = "n") -> Any:
    return live("place_order")


@boundary("note", kind="tool")
def note(text: str) -> Any:
    return live("note")


@boundary("route", kind="router")
def route(state: Any) -> Any:
    return live("route")


@boundary("quote", kind="tool")
def quote(symbol: str) -> Any:
    return live("quote")


def program(qty: int = 0) -> list[Any]:
    messages = [{"role": "user", "content": "Buy ACME for 5,000 dollars."}]
    asked = agent(messages)
    (call,) = asked["tool_calls"]
    told = [place_order(**{**call["arguments"], **({"qty": qty} if qty else {})}), note(text="filled")]
    told.append(route({"step": 1}))
    with pytest.raises(KeyError) as raised:
        quote("NONE")
    told.append(raised.value.args)
    messages.append({"role": "tool", "content": told[1]})
    return [*told, agent(messages)["completion"]]


TOLD = [{"blocked": False, "symbol": "ACME", "filled": 5000}, "kept", "done", ("no such symbol",), "Done."]


@pytest.mark.parametrize("name", FILES)
def test_a_local_trace_is_replayed_by_the_agent_with_our_boundaries(name: str) -> None:
    ran.clear()
    with replay(DATA / f"{name}.jsonl") as session:
        assert program() == TOLD
    assert ran == []
    assert session.recording.run.name == name
    assert any("not compared: note" in line.note for line in session.report.lines)  # a default was not recorded


@pytest.mark.parametrize("name", FILES)
def test_another_argument_than_the_recorded_one_is_refused(name: str) -> None:
    with pytest.raises(Diverged, match="5000.*50"), replay(DATA / f"{name}.jsonl"):
        program(qty=50)


@pytest.mark.parametrize("name", FILES)
def test_grades_pins_and_losses_are_said(name: str) -> None:
    recording = load(DATA / f"{name}.jsonl")
    assert [(e.address, e.kind, e.grade) for e in recording.envelopes] == [
        ("agent[1]", "model", "semantic"),
        ("place_order[1]", "tool", "semantic"),
        ("note[1]", "tool", "semantic"),
        ("route[1]", "router", "semantic"),
        ("quote[1]", "tool", "semantic"),
        ("agent[2]", "model", "semantic"),
    ]
    assert recording.complete
    first, failed = recording.envelopes[0], recording.envelopes[4]
    assert (first.pins["model.asked"], first.pins["usage"]) == ("m-1", {"input": 21, "output": 9})
    assert "only completion, tool_calls and finish_reason are in the record" in " ".join(first.notes)
    assert "module and arguments are not in the record" in " ".join(failed.notes)


def envelope(value: Any, kind: str = "tool", arguments: Any = None, **more: Any) -> bytes:
    return json.dumps({
        "schema_version": "2.0", "envelope_id": "00000000000000a1", "trace_id": "1" * 32, "name": "it", "kind": kind,
        "parent_envelope_id": None, "sequence": 1, "start_time": "2026-03-02T10:00:00Z", "status": {"code": "UNSET"},
        "end_time": "2026-03-02T10:00:01Z", "input": {"arguments": arguments or {}, "messages": []},
        "output": {"value": value, "llm": None}, "attributes": {}, **more,
    }).encode()  # fmt: skip


def read(tmp_path: Path, data: bytes) -> Any:
    (tmp_path / "one.json").write_bytes(data)
    return load(tmp_path / "one.json")


@pytest.mark.parametrize("value", ["[1, 2]", "(1, 2)", "{'a'}", "<Order 7>", "Order(id=7)", "b.Order(\n id=7)"])
def test_a_text_that_may_have_been_something_else_is_not_served(tmp_path: Path, value: str) -> None:
    (found,) = read(tmp_path, envelope(value)).envelopes
    assert found.grade == "insufficient"
    assert "kept only str() of what was returned" in found.outcome.lost_reason
    with pytest.raises(IncompleteRecording, match=r"kept only str\(\)"), replay(tmp_path / "one.json"):
        pass

    @boundary("it", kind="tool")
    def it() -> Any:
        return live("it")

    with pytest.raises(Unservable), replay(tmp_path / "one.json", allow_incomplete=True):
        it()


@pytest.mark.parametrize("value", ["plain", "", "5", "None", 5, 0.5, True, None, {"a": [1]}, "f(x) is (odd"])
def test_plain_values_are_served_as_they_are(tmp_path: Path, value: Any) -> None:
    read(tmp_path, envelope(value))

    @boundary("it", kind="tool")
    def it(limit: int = 3) -> Any:
        return live("it")

    with replay(tmp_path / "one.json"):
        got = it()
    assert (type(got), got) == (type(value), value)


def test_old_traces_kept_numbers_as_text_too(tmp_path: Path) -> None:
    line = json.loads((DATA / "chronicle_04.jsonl").read_text().splitlines()[2])
    for text, grade in (
        ("5", "insufficient"),
        ("None", "insufficient"),
        ("true", "insufficient"),
        ("5 of", "semantic"),
    ):
        line["action_result"]["completion"] = text
        (found,) = read(tmp_path, json.dumps(line).encode()).envelopes
        assert found.grade == grade


def test_an_argument_that_was_an_object_is_not_compared_and_named(tmp_path: Path) -> None:
    given = {"client": "<agent.Client object at 0x7f00aa>", "symbol": "ACME"}
    (found,) = read(tmp_path, envelope({"ok": 1}, arguments=given)).envelopes
    assert found.request.tree() == {"symbol": "ACME"}
    assert "only their repr is in the record: client" in " ".join(found.notes)


def test_a_client_that_chronicle_wrapped_is_the_sdks_call(tmp_path: Path) -> None:
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}  # fmt: skip
    asked = {"model": "m-1", "messages": [{"role": "user", "content": "x"}]}
    (found,) = read(tmp_path, envelope(answer, kind="llm", arguments=asked)).envelopes
    assert (found.boundary, found.request.tree(), found.outcome.value.tree()) == (
        "openai.chat.completions", asked, answer)  # fmt: skip


def test_nesting_and_several_traces_in_one_file(tmp_path: Path) -> None:
    outer = envelope({"a": 1}, name="outer", envelope_id="00000000000000b1")
    inner = envelope({"a": 2}, name="inner", parent_envelope_id="00000000000000b1", start_time="2026-03-02T10:00:00.5Z")
    other = envelope({"a": 3}, name="other", trace_id="2" * 32)
    result = open_source(b"\n".join([inner, outer, other]))
    names = {(span.name, span.trace_id[:1]) for span in result.spans if not span.parent_span_id}
    assert names == {("<bytes> 11111111", "1"), ("<bytes> 22222222", "2")}
    (tmp_path / "two.jsonl").write_bytes(inner + b"\n" + outer)
    assert [e.address for e in load(tmp_path / "two.jsonl").envelopes] == ["outer[1]", "outer[1]/inner[1]"]


def sqlite_store(path: Path, rows: list[str], schema: str = "") -> Path:
    with sqlite3.connect(path) as opened:
        opened.execute(
            schema or "CREATE TABLE envelopes (envelope_id TEXT, trace_id TEXT, sequence INTEGER, data TEXT)"
        )
        opened.executemany("INSERT INTO envelopes VALUES ('e', 't', ?, ?)", list(enumerate(rows))) if rows else None
    opened.close()
    return path


def test_its_sqlite_store_is_read_too(tmp_path: Path) -> None:
    lines = (DATA / "chronicle_05.jsonl").read_text().splitlines()
    store = sqlite_store(tmp_path / "runs.db", [*lines, "not JSON"])
    before = store.read_bytes()
    with replay(store):
        assert program() == TOLD
    (problem,) = [p for p in _read_all(store).problems if p.kind == "skipped"]
    assert (problem.what, problem.count) == ("a row that is not JSON", 1)
    assert store.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.db"]


def _read_all(path: Path) -> Any:
    result = open_source(path)
    assert result.spans
    return result


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE other (a TEXT)",
        "CREATE TABLE envelopes (a TEXT)",
        "CREATE VIEW envelopes AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        "SELECT n AS envelope_id, n AS trace_id, n AS sequence, n AS data FROM c",
        "CREATE VIRTUAL TABLE envelopes USING fts5(envelope_id, trace_id, sequence, data)",
    ],
)
def test_any_other_database_is_refused(tmp_path: Path, schema: str) -> None:
    store = sqlite_store(tmp_path / "x.db", [], schema)
    with pytest.raises(ImportFault, match="SQLite"):
        _ = open_source(store).spans


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "x.db", ["{}"])
    store.write_bytes(store.read_bytes()[:100] + b"\xff" * 4000)
    with pytest.raises(ImportFault, match="SQLite"):
        _ = open_source(store).spans
