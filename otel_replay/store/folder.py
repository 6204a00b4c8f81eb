"""The files of a store: which are there, which count, and which can't be read.

    <store>/spans/date=YYYY-MM-DD/<ulid>.parquet   spans, sealed
    <store>/blobs/<sha256>.parquet                 large strings, once each (blobs.py)
    <store>/journal/*.journal                      what recorders are writing, or left behind; always on this machine
    <store>/damaged/date=.../<ulid>.parquet        files that were set aside (aside.py)
    <store>/notes/<ulid>.json                      verdicts and pins set after the run
    <store>/lock                                   held while a file is added; in object storage `lock/*` (lease.py)

A file that was taken over by another (`replaces`) does not count; a journal that a file took over (`seals`) neither.
So every change is one rename, and what a crash leaves behind is removed by the next one who passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from otel_replay.errors import DamagedFile, StoreError
from otel_replay.store.blobs import BLOBS, Blobs
from otel_replay.store.ids import Ids
from otel_replay.store.parquet import SUFFIX, FileInfo, new_name, read_info
from otel_replay.store.storage import Entry, Storage

SPANS: Final = "spans"
JOURNAL: Final = "journal"
NOTES: Final = "notes"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that count, by name, and those stepped over with the reason."""

    files: dict[str, FileInfo] = field(default_factory=dict)
    superseded: dict[str, frozenset[int]] = field(default_factory=dict)
    sealed: frozenset[str] = frozenset()
    replaced: tuple[FileInfo, ...] = ()
    """Files that no longer count, or, where `void` names them, never did."""
    void: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def blobs(self, *, standing: bool = False) -> set[str]:
        """Return the blobs that these files refer to; with `standing` only those that count."""
        files = self.files.values() if standing else (*self.files.values(), *self.replaced)
        return {name for info in files for name in info.blobs}


