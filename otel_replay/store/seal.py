"""Journals -> files of the store. The caller holds the store's lock.

Each change is one rename. A journal is removed only after the file that names it is durable; where a crash comes in
between, the next one who passes sees it named and removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import duckdb

from otel_replay.store.adding import add_file, part_against
from otel_replay.store.folder import Folder, day_of
from otel_replay.store.journals import JournalRows, journal_paths, read_all
from otel_replay.store.storage import fault_point

SEALED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Journals beyond this together go to several files: sealing holds them in memory."""


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
            add_file(folder, min(row["start_ns"] for row in rows), parted, names)
        fault_point("before journals are removed")
        _remove(folder, names)


def _remove(folder: Folder, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError, PermissionError):
            (folder.journal / name).unlink()
