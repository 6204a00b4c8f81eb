"""A store in object storage keeps the promises of a folder. Against a real S3 server on this machine, over HTTP."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_replay.errors import StoreError
from otel_replay.location import locate
from otel_replay.span import Span
from otel_replay.store import lease, open_store
from otel_replay.store.objects import ObjectStorage
from otel_replay.store.ranges import RangeFile

from .bucket import ENVIRONMENT, Bucket, environment, s3_server
from .making import START, make_run, run_spans, write_journal
from .processes import finish, start
from .test_store import ask


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as (endpoint, _):
        yield endpoint


@pytest.fixture
def bucket(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Bucket:
    """A fresh bucket that the environment leads to, as it leads any AWS tool."""
    for name, value in environment(server, tmp_path).items():
        monkeypatch.setenv(name, value)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name[5:45].lower()).strip("-")
    return Bucket(server, f"{name}-{os.urandom(3).hex()}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return f"s3://{bucket.name}/team/store"


def test_it_gives_back_what_a_folder_gives_back(url: str, tmp_path: Path) -> None:
    run, envelopes = make_run(crossings=50)
    spans = [*run_spans(run, envelopes), Span(run.trace_id, "a" * 16, "GET", START + 10, START + 20)]
    with open_store(url, create=True) as bucket_store, open_store(tmp_path / "folder", create=True) as folder:
        for store in (bucket_store, folder):
            store.write(spans)
        there, here = bucket_store.recording(run.run_id), folder.recording(run.run_id)
        assert there.envelopes == here.envelopes == tuple(envelopes)
        assert (there.complete, there.run) == (here.complete, here.run)
        assert bucket_store.spans(run.run_id) == folder.spans(run.run_id)
        question = "SELECT address, request, result FROM crossings ORDER BY seq"
        assert ask(bucket_store, question) == ask(folder, question)
        assert bucket_store.verify() == folder.verify()
        assert (there.source, bucket_store.info().root) == (url, url)


def test_there_must_be_a_store_and_a_bucket(url: str) -> None:
    with pytest.raises(StoreError, match="there is no store at s3://"):
        open_store(url)
    open_store(url, create=True).close()
    assert open_store(url).runs() == []
    with pytest.raises(StoreError, match="there is no bucket nobody-has-this"):
        open_store("s3://nobody-has-this/store", create=True)


def test_two_stores_in_one_bucket_stay_apart(bucket: Bucket) -> None:
    first, second = (open_store(f"s3://{bucket.name}{prefix}", create=True) for prefix in ("/a", "/ab"))
    first.write(run_spans(*make_run(1)))
    second.write(run_spans(*make_run(2, name="other")))
    assert [run.name for run in first.runs()] == ["refund"]
    assert [run.name for run in second.runs()] == ["other"]


def test_the_journal_stays_here_and_is_shipped_when_sealed(url: str, bucket: Bucket) -> None:
    run, envelopes = make_run()
    store = open_store(url, create=True)
    path = write_journal(store.root, run, envelopes)
    assert store.root.is_absolute()
    assert bucket.parquet() == []
    assert store.recording(run.run_id).complete
    assert not path.exists()
    assert len(bucket.parquet("team/store/spans/date=2025-06-15/")) == 1
    assert open_store(url).recording(run.run_id).complete


def test_copies_are_parted_and_verdicts_kept(url: str) -> None:
    run, envelopes = make_run()
    store = open_store(url, create=True)
    for _ in range(2):
        store.write(run_spans(run, envelopes))
    store.set_verdict(run.run_id, "failed")
    store.pin(run.run_id)
    other = open_store(url)
    (found,) = other.runs()
    assert (found.verdict, found.pinned, found.crossings) == ("failed", True, 3)
    assert ask(other, "SELECT count(*) FROM duplicates") == [(0,)]


def test_compaction_and_pruning(url: str, bucket: Bucket) -> None:
    store = open_store(url, create=True)
    for number in range(1, 6):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    slow = open_store(url)
    slow.refresh()
    done = store.compact()
    assert (done.files_before, done.files_after) == (5, 1)
    assert slow.connection.sql("SELECT count(*) FROM crossings").fetchall() == [(15,)]
    store.compact(grace_s=0)
    assert len(bucket.parquet()) == 1
    # A reader that still names the old files is told so by the engine, and lists again.
    assert ask(slow, "SELECT count(*) FROM crossings") == [(15,)]
    assert len(store.prune(older_than_s=10).runs) == 5
    assert bucket.parquet() == []


def _torn(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def _no_footer_magic(whole: bytes) -> bytes:
    return whole[:-1]


def _empty(_: bytes) -> bytes:
    return b""


def _text(_: bytes) -> bytes:
    return b"PAR1 this is no Parquet PAR1"


def _foreign(_: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"trace_id": ["x"], "start_ns": [1]}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("spoil", [_torn, _no_footer_magic, _empty, _text, _foreign])
def test_a_bad_object_is_named_and_stepped_over(url: str, bucket: Bucket, spoil) -> None:  # type: ignore[no-untyped-def]
    run, envelopes = make_run()
    store = open_store(url, create=True)
    store.write(run_spans(run, envelopes))
    (good,) = bucket.parquet()
    bad = good.rsplit("/", 1)[0] + "/00bad.parquet"
    bucket.put(bad, spoil(bucket.get(good)))
    reader = open_store(url)
    assert ask(reader, "SELECT count(*) FROM crossings") == [(3,)]
    assert [f"s3://{bucket.name}/{bad}" in problem for problem in reader.problems] == [True]
    assert not reader.verify().sound
    reader.compact(grace_s=0)
    assert bad in set(bucket.keys())
    assert reader.recording(run.run_id).complete


def test_damaged_pages_behind_a_whole_footer_are_stepped_over(url: str, bucket: Bucket) -> None:
    store = open_store(url, create=True)
    store.write(run_spans(*make_run(2, crossings=200)))
    (bad,) = bucket.parquet()
    store.write(run_spans(*make_run(1, start_ns=START + 10_000_000)))
    data = bytearray(bucket.get(bad))
    data[100 : len(data) // 3] = b"\xff" * (len(data) // 3 - 100)
    data[len(data) // 3 : -20_000] = bytes(len(data) - 20_000 - len(data) // 3)
    bucket.put(bad, bytes(data))
    reader = open_store(url)
    assert ask(reader, "SELECT count(*) FROM (SELECT DISTINCT address, request, name FROM spans)") == [(4,)]
    assert any(bad in problem for problem in reader.problems)


@pytest.mark.parametrize("step", ["before rename", "before the copy"])
def test_a_writer_that_is_killed_leaves_nothing_to_readers(url: str, bucket: Bucket, step: str) -> None:
    store = open_store(url, create=True)
    store.write(run_spans(*make_run(1)))
    finish(start("write-and-die", url, step), killed=True)
    assert ask(open_store(url), "SELECT count(*) FROM runs") == [(1,)]
    assert open_store(url).problems == ()
    assert store.info().left_behind >= 1
    # The dead writer's claim to the lock stands until it runs out; a compaction asks for none where it publishes none.
    store.compact(grace_s=-60)
    assert store.info().left_behind == 0
    assert [key for key in bucket.keys("team/store/spans/") if key.endswith(".writing")] == []


def test_readers_and_writers_do_not_shut_each_other_out(url: str) -> None:
    """Two writers, a compaction and a reader on one prefix: no lock errors, no half batch, nothing lost."""
    open_store(url, create=True)
    reader = start("count", url, 2)
    writers = [start("write-runs", url, 1, 5), start("write-runs", url, 5, 9), start("compact", url, 1)]
    for writer in writers:
        finish(writer)
    assert int(finish(reader).split()[0]) >= 3
    assert ask(open_store(url), "SELECT count(*), bool_and(complete) FROM runs") == [(8, True)]


def test_the_same_spans_by_two_writers_at_once_stand_once(url: str) -> None:
    open_store(url, create=True)
    writers = [start("write-same", url, 3) for _ in range(2)]
    for writer in writers:
        finish(writer)
    store = open_store(url)
    assert ask(store, "SELECT count(*), count(DISTINCT run_id) FROM stored") == [(12, 3)]


# The lock ------------------------------------------------------------------------------------------------------


def _lock(url: str) -> ObjectStorage:
    return ObjectStorage(locate(url))


def test_only_one_holds_the_lock(url: str) -> None:
    inside, most, rounds = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, rounds
        storage = _lock(url)
        for _ in range(5):
            with storage.locked() as held:
                assert held
                inside += 1
                most = max(most, inside)
                storage.files(storage.root)  # some time passes
                inside -= 1
                rounds += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, rounds) == (1, 20)


def test_who_does_not_wait_is_told_so_and_leaves_nothing(url: str, bucket: Bucket) -> None:
    with _lock(url).locked() as first:
        assert first
        with _lock(url).locked(wait=False) as second:
            assert not second
    assert bucket.keys("team/store/lock") == []
    with _lock(url).locked(wait=False) as third:
        assert third


@pytest.mark.parametrize("dead", ["choosing-00ff", "000000000001-00ff"])
def test_the_claim_of_a_dead_process_runs_out(
    url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.5)
    bucket.put(f"team/store/lock/{dead}", b"")
    with _lock(url).locked() as held:
        assert held
    assert bucket.keys("team/store/lock") == []


def test_two_compactions_that_no_lock_kept_apart_count_once(url: str, bucket: Bucket) -> None:
    store = open_store(url, create=True)
    for number in (1, 2, 3):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    old = {key: bucket.get(key) for key in bucket.parquet()}
    store.compact(grace_s=0)
    (first,) = bucket.parquet()
    kept = bucket.get(first)
    bucket.remove(first)
    for key, data in old.items():
        bucket.put(key, data)
    other = open_store(url)
    other.compact(grace_s=0)
    bucket.put(first, kept)
    for key, data in old.items():
        bucket.put(key, data)
    reader = open_store(url)
    assert ask(reader, "SELECT count(*), count(DISTINCT run_id) FROM crossings") == [(9, 3)]
    reader.compact(grace_s=-60)
    assert bucket.parquet() == [first]
    assert ask(open_store(url), "SELECT count(*), count(DISTINCT run_id) FROM crossings") == [(9, 3)]


# Trouble on the road -------------------------------------------------------------------------------------------


def test_a_service_that_is_down_is_said_and_nothing_is_stepped_over(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as (endpoint, process):
        Bucket(endpoint, "lonely")
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        store = open_store("s3://lonely/store", create=True)
        store.write(run_spans(*make_run()))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for act in (store.runs, store.verify, store.compact, lambda: store.write(run_spans(*make_run(2)))):
            with pytest.raises(StoreError, match="s3://lonely/store can't be|could not be") as raised:
                act()
            assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in str(raised.value)
        with pytest.raises(StoreError, match="s3://lonely/store can't be"):
            open_store("s3://lonely/store")


def test_credentials_in_an_address_are_used_and_never_shown(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    key, plain = ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    secret = quote(plain, safe="")
    address = f"s3://{key}:{secret}@{bucket.name}/store"
    run, envelopes = make_run()
    store = open_store(address, create=True)
    store.write(run_spans(run, envelopes))
    place = locate(address)
    assert place.credentials == (key, plain)
    shown = [repr(store), repr(place), repr(store.folder.storage), str(store.info())]
    shown.append(store.recording(run.run_id).source)
    shown += [str(store.root), *store.connection.sql("SELECT sql FROM duckdb_views()").fetchall()[0]]
    for bad in (f"{address}?port=1", f"{address}/../x", f"s3://{key}:{secret}@/store", address + "#x"):
        with pytest.raises(StoreError) as raised:
            locate(bad)
        shown.append(str(raised.value))
    with pytest.raises(StoreError) as raised:
        open_store(address.replace(bucket.name, "nobody-has-this"))
    shown.append(str(raised.value))
    for text in shown:
        assert not any(part in text for part in (key, plain, secret)), text


def test_ranges_are_read_right_by_many_threads() -> None:
    data = bytes(range(256)) * 400
    file = RangeFile(pa.BufferReader(data))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for turn in range(300):
            at = (seed * 7919 + turn * 104_729) % (len(data) - 100)
            file.seek(at)
            if file.read(100) != data[at : at + 100]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_many_threads_of_the_engine_read_an_object_right(url: str) -> None:
    store = open_store(url, create=True)
    run, envelopes = make_run(crossings=3_000)
    store.write(run_spans(run, envelopes))
    store.connection.execute("SET threads = 8")
    for _ in range(10):
        assert ask(store, "SELECT sum(seq), count(DISTINCT request), count(DISTINCT result) FROM crossings") == [
            (sum(range(1, 3_001)), 3_000, 3_000)
        ]
