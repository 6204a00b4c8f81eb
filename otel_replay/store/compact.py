"""Many small files -> few sorted ones; rows that lost their place leave, copies that slipped through are parted.

The new file is written without the store's lock, and takes the old ones' place by one rename under it. Old files
stay for a while, for readers that have just listed them, and are removed by a later pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from otel_replay import limits
from otel_replay.errors import StoreError
from otel_replay.originals import now_ns
from otel_replay.store import query, schema
from otel_replay.store.adding import rows_at
from otel_replay.store.doubles import IN_SQL
from otel_replay.store.folder import Folder, Listing
from otel_replay.store.journals import journal_paths
from otel_replay.store.large import names_of
from otel_replay.store.order import sort_table
from otel_replay.store.parquet import SUFFIX, FileInfo, Staged, new_name, stage, table_of
from otel_replay.store.parting import Place, key_of, part
from otel_replay.store.rows import Row
from otel_replay.store.storage import Entry, fault_point

GRACE_S: Final = 900.0
"""How long a file that was taken over stays, so that no reader loses it in the middle of a query."""
FILE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Files are taken together up to this size."""
SMALL_BYTES: Final = 8 * 1024 * 1024
SMALL_FILES_MAX: Final = 16
"""So many small files of one day are taken together as soon as one more is added."""
_BATCH_ROWS: Final = 2_048
_LARGE_ROWS: Final = 32
SORT_MEMORY: Final = "192MB"
"""What sorting may hold in memory, beside what is being written; the rest goes to a temporary file."""

_ORDER: Final = """
SELECT f.* EXCLUDE (filename, file_row_number){doubles} FROM {files} AS f
JOIN (SELECT coalesce(run_id, trace_id) AS grouped, min(start_ns) AS begun FROM {files} GROUP BY 1) AS g
  ON g.grouped = coalesce(f.run_id, f.trace_id)
WHERE NOT EXISTS (SELECT 1 FROM leaving AS l WHERE l.file = parse_filename(f.filename) AND l.row = f.file_row_number)
  {condition}
ORDER BY g.begun, grouped, lane NULLS FIRST, seq NULLS FIRST, start_ns, span_id
"""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a pass did: how many files and bytes before and after, and what it removed."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_parted: int = 0
    removed: int = 0

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def compact(
    connection: duckdb.DuckDBPyConnection, folder: Folder, *, grace_s: float = GRACE_S, small_only: bool = False
) -> Compaction:
    """Take the files of each day together. The caller does not hold the store's lock. Raises StoreError."""
    done = Compaction()
    listing = folder.listing()
    for group in _groups(listing, small_only=small_only):
        try:
            done += _compact_group(connection, folder, listing, group)
        except duckdb.ConversionException as fault:  # columns of one name and different types, which no store writes
            if not small_only:
                day = folder.storage.shown(group[0].path.parent)
                raise StoreError(f"the files of {day} stay apart: {str(fault).splitlines()[0]}") from fault
    if small_only and not done.files_before:
        return done  # the pass after every write looks for old files only where it made some
    return done + Compaction(removed=sweep(folder, grace_s=grace_s))


def _groups(listing: Listing, *, small_only: bool) -> Iterator[list[FileInfo]]:
    """Yield the files to take together. Those of a later version stay: their columns are not known here."""
    days: dict[str, list[FileInfo]] = {}
    for info in listing.files.values():
        if info.version <= schema.VERSION and (not small_only or info.size < SMALL_BYTES):
            days.setdefault(info.path.parent.name, []).append(info)
    for files in days.values():
        if small_only and len(files) < SMALL_FILES_MAX:
            continue
        group: list[FileInfo] = []
        for info in files:
            if group and sum(item.size for item in group) + info.size > FILE_BYTES_MAX:
                yield from _worth_it(listing, group)
                group = []
            group.append(info)
        yield from _worth_it(listing, group)


def _worth_it(listing: Listing, group: list[FileInfo]) -> Iterator[list[FileInfo]]:
    if len(group) > 1 or any(info.name in listing.superseded or not info.settled for info in group):
        yield group


