"""A table of new rows -> files of the store. The caller holds the store's lock.

Most rows meet nobody: no copy of them came along or is in the store already, and none of their trace is. They stay
columns. The others are taken out as rows, parted (parting.py), and put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from otel_replay import limits
from otel_replay.store import doubles, query, schema
from otel_replay.store.folder import Folder, Listing
from otel_replay.store.ids import FILE_ROWS_MAX, ids_in, ids_of
from otel_replay.store.order import by_day, sort_table
from otel_replay.store.parquet import FileInfo, table_of, write_table
from otel_replay.store.parting import KEY_COLUMNS, Parted, Place, key_of, part
from otel_replay.store.rows import Row

NEAR_NS: Final = 3_600 * 1_000_000_000
"""Two copies of one crossing start at almost the same time: files further away than this are not searched."""


def add_table(connection: duckdb.DuckDBPyConnection, folder: Folder, table: pa.Table) -> None:
    """Write `table` to one file for each day on which its runs or traces began."""
    listing = folder.listing()
    for start_ns, rows in by_day(doubles.mark(table)):  # two spans of one call may belong to two days
        meeting = _meeting(connection, folder, listing, rows)
        if meeting is None:
            add_file(folder, start_ns, Parted([]), plain=rows)
            continue
        parted = part_against(connection, folder, listing, rows.filter(meeting).to_pylist())
        add_file(folder, start_ns, parted, plain=rows.filter(pc.invert(meeting)))


def add_file(
    folder: Folder, start_ns: int, parted: Parted, seals: Sequence[str] = (), plain: pa.Table | None = None
) -> None:
    """Write the rows of `parted` to one file, and with them those of `plain`, which have no large strings."""
    tables = [] if plain is None else [plain]
    if parted.rows:
        tables.append(table_of(folder.blobs.cut(parted.rows)))
    table = pa.concat_tables(tables) if tables else table_of([])
    if table.num_rows or seals:
        path = folder.new_path(start_ns)
        info = write_table(folder.storage, sort_table(table), path, seals=seals, supersedes=parted.supersedes)
        folder.added(info, ids_in(table))


# Rows of the store ---------------------------------------------------------------------------------------


def part_against(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, rows: Sequence[Row]
) -> Parted:
    """Part `rows` from each other and from the files of `listing`."""
    if not rows:
        return Parted([])
    starts = [row["start_ns"] for row in rows]
    near = _near(connection, folder, listing, min(starts), max(starts), ids_of(rows))
    stored, kin = query.places_of(connection, near, listing.superseded, rows)
    parted = part(rows, stored, lambda places: rows_at(connection, folder, listing, places))
    turned = doubles.kin_that_turn(parted, kin)
    for (name, number), row in rows_at(connection, folder, listing, turned).items():
        parted.rows.append(doubles.marked(row))
        parted.supersedes.setdefault(name, []).append(number)
    return parted


def _near(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, first: int, last: int, ids: set[str]
) -> list[FileInfo]:
    """Return the files that may hold spans of these runs and traces, begun between `first` and `last`."""
    near = [i for i in listing.files.values() if i.start_min <= last + NEAR_NS and i.start_max >= first - NEAR_NS]
    fresh = [info for info in near if info.rows <= FILE_ROWS_MAX and not folder.ids.knows(info.name)]
    for name, found in query.ids_in(connection, fresh).items():
        folder.ids.learn(name, found)
    return [info for info in near if folder.ids.may_hold(info.name, ids)]


def rows_at(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, places: Iterable[Place]
) -> dict[Place, Row]:
    """Return the rows at `places`, whole."""
    found = query.rows_at(connection, listing, places)
    return dict(zip(found, folder.blobs.whole(list(found.values())), strict=True))


# Rows that meet others -----------------------------------------------------------------------------------


def _meeting(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, table: pa.Table
) -> pa.ChunkedArray | None:
    """Return which rows must be looked at one by one; None where that is none of them.

    Copies of each other, those whose run or trace is in the store already, and those with large strings.
    """
    masks = [_large(table), _copies(table), _known(connection, folder, listing, table)]
    found = [mask for mask in masks if mask is not None]
    return reduce(pc.or_, found) if found else None


def _large(table: pa.Table) -> pa.ChunkedArray | None:
    columns = [table.column(name) for name in schema.LONG_COLUMNS]
    most = [pc.max(pc.binary_length(column)).as_py() or 0 for column in columns]
    if max(most) <= limits.BLOB_THRESHOLD_BYTES:
        return None
    large = [pc.greater(pc.binary_length(column), limits.BLOB_THRESHOLD_BYTES) for column in columns]
    return reduce(pc.or_, [pc.fill_null(mask, False) for mask in large])


def _copies(table: pa.Table) -> pa.Array | None:
    runless = table.column("run_id").null_count == table.num_rows
    if runless and pc.count_distinct(table.column("span_id")).as_py() == table.num_rows:
        return None
    columns = [table.column(name).to_pylist() for name in KEY_COLUMNS]
    keys = [key_of(dict(zip(KEY_COLUMNS, values, strict=True))) for values in zip(*columns, strict=True)]
    counts = Counter(keys)
    return None if len(counts) == len(keys) else pa.array([counts[key] > 1 for key in keys], pa.bool_())


def _known(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, table: pa.Table
) -> pa.ChunkedArray | None:
    bounds, ids = pc.min_max(table.column("start_ns")), ids_in(table)
    near = _near(connection, folder, listing, bounds["min"].as_py(), bounds["max"].as_py(), ids)
    unknown = [info for info in near if not folder.ids.knows(info.name)]
    held = query.ids_held(connection, unknown, ids).union(*(folder.ids.held(info.name, ids) for info in near))
    if not held:
        return None
    several = pa.array(sorted(held), pa.string())
    return pc.or_(pc.is_in(table.column("trace_id"), several), pc.is_in(table.column("run_id"), several))
