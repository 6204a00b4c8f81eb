"""A store: the folder or bucket where runs are kept, and the questions that are asked of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from otel_replay.blobs import BlobMissing
from otel_replay.envelope import Recording, Run
from otel_replay.errors import NeverRecorded, StoreError
from otel_replay.location import Location, locate
from otel_replay.originals import now_ns
from otel_replay.span import Span, Written
from otel_replay.store import inspect, query, runs
from otel_replay.store.adding import add_table, part_against
from otel_replay.store.aside import SetAside, set_aside
from otel_replay.store.compact import GRACE_S, Compaction, compact, sweep_blobs
from otel_replay.store.folder import NOTES, SPANS, Folder, Listing
from otel_replay.store.inspect import StoreInfo, Verification
from otel_replay.store.journals import JournalRows, journal_paths, read_all, shown_span
from otel_replay.store.large import MISSING
from otel_replay.store.newest import Newest
from otel_replay.store.notes import Note, Notes, write_note
from otel_replay.store.parquet import table_of
from otel_replay.store.prune import Pruning, blob_use, choose_runs, remove_runs, sizes_of
from otel_replay.store.rows import ROW_FAULTS, Row, to_row
from otel_replay.store.runs import RUN_COLUMNS, RunInfo
from otel_replay.store.seal import seal_journals
from otel_replay.store.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from otel_replay.store.quick_rows import QuickRows

_Answer = TypeVar("_Answer")
_NEWEST = 20
_MARK = ".store"
"""An empty object: a prefix is there only by what stands below it."""


def open_store(location: str | os.PathLike[str], *, create: bool = False) -> Store:
    """Open the store at `location`, a folder or `s3://bucket/prefix`.

    Raises StoreError where there is none and `create` is off, or where it can't be reached.
    """
    place = locate(location)
    if place.remote:
        return _open_remote(place, create=create)
    root = place.folder
    if root.exists() and not root.is_dir():
        raise StoreError(f"{root} is a file; a store is a folder")
    if create:
        try:
            (root / SPANS).mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise StoreError(f"{root} can't be made: {fault}") from fault
    elif not root.is_dir():
        raise StoreError(f"there is no store at {root}; record a run first, or name one with --store")
    return Store(place, LocalStorage(root))


def _open_remote(place: Location, *, create: bool) -> Store:
    from otel_replay.store.objects import ObjectStorage

    try:
        storage = ObjectStorage(place)
    except OSError as fault:
        raise StoreError(f"{place.shown} can't be reached: {fault}") from fault
    storage.check()
    try:
        there = bool(storage.files(storage.root / SPANS))
        if create and not there:
            storage.write(storage.root / SPANS / _MARK, b"")
    except OSError as fault:
        raise StoreError(f"{place.shown} can't be used: {fault}") from fault
    store = Store(place, storage)
    if not create and not there and not journal_paths(store.folder.journal):
        raise StoreError(f"there is no store at {place.shown}; record a run there first, or name one with --store")
    return store


class Store:
    """One store. Reads see all that was durable when they began; they neither wait for writers nor stop them.

    Safe to use from several threads, one call at a time. As a SpanSink it is durable when `write` returns.
    """

    def __init__(self, place: Location, storage: Storage) -> None:
        self.root = place.folder
        """This machine's part: the store itself, or what a store in object storage keeps here."""
        self.shown = place.shown
        self.folder = Folder(storage, place.folder)
        self._storage = storage
        self._quick: QuickRows | None = None
        self._notes = Notes(storage, storage.root / NOTES)
        self.problems: tuple[str, ...] = ()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.RLock()
        self._journals: dict[str, JournalRows] = {}
        self._verdicts: dict[str, str] = {}
        self._state: tuple[object, ...] | None = None
        self._newest: Newest | None = None

    # Writing ---------------------------------------------------------------------------------------------
    def write(self, spans: Iterable[Span], /) -> None:
        """Add `spans`, durable on return; copies of what is there are parted. Raises StoreError."""
        self.write_rows([to_row(span) for span in spans])

    def write_rows(self, rows: Sequence[Row]) -> None:
        """Add rows that `to_row` made."""
        self._add(table_of(rows))

    def write_requests(self, requests: Iterable[bytes], spans: Iterable[Span], /) -> Written:
        """Add the spans of OTLP trace requests in protobuf, and `spans`, as `write` does."""
        from otel_replay.store.quick_rows import QuickRows  # OTLP's messages: readers of a store need none of them

        with self._lock:
            if self._quick is None:
                self._quick = QuickRows()
            taken = self._quick
            taken.begin()
            refused = [(request, reason) for request in requests if (reason := taken.take(request))]
            for span in spans:
                taken.add_row(to_row(span))
            table = taken.table()
            self._add(table)
        return Written(table.num_rows, refused)

    def _add(self, table: pa.Table) -> None:
        if table.num_rows:
            with self._lock:
                with self._storage.locked():
                    add_table(self.connection, self.folder, table)
                compact(self.connection, self.folder, small_only=True)

    def set_verdict(self, run_id: str, verdict: str) -> None:
        """Keep a verdict on a run. Raises UsageError for one that there is not, NeverRecorded for no such run."""
        self._note(run_id, Note(verdict=verdict))

    def pin(self, run_id: str, pinned: bool = True) -> None:
        """Keep a run from being pruned, or let it go."""
        self._note(run_id, Note(pinned=pinned))

    def _note(self, run_id: str, note: Note) -> None:
        write_note(self._storage, self._storage.root / NOTES, self.find_run(run_id).run_id, note)

    def seal(self, *, wait: bool = True) -> int:
        """Turn the journals of ended recorders into Parquet; returns how many. Raises StoreError."""
        with self._lock:
            if not journal_paths(self.folder.journal):
                return 0
            with self._storage.locked(wait=wait) as ours:
                sealed = seal_journals(self.connection, self.folder) if ours else 0
            if sealed:
                compact(self.connection, self.folder, small_only=True)
            return sealed

    # Keeping house ---------------------------------------------------------------------------------------
    def compact(self, *, grace_s: float = GRACE_S) -> Compaction:
        """Seal, take the files of each day together, and remove what was taken over longer than `grace_s` ago."""
        with self._lock:
            self.seal()
            return compact(self.connection, self.folder, grace_s=grace_s)

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        max_bytes: int | None = None,
        sample_passing: int | None = None,
        dry_run: bool = False,
    ) -> Pruning:
        """Remove runs by age, by the store's size, and all but one in `sample_passing` of the passing ones.

        Failing, pinned and running runs always stay. Spans of no run go by age alone.
        """
        with self._lock:
            self.seal()
            listed = self.runs()
            listing = self.folder.listing()
            sizes = sizes_of(self.connection, listing)
            blobs = blob_use(self.connection, self.folder, listing)
            before = sum(info.size for info in listing.files.values()) + blobs.bytes_of(blobs.by_run)
            going = choose_runs(
                listed,
                sizes,
                blobs,
                total_bytes=before,
                older_than_s=older_than_s,
                max_bytes=max_bytes,
                sample_passing=sample_passing,
            )
            left = blobs.bytes_of(blobs.by_run.keys() - set(going))
            freed = blobs.bytes_of(blobs.by_run) - left
            loose, after = 0, before - sum(sizes.get(run_id, 0) for run_id in going) - freed
            if not dry_run and (going or older_than_s is not None):
                limit = None if older_than_s is None else now_ns() - int(older_than_s * 1e9)
                loose = remove_runs(self.connection, self.folder, going, loose_before_ns=limit)
                sweep_blobs(self.folder, now_ns() - int(GRACE_S * 1e9))
                now = self.folder.listing()
                after = sum(info.size for info in now.files.values()) + sum(
                    blobs.sizes.get(name, 0) for name in now.blobs(standing=True)
                )
            return Pruning(
                runs=tuple(going),
                loose_spans=loose,
                bytes_before=before,
                bytes_after=after,
                kept_failing=sum(run.verdict == "failed" for run in listed),
                kept_pinned=sum(run.pinned for run in listed),
            )

    def blob(self, name: str) -> str:
        """Return a large string by its SHA-256, as it stood between the quotes of its JSON. Raises NeverRecorded."""
        try:
            return self.folder.blobs.read(name)
        except BlobMissing as fault:
            raise NeverRecorded(f"{fault} ({self.shown})") from None

    def verify(self) -> Verification:
        """Check every file, row and exact form."""
        return inspect.verify(self.folder)

    def set_aside(self) -> list[SetAside]:
        """Move damaged files to `damaged/`, and keep what can be read of them. Raises StoreError."""
        with self._lock, self._storage.locked():
            done = set_aside(self.connection, self.folder)
            self._state = None
            return done

    def info(self) -> StoreInfo:
        """Return what the store holds."""
        return inspect.info(self.folder)

    def close(self) -> None:
        """Let go of the engine. What was written stays."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._state = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading ---------------------------------------------------------------------------------------------
    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = query.connect(self._storage)
        return self._connection

    def refresh(self) -> None:
        """Seal what can be sealed, and point the views at all that is there now. Never waits for a writer."""
        with self._lock:
            unsealed: str = ""
            try:
                self.seal(wait=False)
            except StoreError as fault:  # read-only media, a full disk: the journals are read where they are
                unsealed = str(fault)
            # Journals before files: one that is sealed in between is then in the files, and named there.
            journals = list(read_all(self.folder.journal, self._journals))
            self._journals = {journal.name: journal for journal in journals}
            listing = self.folder.listing()
            journals = [journal for journal in journals if journal.name not in listing.sealed]
            notes, bad_notes = self._notes.latest()
            self._verdicts = {run_id: note.verdict for run_id, note in notes.items() if note.verdict}
            problems = [*listing.problems, *bad_notes, *(j.problem for j in journals if j.problem)]
            if unsealed and any(journal.rows and not journal.live for journal in journals):
                problems.append(unsealed)
            self.problems = tuple(problems)
            state = (
                tuple(sorted(listing.files)),
                tuple((journal.name, journal.size, journal.live) for journal in journals),
                tuple(sorted((run_id, note.verdict, note.pinned) for run_id, note in notes.items())),
            )
            if state != self._state:
                self._define(listing, journals, [(run_id, n.verdict, n.pinned) for run_id, n in notes.items()])
                self._state = state

    def _define(
        self, listing: Listing, journals: Sequence[JournalRows], notes: Sequence[tuple[str, str | None, bool | None]]
    ) -> None:
        rows = [row for journal in journals for row in journal.rows]
        parted = part_against(self.connection, self.folder, listing, rows)
        superseded = {name: set(rows) for name, rows in listing.superseded.items()}
        for name, numbers in parted.supersedes.items():
            superseded.setdefault(name, set()).update(numbers)
        live_runs = {row["run_id"] for journal in journals if journal.live for row in journal.rows if row.get("run_id")}
        query.define(self.connection, listing, parted.rows, superseded, live_runs, notes)
        self._newest = Newest(listing, superseded)

    def sql(self, text: str) -> duckdb.DuckDBPyRelation:
        """Return the relation of a query over the views, after a refresh."""
        with self._lock:
            return self._asked(lambda: self.connection.sql(text))

    def arrow(self, text: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Return the answer to a query over the views as an Arrow table, after a refresh."""
        with self._lock:
            return self._asked(lambda: self.connection.sql(text, params=list(parameters)).to_arrow_table())

    def _asked(self, ask: Callable[[], _Answer]) -> _Answer:
        self.refresh()
        try:
            return ask()
        except duckdb.Error as fault:
            # A file vanished behind a compaction, or its pages are damaged behind a whole footer.
            if not query.may_be_a_file(fault) or not self._look_closely():
                raise
        self.refresh()
        return ask()

    def _look_closely(self) -> bool:
        """Step over files that can't be read to their end; True where the list of files is another now."""
        listing = self.folder.listing()
        for info in listing.files.values():
            try:
                self.connection.execute(f"SELECT max(hash(COLUMNS(*))) FROM {query.scan([info])}").fetchall()  # noqa: S608
            except duckdb.Error as fault:
                text = str(fault).strip().splitlines()
                if not self._storage.is_the_files(fault):
                    raise StoreError(f"{self.shown} can't be read now: {text[-1]}") from fault
                with suppress(FileNotFoundError):  # taken over and removed meanwhile
                    self.folder.step_over(info.path, text[0])
        before, self._state = self._state, None
        return before is None or tuple(sorted(self.folder.listing().files)) != before[0]

    def runs(
        self, *, name: str | None = None, verdict: str | None = None, state: str | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        """Return the runs, newest first; only those of that name, verdict or state where given."""
        conditions: list[str] = ["true"]
        parameters: list[Any] = []
        for column, wanted in (("name", name), ("verdict", verdict), ("state", state)):
            if wanted is not None:
                conditions.append(f"{column} = ?")
                parameters.append(wanted)
        if limit is not None and not parameters:
            return self._newest_runs(max(int(limit), 1))
        return self._runs(" AND ".join(conditions), parameters, limit)

    def _newest_runs(self, count: int) -> list[RunInfo]:
        def ask() -> pa.Table:
            assert self._newest is not None
            since = self._newest.begin(self.connection, count)
            near = self.connection.sql(f"FROM near_runs({since}) ORDER BY start_ns DESC, run_id").to_arrow_table()
            if all(near.column("begun").to_pylist()):
                return near.select(RUN_COLUMNS).slice(0, count)
            return self.connection.sql(_listed(f"runs_since({since})", "true", count)).to_arrow_table()

        with self._lock:
            return _run_infos(self._asked(ask))

    def _runs(self, condition: str, parameters: Sequence[Any], limit: int | None = None) -> list[RunInfo]:
        return _run_infos(self.arrow(_listed("runs", condition, limit), parameters))

    def run_records(self, *, limit: int) -> list[Run]:
        """Return the own records of the newest runs and lanes (faults, notes, pins), newest first."""
        rows = self._rows("kind = 'run'", [], f"start_ns DESC LIMIT {int(limit)}")
        return [run for run in map(runs.run_of, rows) if run is not None]

    def find_run(self, asked: str) -> RunInfo:
        """Return the run of that name, or whose id is or begins with `asked`.

        A name borne by several means the newest complete one, and `note` says so. Raises NeverRecorded with near
        names, or UsageError where the beginning of an id fits several runs.
        """
        named, count = self._named(asked)
        by_id: list[RunInfo] = []
        if not named and len(asked) >= runs.ID_PREFIX_CHARS_MIN:
            by_id = self._runs("run_id >= ? AND run_id < ? || chr(1114111)", [asked, asked])
        names: list[str] = []
        if not named and not by_id:
            names = self.arrow("SELECT DISTINCT name FROM runs WHERE name <> ''").column("name").to_pylist()
        return runs.choose(asked, named, count, by_id, names)

    def _named(self, name: str) -> tuple[list[RunInfo], int]:
        """Return (the runs of that name, how many there are); of very many only the newest if one is complete."""
        ids = self.arrow(
            "SELECT run_id, min(start_ns) AS begun FROM stored WHERE difference IS NULL AND run_name = ? "
            "AND coalesce(lane, '') = '' GROUP BY run_id ORDER BY begun DESC, run_id",
            [name],
        )
        listed = ids.column("run_id").to_pylist()
        for newest in (listed[:_NEWEST], listed):
            found = self._runs(f"run_id IN ({', '.join('?' * len(newest))})", newest) if newest else []
            if any(run.complete and runs.is_recorded(run) for run in found):
                break
        return found, len(listed)

    def recording(self, run_id: str) -> Recording:
        """Return the recording of the run with that id: all its lanes, in the order of entry.

        Raises NeverRecorded. What is missing or damaged is said by the recording.
        """
        rows = self._rows("run_id = ?", [run_id], "lane, seq NULLS FIRST")
        if not rows:
            raise NeverRecorded(f"no run with the id {run_id!r} in {self.shown}")
        return runs.recording_of(rows, source=self.shown, verdict=self._verdicts.get(run_id, ""))

    def accounts(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return the record of each of these runs that is here and can be read."""
        condition = "kind = 'run' AND coalesce(lane, '') = '' AND run_id IN (SELECT unnest(?))"
        found = (runs.run_of(row) for row in self._rows(condition, [list(run_ids)], "run_id"))
        return {run.run_id: run for run in found if run is not None}

    def spans(self, run_id: str) -> list[Span]:
        """Return every span of a run: its own, and those of its trace that were made while it ran.

        Two runs may share a trace id (a program that seeds its random numbers), so time decides where it must.
        """
        rows = self._rows(
            "run_id = ? OR (run_id IS NULL AND trace_id <> '' AND trace_id IN "
            "(SELECT trace_id FROM stored WHERE run_id = ?))",
            [run_id, run_id],
            "start_ns, seq, span_id",
        )
        own = [row for row in rows if row["run_id"] is not None]
        if not own:
            raise NeverRecorded(f"no run with the id {run_id!r} in {self.shown}")
        shared = self.arrow(
            "SELECT count(DISTINCT run_id) FROM stored "
            "WHERE trace_id IN (SELECT trace_id FROM stored WHERE run_id = ?)",
            [run_id],
        )
        if shared.column(0)[0].as_py() > 1:
            start, end = min(row["start_ns"] for row in own), max(row["end_ns"] for row in own)
            rows = [row for row in rows if row["run_id"] is not None or start <= row["start_ns"] <= end]
        found = []
        for row in rows:
            try:
                found.append(shown_span(row))
            except ROW_FAULTS as fault:
                self.problems += (f"the span {row['span_id']} can't be given back: its row was damaged: {fault}",)
        return found

    def _rows(self, condition: str, parameters: Sequence[Any], order: str) -> list[Row]:
        with self._lock:
            return self._asked(lambda: self._whole_rows(condition, parameters, order))

    def _whole_rows(self, condition: str, parameters: Sequence[Any], order: str) -> list[Row]:
        rows = self.folder.blobs.whole(query.rows_where(self.connection, condition, parameters, order))
        if not any(MISSING in row for row in rows):
            return rows
        self.refresh()  # a pruning may have come in between, and taken the rows as well
        return self.folder.blobs.whole(query.rows_where(self.connection, condition, parameters, order))


def _listed(source: str, condition: str, limit: int | None) -> str:
    text = f"SELECT {', '.join(RUN_COLUMNS)} FROM {source} WHERE {condition} ORDER BY start_ns DESC, run_id"  # noqa: S608
    return text if limit is None else f"{text} LIMIT {int(limit)}"


def _run_infos(table: pa.Table) -> list[RunInfo]:
    return [runs.run_info(values) for values in zip(*(column.to_pylist() for column in table.columns), strict=True)]
