"""The newest runs are those that the list of all runs begins with, however they lie in files and overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from otel_replay import codec
from otel_replay.span import Span
from otel_replay.store import open_store

from .making import DAY, START, make_run

NO_SHRINK = [phase for phase in Phase if phase is not Phase.shrink]
"""Each example writes and reads many files."""


def spans_of(number: int, start_ns: int, lasts_ns: int, own: bool) -> list[Span]:
    """Return a run whose last crossing begins at its end; with `own` off, its own span never came."""
    run, (first, last) = make_run(number + 1, 2, name=f"run {number}", start_ns=start_ns)
    late = replace(last, start_ns=start_ns + lasts_ns, end_ns=start_ns + lasts_ns + 1)
    spans = [codec.to_span(first), codec.to_span(late)]
    return [*spans, codec.run_to_span(replace(run, end_ns=late.end_ns))] if own else spans


@settings(max_examples=25, deadline=None, phases=NO_SHRINK)
@given(
    st.lists(st.tuples(st.integers(0, 30 * DAY), st.sampled_from([10, DAY, 20 * DAY]), st.integers(0, 9)), max_size=25),
    st.integers(1, 30),
)
def test_some_are_the_first_of_all(described: list[tuple[int, int, int]], limit: int) -> None:
    with TemporaryDirectory() as folder, open_store(Path(folder), create=True) as store:
        for number, (start, lasts, kept) in enumerate(described):
            store.write(spans_of(number, START + start, lasts, own=kept > 0))
        everything = store.runs()
        some = store.runs(limit=limit)
        assert some == everything[: len(some)]
        closed = [run for run in everything if run.state != "interrupted"]
        assert len(some) >= min(limit, len(closed))


def test_a_limit_beyond_what_is_there_gives_all(tmp_path: Path) -> None:
    with open_store(tmp_path, create=True) as store:
        assert store.runs(limit=3) == []
        store.write(spans_of(1, DAY, 10, own=True))
        assert [run.name for run in store.runs(limit=3)] == ["run 1"]
