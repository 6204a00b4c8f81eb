"""Real processes: killed between steps, sealing at once, reading while others write."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from otel_replay.store import open_store

from .making import START, make_run, run_spans, write_journal
from .processes import finish, start
from .test_store import ask

BEFORE_RENAME = "before rename"
BEFORE_REMOVAL = "before journals are removed"


@pytest.mark.parametrize("step", [BEFORE_RENAME, BEFORE_REMOVAL])
def test_a_sealer_that_is_killed_leaves_every_crossing_there_once(tmp_path: Path, step: str) -> None:
    run, envelopes = make_run()
    path = write_journal(tmp_path, run, envelopes)
    finish(start("seal-and-die", tmp_path, step), killed=True)
    assert path.exists()
    store = open_store(tmp_path)
    assert ask(store, "SELECT count(*) FROM crossings") == [(3,)]
    assert ask(store, "SELECT count(*) FROM duplicates") == [(0,)]
    assert store.recording(run.run_id).complete
    assert not path.exists()
    assert len(store.folder.paths()) == 1


def test_a_compaction_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    for number in (1, 2, 3):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    finish(start("compact-and-die", tmp_path, BEFORE_RENAME), killed=True)
    assert ask(store, "SELECT count(*) FROM crossings") == [(9,)]
    assert len(store.folder.paths()) == 3
    assert store.info().left_behind == 1
    store.compact(grace_s=0)
    assert store.info().left_behind == 0


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    folder, acknowledged = tmp_path / "store", tmp_path / "acknowledged"
    for _ in range(3):
        writer = start("write", folder, acknowledged)
        deadline = time.monotonic() + 30
        before = len(acknowledged.read_text().splitlines()) if acknowledged.exists() else 0
        while time.monotonic() < deadline:
            if acknowledged.exists() and len(acknowledged.read_text().splitlines()) >= before + 3:
                break
            time.sleep(0.005)
        writer.kill()
        finish(writer, killed=True)
    known = {run_id for (run_id,) in ask(open_store(folder), "SELECT run_id FROM runs WHERE complete")}
    promised = set(acknowledged.read_text().split())
    assert len(promised) >= 3
    assert promised <= known
    assert ask(open_store(folder), "SELECT count(*) FROM duplicates") == [(0,)]


def test_a_killed_recorder_is_read_right_after(tmp_path: Path) -> None:
    folder, acknowledged = tmp_path / "store", tmp_path / "acknowledged"
    recorder = start("record", folder, acknowledged)
    while not acknowledged.exists() or len(acknowledged.read_text()) < 400:
        time.sleep(0.005)
    live = open_store(folder)
    assert ask(live, "SELECT state FROM runs") == [("running",)]
    recorder.kill()
    finish(recorder, killed=True)
    promised = len(acknowledged.read_text().splitlines())
    store = open_store(folder)
    ((state, finished),) = ask(store, "SELECT state, crossings - unfinished FROM runs")
    assert state == "interrupted"
    assert int(str(finished)) >= promised
    recording = store.recording(make_run(1)[0].run_id)
    assert [envelope.seq for envelope in recording.envelopes][:promised] == list(range(1, promised + 1))
    assert recording.gaps == ()


def test_many_sealers_at_once_seal_each_journal_once(tmp_path: Path) -> None:
    for number in range(1, 21):
        write_journal(tmp_path, *make_run(number, start_ns=START + number * 10_000_000))
    sealers = [start("seal", tmp_path) for _ in range(3)]
    assert sum(int(finish(sealer)) for sealer in sealers) == 20
    store = open_store(tmp_path)
    assert ask(store, "SELECT count(*), bool_and(complete), sum(crossings) FROM runs") == [(20, True, 60)]
    assert ask(store, "SELECT count(*) FROM duplicates") == [(0,)]
    assert list((tmp_path / "journal").iterdir()) == []


def test_readers_and_writers_do_not_shut_each_other_out(tmp_path: Path) -> None:
    """Two writers, a compaction and two readers on one folder: no lock errors, no half batch, nothing lost."""
    open_store(tmp_path, create=True)
    readers = [start("count", tmp_path, 3) for _ in range(2)]
    writers = [
        start("write-runs", tmp_path, 1, 25),
        start("write-runs", tmp_path, 25, 49),
        start("compact", tmp_path, 4),
    ]
    for writer in writers:
        finish(writer)
    assert all(int(finish(reader).split()[0]) >= 3 for reader in readers)
    assert ask(open_store(tmp_path), "SELECT count(*), bool_and(complete) FROM runs") == [(48, True)]
