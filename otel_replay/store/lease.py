"""A lock in object storage, which has none: Lamport's bakery, with tickets that run out.

Who wants the lock says that it is choosing, takes a number greater than all that it sees, and waits for those that
are choosing and for every smaller number. That needs only that a listing shows what was put before it began. A ticket
is put again while it is held; one that was not for `LEASE_SECONDS`, by the service's own clock, is a dead process's.
A process that is suspended for longer may find its place taken: then the same rows may be added twice, and compaction
parts them. Nothing is ever lost by it.

Source: L. Lamport, A New Solution of Dijkstra's Concurrent Programming Problem, CACM 17(8), 1974.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from otel_replay.errors import StoreError
from otel_replay.originals import monotonic, now_ns, random_hex, sleep
from otel_replay.store.storage import Entry

LEASE_SECONDS: Final = 20.0
_RENEW_SECONDS: Final = 4.0
_WAIT_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.1
_CHOOSING: Final = "choosing-"


class Tickets(Protocol):
    """What a lease needs of a storage."""

    def files(self, folder: Path) -> list[Entry]: ...
    def write(self, path: Path, data: bytes) -> None: ...
    def remove(self, path: Path) -> None: ...


class Lease:
    """One claim to the lock at `folder`. Used once, by one thread."""

    def __init__(self, tickets: Tickets, folder: Path) -> None:
        self._tickets = tickets
        self._folder = folder
        self._me = random_hex(8)
        self._ticket: Path | None = None
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self, *, wait: bool) -> bool:
        """Return True once it is ours; False where others stand before us and `wait` is off.

        Raises OSError where the storage fails, StoreError where it stays another's for too long.
        """
        if not wait and self._taken():
            return False
        self._draw()
        deadline = monotonic() + _WAIT_SECONDS
        renewed = monotonic()
        try:
            while self._before_us():
                if not wait:
                    self.give_back()
                    return False
                if monotonic() > deadline:
                    raise StoreError(f"another writer has held {self._folder.as_posix()} for {_WAIT_SECONDS:.0f} s")
                sleep(_POLL_SECONDS)
                if monotonic() - renewed > _RENEW_SECONDS:
                    renewed = monotonic()
                    self._put()
        except BaseException:
            self.give_back()
            raise
        self._renewing = threading.Thread(target=self._renew, name="otel-replay-lease", daemon=True)
        self._renewing.start()
        return True

    def give_back(self) -> None:
        """Let go. Where the storage fails now, the ticket runs out by itself."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()  # or its last put may come after the removal
        if self._ticket is not None:
            with suppress(OSError):
                self._tickets.remove(self._ticket)

    def _taken(self) -> bool:
        """A look beforehand, by our own clock: where it is wrong, the tickets decide."""
        oldest = now_ns() - int(LEASE_SECONDS * 1e9)
        return any(entry.changed_ns >= oldest for entry in self._tickets.files(self._folder))

    def _draw(self) -> None:
        choosing = self._folder / f"{_CHOOSING}{self._me}"
        self._tickets.write(choosing, b"")
        numbers = [_number(entry) for entry in self._tickets.files(self._folder)]
        self._ticket = self._folder / f"{max(numbers, default=0) + 1:012d}-{self._me}"
        self._put()
        self._tickets.remove(choosing)

    def _put(self) -> None:
        assert self._ticket is not None
        self._tickets.write(self._ticket, b"")

    def _before_us(self) -> bool:
        """True while somebody stands before us. Our own ticket tells what the service's clock says."""
        assert self._ticket is not None
        listed = self._tickets.files(self._folder)
        if not any(entry.path == self._ticket for entry in listed):
            self._draw()  # we were taken for dead: those who came since stand before us
            return True
        others = [entry for entry in self._alive(listed) if entry.path != self._ticket]
        return any(not _number(entry) or entry.path.name < self._ticket.name for entry in others)

    def _alive(self, listed: list[Entry]) -> list[Entry]:
        """Return the claims that have not run out, and remove the others."""
        latest = max((entry.changed_ns for entry in listed), default=0)
        oldest = latest - int(LEASE_SECONDS * 1e9)
        for entry in listed:
            if entry.changed_ns < oldest:
                with suppress(OSError):
                    self._tickets.remove(entry.path)
        return [entry for entry in listed if entry.changed_ns >= oldest]

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            with suppress(OSError):
                self._put()


def _number(entry: Entry) -> int:
    """Return the number of a ticket, 0 for one that is still choosing."""
    number = entry.path.name.split("-")[0]
    return int(number) if number.isdecimal() else 0