def _compact_group(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, group: Sequence[FileInfo]
) -> Compaction:
    kept: set[str] = set()
    staged, parted = rewrite(connection, folder, listing, group, kept=kept)
    before = Compaction(files_before=len(group), bytes_before=sum(info.size for info in group), rows_parted=parted)
    published = publish(folder, listing, group, staged, kept)
    if published is None:
        return Compaction()
    return before + Compaction(files_after=1, bytes_after=published.size)


def rewrite(
    connection: duckdb.DuckDBPyConnection,
    folder: Folder,
    listing: Listing,
    group: Sequence[FileInfo],
    condition: str = "",
    *,
    kept: set[str],
) -> tuple[Staged, int]:
    """Return (the staged file that holds what stands of `group`, how many copies were parted).

    Large strings that an older version left in its rows become blobs; their names are added to `kept`.
    """
    names = {info.name for info in group}
    leaving = [(name, row) for name in names for row in listing.superseded.get(name, ())]
    slipped, settled = _slipped(connection, folder, listing, group)
    leaving += slipped
    supersedes: dict[str, list[int]] = {}
    for info in group:
        for name, numbers in info.supersedes.items():
            if name not in names and name in listing.files:
                supersedes.setdefault(name, []).extend(numbers)
    there = {path.name for path in journal_paths(folder.journal)}
    still = {info.name for info in (*listing.files.values(), *listing.replaced)}

    def staged() -> Staged:
        return stage(
            folder.storage,
            _sorted_tables(connection, folder, listing, group, leaving, settled, condition, kept),
            group[0].path.with_name(new_name() + SUFFIX),
            seals=[name for info in group for name in info.seals if name in there],
            replaces=sorted(names | {name for info in group for name in info.replaces if name in still}),
            supersedes=supersedes,
        )

    return _in_bounded_memory(connection, staged), len(slipped) - len(settled)


def _in_bounded_memory(connection: duckdb.DuckDBPyConnection, work: Callable[[], Staged]) -> Staged:
    """Do `work` while the engine holds little, or with all that it may hold where that is too little."""
    try:
        connection.execute(f"SET memory_limit = '{SORT_MEMORY}'")
        connection.execute("SET threads = 1")  # each thread sorts in memory of its own
        return work()
    except duckdb.OutOfMemoryException:
        connection.execute("RESET memory_limit")
        return work()
    finally:
        connection.execute("RESET memory_limit")
        connection.execute("RESET threads")


def _sorted_tables(
    connection: duckdb.DuckDBPyConnection,
    folder: Folder,
    listing: Listing,
    group: Sequence[FileInfo],
    leaving: Sequence[Place],
    settled: Sequence[Row],
    condition: str,
    kept: set[str],
) -> Iterator[pa.Table]:
    cursor = connection.cursor()
    query.places_table(cursor, "leaving", leaving)
    doubles = ""
    if not all(info.settled for info in group):
        found = IN_SQL.format("f", query.scan(listing.files.values()))
        doubles = f" REPLACE (CASE WHEN {found} THEN 'double' ELSE kind END AS kind)"
    text = _ORDER.format(files=query.scan(group, places=True), condition=condition, doubles=doubles)
    relation = cursor.sql(text)
    # DuckDB 2 renamed it; both give a pyarrow.RecordBatchReader.
    read = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch
    for batch in read(_BATCH_ROWS):
        yield from _without_large(folder, _with_all_columns(pa.Table.from_batches([batch])), kept)
    if settled:
        yield from _without_large(folder, sort_table(table_of(settled)), kept)


def _without_large(folder: Folder, table: pa.Table, kept: set[str]) -> Iterator[pa.Table]:
    """Yield `table` without the large strings that are still in it, now kept beside it, their names in `kept`."""
    lengths = [pc.max(pc.binary_length(table.column(name))).as_py() or 0 for name in schema.LONG_COLUMNS]
    if max(lengths) <= limits.BLOB_THRESHOLD_BYTES:
        yield table
        return
    for at in range(0, table.num_rows, _LARGE_ROWS):
        rows = folder.blobs.cut(table.slice(at, _LARGE_ROWS).to_pylist())
        kept |= names_of(row["blobs"] for row in rows if row["blobs"])
        yield table_of(rows)


def _with_all_columns(table: pa.Table) -> pa.Table:
    """Return `table` with the columns that an older version lacks as nulls, in the order of this version."""
    columns = [
        table.column(item.name).cast(item.type) if item.name in table.column_names else pa.nulls(len(table), item.type)
        for item in schema.SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=schema.SCHEMA)


