"""Large strings stand once: rows refer to them, all is given back exactly, and what is gone is named, never guessed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_replay import codec, limits
from otel_replay.blobs import name_of
from otel_replay.cli import cli
from otel_replay.errors import NeverRecorded
from otel_replay.span import Span
from otel_replay.store import blobs, compact, open_store, schema
from otel_replay.store.large import MISSING, cut_row, join_row, names_of
from otel_replay.store.parquet import table_of
from otel_replay.store.rows import from_row, to_row
from otel_replay.store.store import Store

from .bucket import Bucket
from .making import START, illustrated, make_run, picture, run_spans, write_journal
from .processes import finish, start
from .strategies import spans
from .test_objects import bucket, server, url
from .test_store import ask

__all__ = ["bucket", "server", "url"]

IMAGE = picture()
NAME = name_of(IMAGE)
OLD_NS = time.time_ns() - 3_600 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store", create=True) as opened:
        yield opened


def kept(store: Store) -> set[str]:
    return {path.stem for path in (store.root / "blobs").glob("*.parquet")}


def blob_path(store: Store, name: str = NAME) -> Path:
    return store.root / "blobs" / f"{name}.parquet"


def grow_old(store: Store) -> None:
    for path in store.root.rglob("*.parquet"):
        os.utime(path, ns=(OLD_NS, OLD_NS))


@contextmanager
def threshold(size: int) -> Iterator[None]:
    before = limits.BLOB_THRESHOLD_BYTES
    limits.BLOB_THRESHOLD_BYTES = size
    try:
        yield
    finally:
        limits.BLOB_THRESHOLD_BYTES = before


# Row <-> stored row ---------------------------------------------------------------------------------------------


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spans, st.integers(1, 40))
def test_a_row_is_given_back_at_any_threshold(span: Span, size: int) -> None:
    with threshold(size):
        row = to_row(span)
        cut, found = cut_row(row)
    (stored,) = table_of([cut]).to_pylist()
    assert names_of([stored["blobs"]] if stored["blobs"] else []) == set(found)
    whole = join_row(stored, found.__getitem__)
    assert table_of([whole]).equals(table_of([row]))
    assert repr(from_row(whole)) == repr(span)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(5, 400))
def test_a_store_gives_back_its_spans_at_any_threshold(pictures: list[int], size: int) -> None:
    run, envelopes = make_run(crossings=len(pictures))
    said = [illustrated(1, turns=1, image="é\\\\\\n" + "p" * (size + n))[1][0].request for n in pictures]
    sent = [codec.to_span(replace(e, request=r)) for e, r in zip(envelopes, said, strict=True)]
    with threshold(size), TemporaryDirectory() as folder, open_store(folder, create=True) as store:
        store.write([*sent, codec.run_to_span(run)])
        assert store.spans(run.run_id) == [codec.run_to_span(run), *sent]
        store.compact(grace_s=0)
        assert store.spans(run.run_id) == [codec.run_to_span(run), *sent]
        assert store.verify().sound


@pytest.mark.parametrize(
    "places",
    [
        "no json",
        "[]",
        '{"request":[[0,3,"short"]]}',
        '{"request":[[0,9999999,"' + "a" * 64 + '"]]}',
        '{"request":[[-5,2,"' + "a" * 64 + '"]]}',
        '{"nothing":[[0,2,"' + "a" * 64 + '"]]}',
        '{"request":3}',
    ],
)
def test_references_that_do_not_fit_are_named(places: str) -> None:
    row = {**to_row(codec.to_span(make_run()[1][0])), "blobs": places}
    found = join_row(row, lambda _: "x")
    assert found[MISSING]
    assert found["integrity"] == "missing"
    assert codec.from_span(from_row(found)).envelope is None


# What it costs, and what is seen --------------------------------------------------------------------------------


def test_twenty_turns_with_one_picture_take_one_picture(store: Store) -> None:
    run, envelopes = illustrated()
    path = write_journal(store.root, run, envelopes)
    assert path.stat().st_size < len(IMAGE) + 30_000
    assert store.recording(run.run_id).envelopes == tuple(envelopes)
    assert not path.exists()
    assert kept(store) == {NAME}
    assert sum(file.stat().st_size for file in store.root.rglob("*") if file.is_file()) < len(IMAGE) + 40_000
    info = store.info()
    assert (info.blobs, info.blobs_unreferred) == (1, 0)
    assert store.verify().blobs == 1
    assert store.verify().sound


def test_sql_sees_a_reference_and_can_follow_it(store: Store) -> None:
    store.write(run_spans(*illustrated(turns=1)))
    ((asked,),) = ask(store, "SELECT request FROM crossings")
    assert json.loads(str(asked))["image"] == {
        "$": "blob", "sha256": NAME, "bytes": len(IMAGE), "media_type": "image/png",
    }  # fmt: skip
    assert ask(store, f"SELECT sha256, media_type, bytes, text FROM blob('{NAME}')") == [
        (NAME, "image/png", len(IMAGE), IMAGE)
    ]
    shown = CliRunner().invoke(cli, ["store", "blob", NAME, "--store", str(store.root)])
    assert (shown.exit_code, shown.stdout) == (0, IMAGE)
    with pytest.raises(NeverRecorded, match="b" * 64):
        store.blob("b" * 64)
    with pytest.raises(NeverRecorded):
        store.blob("../spans/x")


def test_the_same_spans_again_are_the_same(store: Store) -> None:
    run, envelopes = illustrated(turns=2)
    for _ in range(2):
        store.write(run_spans(run, envelopes))
    write_journal(store.root, run, envelopes)
    with threshold(10_000_000):
        store.write(run_spans(run, envelopes))
    assert ask(store, "SELECT count(*) FROM duplicates WHERE integrity <> 'intact'") == [(0,)]
    assert store.recording(run.run_id).envelopes == tuple(envelopes)


# Gone or damaged ------------------------------------------------------------------------------------------------


def _gone(path: Path) -> None:
    path.unlink()


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def _other(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "text", [["x" * 300_000]]), path)


def _pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1_000:200_000] = bytes(199_000)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("harm", "said"), [(_gone, "not in the store"), (_torn, "damaged"), (_other, "damaged"), (_pages, "damaged")]
)
def test_what_is_gone_is_missing_by_name_and_only_that(store: Store, harm, said: str) -> None:  # type: ignore[no-untyped-def]
    run, envelopes = illustrated(turns=2)
    plain = make_run(1, 3, start_ns=run.start_ns)[1][2]
    run = replace(run, crossings=3)
    store.write(run_spans(run, [*envelopes, plain]))
    harm(blob_path(store))
    again = open_store(store.root)
    recording = again.recording(run.run_id)
    assert set(recording.damaged) == {"search[1]", "search[2]"}
    assert all(reason.startswith("missing") and NAME in reason for reason in recording.damaged.values())
    assert said in recording.damaged["search[1]"]
    assert recording.envelopes == (plain,)
    assert ask(again, "SELECT count(*) FROM crossings") == [(3,)]
    for span in again.spans(run.run_id)[1:3]:
        assert codec.from_span(span).integrity == "missing"
        assert '"$":"blob"' not in str(span)
    problems = again.verify().problems
    assert sum(NAME in problem for problem in problems) == len(problems) >= 2
    store.write(run_spans(run, [*envelopes, plain]))  # it comes once more, by another road
    os.utime(blob_path(store), ns=(OLD_NS, OLD_NS)) if harm is not _gone else None
    store.write(run_spans(run, [*envelopes, plain]))
    assert open_store(store.root).recording(run.run_id).envelopes == (*envelopes, plain)


# Keeping house --------------------------------------------------------------------------------------------------


def test_pruning_counts_by_reference(store: Store) -> None:
    runs = [illustrated(number, turns=2) for number in (1, 2)]
    other = illustrated(3, turns=1, image=picture(seed=2))
    for run, envelopes in [*runs, other]:
        store.write(run_spans(run, envelopes))
    grow_old(store)
    whole = store.prune(older_than_s=10**9).bytes_before
    assert whole > 2 * 200_000
    # Removing the first frees next to nothing, as the second holds its picture too.
    done = store.prune(max_bytes=whole - 100_000)
    assert done.runs == (runs[0][0].run_id, runs[1][0].run_id)
    assert done.bytes_after < whole - 200_000
    assert kept(store) == {name_of(picture(seed=2))}
    assert store.recording(other[0].run_id).envelopes == tuple(other[1])


def test_compaction_keeps_what_is_referred_to_and_sweeps_the_rest(store: Store) -> None:
    for number in (1, 2, 3):
        store.write(run_spans(*illustrated(number, turns=2)))
    store.folder.blobs.cut([to_row(codec.to_span(illustrated(9, turns=1, image=picture(seed=9))[1][0]))])
    assert store.info().blobs_unreferred == 1
    store.compact()
    assert len(kept(store)) == 2, "it may be about to be referred to"
    grow_old(store)
    store.compact()
    assert kept(store) == {NAME}
    (path,) = store.folder.listing().files.values()
    assert path.blobs == {NAME}
    for number in (1, 2, 3):
        run, envelopes = illustrated(number, turns=2)
        assert store.recording(run.run_id).envelopes == tuple(envelopes)


def test_nothing_is_swept_while_a_file_cannot_be_read(store: Store) -> None:
    run, envelopes = illustrated(turns=1)
    store.write(run_spans(run, envelopes))
    (path,) = store.folder.paths()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    grow_old(store)
    open_store(store.root).compact(grace_s=0)
    path.write_bytes(whole)
    assert open_store(store.root).recording(run.run_id).envelopes == tuple(envelopes)


def test_a_sweep_waits_for_a_writer_that_is_about_to_refer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run, envelopes = illustrated(turns=1)
    store.folder.blobs.cut([to_row(span) for span in run_spans(run, envelopes)])  # there, and no file refers to it
    sweeping = threading.Thread(target=lambda: compact.sweep(open_store(store.root).folder, grace_s=-60))
    seen: list[bool] = []

    def between(step: str) -> None:
        if step == "blobs are kept" and not seen:
            sweeping.start()
            sweeping.join(0.5)
            seen.append(sweeping.is_alive())

    monkeypatch.setattr(blobs, "fault_point", between)
    store.write(run_spans(run, envelopes))
    sweeping.join(30)
    assert seen == [True]
    assert store.recording(run.run_id).envelopes == tuple(envelopes)


def test_without_a_lock_the_grace_holds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run, envelopes = illustrated(turns=1)
    store.folder.blobs.cut([to_row(span) for span in run_spans(run, envelopes)])
    grow_old(store)

    @contextmanager
    def no_lock(self: object, *, wait: bool = True) -> Iterator[bool]:
        yield True

    monkeypatch.setattr("otel_replay.store.storage.LocalStorage.locked", no_lock)
    swept: list[int] = []

    def between(step: str) -> None:
        if step == "blobs are kept":
            swept.append(compact.sweep(open_store(store.root).folder))

    monkeypatch.setattr(blobs, "fault_point", between)
    store.write(run_spans(run, envelopes))
    assert swept == [0]
    assert store.recording(run.run_id).envelopes == tuple(envelopes)


@pytest.mark.parametrize("step", ["blobs are kept", "before rename"])
def test_a_writer_that_is_killed_leaves_a_blob_that_is_swept(store: Store, step: str) -> None:
    store.write(run_spans(*make_run()))
    finish(start("write-pictures-and-die", store.root, step), killed=True)
    assert ask(store, "SELECT count(*) FROM runs") == [(1,)]
    assert (store.info().blobs, store.info().blobs_unreferred, store.verify().sound) == (1, 1, True)
    store.compact(grace_s=-60)
    assert kept(store) == set()
    assert store.info().left_behind == 0


def test_writers_and_sweeps_at_once_lose_nothing(store: Store) -> None:
    """Every blob is old in the eyes of these sweeps, so only the lock stands between them and the writers."""
    sweepers = [start("sweep-repeatedly", store.root, 150) for _ in range(2)]
    writers = [start("write-pictures", store.root, low, low + 8) for low in (1, 9)]
    for process in (*writers, *sweepers):
        finish(process)
    assert store.verify().problems == ()
    assert ask(store, "SELECT count(*), bool_and(complete) FROM runs") == [(16, True)]


# Versions -------------------------------------------------------------------------------------------------------


def version_of(path: Path) -> bytes:
    found: bytes = pq.read_metadata(path).metadata[schema.VERSION_KEY]
    return found


def test_files_of_before_are_read_and_taken_in_by_compaction(store: Store) -> None:
    with threshold(10_000_000):
        for number in (1, 2):
            write_journal(store.root, *illustrated(number, turns=2))
            store.seal()
    assert {version_of(path) for path in store.folder.paths()} == {b"1"}
    assert kept(store) == set()
    assert store.compact(grace_s=0).files_after == 1
    assert kept(store) == {NAME}
    for number in (1, 2):
        run, envelopes = illustrated(number, turns=2)
        assert store.recording(run.run_id).envelopes == tuple(envelopes)
    assert store.verify().sound


def test_only_files_that_refer_to_blobs_are_closed_to_older_versions(store: Store) -> None:
    store.write(run_spans(*make_run(1)))
    store.write(run_spans(*illustrated(2, turns=1)))
    plain, large = (version_of(path) for path in store.folder.paths())
    assert int(plain) == 1
    with pytest.raises(ValueError, match="to be read by otel-replay with store schema 2"):
        int(large)  # what versions before this do with it; they name the file with this text, and step over it
    assert store.info().versions == {1: 1, 2: 1}


def test_a_file_that_needs_a_later_version_is_named(store: Store) -> None:
    store.write(run_spans(*make_run(1)))
    store.write(run_spans(*make_run(2, start_ns=START + 10_000_000)))
    path = store.folder.paths()[1]
    table = pq.read_table(path)
    said = {**table.schema.metadata, schema.VERSION_KEY: f"7{schema.NEEDS}7".encode()}
    pq.write_table(table.replace_schema_metadata(said), path)
    reader = open_store(store.root)
    assert ask(reader, "SELECT count(*) FROM runs") == [(1,)]
    assert reader.problems == (f"{path} has store schema 7; this version reads 2: update otel-replay",)


# Object storage -------------------------------------------------------------------------------------------------


def test_a_bucket_keeps_and_sweeps_them_as_a_folder_does(url: str, bucket: Bucket) -> None:
    run, envelopes = illustrated(turns=20)
    other, others = illustrated(2, turns=2)
    place = f"team/store/blobs/{NAME}.parquet"
    with open_store(url, create=True) as store:
        store.write(run_spans(run, envelopes))
        store.write(run_spans(other, others))
        assert bucket.keys("team/store/blobs/") == [place]
        assert open_store(url).recording(run.run_id).envelopes == tuple(envelopes)
        assert ask(store, f"SELECT text = ? FROM blob('{NAME}')".replace("?", f"'{IMAGE}'")) == [(True,)]
        assert (store.info().blobs, store.verify().sound) == (1, True)
        store.compact(grace_s=-60)
        assert bucket.keys("team/store/blobs/") == [place]
        bucket.client.delete_object(Bucket=bucket.name, Key=place)
        assert "search[20]" in open_store(url).recording(run.run_id).damaged
        assert not store.verify().sound
        store.write(run_spans(run, envelopes))
        assert open_store(url).recording(other.run_id).envelopes == tuple(others)
        store.prune(older_than_s=10)
        store.compact(grace_s=-60)
        assert bucket.keys("team/store/blobs/") == []


@pytest.mark.parametrize("step", ["before the copy", "blobs are kept"])
def test_a_writer_to_a_bucket_that_is_killed_leaves_what_is_swept(url: str, bucket: Bucket, step: str) -> None:
    store = open_store(url, create=True)
    finish(start("write-pictures-and-die", url, step), killed=True)
    assert ask(store, "SELECT count(*) FROM runs") == [(0,)]
    assert store.verify().sound
    compact.sweep(store.folder, grace_s=-60)
    left = [key for key in bucket.keys("team/store/blobs/")]
    assert left == []
