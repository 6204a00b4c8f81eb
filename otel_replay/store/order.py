"""In what order and in which file rows stand: by (start of their run or trace, run or trace, lane, sequence, start).

Neighbours are alike then, which saves more bytes than any codec; and a run's or trace's rows share the day it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from otel_replay.store.folder import day_of


class Groups(NamedTuple):
    """The runs and traces of a table. What keeps rows together is the run, or the trace of a span of none."""

    of_row: pa.Array
    """The group of each row, a number."""
    begun: list[int]
    """When each group began, the earliest start of its rows. Groups are numbered in order of this, then of id."""


def groups_of(table: pa.Table) -> Groups:
    """Return the groups of a table of one chunk."""
    runs, traces = table.column("run_id"), table.column("trace_id")
    ids = (
        traces
        if runs.null_count == len(runs)
        else pc.if_else(pc.fill_null(pc.not_equal(runs, ""), False), runs, traces)
    )
    numbered = ids.combine_chunks().dictionary_encode()
    begun = pa.table({"group": numbered.indices, "start_ns": table.column("start_ns")}).group_by("group")
    least = begun.aggregate([("start_ns", "min")])
    starts = dict(zip(least.column("group").to_pylist(), least.column("start_ns_min").to_pylist(), strict=True))
    names = numbered.dictionary.to_pylist()
    ordered = sorted(range(len(names)), key=lambda number: (starts[number], names[number]))
    places = [0] * len(names)
    for place, number in enumerate(ordered):
        places[number] = place
    return Groups(pc.take(pa.array(places, pa.int64()), numbered.indices), [starts[number] for number in ordered])


def sort_table(table: pa.Table) -> pa.Table:
    """Return the rows of `table` in order."""
    table = table.combine_chunks()
    keys: dict[str, pa.Array] = {"group": groups_of(table).of_row}
    if table.column("run_id").null_count < table.num_rows:
        keys["lane"] = pc.fill_null(table.column("lane"), "")
        keys["seq"] = pc.fill_null(table.column("seq"), 0)
    keys |= {name: table.column(name) for name in ("start_ns", "span_id")}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return table.take(order)


def by_day(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield (the earliest start, the rows) for each day on which runs or traces of `table` began."""
    table = table.combine_chunks()
    groups = groups_of(table)
    days: dict[str, list[int]] = {}
    for number, start_ns in enumerate(groups.begun):
        days.setdefault(day_of(start_ns), []).append(number)
    for numbers in days.values():
        whole = len(days) == 1
        rows = table if whole else table.filter(pc.is_in(groups.of_row, pa.array(numbers, pa.int64())))
        yield groups.begun[numbers[0]], rows
