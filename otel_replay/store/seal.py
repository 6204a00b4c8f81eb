"""Rows and journals -> files of the store. The caller holds the store's lock.

Each change is one rename. A journal is removed only after the file that names it is durable; where a crash comes in
between, the next one who passes sees it named and removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import duckdb

from otel_replay.store import doubles, query
from otel_replay.store.folder import Folder, Listing, day_of
from otel_replay.store.ids import FILE_ROWS_MAX, ids_of
from otel_replay.store.journals import JournalRows, journal_paths, read_all
from otel_replay.store.parquet import group_of, write_rows
from otel_replay.store.parting import Parted, Place, part
from otel_replay.store.rows import Row
from otel_replay.store.storage import fault_point

NEAR_NS: Final = 3_600 * 1_000_000_000
"""Two copies of one crossing start at almost the same time: files further away than this are not searched."""
SEALED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Journals beyond this together go to several files: sealing holds them in memory."""


def part_against(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, rows: Sequence[Row]
) -> Parted:
    """Part `rows` from each other and from the files of `listing`."""
    if not rows:
        return Parted([])
    low = min(row["start_ns"] for row in rows) - NEAR_NS
    high = max(row["start_ns"] for row in rows) + NEAR_NS
    near = [info for info in listing.files.values() if info.start_min <= high and info.start_max >= low]
    fresh = [info for info in near if info.rows <= FILE_ROWS_MAX and not folder.ids.knows(info.name)]
    for name, ids in query.ids_in(connection, fresh).items():
        folder.ids.learn(name, ids)
    wanted = ids_of(rows)
    near = [info for info in near if folder.ids.may_hold(info.name, wanted)]
    stored, kin = query.places_of(connection, near, listing.superseded, rows)
    parted = part(rows, stored, lambda places: rows_at(connection, folder, listing, places))
    turned = doubles.kin_that_turn(parted, kin)
    for (name, number), row in rows_at(connection, folder, listing, turned).items():
        parted.rows.append(doubles.marked(row))
        parted.supersedes.setdefault(name, []).append(number)
    return parted


def rows_at(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, places: Iterable[Place]
) -> dict[Place, Row]:
    """Return the rows at `places`, whole."""
    found = query.rows_at(connection, listing, places)
    return dict(zip(found, folder.blobs.whole(list(found.values())), strict=True))


def add_rows(connection: duckdb.DuckDBPyConnection, folder: Folder, rows: Sequence[Row]) -> None:
    """Write `rows` to one file for each day on which their runs or traces began."""
    listing = folder.listing()
    for start_ns, group in _by_day(doubles.mark(rows)):  # two spans of one call may belong to two days
        parted = part_against(connection, folder, listing, group)
        if parted.rows:
            _add_file(folder, start_ns, parted)


def _add_file(folder: Folder, start_ns: int, parted: Parted, seals: Sequence[str] = ()) -> None:
    path = folder.new_path(start_ns)
    rows = folder.blobs.cut(parted.rows)
    info = write_rows(folder.storage, rows, path, seals=seals, supersedes=parted.supersedes)
    folder.added(info, parted.rows)


def _by_day(rows: Sequence[Row]) -> Iterable[tuple[int, list[Row]]]:
    starts: dict[str, int] = {}
    for row in rows:
        group = group_of(row)
        starts[group] = min(row["start_ns"], starts.get(group, row["start_ns"]))
    days: dict[str, list[Row]] = {}
    for row in rows:
        days.setdefault(day_of(starts[group_of(row)]), []).append(row)
    return [(min(starts[group_of(row)] for row in group), group) for group in days.values()]


def seal_journals(connection: duckdb.DuckDBPyConnection, folder: Folder) -> int:
    """Write the journals whose recorders have ended to files, and remove them; returns how many were sealed."""
    if not journal_paths(folder.journal):
        return 0
    sealed = folder.listing().sealed
    batch: list[JournalRows] = []
    count = 0
    for journal in read_all(folder.journal):
        if journal.name in sealed:
            _remove(folder, [journal.name])
            continue
        if journal.live:
            continue
        batch.append(journal)
        count += 1
        if sum(item.size for item in batch) > SEALED_BYTES_MAX:
            _seal(connection, folder, batch)
            batch = []
    if batch:
        _seal(connection, folder, batch)
    return count


def _seal(connection: duckdb.DuckDBPyConnection, folder: Folder, journals: Sequence[JournalRows]) -> None:
    days: dict[str, list[JournalRows]] = {}
    for journal in journals:
        start = min((row["start_ns"] for row in journal.rows), default=0)
        days.setdefault(day_of(start), []).append(journal)
    for group in days.values():
        rows = [row for journal in group for row in journal.rows]
        names = [journal.name for journal in group]
        if rows:
            listing = folder.listing()
            parted = part_against(connection, folder, listing, rows)
            _add_file(folder, min(row["start_ns"] for row in rows), parted, names)
        fault_point("before journals are removed")
        _remove(folder, names)


def _remove(folder: Folder, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError, PermissionError):
            (folder.journal / name).unlink()
