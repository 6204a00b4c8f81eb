"""One span, one row, by whatever roads its copies came and in whatever order."""

from __future__ import annotations

import itertools
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import codec, semconv
from otel_replay.span import Resource, Span
from otel_replay.store import Store, open_store
from otel_replay.store.parting import key_of, part, rank_of
from otel_replay.store.rows import to_row

from .making import START, crossing, make_run, mark_of, open_journal, run_spans, write_journal
from .test_store import ask

SPAN = Span("f" * 32, "e" * 16, "chat gpt", START, START + 10, attributes=(("k", 1),))
GROWN = replace(SPAN, end_ns=START + 99, attributes=(("k", 2), ("more", True)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, create=True)


def copies(store: Store) -> tuple[int, int]:
    return int(str(ask(store, "SELECT count(*) FROM spans")[0][0])), int(
        str(ask(store, "SELECT count(*) FROM duplicates")[0][0])
    )


def test_equal_copies_collapse_within_and_between_files(store: Store) -> None:
    store.write([SPAN, SPAN])
    store.write([SPAN])
    assert copies(store) == (1, 0)


@pytest.mark.parametrize("order", list(itertools.permutations([SPAN, SPAN, GROWN])))
@pytest.mark.parametrize("together", [True, False])
def test_the_latest_end_wins_in_any_order(store: Store, order: tuple[Span, ...], together: bool) -> None:
    for batch in [order] if together else [[span] for span in order]:
        store.write(batch)
    assert ask(store, "SELECT end_ns, attributes FROM spans") == [(GROWN.end_ns, '{"k":2,"more":true}')]
    ((difference, end),) = ask(store, "SELECT difference, end_ns FROM duplicates")
    assert end == SPAN.end_ns
    assert difference == "end_ns, attributes: k, more"


def test_a_loser_that_comes_again_is_not_kept_again(store: Store) -> None:
    for batch in ([SPAN], [GROWN], [SPAN], [GROWN], [SPAN, GROWN]):
        store.write(batch)
    assert copies(store) == (1, 1)


def test_the_neighbours_of_a_row_that_lost_its_place_stay(store: Store) -> None:
    neighbour = replace(SPAN, span_id="b" * 16)
    store.write([SPAN, neighbour])
    store.write([GROWN])
    expected = [(neighbour.span_id, SPAN.end_ns), (GROWN.span_id, GROWN.end_ns)]
    assert ask(store, "SELECT span_id, end_ns FROM spans ORDER BY 1") == expected
    store.compact(grace_s=0)
    assert ask(store, "SELECT span_id, end_ns FROM spans ORDER BY 1") == expected


def test_equal_ids_with_another_start_are_two_spans(store: Store) -> None:
    store.write([SPAN])
    store.write([replace(SPAN, start_ns=START + 1)])
    assert copies(store) == (2, 0)


def test_two_runs_that_share_their_ids_stay_apart(store: Store) -> None:
    """A program that seeds its random numbers makes the same ids in each run."""
    first, envelopes = make_run(1)
    later = START + 60_000_000_000
    second, others = make_run(2, start_ns=later)
    second = replace(second, trace_id=first.trace_id, span_id=first.span_id)
    others = [replace(e, trace_id=first.trace_id, span_id=m.span_id) for e, m in zip(others, envelopes, strict=True)]
    inner = Span(first.trace_id, "a" * 16, "GET", START + 10, START + 20)
    store.write([*run_spans(first, envelopes), inner])
    store.write([*run_spans(second, others), replace(inner, start_ns=later + 10, end_ns=later + 20)])
    assert store.recording(first.run_id).envelopes == tuple(envelopes)
    assert store.recording(second.run_id).envelopes == tuple(others)
    assert [span.start_ns for span in store.spans(first.run_id) if span.name == "GET"] == [START + 10]
    assert [span.start_ns for span in store.spans(second.run_id) if span.name == "GET"] == [later + 10]
    assert copies(store)[1] == 0


def through_collector(span: Span) -> Span:
    return replace(span, resource=Resource((("service.name", "shop"),)), flags=256)


@pytest.mark.parametrize("journal_first", [True, False])
def test_the_journals_copy_wins_over_the_collectors(store: Store, journal_first: bool) -> None:
    run, envelopes = make_run()
    collected = [through_collector(span) for span in run_spans(run, envelopes)]
    if journal_first:
        write_journal(store.root, run, envelopes)
        store.seal()
        store.write(collected)
    else:
        store.write(collected)
        write_journal(store.root, run, envelopes)
    assert ask(store, "SELECT DISTINCT source FROM spans") == [("journal",)]
    assert ask(store, "SELECT crossings, complete FROM runs") == [(3, True)]
    assert ask(store, "SELECT DISTINCT source, difference FROM duplicates ORDER BY 2") == [
        ("otlp", "flags, service, resource"),
        ("otlp", "flags, service, resource, attributes: gen_ai.tool.call.arguments, gen_ai.tool.call.result"),
    ]
    assert len(ask(store, "SELECT 1 FROM duplicates")) == 4


def test_a_live_journal_stands_in_for_what_the_collector_brought(store: Store) -> None:
    run, envelopes = make_run()
    store.write([through_collector(codec.to_span(envelopes[0]))])
    writer = open_journal(store.root, run)
    writer.crossing(envelopes[0])
    assert ask(store, "SELECT source FROM spans WHERE kind = 'tool'") == [("journal",)]
    assert copies(store) == (2, 1)
    writer.close()


def test_a_finished_copy_wins_over_the_journals_unfinished_one(store: Store) -> None:
    run, envelopes = make_run(crossings=1)
    writer = open_journal(store.root, run)
    writer.mark(*astuple(mark_of(envelopes[0])))
    writer.close()
    store.seal()
    store.write(run_spans(run, envelopes))
    assert store.recording(run.run_id).complete
    assert store.recording(run.run_id).envelopes == tuple(envelopes)


def test_an_intact_copy_wins_over_a_cut_one(store: Store) -> None:
    run, _ = make_run(crossings=1)
    whole = codec.to_span(crossing(run, 1))
    cut = replace(
        whole,
        attributes=tuple((k, (v[0][:9],)) if k == semconv.ENVELOPE else (k, v) for k, v in whole.attributes),  # type: ignore[index]
        end_ns=whole.end_ns + 5,
    )
    store.write([whole])
    store.write([cut])
    assert ask(store, "SELECT integrity FROM crossings") == [("intact",)]
    assert ask(store, "SELECT integrity FROM duplicates") == [("truncated",)]


def test_retries_of_one_percent_leave_counts_right(store: Store) -> None:
    spans = [replace(SPAN, span_id=f"{n:016x}", start_ns=START + n) for n in range(1, 401)]
    store.write(spans[:200])
    store.write(spans[198:])
    assert copies(store) == (400, 0)


span_copies = st.builds(
    lambda end, value, journal: to_row(
        replace(SPAN, end_ns=START + end, attributes=(("k", value),)), source="journal" if journal else "otlp"
    ),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(span_copies, min_size=1, max_size=6), st.lists(span_copies, max_size=4))
def test_one_row_stands_and_it_is_the_best_whatever_came_first(first: list, second: list) -> None:  # type: ignore[type-arg]
    stored = part(first, {}, lambda _: {}).rows
    places = {("file", number): row for number, row in enumerate(stored)}
    parted = part(second, {key_of(SPAN_ROW): list(places)}, lambda wanted: {p: places[p] for p in wanted})
    fallen = set(parted.supersedes.get("file", ()))
    rows = [row for (_, number), row in places.items() if number not in fallen] + parted.rows
    standing = [row for row in rows if row.get("difference") is None]
    assert len(standing) == 1
    assert rank_of(standing[0]) == max(map(rank_of, [*first, *second]))
    texts = [(row["end_ns"], row["attributes"]) for row in rows]
    assert sorted(set(texts)) == sorted({(row["end_ns"], row["attributes"]) for row in [*first, *second]})


SPAN_ROW = to_row(SPAN)
