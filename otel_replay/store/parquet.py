"""Rows <-> Parquet files. A file is there whole or not at all.

Written under a temporary name that no reader lists, synced, renamed, and the folder synced. Rows stand in the order
(run start, run, sequence): neighbours are alike then, which saves more bytes than any codec. Row groups hold about
16 MB, so that looking up one run unpacks little, whatever the size of its payloads.
"""

from __future__ import annotations

import itertools
import os
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
from otel_replay.errors import StoreError
from otel_replay.originals import now_ns, random_hex
from otel_replay.store import schema
from otel_replay.store.rows import Row

SUFFIX: Final = ".parquet"
_TEMPORARY: Final = ".writing"
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
    rows: int
    start_min: int
    start_max: int
    size: int
    version: int = schema.VERSION
    seals: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    supersedes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Return `rows` as an Arrow table with the store's columns."""
    columns = [pa.array([row.get(item.name) for row in rows], item.type) for item in schema.SCHEMA]
    return pa.Table.from_arrays(columns, schema=schema.SCHEMA)


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Return `rows` by (start of their run or trace, run or trace, sequence, start)."""
    listed = list(rows)
    starts: dict[str, int] = {}
    for row in listed:
        group = group_of(row)
        start = row["start_ns"]
        if start < starts.get(group, start + 1):
            starts[group] = start

    def place(row: Row) -> tuple[object, ...]:
        group = group_of(row)
        return starts[group], group, row.get("lane") or "", row.get("seq") or 0, row["start_ns"], row["span_id"]

    listed.sort(key=place)
    return listed


def group_of(row: Row) -> str:
    """Return what keeps rows together: the run, or the trace where a span belongs to none."""
    return str(row.get("run_id") or row["trace_id"])


def _group_ends(table: pa.Table) -> Iterator[int]:
    """Yield the row after each row group of about `limits.ROW_GROUP_BYTES`."""
    sizes = pa.scalar(200, pa.int64())
    for name in schema.LONG_COLUMNS:
        lengths = pc.fill_null(pc.cast(pc.binary_length(table.column(name)), pa.int64()), 0)
        sizes = pc.add(sizes, lengths)
    total = 0
    for at, size in enumerate(sizes.to_pylist()):
        total += size
        if total >= limits.ROW_GROUP_BYTES:
            yield at + 1
            total = 0
    if total:
        yield table.num_rows


def _options(table: pa.Table) -> dict[str, object]:
    options: dict[str, object] = {
        "compression": "zstd",
        "compression_level": 3,
        "data_page_size": _PAGE_BYTES,
        "use_dictionary": [
            name for name in schema.COLUMNS if name not in ("request", "response", "envelope", "content")
        ],
        "write_statistics": True,
    }
    bloom = {
        name: {"ndv": max(1, min(len(pc.unique(table.column(name))), 100_000)), "fpp": 0.01}
        for name in ("trace_id", "run_id")
    }
    if _BLOOM:
        options["bloom_filter_options"] = bloom
    return options


_BLOOM: Final = int(pa.__version__.split(".")[0]) >= 24


def write_table(
    table: pa.Table,
    path: Path,
    *,
    seals: Sequence[str] = (),
    replaces: Sequence[str] = (),
    supersedes: Mapping[str, Sequence[int]] | None = None,
) -> FileInfo:
    """Write `table` to `path`, durable on return. Raises StoreError, and leaves nothing behind then."""
    metadata = {schema.VERSION_KEY: str(schema.VERSION).encode()}
    for key, value in ((schema.SEALS_KEY, seals), (schema.REPLACES_KEY, replaces)):
        if value:
            metadata[key] = orjson.dumps(list(value))
    if supersedes:
        metadata[schema.SUPERSEDES_KEY] = orjson.dumps({name: list(rows) for name, rows in supersedes.items()})
    table = table.replace_schema_metadata(metadata)
    temporary = path.with_name(f".{path.name}{_TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(temporary, table.schema, **_options(table)) as writer:
            for start, end in itertools.pairwise(itertools.chain((0,), _group_ends(table))):
                writer.write_table(table.slice(start, end - start), row_group_size=max(1, end - start))
        sync(temporary)
        fault_point("before rename")
        os.rename(temporary, path)
        sync(path.parent)
    except (OSError, pa.ArrowException) as fault:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(f"{path} could not be written: {fault}") from fault
    info = read_info(path)
    if info.rows != table.num_rows:
        raise StoreError(f"{path} holds {info.rows} rows where {table.num_rows} were written")
    return info


def fault_point(step: str) -> None:
    """Do nothing. Tests kill the process here, by replacing it in a process of their own."""


def sync(path: Path) -> None:
    """Flush a file or folder to its disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_info(path: Path) -> FileInfo:
    """Return what the footer of `path` says. Raises StoreError where it is torn, empty or not a store's file."""
    try:
        size = path.stat().st_size
        footer = pq.read_metadata(path)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as fault:
        reason = "it is empty" if isinstance(fault, pa.ArrowInvalid) and not path.stat().st_size else fault
        raise StoreError(f"{path} is not a whole Parquet file: {reason}") from fault
    extra = footer.metadata or {}
    if schema.VERSION_KEY not in extra:
        raise StoreError(f"{path} is a Parquet file that no store wrote; import it instead")
    try:
        starts = [bounds for group in range(footer.num_row_groups) if (bounds := _start_bounds(footer, group))]
        return FileInfo(
            path=path,
            rows=footer.num_rows,
            start_min=min((low for low, _ in starts), default=0),
            start_max=max((high for _, high in starts), default=0),
            size=size,
            version=int(extra[schema.VERSION_KEY]),
            seals=_names(extra.get(schema.SEALS_KEY)),
            replaces=_names(extra.get(schema.REPLACES_KEY)),
            supersedes={
                str(name): tuple(map(int, rows))
                for name, rows in orjson.loads(extra.get(schema.SUPERSEDES_KEY, b"{}")).items()
            },
        )
    except (ValueError, TypeError, AttributeError, StopIteration) as fault:
        raise StoreError(f"{path} has a footer that can't be read: {fault}") from fault


def _names(text: bytes | None) -> tuple[str, ...]:
    return tuple(map(str, orjson.loads(text))) if text else ()


def _start_bounds(footer: pq.FileMetaData, group: int) -> tuple[int, int] | None:
    chunks = footer.row_group(group)
    column = footer.schema.names.index("start_ns")
    statistics = chunks.column(column).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[Row]:
    """Return all rows of one file; columns that an older version lacks are absent. Raises StoreError."""
    try:
        rows: list[Row] = pq.read_table(path, columns=columns, partitioning=None).to_pylist()
    except (OSError, pa.ArrowException) as fault:
        raise StoreError(f"{path} could not be read: {fault}") from fault
    return rows
