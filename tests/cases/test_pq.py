"""PQ-01, 02, 04, 06, 07, 09: what Parquet and DuckDB did to others, each with variations of its kind.

The first of each kind stand in tests/store/test_cases.py; the files of the reports are read where they are at hand.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_replay import open_store
from otel_replay.errors import StoreError
from otel_replay.span import Event, KeyValues, Span
from otel_replay.store import Store, schema
from otel_replay.store.rows import from_row
from tests.store.making import START, make_run, run_spans, write_journal
from tests.store.processes import finish
from tests.store.processes import start as start_process

SHARED = Path(__file__).parents[3] / "shared" / "cases"
VIEWS = ("spans", "crossings", "runs", "model_calls", "tool_calls", "messages", "duplicates", "forks")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(tmp_path / "store", create=True)
    made.write(run_spans(*make_run()))
    return made


def ask(store: Store, text: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = store.sql(text).fetchall()
    return found


def otel_replay(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "otel_replay", *words, "--store", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def a_call(number: int, *attributes: tuple[str, Any], **changes: Any) -> Span:
    span = Span("f" * 32, f"{number:016x}", "chat gpt-4o", START + number, START + number + 9, kind=3)
    return replace(span, attributes=(("gen_ai.operation.name", "chat"), *attributes), **changes)


# PQ-01 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 4, 7, 8, 12, 0.1, 0.5, 0.9, -9, -8, -4, -1])
def test_pq_01_a_file_cut_anywhere_hides_nothing_else(store: Store, kept: float) -> None:
    (good,) = store.folder.paths()
    whole = good.read_bytes()
    cut = whole[: int(len(whole) * kept)] if isinstance(kept, float) else whole[:kept]
    good.with_name("00cut.parquet").write_bytes(cut)
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    assert [("00cut.parquet" in problem) for problem in reader.problems] == [True]
    assert reader.recording(make_run()[0].run_id).complete
    assert not reader.verify().sound


@pytest.mark.parametrize("at", [-5, -8, -12, -40, -200, -1_000])
def test_pq_01_a_footer_with_a_changed_byte_hides_nothing_else(store: Store, at: int) -> None:
    (good,) = store.folder.paths()
    data = bytearray(good.read_bytes())
    data[at] ^= 0x55
    good.with_name("00bent.parquet").write_bytes(bytes(data))
    reader = open_store(store.root)
    for view in VIEWS:
        reader.arrow(f"SELECT * FROM {view}")
    assert ask(reader, "SELECT count(DISTINCT address) FROM crossings") == [(3,)]


def test_pq_01_a_folder_that_bears_a_files_name(store: Store) -> None:
    (good,) = store.folder.paths()
    good.with_name("00folder.parquet").mkdir()
    assert ask(open_store(store.root), "SELECT count(*) FROM crossings") == [(3,)]


def test_pq_01_a_name_that_is_no_utf8_hides_nothing_else(store: Store, tmp_path: Path) -> None:
    (good,) = store.folder.paths()
    for name in (b"\xff.parquet", b"\xff.journal"):
        folder = good.parent if name.endswith(b"parquet") else store.folder.journal
        folder.mkdir(exist_ok=True)
        shutil.copyfile(good, folder / os.fsdecode(name))
    for words in ("runs", "store verify", "store info", "store compact", "sql 'SELECT 1'", "doctor"):
        done = otel_replay(store.root, *shlex.split(words))
        assert "Traceback" not in done.stderr, words
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    problems = "\n".join(reader.problems)
    assert "\\xff.parquet has a name that is not UTF-8, which no query can open: rename it" in problems
    assert "\\xff.journal has a name that is not UTF-8: rename it" in problems
    odd = tmp_path / os.fsdecode(b"\xfe")
    store.root.rename(odd)
    with pytest.raises(StoreError, match=r"\\xfe is not UTF-8"):
        open_store(odd).runs()


def test_pq_01_the_files_of_the_report(store: Store) -> None:
    (good,) = store.folder.paths()
    reported = sorted((SHARED / "pq01").glob("*.parquet"))
    for file in reported:
        shutil.copy(file, good.with_name(f"00{file.name}"))
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    assert len(reader.problems) == len(reported), "also the good one: no store wrote it"


def test_pq_01_damaged_files_are_set_aside_and_what_is_lost_is_said(store: Store) -> None:
    (good,) = store.folder.paths()
    good.with_name("00cut.parquet").write_bytes(good.read_bytes()[:-40])
    good.with_name("00empty.parquet").write_bytes(b"")
    later = pq.read_table(good, partitioning=None)
    theirs = {**(later.schema.metadata or {}), schema.VERSION_KEY: f"99{schema.NEEDS}99".encode()}
    pq.write_table(later.replace_schema_metadata(theirs), good.with_name("00later.parquet"))
    said = otel_replay(store.root, "store", "verify", "--set-aside")
    assert said.returncode == 1, "a later version's file is here, and this one can't read it"
    lines = [line for line in said.stdout.splitlines() if line.startswith("set aside: ")]
    assert ["00cut.parquet" in line for line in lines] == [True, False]
    assert all("is not known" in line for line in lines)
    assert sorted(path.name for path in good.parent.iterdir()) == ["00later.parquet", good.name]
    aside = store.root / "damaged" / good.parent.name
    assert sorted(path.name for path in aside.iterdir()) == ["00cut.parquet", "00empty.parquet"]
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    assert ["00later.parquet" in problem for problem in reader.problems] == [True]


def test_pq_01_of_a_file_with_damaged_pages_the_rest_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_replay.limits.ROW_GROUP_BYTES", 1)  # a row group for each row
    store.write(run_spans(*make_run(2, name="second", start_ns=START + 10_000_000)))
    _, second = store.folder.paths()
    with pq.ParquetFile(second) as file:
        assert file.num_row_groups == 4
        column = file.metadata.row_group(2).column(file.schema_arrow.names.index("span_id"))
        end = column.data_page_offset + column.total_compressed_size
        address = file.read_row_group(2).column("address").to_pylist()
    data = bytearray(second.read_bytes())
    data[end - 6 : end - 2] = b"\xff\xff\xff\xff"
    second.write_bytes(bytes(data))
    with open_store(store.root) as reader:
        (done,) = reader.set_aside()
        assert (done.rows_saved, done.rows_lost) == (3, 1)
        assert reader.set_aside() == []
        assert reader.verify().sound
        assert ask(reader, "SELECT count(*) FROM crossings") == [(5,)]
        run = reader.find_run("second")
        assert (run.state, run.crossings) == ("incomplete", 2)
        assert address[0] not in {envelope.address for envelope in reader.recording(run.run_id).envelopes}
    assert not second.exists()


# PQ-02 -------------------------------------------------------------------------------------------------------------


def _as_of_later(path: Path, extra: dict[str, pa.Array]) -> None:
    """Rewrite a file as a later version would have: with more columns, and more fields within them."""
    table = pq.read_table(path, partitioning=None)
    for name, column in extra.items():
        table = table.append_column(name, column)
    metadata = {**(table.schema.metadata or {}), b"otel_replay.store.schema": b"99"}
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize("older_first", [True, False])
def test_pq_02_a_struct_that_grew_loses_no_field_whichever_file_is_read_first(store: Store, older_first: bool) -> None:
    store.write(run_spans(*make_run(2, start_ns=START + 10_000_000)))
    first, second = store.folder.paths()
    small = pa.array([{"id": "s1", "model": "demo"}] * 4)
    grown = pa.array([{"id": "s2", "model": "demo", "tool_id": "t9", "deep": {"a": [1, 2]}}] * 4)
    _as_of_later(first, {"invented": small if older_first else grown})
    _as_of_later(second, {"invented": grown if older_first else small})
    reader = open_store(store.root)
    answer = ask(reader, "SELECT DISTINCT invented.tool_id, invented.deep.a FROM stored ORDER BY ALL NULLS LAST")
    assert answer == [("t9", [1, 2]), (None, None)]
    assert ask(reader, "SELECT count(*), bool_and(complete) FROM runs") == [(2, True)]


def test_pq_02_a_column_that_only_a_later_version_has_stands_beside_files_without_it(store: Store) -> None:
    store.write(run_spans(*make_run(2, start_ns=START + 10_000_000)))
    _as_of_later(store.folder.paths()[1], {"cost": pa.array([0.5, 0.25, None, 1.0])})
    assert ask(open_store(store.root), "SELECT count(*), sum(cost) FROM stored") == [(8, 1.75)]


def test_pq_02_columns_of_one_name_that_do_not_fit_together_are_named(store: Store) -> None:
    (first,) = store.folder.paths()
    table = pq.read_table(first)
    for name, values in (("one", [{"a": 1}]), ("two", [7])):
        other = table.append_column("new", pa.array(values * len(table)))
        pq.write_table(other, first.with_name(f"{name}.parquet"))
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(DISTINCT seq) FROM crossings") == [(3,)]
    reader.write([a_call(9)])
    done = otel_replay(store.root, "store", "compact")
    assert "stay apart" in done.stderr
    assert "column \"new\"" in done.stderr
    assert "Traceback" not in done.stderr


# PQ-04 -------------------------------------------------------------------------------------------------------------

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati")
SUMMER_ENDS = 1_793_512_800_000_000_000  # 2026-11-01 06:00 UTC, when New York turns its clocks back


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("base", [1, START, SUMMER_ENDS - 1, 2**62], ids=["1970", "2025", "change of time", "2116"])
def test_pq_04_a_nanosecond_counts_in_every_zone_and_after_every_rewrite(store: Store, zone: str, base: int) -> None:
    store.write([a_call(n, start_ns=base + n, end_ns=base + n) for n in (2, 0, 1)])
    for _ in range(2):
        store.refresh()
        store.connection.execute(f"SET TimeZone = '{zone}'")
        rows = ask(store, "SELECT start_ns, start_time::VARCHAR FROM spans WHERE run_id IS NULL ORDER BY start_time")
        assert [ns for ns, _ in rows] == [base, base + 1, base + 2]
        assert len({shown for _, shown in rows}) == 3
        parts = [str(shown).partition(".")[2].ljust(9, "0") for _, shown in rows]
        assert [int(part) for part in parts] == [(base + n) % 10**9 for n in range(3)]
        store.compact(grace_s=0)


def test_pq_04_a_copy_by_the_engine_keeps_them(store: Store, tmp_path: Path) -> None:
    store.write([a_call(1), a_call(2)])
    copy = tmp_path / "copy.parquet"
    store.sql("SELECT * FROM spans").write_parquet(str(copy))
    asked = "SELECT start_ns, start_time::VARCHAR FROM {} WHERE run_id IS NULL ORDER BY start_time"
    copied = duckdb.sql(asked.format(f"'{copy}'")).fetchall()
    assert copied == ask(store, asked.format("spans"))
    assert [ns for ns, _ in copied] == [START + 1, START + 2]


# PQ-06 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["span", "event", "nested", "resource"])
def test_pq_06_a_key_that_stands_twice_is_kept_wherever_it_stands(store: Store, where: str) -> None:
    twice = (("k", 1), ("a.b", "x"), ("k", "two"))
    span = a_call(1)
    if where == "span":
        span = a_call(1, *twice)
    elif where == "event":
        span = a_call(1, events=(Event(START, "e", twice),))
    elif where == "nested":
        span = a_call(1, ("outer", KeyValues(twice)))
    else:
        span = a_call(1, resource=replace(span.resource, attributes=twice))
    store.write([span])
    for view in VIEWS:
        store.arrow(f"SELECT * FROM {view}")
    for store_again in (store, open_store(store.root)):
        store_again.compact(grace_s=0)
        store_again.refresh()
        table = store_again.connection.sql("SELECT * FROM stored WHERE run_id IS NULL").to_arrow_table()
        assert [from_row(row) for row in table.to_pylist()] == [span]


@pytest.mark.parametrize("key", ["gen_ai.request.model", "a.b.c", "a[0]", "$.x", "*", "'", '"', "%", "к", "a b", "\t"])
def test_pq_06_attr_takes_any_key_as_it_is(store: Store, key: str) -> None:
    store.write([a_call(1, (key, "found"), ("other", "wrong"))])
    found = store.arrow("SELECT attr(attributes, ?) AS v FROM spans WHERE run_id IS NULL", [key])
    assert found.column("v").to_pylist() == ["found"]


# PQ-07 -------------------------------------------------------------------------------------------------------------


def test_pq_07_commands_answer_while_a_writer_writes_and_a_notebook_reads(store: Store) -> None:
    """A writer in its own process, a reader that keeps its connection, and the command line, all at once."""
    notebook = open_store(store.root)
    held = notebook.sql("SELECT count(*) FROM crossings")
    writer = start_process("write-runs", store.root, 10, 22)
    answers = []
    for words in (["runs"], ["sql", "SELECT count(*) FROM runs"], ["store", "info"]):
        command = [sys.executable, "-m", "otel_replay", *words, "--store", str(store.root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        answers.append((done.returncode, "lock" in done.stderr.lower()))
    finish(writer)
    assert answers == [(0, False)] * 3
    assert held.fetchall()[0][0] >= 3
    assert ask(notebook, "SELECT count(*) FROM runs") == [(13,)]
    assert list(store.root.glob("*.duckdb*")) == []


def test_pq_07_two_readers_seal_nothing_twice(store: Store) -> None:
    for number in range(2, 8):
        write_journal(store.root, *make_run(number, start_ns=START + number * 10_000_000))
    readers = [start_process("count", store.root, 1) for _ in range(2)]
    for reader in readers:
        finish(reader)
    assert ask(store, "SELECT count(*), count(DISTINCT run_id) FROM stored") == [(28, 7)]


# PQ-09 -------------------------------------------------------------------------------------------------------------

BAD_TEXTS: list[str] = [
    '{"text": "cut \\ud83d end"}', '{"text": "\\udfff"}', "[1,", "{", "nul", "NaN", '{"a": Infinity}', "{'a': 1}",
    '{"a": 1}}', "\x00", '"', "[" * 600, '{"a":' * 600, "1e999", '{"a": 1, "a": 2}', "\ufeff{}", " ",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS, ids=range(len(BAD_TEXTS)))
@pytest.mark.parametrize("key", ["gen_ai.input.messages", "gen_ai.tool.call.arguments", "otel_replay.envelope", "free"])
def test_pq_09_one_bad_text_breaks_no_query(store: Store, text: str, key: str) -> None:
    bad, good = a_call(1, (key, text)), a_call(2, ("gen_ai.request.model", "gpt-4o"))
    store.write([bad, good])
    for view in VIEWS:
        store.arrow(f"SELECT * FROM {view}")
    for column in ("attributes", "resource"):
        texts = store.arrow(f"SELECT {column} FROM stored WHERE {column} IS NOT NULL").column(0).to_pylist()
        assert store.arrow(f"SELECT {column}::JSON FROM stored").num_rows >= len(texts)
    asked = "SELECT attr(attributes, 'gen_ai.request.model') FROM spans WHERE run_id IS NULL ORDER BY start_ns"
    assert ask(store, asked) == [(None,), ("gpt-4o",)]


LONE: list[Callable[[str], Span]] = [
    lambda text: a_call(1, name=text),
    lambda text: a_call(1, ("k", text)),
    lambda text: a_call(1, (text, "v")),
    lambda text: a_call(1, events=(Event(START, text, (("k", text),)),)),
    lambda text: a_call(1, status_message=text),
    lambda text: a_call(1, ("nested", KeyValues(((text, (text,)),)))),
]


@pytest.mark.parametrize("make", LONE, ids=range(len(LONE)))
@pytest.mark.parametrize("text", ["\ud83d", "a\udfffb", "\ud800\ud800"])
def test_pq_09_a_lone_surrogate_anywhere_is_given_back_and_breaks_nothing(
    store: Store, make: Callable[[str], Span], text: str
) -> None:
    span = make(text)
    store.write([span])
    for view in VIEWS:
        store.arrow(f"SELECT * FROM {view}")
    assert store.arrow("SELECT attributes::JSON FROM stored").num_rows == 5
    table = store.connection.sql("SELECT * FROM stored WHERE run_id IS NULL").to_arrow_table()
    assert [from_row(row) for row in table.to_pylist()] == [span]
