"""Keeping house: compaction, pruning, verifying, describing; and stores that older or newer versions wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_replay.span import Span
from otel_replay.store import Store, open_store, schema
from otel_replay.store.compact import SMALL_FILES_MAX
from otel_replay.store.parquet import row_groups, table_of
from otel_replay.store.prune import choose_runs
from otel_replay.store.rows import to_row

from .making import DAY, START, make_run, open_journal, run_spans, write_journal
from .test_store import ask

SPAN = Span("f" * 32, "e" * 16, "chat gpt", START, START + 10, attributes=(("k", 1),))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, create=True)


def everything(store: Store) -> list[str]:
    return [
        repr(row)
        for row in ask(store, "SELECT * EXCLUDE (start_time, end_time) FROM spans ORDER BY start_ns, span_id, run_id")
    ]


def fill(store: Store, runs: int = 6) -> None:
    for number in range(1, runs + 1):
        store.write(run_spans(*make_run(number, start_ns=START + (number % 2) * DAY + number * 10_000_000)))


def test_compaction_keeps_all_and_sorts_it(store: Store) -> None:
    fill(store)
    store.write([SPAN])
    store.write([replace(SPAN, end_ns=START + 99)])
    before = everything(store)
    done = store.compact()
    assert (done.files_before, done.files_after) == (8, 2)
    assert everything(store) == before
    assert ask(store, "SELECT end_ns, difference FROM duplicates") == [(START + 10, "end_ns")]
    assert store.info().superseded_rows == 0
    for info in store.folder.listing().files.values():
        rows = pq.read_table(info.path).to_pylist()
        begun: dict[str, int] = {}
        for row in rows:
            group = row["run_id"] or row["trace_id"]
            begun[group] = min(row["start_ns"], begun.get(group, row["start_ns"]))
        order = [(begun[r["run_id"] or r["trace_id"]], r["run_id"] or "", r["seq"] or 0) for r in rows]
        assert order == sorted(order)
        assert [path.name for path in info.path.parent.parent.glob("date=*")] != []
    assert store.compact().files_before == 0


def test_files_that_were_taken_over_stay_for_a_while(store: Store) -> None:
    fill(store)
    old = store.folder.paths()
    slow = open_store(store.root)
    slow.refresh()
    store.compact()
    assert all(path.exists() for path in old)
    assert slow.connection.sql("SELECT count(*) FROM crossings").fetchall() == [(18,)]
    store.compact(grace_s=0)
    assert not any(path.exists() for path in old)
    # A reader that still names them is told so by the engine, and lists again.
    assert ask(slow, "SELECT count(*) FROM crossings") == [(18,)]


def test_compaction_parts_copies_that_no_lock_kept_apart(store: Store) -> None:
    """As on a network file system without locks: two writers each added the same spans."""
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    twin = open_store(store.root / "twin", create=True)
    twin.write(run_spans(run, envelopes))
    (other,) = twin.folder.paths()
    (mine,) = store.folder.paths()
    other.rename(mine.with_name(other.name))
    assert ask(store, "SELECT count(*) FROM crossings") == [(6,)]
    done = store.compact()
    assert done.rows_parted == 4
    assert ask(store, "SELECT count(*) FROM crossings") == [(3,)]
    assert store.recording(run.run_id).complete


def test_small_files_are_taken_together_by_themselves(store: Store) -> None:
    for number in range(1, SMALL_FILES_MAX + 3):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    assert store.info().files < SMALL_FILES_MAX
    assert ask(store, "SELECT count(*), bool_and(complete) FROM runs") == [(SMALL_FILES_MAX + 2, True)]


def test_pruning_drops_old_runs_and_keeps_failing_and_pinned_ones(store: Store) -> None:
    for number in range(1, 6):
        run, envelopes = make_run(number, start_ns=START + number * 10_000_000, name=f"n{number}")
        inner = Span(run.trace_id, "a" * 16, "GET", run.start_ns + 10, run.start_ns + 20)
        store.write([*run_spans(run, envelopes), inner])
    loose = replace(SPAN, trace_id="d" * 32)
    store.write([loose])
    store.set_verdict(store.find_run("n1").run_id, "failed")
    store.pin(store.find_run("n2").run_id)
    dry = store.prune(older_than_s=3600, dry_run=True)
    assert len(dry.runs) == 3
    assert len(store.runs()) == 5
    done = store.prune(older_than_s=3600)
    assert sorted(done.runs) == sorted(dry.runs)
    assert done.loose_spans == 4
    assert {run.name for run in store.runs()} == {"n1", "n2"}
    assert all(run.complete for run in store.runs())
    assert len(store.spans(store.find_run("n1").run_id)) == 5
    assert (done.kept_failing, done.kept_pinned) == (1, 1)


def test_pruning_by_size_takes_the_oldest(store: Store) -> None:
    fill(store, 5)
    runs = sorted(store.runs(), key=lambda run: run.start_ns)
    sizes = {run.run_id: 100 for run in runs}
    assert choose_runs(runs, sizes, total_bytes=500, max_bytes=250) == [run.run_id for run in runs[:3]]
    assert choose_runs(runs, sizes, total_bytes=500, max_bytes=500) == []
    done = store.prune(max_bytes=1)
    assert len(done.runs) == 5
    assert store.runs() == []


def test_passing_runs_are_sampled_always_the_same(store: Store) -> None:
    fill(store)
    runs = [replace(run, verdict="passed") for run in store.runs()]
    going = choose_runs(runs, {}, total_bytes=0, sample_passing=3)
    assert 0 < len(going) <= len(runs)
    assert going == choose_runs(list(reversed(runs)), {}, total_bytes=0, sample_passing=3)
    assert choose_runs(runs, {}, total_bytes=0, sample_passing=1) == []


def test_a_running_run_is_not_pruned(store: Store) -> None:
    run, envelopes = make_run()
    writer = open_journal(store.root, run)
    writer.crossing(envelopes[0])
    assert store.prune(older_than_s=1).runs == ()
    writer.close()


def test_verify_finds_what_was_changed(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    sound = store.verify()
    assert (sound.sound, sound.files, sound.rows, sound.envelopes) == (True, 1, 4, 4)
    (path,) = store.folder.paths()
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[1]["response"] = '{"r":"FORGED1"}'
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    found = open_store(store.root).verify()
    assert len(found.problems) == 1
    assert "digest" in found.problems[0]
    assert "search[" in found.problems[0]
    damaged = open_store(store.root).recording(run.run_id).damaged
    assert len(damaged) == 1


def test_info_describes_the_store(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    write_journal(store.root, *make_run(2))
    info = store.info()
    assert (info.files, info.rows, info.journals_waiting, info.journals_live) == (1, 4, 1, 0)
    assert info.bytes == store.folder.paths()[0].stat().st_size
    assert info.versions == {1: 1}
    assert info.oldest_ns == run.start_ns
    assert info.problems == ()


# Versions ------------------------------------------------------------------------------------------------


def rewrite(
    path: Path, version: int, *, without: tuple[str, ...] = (), extra: dict[str, pa.Array] | None = None
) -> None:
    """Write `path` again as another version would have: some columns fewer, or some more."""
    table = pq.read_table(path).drop_columns(list(without))
    for name, column in (extra or {}).items():
        table = table.append_column(name, column)
    metadata = {**(table.schema.metadata or {}), schema.VERSION_KEY: str(version).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_files_of_older_and_newer_versions_are_read_together(store: Store) -> None:
    for number in (1, 2, 3):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    old, _, new = store.folder.paths()
    rewrite(old, 0, without=("grade", "replay_of", "side_effects"))
    nested = pa.array([{"a": 1, "tool_id": "x"}] * 4)
    rewrite(new, 99, extra={"invented": nested, "sampled": pa.array([1.5] * 4)})
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*), bool_and(complete) FROM runs") == [(3, True)]
    assert ask(reader, "SELECT count(grade) FROM crossings") == [(6,)]
    assert reader.problems == ()
    for run in reader.runs():
        assert reader.recording(run.run_id).complete
    reader.compact(grace_s=0)
    assert new.exists(), "a later version's columns would be lost"
    assert not old.exists()
    assert ask(reader, "SELECT count(*), bool_and(complete) FROM runs") == [(3, True)]
    assert pq.read_table(new).column("invented").to_pylist() == nested.to_pylist()


def test_only_an_old_file(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    (path,) = store.folder.paths()
    rewrite(path, 0, without=("verdict", "grade", "part_size", "request_at", "response_at"))
    # Without the places of its texts an envelope can't be put together: it is damaged, not the query.
    assert ask(open_store(store.root), "SELECT count(*) FROM crossings") == [(3,)]
    assert set(open_store(store.root).recording(run.run_id).damaged) == {"search[1]", "search[2]", "search[3]"}


@pytest.mark.parametrize("text", ["no JSON", "[1]", None])
def test_a_row_whose_attributes_are_no_json_is_named_and_its_run_is_given_without_it(
    store: Store, text: str | None
) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    (path,) = store.folder.paths()
    table = pq.read_table(path)
    column = table.column("attributes").to_pylist()
    at = table.column("address").to_pylist().index("search[2]")
    column[at] = text
    place = table.schema.get_field_index("attributes")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(column)), path)
    reader = open_store(store.root)
    assert len(reader.spans(run.run_id)) == table.num_rows - 1
    assert any("its row was damaged" in problem for problem in reader.problems)
    assert set(reader.recording(run.run_id).damaged) == {"search[2]"}


def test_row_groups_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_replay.limits.ROW_GROUP_BYTES", 10_000)
    rows = [
        to_row(replace(SPAN, span_id=f"{n:016x}", attributes=(("k", "x" * size),)))
        for n, size in enumerate([9000] * 3 + [10] * 100)
    ]
    groups = [group.num_rows for group in row_groups([table_of(rows[:50]), table_of(rows[50:])])]
    assert sum(groups) == 103
    assert groups[0] == 2
    assert max(groups) > 30


def test_a_file_says_what_it_took_over(store: Store) -> None:
    path = write_journal(store.root, *make_run())
    store.seal()
    (file,) = store.folder.paths()
    metadata = pq.read_schema(file).metadata
    assert orjson.loads(metadata[schema.SEALS_KEY]) == [path.name]
    assert metadata[schema.VERSION_KEY] == b"1"
