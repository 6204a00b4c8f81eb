"""The files of a store's folder: which are there, which count, and which can't be read.

    <store>/spans/date=YYYY-MM-DD/<ulid>.parquet   spans, sealed
    <store>/journal/*.journal                      what recorders are writing, or left behind
    <store>/notes/<ulid>.json                      verdicts and pins set after the run
    <store>/lock                                   held while a file is added

A file that was taken over by another (`replaces`) does not count; a journal that a file took over (`seals`) neither.
So every change is one rename, and what a crash leaves behind is removed by the next one who passes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from otel_replay.errors import StoreError
from otel_replay.store.parquet import SUFFIX, FileInfo, new_name, read_info

try:
    import fcntl
except ImportError:  # Windows: files are added by atomic renames all the same, and copies are parted by compaction
    fcntl = None  # type: ignore[assignment]

SPANS: Final = "spans"
JOURNAL: Final = "journal"
NOTES: Final = "notes"
LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that count, by name, and those stepped over with the reason."""

    files: dict[str, FileInfo] = field(default_factory=dict)
    superseded: dict[str, frozenset[int]] = field(default_factory=dict)
    sealed: frozenset[str] = frozenset()
    replaced: tuple[FileInfo, ...] = ()
    problems: tuple[str, ...] = ()


class Folder:
    """A store's folder. Keeps what it has read of footers: a file never changes once it has its name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._infos: dict[Path, FileInfo] = {}
        self._bad: dict[Path, tuple[int, int, str]] = {}

    @property
    def journal(self) -> Path:
        return self.root / JOURNAL

    def new_path(self, start_ns: int) -> Path:
        """Return a fresh path in the folder of the day (UTC) of `start_ns`."""
        return self.root / SPANS / f"date={day_of(start_ns)}" / f"{new_name()}{SUFFIX}"

    def paths(self) -> list[Path]:
        """Return every file that bears the suffix, whatever it holds."""
        found: list[Path] = []
        for folder, folders, names in os.walk(self.root / SPANS):
            folders.sort()
            found += [Path(folder, name) for name in names if name.endswith(SUFFIX) and not name.startswith(".")]
        return sorted(found)

    def left_behind(self, suffix: str) -> list[Path]:
        """Return files whose writer was killed before they had their name."""
        return [
            Path(folder, name)
            for folder, _, names in os.walk(self.root / SPANS)
            for name in names
            if name.endswith(suffix)
        ]

    def listing(self) -> Listing:
        """Return what is there now. Unreadable files are named, never fatal."""
        infos: dict[str, FileInfo] = {}
        problems: list[str] = []
        for path in self.paths():
            try:
                info = self._info(path)
            except FileNotFoundError:
                continue  # removed after it was listed: another file took it over
            except StoreError as fault:
                problems.append(str(fault))
                continue
            if info.name in infos:
                problems.append(f"{path} bears the name of {infos[info.name].path}; it is stepped over")
                continue
            infos[info.name] = info
        gone = {name for info in infos.values() for name in info.replaces}
        superseded: dict[str, set[int]] = {}
        for info in infos.values():
            if info.name not in gone:
                for name, rows in info.supersedes.items():
                    superseded.setdefault(name, set()).update(rows)
        return Listing(
            files={name: info for name, info in infos.items() if name not in gone},
            superseded={name: frozenset(rows) for name, rows in superseded.items() if name in infos},
            sealed=frozenset(name for info in infos.values() for name in info.seals),
            replaced=tuple(info for name, info in infos.items() if name in gone),
            problems=tuple(problems),
        )

    def _info(self, path: Path) -> FileInfo:
        info = self._infos.get(path)
        if info is not None:
            return info
        state = path.stat()
        bad = self._bad.get(path)
        if bad is not None and bad[:2] == (state.st_mtime_ns, state.st_size):
            raise StoreError(bad[2])
        try:
            info = self._infos[path] = read_info(path)
        except StoreError as fault:
            self._bad[path] = (state.st_mtime_ns, state.st_size, str(fault))
            raise
        return info

    def step_over(self, path: Path, reason: str) -> None:
        """Treat `path` as unreadable from now on: its footer was whole, its pages are not."""
        state = path.stat()
        self._infos.pop(path, None)
        self._bad[path] = (state.st_mtime_ns, state.st_size, f"{path} could not be read: {reason}")

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """Hold the store's lock; yields False where another process has it and `wait` is off.

        The lock is the operating system's: it goes with its holder, so a killed process never leaves it behind.
        """
        try:
            descriptor = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as fault:
            raise StoreError(f"{self.root} can't be written: {fault}") from fault
        try:
            if fcntl is not None:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    yield False
                    return
            yield True
        finally:
            os.close(descriptor)


def day_of(start_ns: int) -> str:
    """Return the day (UTC) of a time in Unix nanoseconds, as YYYY-MM-DD; the first or last for an absurd one."""
    seconds = min(max(start_ns // 1_000_000_000, 0), 253_402_300_799)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
