"""Damaged files, out of the way of every listing. What can still be read of one goes back into the store.

A file without a whole footer tells nothing of its rows. Behind a whole footer each row group is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from otel_replay.errors import StoreError
from otel_replay.store import schema
from otel_replay.store.adding import add_table
from otel_replay.store.folder import SPANS, Folder
from otel_replay.store.parquet import table_of
from otel_replay.store.rows import Row

DAMAGED: Final = "damaged"


@dataclass(frozen=True, slots=True)
class SetAside:
    """One file that was set aside: where it lay and lies, why, and how many rows could be read and could not.

    `rows_lost` is None where nobody can tell, since the file's footer is gone.
    """

    path: str
    now: str
    reason: str
    bytes: int
    rows_saved: int = 0
    rows_lost: int | None = None


def set_aside(connection: duckdb.DuckDBPyConnection, folder: Folder) -> list[SetAside]:
    """Move each damaged file to `damaged/`, and write what can be read of it to a new one.

    The caller holds the store's lock. Raises StoreError where the storage refuses; what was done stays done.
    """
    listing = folder.listing()
    done = [_moved(folder, path, reason) for path, reason in folder.damaged()]
    for info in listing.files.values():
        problem = _problem(folder, info.path)
        if not problem:
            continue
        rows = list(_readable(folder, info.path))
        moved = _moved(folder, info.path, problem)
        if rows:
            add_table(connection, folder, table_of(rows))
        done.append(
            SetAside(moved.path, moved.now, problem, moved.bytes, rows_saved=len(rows), rows_lost=info.rows - len(rows))
        )
    return done


def _problem(folder: Folder, path: Path) -> str:
    """Return why a file can't be read to its end, "" where it can."""
    try:
        with folder.storage.opened(path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            for at in range(file.num_row_groups):
                file.read_row_group(at)
    except FileNotFoundError:
        return ""  # a compaction took it over meanwhile
    except (OSError, pa.ArrowException) as fault:
        if not folder.storage.is_the_files(fault):
            raise StoreError(f"{folder.storage.shown(path)} can't be read now: {fault}") from fault
        return str(fault)
    return ""


def _readable(folder: Folder, path: Path) -> Iterator[Row]:
    """Yield the rows of all row groups that can be read, their large strings in place."""
    with folder.storage.opened(path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
        for at in range(file.num_row_groups):
            try:
                found = file.read_row_group(at).to_pylist()
            except (OSError, pa.ArrowException):
                continue
            for row in folder.blobs.whole(found):
                yield {column: row.get(column) for column in schema.COLUMNS}


def _moved(folder: Folder, path: Path, reason: str) -> SetAside:
    storage = folder.storage
    now = storage.root / DAMAGED / path.relative_to(storage.root / SPANS)
    try:
        data = storage.read(path)
        staged = storage.staging(now)
        staged.write_bytes(data)
        storage.publish(staged, now)
        storage.remove(path)
    except OSError as fault:
        raise StoreError(f"{storage.shown(path)} could not be set aside: {fault}") from fault
    folder.forget(path)
    return SetAside(storage.shown(path), storage.shown(now), reason, len(data))