class Folder:
    """The files of a store. Keeps what it has read of footers: a file never changes once it has its name."""

    def __init__(self, storage: Storage, local: Path) -> None:
        self.storage = storage
        self.root = storage.root
        self.journal = local / JOURNAL
        self.ids = Ids()
        self.blobs = Blobs(storage)
        self._infos: dict[Path, FileInfo] = {}
        self._bad: dict[Path, tuple[int, int, str]] = {}
        self._damaged: set[Path] = set()
        """Those of the bad ones that are not just somebody else's, or a later version's."""

    def new_path(self, start_ns: int) -> Path:
        """Return a fresh path in the folder of the day (UTC) of `start_ns`."""
        return self.root / SPANS / f"date={day_of(start_ns)}" / f"{new_name()}{SUFFIX}"

    def entries(self) -> list[Entry]:
        """Return every file that bears the suffix, whatever it holds. Raises StoreError."""
        try:
            listed = self.storage.files(self.root / SPANS)
        except OSError as fault:
            raise StoreError(f"{self.storage.shown(self.root)} can't be listed: {fault}") from fault
        return [entry for entry in listed if entry.path.suffix == SUFFIX and not entry.path.name.startswith(".")]

    def paths(self) -> list[Path]:
        """Return the names of `entries`."""
        return [entry.path for entry in self.entries()]

    def added(self, info: FileInfo, ids: Iterable[str]) -> None:
        """Remember a file that was just written, with the runs and traces that it holds: it need not be asked."""
        self._infos[info.path] = info
        self.ids.learn(info.name, ids)

    def left_behind(self) -> list[Entry]:
        """Return files whose writer was killed before they had their name."""
        found = [entry for part in (SPANS, BLOBS) for entry in self.storage.left_behind(self.root / part)]
        return sorted(set(found))

    def listing(self) -> Listing:
        """Return what is there now. Unreadable files are named, never fatal.

        Raises StoreError where the storage can't be reached.
        """
        infos: dict[str, FileInfo] = {}
        problems: list[str] = []
        entries = self.entries()
        for entry, found in zip(entries, self._read(entries), strict=True):
            if isinstance(found, str):
                problems.append(found)
            elif found is not None and found.name in infos:
                shown = (self.storage.shown(path) for path in (entry.path, infos[found.name].path))
                problems.append("{} bears the name of {}; it is stepped over".format(*shown))
            elif found is not None:
                infos[found.name] = found
        return _listing(infos, tuple(problems))

    def _read(self, entries: list[Entry]) -> list[FileInfo | str | None]:
        """Return of each file what its footer says, what is wrong with it, or None where it is gone."""
        fresh = [entry for entry in entries if entry.path not in self._infos]
        if self.storage.readers > 1 and len(fresh) > 1:
            with ThreadPoolExecutor(min(self.storage.readers, len(fresh))) as pool:
                read = dict(zip(fresh, pool.map(self._info, fresh), strict=True))
        else:
            read = {entry: self._info(entry) for entry in fresh}
        return [read[entry] if entry in read else self._infos[entry.path] for entry in entries]

    def _info(self, entry: Entry) -> FileInfo | str | None:
        state = entry.changed_ns, entry.size
        bad = self._bad.get(entry.path)
        if bad is not None and bad[:2] == state:
            return bad[2]
        try:
            info = self._infos[entry.path] = read_info(self.storage, entry)
        except FileNotFoundError:
            return None  # removed after it was listed: another file took it over
        except StoreError as fault:
            self._bad[entry.path] = (*state, str(fault))
            if isinstance(fault, DamagedFile):
                self._damaged.add(entry.path)
            return str(fault)
        except OSError as fault:
            raise StoreError(f"{self.storage.shown(entry.path)} can't be read now: {fault}") from fault
        return info

    def step_over(self, path: Path, reason: str) -> None:
        """Treat `path` as unreadable from now on: its footer was whole, its pages are not. Raises OSError."""
        entry = self.storage.entry(path)
        self._infos.pop(path, None)
        self._bad[path] = (entry.changed_ns, entry.size, f"{self.storage.shown(path)} could not be read: {reason}")
        self._damaged.add(path)

    def damaged(self) -> list[tuple[Path, str]]:
        """Return the damaged files of the last listing, each with the reason."""
        there = {entry.path for entry in self.entries()}
        return [(path, self._bad[path][2]) for path in sorted(self._damaged & self._bad.keys()) if path in there]

    def forget(self, path: Path) -> None:
        """Know nothing of `path` any more: it was moved away."""
        self._infos.pop(path, None)
        self._bad.pop(path, None)
        self._damaged.discard(path)


def _listing(infos: dict[str, FileInfo], problems: tuple[str, ...]) -> Listing:
    """Return which of `infos` count.

    Where a lock was lost, two compactions may have taken over the same file: the one first named counts.
    """
    gone = {name for info in infos.values() for name in info.replaces}
    taken: set[str] = set()
    void: set[str] = set()
    for name, info in sorted(infos.items()):
        if name not in gone:
            if taken.isdisjoint(info.replaces):
                taken.update(info.replaces)
            else:
                void.add(name)
    if void:
        gone = {name for info in infos.values() if info.name not in void for name in info.replaces}
    standing = {name: info for name, info in infos.items() if name not in gone and name not in void}
    superseded: dict[str, set[int]] = {}
    for info in standing.values():
        for name, rows in info.supersedes.items():
            superseded.setdefault(name, set()).update(rows)
    return Listing(
        files=standing,
        superseded={name: frozenset(rows) for name, rows in superseded.items() if name in infos},
        sealed=frozenset(name for info in infos.values() for name in info.seals),
        replaced=tuple(info for name, info in infos.items() if name not in standing),
        void=frozenset(void),
        problems=problems,
    )


def day_of(start_ns: int) -> str:
    """Return the day (UTC) of a time in Unix nanoseconds, as YYYY-MM-DD; the first or last for an absurd one."""
    seconds = min(max(start_ns // 1_000_000_000, 0), 253_402_300_799)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
