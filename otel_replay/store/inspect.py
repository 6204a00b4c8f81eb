"""What a store holds and whether it is whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from otel_replay import carrying, codec, semconv
from otel_replay.blobs import BlobMissing
from otel_replay.store.folder import Folder
from otel_replay.store.journals import read_all
from otel_replay.store.large import MISSING
from otel_replay.store.parquet import FileInfo
from otel_replay.store.rows import Row, from_row, to_row
from otel_replay.store.runs import envelope_of

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
    blobs: int = 0
    blob_bytes: int = 0
    blobs_unreferred: int = 0
    """No file refers to these any more: a compaction removes them."""
    writable: bool = True
    versions: dict[int, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked: every file, every row, every exact form, every blob; and what is wrong."""

    files: int = 0
    rows: int = 0
    envelopes: int = 0
    blobs: int = 0
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
    blobs = folder.blobs.entries()
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
        blobs=len(blobs),
        blob_bytes=sum(entry.size for entry in blobs.values()),
        blobs_unreferred=len(blobs.keys() - listing.blobs()),
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
        counted, whole, found = _verify_file(folder, item)
        rows, envelopes = rows + counted, envelopes + whole
        problems += found
    blobs = folder.blobs.entries()
    problems += [problem for name in blobs if (problem := _verify_blob(folder, name))]
    return Verification(len(listing.files), rows, envelopes, len(blobs), tuple(problems[:_PROBLEMS_MAX]))


def _verify_blob(folder: Folder, name: str) -> str:
    try:
        folder.blobs.read(name)
    except BlobMissing as fault:
        return str(fault)
    return ""


def _verify_file(folder: Folder, item: FileInfo) -> tuple[int, int, list[str]]:
    problems: list[str] = []
    rows = envelopes = 0
    storage, shown = folder.storage, folder.storage.shown(item.path)
    try:
        with storage.opened(item.path) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in folder.blobs.whole(batch.to_pylist()):
                    rows += 1
                    problem = _verify_row(row)
                    envelopes += row.get("integrity") == "intact"
                    if problem and len(problems) < _PROBLEMS_MAX:
                        problems.append(f"{shown} row {rows}: {problem}")
    except (OSError, pa.ArrowException) as fault:
        problems.append(f"{shown} could not be read to its end: {fault}")
    return rows, envelopes, problems


def _verify_row(row: Row) -> str:
    if MISSING in row:
        return f"{row.get('address') or row.get('span_id')} of run {row.get('run_id')}: {row[MISSING]}"
    try:
        span = from_row(row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        return f"the span {row.get('span_id')} can't be given back: {fault}"
    if row.get("integrity") == "intact" and row.get("kind") != semconv.KIND_RUN:
        envelope, reason = envelope_of(row)
        if envelope is None and carrying.is_cut(span):  # no row tells whether its part spans are here
            envelope, reason = codec.from_cut_span(span).envelope, reason
        if envelope is None:
            return f"{row.get('address')} of run {row.get('run_id')}: {reason}"
    again = to_row(span)
    for column in ("trace_id", "span_id", "start_ns", "run_id", "address", "seq", "request", "response"):
        if again.get(column) != row.get(column):
            return f"the column {column} says something other than the span {row.get('span_id')}"
    return ""