def _slipped(
    connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing, group: Sequence[FileInfo]
) -> tuple[list[Place], list[Row]]:
    """Return (places of copies that no writer parted, the rows that take their place).

    There are none where the lock works. It does not on every network file system, nor on Windows.
    """
    answer = connection.execute(
        f"""SELECT list(parse_filename(filename)), list(file_row_number) FROM {query.scan(group, places=True)}
        WHERE difference IS NULL
        GROUP BY coalesce(run_id, ''), coalesce(lane, ''), CASE WHEN kind = 'run' THEN -1 ELSE coalesce(seq, -2) END,
          CASE WHEN run_id IS NULL OR (seq IS NULL AND kind IS DISTINCT FROM 'run') THEN trace_id END,
          CASE WHEN run_id IS NULL OR (seq IS NULL AND kind IS DISTINCT FROM 'run') THEN span_id END,
          CASE WHEN run_id IS NULL OR (seq IS NULL AND kind IS DISTINCT FROM 'run') THEN start_ns END
        HAVING count(*) > 1"""  # noqa: S608  # paths, quoted by scan
    ).fetchall()
    places = [
        (name, number)
        for names, numbers in answer
        for name, number in zip(names, numbers, strict=True)
        if number not in listing.superseded.get(name, ())
    ]
    rows = rows_at(connection, folder, listing, places)
    keys: dict[object, int] = {}
    for row in rows.values():
        keys[key_of(row)] = keys.get(key_of(row), 0) + 1
    twice = {place: row for place, row in rows.items() if keys[key_of(row)] > 1}
    return list(twice), part(twice.values(), {}, lambda _: {}).rows


def publish(
    folder: Folder, listing: Listing, group: Sequence[FileInfo], staged: Staged, kept: Iterable[str] = ()
) -> FileInfo | None:
    """Let `staged` take the place of `group`, unless one of them changed its standing meanwhile.

    `kept` are blobs that were written without the lock, and may have been swept since.
    """
    try:
        with folder.storage.locked():
            now = folder.listing()
            unchanged = all(
                info.name in now.files and now.superseded.get(info.name) == listing.superseded.get(info.name)
                for info in group
            )
            if unchanged and folder.blobs.there(kept):
                return staged.publish()
    except StoreError:
        staged.discard()
        raise
    staged.discard()
    return None


def sweep(folder: Folder, *, grace_s: float = GRACE_S) -> int:
    """Remove files that were taken over long enough ago, and what a killed writer left; returns how many."""
    removed = 0
    oldest = now_ns() - int(grace_s * 1e9)
    listing = folder.listing()
    taken = {name: info for info in listing.files.values() for name in info.replaces}
    taken |= {info.name: info for info in listing.replaced if info.name in listing.void}
    for info in listing.replaced:
        by = taken.get(info.name)
        if by is None:
            continue  # taken over by a file that was taken over itself: the newest of them names it too
        with suppress(OSError):
            if folder.storage.entry(by.path).changed_ns <= oldest:
                folder.storage.remove(info.path)
                removed += 1
    for entry in folder.left_behind():
        with suppress(OSError):
            if entry.changed_ns <= oldest:
                folder.storage.remove(entry.path)
                removed += 1
    return removed + sweep_blobs(folder, oldest)


def sweep_blobs(folder: Folder, oldest_ns: int) -> int:
    """Remove the blobs that no file refers to and that nobody wrote since `oldest_ns`; returns how many.

    While a file can't be read, all stay: nobody knows what it refers to.
    """
    if not _unreferred(folder, oldest_ns):  # mostly; and the lock is dear in object storage
        return 0
    with folder.storage.locked():
        going = _unreferred(folder, oldest_ns)
        for entry in going:
            fault_point("before a blob is removed")
            folder.storage.remove(entry.path)
        return len(going)


def _unreferred(folder: Folder, oldest_ns: int) -> list[Entry]:
    found = {name: entry for name, entry in folder.blobs.entries().items() if entry.changed_ns <= oldest_ns}
    if not found:
        return []
    listing = folder.listing()
    if listing.problems:
        return []
    referred = listing.blobs()
    return [entry for name, entry in found.items() if name not in referred]
