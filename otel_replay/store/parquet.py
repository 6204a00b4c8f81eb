"""Rows <-> Parquet files. A file is there whole or not at all.

Written under a temporary name that no reader lists, synced, renamed, and the folder synced. Row groups hold about
16 MB, so that looking up one run unpacks little, whatever the size of its payloads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from otel_replay import limits
from otel_replay.blobs import is_name
from otel_replay.errors import DamagedFile, ImportFault, StoreError
from otel_replay.location import is_utf8
from otel_replay.originals import now_ns, random_hex
from otel_replay.store import schema
from otel_replay.store.large import names_of
from otel_replay.store.rows import Row
from otel_replay.store.storage import Entry, Storage, fault_point

SUFFIX: Final = ".parquet"
_WIDTH: Final = len(schema.COLUMNS)
_PAGE_BYTES: Final = 4 * 1024 * 1024
_BASE32: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def new_name() -> str:
    """Return a fresh ULID (github.com/ulid/spec, lower case): names sort by the time they were made."""
    number = (now_ns() // 1_000_000) << 80 | int(random_hex(10), 16)
    return "".join(_BASE32[number >> shift & 31] for shift in range(125, -1, -5))


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a file's footer says. Files never change, so this is read once for each path."""

    path: Path
    address: str
    """What the engine calls it."""
    rows: int
    start_min: int
    start_max: int
    size: int
    version: int = schema.VERSION
    seals: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    supersedes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    blobs: frozenset[str] = frozenset()
    """The large strings that its rows refer to."""
    settled: bool = True
    """False where rows may be doubles of others without saying so: an older version wrote them."""

    @property
    def name(self) -> str:
        return self.path.name


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Return `rows` as an Arrow table with the store's columns."""
    # Row by row first: going through all rows once a column misses the processor's cache each time.
    listed = zip(*[tuple(map(row.get, schema.COLUMNS)) for row in rows], strict=True) if rows else [()] * _WIDTH
    columns = [pa.array(values, item.type) for values, item in zip(listed, schema.SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema.SCHEMA)


def _row_bytes(table: pa.Table) -> pa.ChunkedArray:
    """Return about how many bytes each row takes, uncompressed."""
    sizes = pa.scalar(200, pa.int64())
    for name in schema.LONG_COLUMNS:
        sizes = pc.add(sizes, pc.fill_null(pc.cast(pc.binary_length(table.column(name)), pa.int64()), 0))
    return sizes


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of about `limits.ROW_GROUP_BYTES` each."""
    pending: list[pa.Table] = []
    total = 0
    for table in tables:
        sizes = _row_bytes(table)
        whole = pc.sum(sizes).as_py() or 0
        start = 0
        for at, size in enumerate(sizes.to_pylist() if total + whole >= limits.ROW_GROUP_BYTES else ()):
            total += size
            whole -= size
            if total >= limits.ROW_GROUP_BYTES:
                yield pa.concat_tables([*pending, table.slice(start, at + 1 - start)])
                pending, total, start = [], 0, at + 1
        if start < table.num_rows:
            pending.append(table.slice(start))
            total += whole
    if pending:
        yield pa.concat_tables(pending)


def _options(distinct: Mapping[str, int]) -> dict[str, object]:
    options: dict[str, object] = {
        "compression": "zstd",
        "compression_level": 3,
        "data_page_size": _PAGE_BYTES,
        "write_page_checksum": True,
        "use_dictionary": [name for name in schema.COLUMNS if name not in _NO_DICTIONARY],
        "write_statistics": [name for name in schema.COLUMNS if name not in schema.LONG_COLUMNS],
    }
    if _BLOOM:
        options["bloom_filter_options"] = {
            name: {"ndv": max(16, min(distinct.get(name, 10_000), 100_000)), "fpp": 0.01}
            for name in schema.BLOOM_COLUMNS
        }
    return options


_BLOOM: Final = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters
_NO_DICTIONARY: Final = frozenset({"span_id", "request", "response", "envelope", "content", "exact"})


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that is whole under a name that no reader lists."""

    storage: Storage
    temporary: Path
    path: Path
    rows: int

    def publish(self) -> FileInfo:
        """Give the file its name: from here on readers see it. Raises StoreError."""
        fault_point("before rename")
        try:
            # Of the staged file, which is at hand: the published one is the same to the byte.
            footer, size = pq.read_metadata(self.temporary), self.temporary.stat().st_size
            self.storage.publish(self.temporary, self.path)
            return _info_of(footer, self.path, size, self.storage)
        except OSError as fault:
            self.discard()
            raise StoreError(f"{self.storage.shown(self.path)} could not be written: {fault}") from fault

    def discard(self) -> None:
        """Remove the file again."""
        with suppress(OSError):
            self.temporary.unlink()


def stage(
    storage: Storage,
    tables: Iterable[pa.Table],
    path: Path,
    *,
    seals: Sequence[str] = (),
    replaces: Sequence[str] = (),
    supersedes: Mapping[str, Sequence[int]] | None = None,
    distinct: Mapping[str, int] | None = None,
    known: tuple[set[str], bool] | None = None,
) -> Staged:
    """Write `tables`, sorted, to a file that `publish` turns into `path`. Raises StoreError, leaving nothing behind.

    `distinct` says how many values the columns with a bloom filter have, `known` (which blobs the rows refer to,
    whether an older version would read them wrongly); None where that is not known beforehand.
    """
    metadata = {schema.DOUBLES_KEY: b"1", **(_version(*known) if known is not None else {})}
    for key, value in ((schema.SEALS_KEY, seals), (schema.REPLACES_KEY, replaces)):
        if value:
            metadata[key] = orjson.dumps(list(value))
    if supersedes:
        metadata[schema.SUPERSEDES_KEY] = orjson.dumps({name: list(rows) for name, rows in supersedes.items()})
    described = schema.SCHEMA.with_metadata(metadata)
    rows = 0
    found: set[str] = set()
    later = False
    try:
        staged = Staged(storage, storage.staging(path), path, 0)
    except OSError as fault:
        raise StoreError(f"{storage.shown(path)} could not be written: {fault}") from fault
    try:
        with pq.ParquetWriter(staged.temporary, described, **_options(distinct or {})) as writer:
            for table in row_groups(tables):
                rows += table.num_rows
                later = later or _is_later(table)
                found |= names_of(pc.drop_null(table.column("blobs")).to_pylist())
                writer.write_table(table.cast(described), row_group_size=table.num_rows)
            if known is None:
                writer.add_key_value_metadata(_version(found, later))
        if pq.read_metadata(staged.temporary).num_rows != rows:
            raise StoreError(f"{storage.shown(path)} does not hold the {rows} rows that were written: a full disk?")
    except (OSError, pa.ArrowException) as fault:
        staged.discard()
        raise StoreError(f"{storage.shown(path)} could not be written: {fault}") from fault
    except BaseException:
        staged.discard()
        raise
    return Staged(storage, staged.temporary, path, rows)


def _is_later(table: pa.Table) -> bool:
    """True where a row holds what version 1 reads wrongly."""
    several = pc.any(pc.match_substring(table.column("attributes"), '{"$envelope":['))
    return bool(several.as_py()) or table.column("blobs").null_count < table.num_rows


def _version(blobs: set[str], later: bool) -> dict[bytes, bytes]:
    """Return what says who can read a file: mostly it is what version 1 wrote."""
    if not later:
        return {schema.VERSION_KEY: b"1"}
    said = f"{schema.VERSION}{schema.NEEDS}{schema.VERSION}"
    return {schema.VERSION_KEY: said.encode(), schema.BLOBS_KEY: orjson.dumps(sorted(blobs))}


def write_table(
    storage: Storage,
    table: pa.Table,
    path: Path,
    *,
    seals: Sequence[str] = (),
    supersedes: Mapping[str, Sequence[int]] | None = None,
) -> FileInfo:
    """Write `table`, which is sorted, to `path`, durable on return. Raises StoreError."""
    distinct = {name: pc.count_distinct(table.column(name), mode="all").as_py() for name in schema.BLOOM_COLUMNS}
    known = names_of(pc.drop_null(table.column("blobs")).to_pylist()), _is_later(table)
    return stage(storage, [table], path, seals=seals, supersedes=supersedes, distinct=distinct, known=known).publish()


def read_info(storage: Storage, entry: Entry) -> FileInfo:
    """Return what a file's footer says.

    Raises StoreError where it is torn, empty or not a store's file, OSError where it can't be reached now.
    """
    shown = storage.shown(entry.path)
    if not is_utf8(entry.path):
        raise StoreError(f"{shown} has a name that is not UTF-8, which no query can open: rename it")
    try:
        with storage.opened(entry.path) as file:
            footer = pq.read_metadata(file)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as fault:
        if not storage.is_the_files(fault):
            raise
        reason = "it is empty" if isinstance(fault, pa.ArrowInvalid) and not entry.size else fault
        raise DamagedFile(f"{shown} is not a whole Parquet file: {reason}") from fault
    return _info_of(footer, entry.path, entry.size, storage)


_FORMS: Final = {"string": "BYTE_ARRAY", "bool": "BOOLEAN", "int32": "INT32", "int64": "INT64"}
_NEVER_NULL: Final = ("trace_id", "span_id", "start_ns", "end_ns")


def _wrong_columns(footer: pq.FileMetaData) -> str:
    """Return what in a file's columns no store writes, "" for nothing: one such file would end every query."""
    at: dict[str, int] = {}
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        name = column.path.partition(".")[0]
        at[name] = number
        if name in schema.COLUMNS:
            form = _FORMS[str(schema.SCHEMA.field(name).type)]
            if column.path != name or column.physical_type != form:
                return f"column {name} is {column.physical_type} in {column.path}"
    for name in _NEVER_NULL:
        if name not in at:
            return f"column {name} is not there"
        for group in range(footer.num_row_groups):
            known = footer.row_group(group).column(at[name]).statistics
            if known is not None and known.null_count:
                return f"column {name} holds {known.null_count} nulls"
    return ""


def _info_of(footer: pq.FileMetaData, path: Path, size: int, storage: Storage) -> FileInfo:
    shown = storage.shown(path)
    extra = footer.metadata or {}
    if schema.VERSION_KEY not in extra:
        raise StoreError(f"{shown} is a Parquet file that no store wrote; import it instead")
    version, _, needed = extra[schema.VERSION_KEY].decode("ascii", "replace").partition(schema.NEEDS)
    if needed.isdecimal() and int(needed) > schema.VERSION:
        later = f"{shown} has store schema {needed}; this version reads {schema.VERSION}: update otel-replay"
        raise StoreError(later)
    if wrong := _wrong_columns(footer):
        raise DamagedFile(f"{shown} says that a store wrote it and is of another form: {wrong}")
    try:
        starts = [bounds for group in range(footer.num_row_groups) if (bounds := _start_bounds(footer, group))]
        return FileInfo(
            path=path,
            address=storage.address(path),
            rows=footer.num_rows,
            start_min=min((low for low, _ in starts), default=0),
            start_max=max((high for _, high in starts), default=0),
            size=size,
            version=int(version),
            seals=_names(extra.get(schema.SEALS_KEY)),
            replaces=_names(extra.get(schema.REPLACES_KEY)),
            supersedes={
                str(name): tuple(map(int, rows))
                for name, rows in orjson.loads(extra.get(schema.SUPERSEDES_KEY, b"{}")).items()
            },
            blobs=frozenset(filter(is_name, _names(extra.get(schema.BLOBS_KEY)))),
            settled=schema.DOUBLES_KEY in extra or _holds_no_double(footer),
        )
    except (ValueError, TypeError, AttributeError, StopIteration) as fault:
        raise DamagedFile(f"{shown} has a footer that can't be read: {fault}") from fault


def _names(text: bytes | None) -> tuple[str, ...]:
    return tuple(map(str, orjson.loads(text))) if text else ()


def _holds_no_double(footer: pq.FileMetaData) -> bool:
    """True where the statistics show that each row has a kind, or tells of no call."""
    columns = {name: footer.schema.names.index(name) for name in ("kind", "operation", "model", "tool")}
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        found = {name: group.column(column).statistics for name, column in columns.items()}
        nulls = {name: it.null_count if it is not None and it.has_null_count else None for name, it in found.items()}
        if nulls.pop("kind") != 0 and any(count != group.num_rows for count in nulls.values()):
            return False
    return True


def _start_bounds(footer: pq.FileMetaData, group: int) -> tuple[int, int] | None:
    chunks = footer.row_group(group)
    column = footer.schema.names.index("start_ns")
    statistics = chunks.column(column).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def foreign_rows(path: Path) -> Iterator[dict[str, object]]:
    """Yield the rows of a Parquet file that others wrote, a batch in memory at a time. Raises ImportFault."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1_024):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as fault:
        raise ImportFault(f"it could not be read as Parquet: {fault}") from fault
