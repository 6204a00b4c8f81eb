"""Where a store's files stand: what a folder and a bucket do for it alike.

A file is there whole or not at all, and never changes once it has its name. A file of a store is named by a `Path`;
in object storage that is `bucket/prefix/...`, a name and no place on this machine's disk.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from otel_replay.errors import StoreError
from otel_replay.location import printable

try:
    import fcntl
except ImportError:  # Windows: files are added by atomic renames all the same, and copies are parted by compaction
    fcntl = None  # type: ignore[assignment]

TEMPORARY: Final = ".writing"
"""The end of a name that no reader lists."""
LOCK: Final = "lock"


class Entry(NamedTuple):
    """A file as it is listed: its name, bytes, and when it was last changed, in Unix nanoseconds."""

    path: Path
    size: int
    changed_ns: int


class Storage(Protocol):
    """Each method raises OSError where the disk or the network fails, FileNotFoundError where there is no such file."""

    @property
    def root(self) -> Path:
        """What the store's files stand below."""
        ...

    @property
    def readers(self) -> int:
        """How many files it is worth reading at once."""
        ...

    def shown(self, path: Path) -> str:
        """Return `path` as people are told of it; never with a credential."""
        ...

    def files(self, folder: Path) -> list[Entry]:
        """Return every file below `folder`, by name; those being written too."""
        ...

    def left_behind(self, folder: Path) -> list[Entry]:
        """Return what writers that were killed left under temporary names, for `remove`."""
        ...

    def entry(self, path: Path) -> Entry:
        """Return what is known of one file."""
        ...

    def opened(self, path: Path) -> AbstractContextManager[Any]:
        """Open `path` for pyarrow to read at any place."""
        ...

    def read(self, path: Path) -> bytes:
        """Return the whole file."""
        ...

    def staging(self, path: Path) -> Path:
        """Return where on this machine a file is written before `publish` gives it the name `path`."""
        ...

    def publish(self, staged: Path, path: Path) -> None:
        """Let the staged file appear as `path`, whole and durable. The staged one is gone on return."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone already is fine."""
        ...

    def locked(self, *, wait: bool = True) -> AbstractContextManager[bool]:
        """Hold the store's lock; yields False where another has it and `wait` is off. Raises StoreError."""
        ...

    def address(self, path: Path) -> str:
        """Return what DuckDB calls the file."""
        ...

    def attach(self, connection: Any) -> None:
        """Let a DuckDB connection read addresses of this storage."""
        ...

    def writable(self) -> bool:
        """False where it is known beforehand that nothing can be written."""
        ...

    def is_the_files(self, fault: Exception) -> bool:
        """True where `fault` of a read says something about the file, False where only about the road to it."""
        ...


class LocalStorage:
    """A folder on this machine: temporary names, sync, rename, and the operating system's lock."""

    readers = 1

    def __init__(self, root: Path) -> None:
        self.root = root

    def shown(self, path: Path) -> str:
        return printable(path)

    def files(self, folder: Path) -> list[Entry]:
        found: list[Entry] = []
        for below, _, names in os.walk(folder):
            for name in names:
                try:
                    found.append(self.entry(Path(below, name)))
                except OSError as fault:
                    # Taken over and removed meanwhile; or a link in a circle, or a pipe, which no writer makes.
                    if fault.errno not in (errno.ENOENT, errno.ELOOP):
                        raise
        return sorted(found)

    def left_behind(self, folder: Path) -> list[Entry]:
        return [entry for entry in self.files(folder) if entry.path.name.endswith(TEMPORARY)]

    def entry(self, path: Path) -> Entry:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # to open a pipe would wait for ever
            raise FileNotFoundError(errno.ENOENT, "not a file", str(path))
        return Entry(path, state.st_size, state.st_mtime_ns)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Any]:
        yield path

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def staging(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.with_name(f".{path.name}{TEMPORARY}")

    def publish(self, staged: Path, path: Path) -> None:
        sync(staged)
        os.rename(staged, path)
        sync(path.parent)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """The lock goes with its holder, so a killed process never leaves it behind."""
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

    def address(self, path: Path) -> str:
        return str(path)

    def attach(self, connection: Any) -> None:
        """A file of this machine needs nothing."""

    def writable(self) -> bool:
        return os.access(self.root, os.W_OK)

    def is_the_files(self, fault: Exception) -> bool:
        return True


def sync(path: Path) -> None:
    """Flush a file or folder to its disk. Windows can't open a folder, and needs no such flush."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fault_point(step: str) -> None:
    """Do nothing. Tests kill the process here, by replacing it in a process of their own."""
