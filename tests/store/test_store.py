"""What is written is there, once, and can be asked: spans, journals dead and alive, runs by name and id."""

from __future__ import annotations

import dataclasses
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from otel_replay import codec
from otel_replay.envelope import Outcome, Payload, lost
from otel_replay.errors import NeverRecorded, StoreError, UsageError
from otel_replay.span import Event, KeyValues, Resource, Scope, Span
from otel_replay.store import Store, open_store

from .making import DAY, START, crossing, make_run, mark_of, open_journal, run_spans, write_journal


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, create=True)


def ask(store: Store, query: str) -> list[tuple[object, ...]]:
    table = store.arrow(query)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def foreign(number: int, **changes: object) -> Span:
    span = Span("f" * 32, f"{number:016x}", "chat gpt", START + number, START + number + 9)
    return dataclasses.replace(span, **changes)  # type: ignore[arg-type]


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        open_store(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        open_store(tmp_path / "file", create=True)


def test_an_empty_store_answers(store: Store) -> None:
    for view in ("spans", "crossings", "runs", "model_calls", "tool_calls", "messages", "forks", "duplicates"):
        assert ask(store, f"SELECT count(*) FROM {view}") == [(0,)]
    assert store.runs() == []
    with pytest.raises(NeverRecorded, match="holds no runs yet"):
        store.find_run("refund")


def test_a_written_run_is_read_back_by_another_reader(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    recording = open_store(store.root).recording(run.run_id)
    assert recording.run == run
    assert recording.envelopes == tuple(envelopes)
    assert recording.complete
    assert store.spans(run.run_id) == sorted(run_spans(run, envelopes), key=lambda span: span.start_ns)


def test_a_foreign_span_keeps_everything(store: Store) -> None:
    run, envelopes = make_run()
    other = foreign(
        7,
        trace_id=run.trace_id,
        kind=3,
        attributes=(("gen_ai.input.messages", (KeyValues((("role", "user"),)),)), ("n", 1.0), ("b", b"\x00")),
        events=(Event(START, "exception", (("exception.type", "ValueError"),), 2),),
        resource=Resource((("service.name", "shop"),), 1, "https://example/1"),
        scope=Scope("lib", "2", (("k", True),), 0, "u"),
        status_code=2,
        status_message="no",
        trace_state="a=b",
        flags=256,
        dropped_attributes_count=3,
        dropped_events_count=4,
        unknown=b"\xfa\x01\x00",
    )
    store.write([*run_spans(run, envelopes), other])
    assert other in store.spans(run.run_id)
    assert ask(store, "SELECT service, span_kind, status FROM spans WHERE name = 'chat gpt'") == [
        ("shop", "client", "error")
    ]


def test_a_closed_journal_is_sealed_into_one_file(store: Store) -> None:
    run, envelopes = make_run(1)
    second, others = make_run(2, start_ns=START + 5_000_000)
    paths = [write_journal(store.root, run, envelopes), write_journal(store.root, second, others)]
    assert [info.run_id for info in store.runs()] == [second.run_id, run.run_id]
    assert not any(path.exists() for path in paths)
    assert len(store.folder.paths()) == 1
    assert store.recording(run.run_id).envelopes == tuple(envelopes)
    assert store.recording(run.run_id).complete
    assert store.problems == ()


def test_a_live_journal_is_seen_at_once_and_left_alone(store: Store) -> None:
    run, envelopes = make_run()
    writer = open_journal(store.root, run)
    writer.mark(*astuple(mark_of(envelopes[0])))
    writer.crossing(envelopes[0])
    writer.mark(*astuple(mark_of(envelopes[1])))
    assert ask(store, "SELECT state, crossings, unfinished, complete FROM runs") == [("running", 2, 1, False)]
    assert ask(store, "SELECT address, outcome, end_seq FROM crossings ORDER BY seq") == [
        ("search[1]", "returned", 1),
        ("search[2]", "lost", 0),
    ]
    writer.crossing(envelopes[1])
    assert ask(store, "SELECT outcome FROM crossings ORDER BY seq") == [("returned",), ("returned",)]
    assert writer.path.exists()
    writer.close()
    assert ask(store, "SELECT state, crossings, unfinished FROM runs") == [("interrupted", 2, 0)]
    assert not writer.path.exists()
    recording = store.recording(run.run_id)
    assert recording.envelopes == tuple(envelopes[:2])
    assert not recording.complete


def test_what_was_in_flight_is_named(store: Store) -> None:
    run, envelopes = make_run()
    writer = open_journal(store.root, run)
    writer.crossing(envelopes[0])
    writer.mark(*astuple(mark_of(envelopes[1])))
    writer.close()
    recording = store.recording(run.run_id)
    assert recording.unfinished == (mark_of(envelopes[1]),)
    assert recording.envelopes == (envelopes[0],)


def test_a_torn_journal_is_cut_and_named(store: Store) -> None:
    run, envelopes = make_run()
    path = write_journal(store.root, run, envelopes)
    path.write_bytes(path.read_bytes()[:-7])
    assert ask(store, "SELECT state, crossings FROM runs") == [("interrupted", 3)]


def test_what_is_no_journal_is_named_and_left(store: Store) -> None:
    (store.root / "journal").mkdir()
    stranger = store.root / "journal" / "notes.journal"
    stranger.write_text("dear diary")
    assert store.runs() == []
    assert "is not a journal" in store.problems[0]
    assert stranger.exists()


def test_missing_crossings_are_gaps(store: Store) -> None:
    run, envelopes = make_run(crossings=9)
    store.write(run_spans(run, [*envelopes[:2], *envelopes[5:]]))
    recording = store.recording(run.run_id)
    assert recording.gaps == (3, 4, 5)
    assert not recording.complete
    assert store.find_run("refund").state == "incomplete"


def test_a_changed_crossing_is_noticed_by_the_digest_of_the_run(store: Store) -> None:
    run, envelopes = make_run()
    envelopes[1] = replace(envelopes[1], outcome=Outcome("returned", Payload("json", '"forged"')))
    store.write(run_spans(run, envelopes))
    (problem,) = store.recording(run.run_id).problems
    assert "another digest" in problem


def test_lanes_of_child_processes_belong_to_the_run(store: Store) -> None:
    run, envelopes = make_run()
    child, others = make_run(crossings=2, lane="search[1]")
    others = [replace(e, span_id=f"{e.seq + 99:016x}") for e in others]
    child = replace(child, span_id="c" * 16)
    run = replace(run, lanes=("search[1]",))
    store.write(run_spans(run, envelopes) + run_spans(child, others))
    recording = store.recording(run.run_id)
    assert recording.envelopes == tuple(envelopes + others)
    assert recording.complete
    assert ask(store, "SELECT lanes, crossings, complete FROM runs") == [(2, 5, True)]


def test_a_lane_that_never_closed_makes_the_run_incomplete(store: Store) -> None:
    run, envelopes = make_run()
    child, others = make_run(crossings=2, lane="search[1]")
    store.write(run_spans(run, envelopes) + run_spans(replace(child, end_ns=0), others))
    assert store.recording(run.run_id).problems == ("lane search[1] never closed",)
    assert store.find_run("refund").complete is False


def test_a_crossing_after_the_runs_end_is_kept(store: Store) -> None:
    run, envelopes = make_run()
    late = crossing(run, 4, notes=("after the run's end",))
    write_journal(store.root, run, envelopes)
    writer = open_journal(store.root, run, "late")
    writer.crossing(late)
    writer.close()
    recording = store.recording(run.run_id)
    assert recording.envelopes == (*envelopes, late)
    assert recording.run == run
    assert recording.problems == ()


def test_a_name_means_the_newest_complete_run_and_says_so(store: Store) -> None:
    for number in (1, 2):
        store.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    run, envelopes = make_run(3, start_ns=START + DAY)
    store.write(run_spans(run, envelopes[:2]))
    found = store.find_run("refund")
    assert found.trace_id == f"{2:032x}"
    assert "3 runs are called 'refund'" in found.note
    assert "newest complete one" in found.note
    assert store.find_run(run.run_id) == store.find_run(run.run_id[:6])


def test_an_unknown_name_shows_near_ones(store: Store) -> None:
    store.write(run_spans(*make_run(name="trade-notional")))
    with pytest.raises(NeverRecorded, match="did you mean 'trade-notional'"):
        store.find_run("trade-notionel")


def test_an_ambiguous_beginning_of_an_id_is_an_error(store: Store) -> None:
    for number in (0x10, 0x11):
        run, envelopes = make_run(number, name=f"n{number}")
        run = replace(run, run_id=f"abcd{number:028x}")
        store.write(run_spans(run, [replace(e, run_id=run.run_id) for e in envelopes]))
    with pytest.raises(UsageError, match="begins the ids of 2 runs"):
        store.find_run("abcd")


def test_verdicts_and_pins(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    assert store.find_run("refund").verdict == "unknown"
    store.set_verdict(run.run_id, "failed")
    store.pin(run.run_id)
    store.set_verdict(run.run_id, "passed")
    found = open_store(store.root).find_run("refund")
    assert (found.verdict, found.pinned) == ("passed", True)
    with pytest.raises(UsageError, match="no verdict"):
        store.set_verdict(run.run_id, "fine")
    with pytest.raises(NeverRecorded):
        store.set_verdict("nothing", "passed")


def test_a_run_that_raised_has_failed(store: Store) -> None:
    run, envelopes = make_run()
    store.write(run_spans(replace(run, error="ValueError: no"), envelopes))
    assert [info.run_id for info in store.runs(verdict="failed")] == [run.run_id]


def test_a_lost_request_is_no_request(store: Store) -> None:
    run, _ = make_run(crossings=1)
    envelope = crossing(run, 1, request=lost("a socket"), outcome=Outcome("raised", Payload("json", '{"t":"E"}')))
    store.write([codec.to_span(envelope)])
    assert ask(store, "SELECT request, result, outcome FROM crossings") == [(None, '{"t":"E"}', "raised")]


def test_names_never_become_paths(store: Store) -> None:
    run, envelopes = make_run(name="../../evil")
    run = replace(run, run_id="../../../tmp/evil")
    store.write(run_spans(run, [replace(e, run_id=run.run_id) for e in envelopes]))
    store.set_verdict(run.run_id, "failed")
    outside = [path for path in store.root.parent.rglob("*evil*")]
    assert outside == []
    assert store.find_run("../../evil").verdict == "failed"


def test_a_folder_with_wildcards_in_its_name(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a[1]* it's", create=True)
    run, envelopes = make_run()
    store.write(run_spans(run, envelopes))
    assert store.recording(run.run_id).complete
