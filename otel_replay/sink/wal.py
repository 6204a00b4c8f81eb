"""The write-ahead log of one sink: what is acknowledged is on disk first, many requests to one sync.

Folder: `<wal_folder>/<random name>/` with `lock` (held while the sink lives), one segment that is being written
(`*.open`) and those that wait for conversion (`*.wal`). Every sink has its own, so that any number can share a disk;
the folder of a dead one is adopted by the converter of a live one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import StoreError
from ..originals import monotonic, random_hex
from .segment import MAGIC, OPEN_SUFFIX, SEALED_SUFFIX, fdatasync, frame, sync_folder, write_all

LOCK_NAME: Final = "lock"
CONVERTING_NAME: Final = "converting"
QUARANTINE_NAME: Final = "quarantine"
_GROUP_BYTES_MAX: Final = 64 * 1024 * 1024


class Busy(Exception):  # a state, not a fault
    """Too much waits already: the sender shall come back after `retry_seconds`."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock file `path`, or None where another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all segments at or below `folder`, quarantine aside."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += 0 if entry.name == QUARANTINE_NAME else folder_bytes(Path(entry.path))
                elif entry.name.endswith((OPEN_SUFFIX, SEALED_SUFFIX)):
                    total += entry.stat().st_size
    except FileNotFoundError:
        return total  # converted and removed meanwhile
    return total


@dataclass(slots=True)
class _Ticket:
    parts: tuple[bytes, bytes]
    done: threading.Event = field(default_factory=threading.Event)
    error: str = ""

    @property
    def size(self) -> int:
        return len(self.parts[0]) + len(self.parts[1])


class Wal:
    """The log that this process writes. `append` may be called from any thread."""

    def __init__(
        self,
        wal_folder: str,
        *,
        wal_bytes_max: int,
        disk_free_bytes_min: int,
        segment_bytes: int,
        seal_seconds: float,
    ) -> None:
        self.root = Path(wal_folder).absolute()
        self.folder = self.root / random_hex(8)
        self._wal_bytes_max = wal_bytes_max
        self._disk_free_bytes_min = disk_free_bytes_min
        self._segment_bytes = segment_bytes
        self._seal_seconds = seal_seconds
        self._condition = threading.Condition()
        self._pending: list[_Ticket] = []
        self._closing = False
        self._fd = -1
        self._path = self.folder
        self._size = 0
        self._opened_at = 0.0
        self._sequence = 0
        self._backlog_bytes = 0
        self._measured_at = 0.0
        self._disk_free = 0
        self.sealed = 0
        self.commits = 0
        self.commit_seconds = 0.0
        self.failures = 0
        try:
            self.folder.mkdir(parents=True, mode=0o700)
            lock = try_lock(self.folder / LOCK_NAME)
            sync_folder(self.root)
        except OSError as fault:
            raise StoreError(f"the write-ahead folder {self.root} cannot be used: {fault}") from fault
        if lock is None:
            raise StoreError(f"the fresh write-ahead folder {self.folder} is locked by another process")
        self._lock = lock
        self._thread = threading.Thread(target=self._run, name="otel-replay-wal", daemon=True)
        self._thread.start()

    # Called by receivers ---------------------------------------------------------------------------------

    def append(self, kind: int, payload: bytes) -> None:
        """Return once the payload is durable. Raises Busy where there is no room, StoreError where the disk fails."""
        self.refuse_when_full(len(payload))
        ticket = _Ticket(frame(kind, payload))
        with self._condition:
            if self._closing:
                raise StoreError("the sink is stopping")
            self._pending.append(ticket)
            self._condition.notify()
        ticket.done.wait()
        if ticket.error:
            raise StoreError(ticket.error)

    def refuse_when_full(self, more_bytes: int = 0) -> None:
        """Raise Busy where `more_bytes` would pass the bound, StoreError where the disk is about to be full."""
        backlog = self.backlog_bytes()
        if backlog + more_bytes > self._wal_bytes_max:
            raise Busy(f"{backlog} bytes wait for conversion, the bound is {self._wal_bytes_max}", 5)
        if self._disk_free_bytes_min and self._disk_free < self._disk_free_bytes_min + more_bytes:
            raise StoreError(f"the disk of {self.root} has {self._disk_free} bytes left")

    def backlog_bytes(self) -> int:
        """Return the bytes that wait for conversion in all folders of this disk, at most half a second old."""
        now = monotonic()
        if now - self._measured_at > 0.5:
            self._backlog_bytes = folder_bytes(self.root)
            self._disk_free = shutil.disk_usage(self.root).free
            self._measured_at = now  # last: another thread must not take what is not measured yet
        return self._backlog_bytes

    def close(self) -> None:
        """Commit what is pending, seal the segment, and let go of the folder: a converter may now empty it."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # The committing thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._pending and not self._closing:
                    self._condition.wait(self._wait_seconds())
                group = self._take()
                closing = self._closing and not group
            if group:
                self._commit(group)
            due = self._size and monotonic() - self._opened_at >= self._seal_seconds
            if self._size >= self._segment_bytes or due or closing:
                self._seal()
            if closing:
                return

    def _take(self) -> list[_Ticket]:
        """Return the next group, and leave the rest pending: a group is bounded by bytes."""
        size = count = 0
        for ticket in self._pending:
            size += ticket.size
            if count and size > _GROUP_BYTES_MAX:
                break
            count += 1
        group = self._pending[:count]
        del self._pending[:count]
        return group

    def _wait_seconds(self) -> float | None:
        return max(0.0, self._opened_at + self._seal_seconds - monotonic()) + 0.001 if self._size else None

    def _commit(self, group: list[_Ticket]) -> None:
        started = monotonic()
        error = ""
        try:
            if self._fd < 0:
                self._open()
            write_all(self._fd, [part for ticket in group for part in ticket.parts])
            fdatasync(self._fd)
            size = sum(ticket.size for ticket in group)
            self._size += size
            self._backlog_bytes += size
        except OSError as fault:
            error = f"the write-ahead log cannot be written: {fault}"
            self.failures += 1
            self._abandon()
        self.commits += 1
        self.commit_seconds += monotonic() - started
        for ticket in group:
            ticket.error = error
            ticket.done.set()

    def _open(self) -> None:
        self._sequence += 1
        self._path = self.folder / f"{self._sequence:010d}{OPEN_SUFFIX}"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(self._fd, MAGIC)
        sync_folder(self.folder)
        self._size = 0
        self._opened_at = monotonic()

    def _abandon(self) -> None:
        """After a failed write: cut what was never acknowledged, and go on in a fresh segment."""
        if self._fd < 0:
            return
        if self._size:
            # After a failed sync the kernel may have dropped the pages: only what was acknowledged counts.
            try:
                os.ftruncate(self._fd, len(MAGIC) + self._size)
            except OSError:
                self.failures += 1
            self._seal()
            return
        fd, self._fd = self._fd, -1
        os.close(fd)
        try:
            os.unlink(self._path)
        except OSError:
            self.failures += 1

    def _seal(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        os.close(fd)
        self._size = 0
        try:
            os.rename(self._path, self._path.with_suffix(SEALED_SUFFIX))
            sync_folder(self.folder)
            self.sealed += 1
        except OSError:
            # The name stays `.open`; the converter of the next sink takes it all the same.
            self.failures += 1
