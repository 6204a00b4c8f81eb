"""A call that several spans tell of: decided when it is written, in whatever order and parts its spans arrive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from otel_replay import semconv
from otel_replay.span import Span
from otel_replay.store import open_store, schema
from otel_replay.store.doubles import IN_SQL
from otel_replay.store.parquet import table_of
from otel_replay.store.rows import to_row

NS = 1_000_000_000
FACTS: tuple[dict[str, str], ...] = (
    {},
    {semconv.GEN_AI_OPERATION: "chat"},
    {semconv.GEN_AI_REQUEST_MODEL: "m"},
    {semconv.GEN_AI_OPERATION: "chat", semconv.GEN_AI_REQUEST_MODEL: "m"},
    {semconv.GEN_AI_OPERATION: "embeddings"},
    {semconv.GEN_AI_OPERATION: "execute_tool", semconv.GEN_AI_TOOL_NAME: "search"},
    {semconv.GEN_AI_TOOL_NAME: "search"},
    {semconv.GEN_AI_TOOL_NAME: "plan"},
    {semconv.KIND: "model"},
    {semconv.KIND: "tool", semconv.GEN_AI_TOOL_NAME: "search"},
)
NO_SHRINK = [phase for phase in Phase if phase is not Phase.shrink]
"""Each example writes and reads several files."""
STARTS = st.sampled_from([1_790_035_100 * NS, 1_790_035_300 * NS])
"""On either side of midnight."""


def span(number: int, parent: int, facts: dict[str, str], start_ns: int) -> Span:
    under = f"{parent:016x}" if parent else ""
    return Span("ab" * 16, f"{number:016x}", "n", start_ns, start_ns + 1, under, attributes=tuple(facts.items()))


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[Span]]:
    """Return the spans of a trace in parts, in any order."""
    count = draw(st.integers(1, 9))
    spans = [
        span(n, draw(st.integers(0, n - 1)), draw(st.sampled_from(FACTS)), draw(STARTS)) for n in range(1, count + 1)
    ]
    mixed = draw(st.permutations(spans))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=3)))
    return [mixed[low:high] for low, high in zip([0, *cuts], [*cuts, count], strict=True)]


def by_sql(spans: Sequence[Span]) -> set[str]:
    """What the plain query finds among all rows at once."""
    connection = duckdb.connect()
    connection.register("found", table_of([to_row(span) for span in spans]))
    connection.execute("CREATE TABLE t AS FROM found")
    return {name for (name,) in connection.execute(f"SELECT span_id FROM t WHERE {IN_SQL.format('t', 't')}").fetchall()}


def asked(folder: Path) -> tuple[set[str], list[list[object]]]:
    """Return (the doubles that rows tell of, what the views count)."""
    with open_store(folder) as store:
        names = store.arrow("SELECT span_id FROM spans WHERE kind = 'double'").column(0).to_pylist()
        views = [f"SELECT span_id FROM {view} ORDER BY 1" for view in ("model_calls", "tool_calls")]
        return set(names), [store.arrow(text).column(0).to_pylist() for text in views]


def as_older_versions_wrote(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        table = pq.read_table(path)
        undecided = pc.if_else(pc.equal(table.column("kind"), "double"), pa.scalar(None, pa.string()), table["kind"])
        table = table.set_column(table.column_names.index("kind"), "kind", undecided)
        footer = pq.read_metadata(path).metadata
        kept = {key: value for key, value in footer.items() if key not in (schema.DOUBLES_KEY, b"ARROW:schema")}
        pq.write_table(table.replace_schema_metadata(kept), path)


@settings(max_examples=40, deadline=None, phases=NO_SHRINK)
@given(deliveries())
def test_rows_say_what_the_plain_query_finds(parts: list[list[Span]]) -> None:
    expected = by_sql([span for part in parts for span in part])
    with TemporaryDirectory() as folder:
        root = Path(folder)
        with open_store(root, create=True) as store:
            for part in parts:
                store.write(part)
        doubles, counted = asked(root)
        assert doubles == expected
        with open_store(root) as store:
            store.compact(grace_s=0)
        assert asked(root) == (doubles, counted)
        as_older_versions_wrote(root)
        assert asked(root) == (set(), counted)
        with open_store(root) as store:
            store.compact(grace_s=0)
        assert asked(root) == (doubles, counted)


@settings(max_examples=25, deadline=None, phases=NO_SHRINK)
@given(deliveries(), deliveries())
def test_new_rows_beside_files_of_an_older_version(parts: list[list[Span]], more: list[list[Span]]) -> None:
    old = [span for part in parts for span in part]
    known = {span.span_id for span in old}
    new = [span for part in more for span in part if span.span_id not in known]
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        for folder in (first, second):
            with open_store(folder, create=True) as store:
                store.write(old)
        as_older_versions_wrote(Path(first))
        for folder in (first, second):
            with open_store(folder) as store:
                store.write(new)
        assert asked(Path(first))[1] == asked(Path(second))[1]


@pytest.mark.parametrize("again", ["equal", "better"])
def test_a_copy_of_a_double_stays_one_row(tmp_path: Path, again: str) -> None:
    outer, inner = span(1, 0, FACTS[3], NS), span(2, 1, FACTS[3], NS)
    later = outer if again == "equal" else span(1, 0, {**FACTS[3], "more": "x"}, NS)
    with open_store(tmp_path, create=True) as store:
        store.write([outer, inner])
        store.write([later])
        assert asked(tmp_path) == ({outer.span_id}, [[inner.span_id], []])
        assert len(store.arrow("SELECT * FROM duplicates")) == (again == "better")
