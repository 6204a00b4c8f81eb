"""Troubles that other stores had with Parquet and DuckDB, each with files of our own like those that caused them."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_replay import codec
from otel_replay.envelope import Outcome, Payload
from otel_replay.span import KeyValues, Span
from otel_replay.store import Store, open_store

from .making import START, crossing, make_run, run_spans, write_journal
from .test_store import ask

SHARED = Path(__file__).parents[3] / "shared" / "cases"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "store", create=True)
    store.write(run_spans(*make_run()))
    return store


def model_call(number: int, *attributes: tuple[str, object], **changes: object) -> Span:
    span = Span("f" * 32, f"{number:016x}", "chat gpt-4o", START + number, START + number + 9, kind=3)
    base = (("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "gpt-4o"))
    return replace(span, attributes=(*base, *attributes), **changes)  # type: ignore[arg-type]


# A killed writer leaves half a Parquet file ----------------------------------------------------------------


def _torn(path: Path, whole: bytes) -> None:
    path.write_bytes(whole[: len(whole) // 2])


def _empty(path: Path, _: bytes) -> None:
    path.write_bytes(b"")


def _foreign(path: Path, _: bytes) -> None:
    pq.write_table(pa.table({"trace_id": ["x"], "start_ns": [1]}), path)


def _text(path: Path, _: bytes) -> None:
    path.write_text("PAR1 this is no Parquet PAR1")


def _shared_cut(path: Path, _: bytes) -> None:
    found = sorted((SHARED / "pq01").glob("*.parquet"), key=lambda file: file.stat().st_size)
    for number, file in enumerate(found):
        shutil.copy(file, path.with_name(f"{path.stem}{number}.parquet"))


def _marked_as_ours(path: Path, whole: bytes, column: str, values: Any) -> None:
    table = pq.read_table(pa.BufferReader(whole))
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, values(table.num_rows)), path)


def _texts_for_numbers(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "seq", lambda rows: pa.array(["x"] * rows))


def _lists_for_texts(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "run_id", lambda rows: pa.array([["x"]] * rows))


def _numbers_for_texts(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "attributes", lambda rows: pa.array([1] * rows))


def _nulls_for_ids(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "trace_id", lambda rows: pa.nulls(rows, pa.string()))


def _nulls_for_times(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "start_ns", lambda rows: pa.array([1] + [None] * (rows - 1), pa.int64()))


def _no_type_for_times(path: Path, whole: bytes) -> None:
    _marked_as_ours(path, whole, "start_ns", pa.nulls)


def _a_column_missing(path: Path, whole: bytes) -> None:
    pq.write_table(pq.read_table(pa.BufferReader(whole)).drop_columns(["span_id"]), path)


OF_ANOTHER_FORM = [
    _texts_for_numbers,
    _lists_for_texts,
    _numbers_for_texts,
    _nulls_for_ids,
    _nulls_for_times,
    _no_type_for_times,
    _a_column_missing,
]
BAD = [_torn, _empty, _foreign, _text, *OF_ANOTHER_FORM, *([_shared_cut] if (SHARED / "pq01").is_dir() else [])]


@pytest.mark.parametrize("spoil", BAD)
def test_a_bad_file_is_named_and_stepped_over(store: Store, spoil) -> None:  # type: ignore[no-untyped-def]
    (good,) = store.folder.paths()
    spoil(good.with_name("00bad.parquet"), good.read_bytes())
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    assert reader.problems
    assert all("00bad" in problem for problem in reader.problems)
    assert not reader.verify().sound
    reader.compact()
    assert reader.recording(make_run()[0].run_id).complete


@pytest.mark.parametrize("what", ["pipe", "link in a circle", "folder"])
def test_what_is_no_file_holds_nobody_up(store: Store, what: str) -> None:
    (good,) = store.folder.paths()
    bad = good.with_name("00bad.parquet")
    if what == "pipe":
        os.mkfifo(bad)
    elif what == "folder":
        bad.mkdir()
    else:
        bad.symlink_to(bad.name)
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    reader.compact()
    assert reader.recording(make_run()[0].run_id).complete


def test_damaged_pages_behind_a_whole_footer_are_stepped_over(store: Store) -> None:
    second, envelopes = make_run(2, crossings=200)
    store.write(run_spans(second, envelopes))
    bad = max(store.folder.paths(), key=lambda path: path.stat().st_size)
    data = bytearray(bad.read_bytes())
    data[200:-20_000] = bytes(len(data) - 20_200) if len(data) > 20_200 else b""
    data[100 : len(data) // 3] = b"\xff" * (len(data) // 3 - 100)
    bad.write_bytes(bytes(data))
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM (SELECT DISTINCT address, request, name FROM spans)")[0][0] == 4
    assert any(bad.name in problem for problem in reader.problems)


def test_a_store_that_cannot_be_written_is_read_with_its_journals(store: Store) -> None:
    run, envelopes = make_run(2, start_ns=START + 10_000_000)
    path = write_journal(store.root, run, envelopes)
    (store.root / "lock").unlink()
    (store.root / "lock").mkdir()  # what opening it for writing fails on, for root too
    reader = open_store(store.root)
    assert reader.recording(run.run_id).complete
    assert path.exists()
    assert any("can't be written" in problem for problem in reader.problems)


# Nanoseconds and time zones ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_nanoseconds_are_the_same_in_every_time_zone(store: Store, zone: str) -> None:
    first, second = model_call(1), model_call(2, start_ns=START + 2)
    store.write([second, first])
    store.refresh()
    store.connection.execute(f"SET TimeZone = '{zone}'")
    rows = ask(
        store, "SELECT span_id, start_ns, start_time::VARCHAR FROM spans WHERE trace_id LIKE 'fff%' ORDER BY start_time"
    )
    assert rows == [
        (first.span_id, START + 1, "2025-06-15 15:06:40.000000001"),
        (second.span_id, START + 2, "2025-06-15 15:06:40.000000002"),
    ]
    store.compact()
    assert ask(store, "SELECT start_ns FROM spans WHERE trace_id LIKE 'fff%' ORDER BY start_ns") == [
        (START + 1,),
        (START + 2,),
    ]


def test_absurd_times_break_no_view(store: Store) -> None:
    store.write([model_call(1, start_ns=0, end_ns=2**64 - 1), model_call(2, start_ns=2**63 - 1, end_ns=0)])
    for view in ("spans", "model_calls", "runs"):
        assert store.arrow(f"SELECT * FROM {view}").num_rows > 0


# Attribute maps: double keys and dots --------------------------------------------------------------------------


def test_a_key_that_stands_twice_never_breaks_sql(store: Store) -> None:
    span = model_call(1, ("gen_ai.request.model", "b"), ("k", 1), ("k", 2))
    store.write([span])
    assert ask(store, "SELECT attr(attributes, 'gen_ai.request.model'), attr(attributes, 'k') FROM model_calls") == [
        ("b", "2")
    ]


@pytest.mark.parametrize("key", ["a.b", 'quo"te', "sp ace", "$", "back\\slash", "gen_ai.usage.input_tokens", "ä"])
def test_attr_finds_any_key(store: Store, key: str) -> None:
    store.write([model_call(1, (key, "found"))])
    assert store.arrow("SELECT attr(attributes, ?) AS v FROM model_calls", [key]).column("v").to_pylist() == ["found"]


def test_attr_of_what_is_not_there_is_null(store: Store) -> None:
    assert ask(store, "SELECT attr(NULL, 'x'), attr('{}', 'x'), attr('no json', 'x'), attr('{}', '')") == [(None,) * 4]


# One bad JSON text breaks SQL over the table -----------------------------------------------------------------


@pytest.mark.parametrize("text", ['[{"role":"user","content":"cut \\ud83d end"}]', "no json [", "", "[1,", '{"a":1}'])
def test_one_bad_text_breaks_no_view(store: Store, text: str) -> None:
    good = '[{"role":"user","parts":[{"type":"text","content":"hello "},{"type":"text","content":"you"}]}]'
    bad = model_call(1, ("gen_ai.input.messages", text), ("gen_ai.output.messages", text))
    store.write([bad, model_call(2, ("gen_ai.input.messages", good))])
    for view in ("spans", "crossings", "runs", "model_calls", "tool_calls", "messages", "duplicates"):
        store.arrow(f"SELECT * FROM {view}")
    assert ask(store, "SELECT role, content FROM messages WHERE span_id LIKE '%2'") == [("user", "hello you")]
    assert ask(store, "SELECT request FROM model_calls ORDER BY start_ns") == [(text,), (good,)]


def test_a_lone_surrogate_is_stored_marked_and_given_back(store: Store) -> None:
    run, envelopes = make_run(2)
    cut = Span(run.trace_id, "a" * 16, "cut \ud83d", run.start_ns, run.end_ns, attributes=(("k", "\ud83d"),))
    store.write([*run_spans(run, envelopes), cut])
    assert cut in store.spans(run.run_id)
    assert ask(store, "SELECT name FROM spans WHERE span_id = 'aaaaaaaaaaaaaaaa'") == [("cut ���",)]


# What people ask ---------------------------------------------------------------------------------------------


def test_model_calls_of_ours_and_of_others(store: Store) -> None:
    run, _ = make_run(5)
    ours = crossing(
        run,
        1,
        address="chat[1]",
        boundary="chat",
        kind="model",
        request=Payload("json", '{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'),
        outcome=Outcome(
            "returned",
            Payload(
                "json",
                '{"model":"gpt-4o-1","usage":{"prompt_tokens":3,"completion_tokens":4},'
                '"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}',
            ),
        ),
    )
    write_journal(store.root, replace(run, crossings=1), [ours])
    structured = (KeyValues((("role", "user"), ("content", "yo"))),)
    store.write(
        [
            model_call(1, ("gen_ai.input.messages", structured), ("gen_ai.usage.input_tokens", 7)),
            model_call(2, ("gen_ai.input.messages", '[{"role":"user","content":"' + "x" * 5000 + '"}]')),
        ]
    )
    assert ask(
        store, "SELECT model, response_model, input_tokens, output_tokens FROM model_calls WHERE run_id IS NOT NULL"
    ) == [("gpt-4o", "gpt-4o-1", 3, 4)]
    assert ask(store, "SELECT direction, role, content FROM messages WHERE run_id IS NOT NULL ORDER BY 1") == [
        ("input", "user", "hi"),
        ("output", "assistant", "hello"),
    ]
    assert ask(store, "SELECT len(content) FROM messages WHERE run_id IS NULL ORDER BY start_ns") == [(2,), (5000,)]
    assert ask(store, "SELECT sum(input_tokens) FROM model_calls") == [(10,)]
    assert store.find_run(run.run_id).input_tokens == 3


def test_tool_calls(store: Store) -> None:
    tool = replace(
        model_call(9),
        attributes=(
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "refund"),
            ("gen_ai.tool.call.arguments", '{"id":42}'),
            ("gen_ai.tool.call.result", "ok"),
        ),
    )
    store.write([tool])
    assert ask(store, "SELECT tool, arguments, result FROM tool_calls WHERE run_id IS NULL") == [
        ("refund", '{"id":42}', "ok")
    ]
    assert ask(
        store, "SELECT tool, arguments, result FROM tool_calls WHERE run_id IS NOT NULL ORDER BY seq LIMIT 1"
    ) == [("search", '{"q":1}', '{"r":"é1"}')]


ANSWERS = {
    "openai as JSON": '{"choices":[{"message":{"role":"assistant","content":"hello"}}]}',
    "openai as an object": '{"$":"model","t":"m:C","v":{"choices":[{"$":"model","t":"m:D","v":{"message":'
    '{"$":"model","t":"m:E","v":{"role":"assistant","content":"hello"}}}}]}}',
    "anthropic as JSON": '{"type":"message","role":"assistant","content":[{"type":"text","text":"hello"}]}',
    "anthropic as an object": '{"$":"model","t":"m:M","v":{"type":"message","role":"assistant","content":'
    '[{"$":"model","t":"m:T","v":{"type":"text","text":"hello"}}]}}',
}


@pytest.mark.parametrize("form", ANSWERS)
@pytest.mark.parametrize("road", ["journal", "otlp"])
def test_messages_of_whatever_a_vendors_sdk_returned(store: Store, form: str, road: str) -> None:
    run, _ = make_run(5)
    encoding = "typed-json" if "object" in form else "json"
    call = crossing(
        run,
        1,
        kind="model",
        request=Payload("json", '{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'),
        outcome=Outcome("returned", Payload(encoding, ANSWERS[form])),
    )
    if road == "journal":
        write_journal(store.root, replace(run, crossings=1), [call])
    else:
        store.write(run_spans(replace(run, crossings=1), [call]))
    assert ask(store, "SELECT direction, role, content FROM messages WHERE run_id IS NOT NULL ORDER BY 1") == [
        ("input", "user", "hi"),
        ("output", "assistant", "hello"),
    ]
    assert store.recording(run.run_id).envelopes == (call,)
    shown = next(span for span in store.spans(run.run_id) if span.span_id == call.span_id)
    assert shown == codec.to_span(call), "other tools are shown the readable messages"
