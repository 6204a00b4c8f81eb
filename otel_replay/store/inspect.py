"""What a store holds and whether it is whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from otel_replay import semconv
from otel_replay.store.folder import Folder
from otel_replay.store.journals import read_all
from otel_replay.store.parquet import FileInfo
from otel_replay.store.rows import Row, from_row, to_row
from otel_replay.store.runs import envelope_of
from otel_replay.store.storage import Storage

_BATCH_ROWS = 1_024
_PROBLEMS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds. Bytes are those on disk; times Unix nanoseconds, 0 where there is nothing."""

    root: str
    files: int
    rows: int
    bytes: int
    superseded_rows: int
    journals_live: int
    journals_waiting: int
    oldest_ns: int
    newest_ns: int
    replaced_files: int
    left_behind: int
    writable: bool = True
    versions: dict[int, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked: every file, every row, every exact form; and what is wrong."""

    files: int = 0
    rows: int = 0
    envelopes: int = 0
    problems: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems


def info(folder: Folder) -> StoreInfo:
    """Return what the store holds, from the files' footers."""
    listing = folder.listing()
    files = list(listing.files.values())
    filled = [item for item in files if item.rows]
    journals = list(read_all(folder.journal))
    return StoreInfo(
        root=folder.storage.shown(folder.root),
        files=len(files),
        rows=sum(item.rows for item in files) - sum(map(len, listing.superseded.values())),
        bytes=sum(item.size for item in files),
        superseded_rows=sum(map(len, listing.superseded.values())),
        journals_live=sum(journal.live for journal in journals),
        journals_waiting=sum(not journal.live for journal in journals),
        oldest_ns=min((item.start_min for item in filled), default=0),
        newest_ns=max((item.start_max for item in filled), default=0),
        replaced_files=len(listing.replaced),
        left_behind=len(folder.left_behind()),
        writable=folder.storage.writable(),
        versions=dict(sorted(Counter(item.version for item in files).items())),
        problems=(*listing.problems, *(journal.problem for journal in journals if journal.problem)),
    )


def verify(folder: Folder) -> Verification:
    """Read every row of every file, give each span back, and check each exact form against its digest."""
    listing = folder.listing()
    problems = list(listing.problems)
    rows = envelopes = 0
    for item in listing.files.values():
        counted, whole, found = _verify_file(folder.storage, item)
        rows, envelopes = rows + counted, envelopes + whole
        problems += found
    return Verification(len(listing.files), rows, envelopes, tuple(problems[:_PROBLEMS_MAX]))


def _verify_file(storage: Storage, item: FileInfo) -> tuple[int, int, list[str]]:
    problems: list[str] = []
    rows = envelopes = 0
    shown = storage.shown(item.path)
    try:
        with storage.opened(item.path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    rows += 1
                    problem = _verify_row(row)
                    envelopes += row.get("integrity") == "intact"
                    if problem and len(problems) < _PROBLEMS_MAX:
                        problems.append(f"{shown} row {rows}: {problem}")
    except (OSError, pa.ArrowException) as fault:
        problems.append(f"{shown} could not be read to its end: {fault}")
    return rows, envelopes, problems


def _verify_row(row: Row) -> str:
    try:
        span = from_row(row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        return f"the span {row.get('span_id')} can't be given back: {fault}"
    if row.get("integrity") == "intact" and row.get("kind") != semconv.KIND_RUN:
        envelope, reason = envelope_of(row)
        if envelope is None:
            return f"{row.get('address')} of run {row.get('run_id')}: {reason}"
    again = to_row(span)
    for column in ("trace_id", "span_id", "start_ns", "run_id", "address", "seq", "request", "response"):
        if again.get(column) != row.get(column):
            return f"the column {column} says something other than the span {row.get('span_id')}"
    return ""
