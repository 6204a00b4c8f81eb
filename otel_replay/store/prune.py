"""Which runs stay: failing and pinned ones always, passing ones sampled, the rest until they are old or too large."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from otel_replay.originals import now_ns
from otel_replay.store import query
from otel_replay.store.compact import publish, rewrite
from otel_replay.store.folder import Folder, Listing
from otel_replay.store.large import names_of
from otel_replay.store.runs import RunInfo


@dataclass(frozen=True, slots=True)
class Pruning:
    """What was, or with `dry_run` would be, removed: ids of runs, spans of no run, bytes (about)."""

    runs: tuple[str, ...] = ()
    loose_spans: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept_failing: int = 0
    kept_pinned: int = 0


@dataclass(frozen=True, slots=True)
class BlobUse:
    """Which blobs the runs refer to, and what each takes on disk. Spans of no run are the run ""."""

    by_run: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def bytes_of(self, runs: Iterable[str]) -> int:
        """Return what the blobs take that any of `runs` refers to."""
        return sum(self.sizes.get(name, 0) for name in {name for run in runs for name in self.by_run.get(run, ())})


def choose_runs(
    runs: Sequence[RunInfo],
    sizes: dict[str, int],
    blobs: BlobUse = BlobUse(),
    *,
    total_bytes: int,
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    sample_passing: int | None = None,
    now: int | None = None,
) -> list[str]:
    """Return the ids of the runs to remove, oldest first. Failing, pinned and running ones are never among them.

    `sample_passing` n keeps of the passing runs one in n, always the same ones. `sizes` are bytes by run id.
    """
    moment = now_ns() if now is None else now
    going: list[str] = []
    left = total_bytes
    held = Counter(name for names in blobs.by_run.values() for name in names)
    for run in sorted(runs, key=lambda item: item.start_ns):
        if run.pinned or run.verdict == "failed" or run.state == "running":
            continue
        old = older_than_s is not None and run.start_ns < moment - int(older_than_s * 1e9)
        large = max_bytes is not None and left > max_bytes
        passing = bool(sample_passing) and run.verdict == "passed" and not _sampled(run.run_id, sample_passing or 1)
        if old or large or passing:
            going.append(run.run_id)
            left -= sizes.get(run.run_id, 0)
            names = blobs.by_run.get(run.run_id, ())
            held.subtract(names)
            left -= sum(blobs.sizes.get(name, 0) for name in names if held[name] <= 0)
    return going


def _sampled(run_id: str, one_in: int) -> bool:
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big") % one_in == 0


def sizes_of(connection: duckdb.DuckDBPyConnection, listing: Listing) -> dict[str, int]:
    """Return about how many bytes each run takes in the files: its share of the text of its file."""
    found: dict[str, int] = {}
    for info in listing.files.values():
        answer = connection.execute(
            f"""SELECT run_id, sum(200 + coalesce(strlen(attributes), 0) + coalesce(strlen(request), 0)
              + coalesce(strlen(response), 0) + coalesce(strlen(envelope), 0) + coalesce(strlen(content), 0)
              + coalesce(strlen(exact), 0))::BIGINT FROM {query.scan([info])} GROUP BY run_id"""  # noqa: S608
        ).fetchall()
        total = sum(size for _, size in answer) or 1
        for run_id, size in answer:
            if run_id is not None:
                found[run_id] = found.get(run_id, 0) + info.size * size // total
    return found


def blob_use(connection: duckdb.DuckDBPyConnection, folder: Folder, listing: Listing) -> BlobUse:
    """Return which runs refer to which blobs."""
    files = [info for info in listing.files.values() if info.blobs]
    if not files:
        return BlobUse()
    answer = connection.execute(
        f"SELECT coalesce(run_id, ''), blobs FROM {query.scan(files)} WHERE blobs IS NOT NULL"  # noqa: S608
    ).fetchall()
    found: dict[str, set[str]] = {}
    for run_id, places in answer:
        found.setdefault(run_id, set()).update(names_of([places]))
    sizes = {name: entry.size for name, entry in folder.blobs.entries().items()}
    return BlobUse({run_id: frozenset(names) for run_id, names in found.items()}, sizes)


def remove_runs(
    connection: duckdb.DuckDBPyConnection, folder: Folder, going: Sequence[str], *, loose_before_ns: int | None = None
) -> int:
    """Remove the rows of the runs `going`, of their traces, and loose spans that began before; returns how many loose.

    Spans of no run stay where a run that stays shares their trace. The caller does not hold the store's lock.
    """
    listing = folder.listing()
    if not listing.files:
        return 0
    query.ids_table(connection, "going", going)
    everything = query.scan(listing.files.values())
    connection.execute(
        f"CREATE OR REPLACE TABLE kept_traces AS SELECT DISTINCT trace_id FROM {everything} "  # noqa: S608
        "WHERE run_id IS NOT NULL AND run_id NOT IN (SELECT id FROM going)"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE going_traces AS SELECT DISTINCT trace_id FROM {everything} "  # noqa: S608
        "WHERE run_id IN (SELECT id FROM going)"
    )
    old = f"OR start_ns < {int(loose_before_ns)}" if loose_before_ns is not None else ""
    leaves = f"""(coalesce(run_id IN (SELECT id FROM going), false) OR (run_id IS NULL
        AND trace_id NOT IN (SELECT trace_id FROM kept_traces)
        AND (trace_id IN (SELECT trace_id FROM going_traces) {old})))"""  # noqa: S608
    loose = 0
    for info in list(listing.files.values()):
        gone, loose_here, rows = connection.execute(
            f"SELECT count(*) FILTER ({leaves}), count(*) FILTER ({leaves} AND run_id IS NULL), count(*) "  # noqa: S608
            f"FROM {query.scan([info])}"
        ).fetchall()[0]
        if not gone:
            continue
        loose += loose_here
        if gone == rows and not info.supersedes:
            with folder.storage.locked():
                folder.storage.remove(info.path)
            continue
        kept: set[str] = set()
        staged, _ = rewrite(connection, folder, listing, [info], f"AND NOT {leaves}", kept=kept)
        publish(folder, listing, [info], staged, kept)
    return loose
