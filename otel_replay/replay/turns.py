"""Served crossings of different strands end in the order in which they ended in the record.

Served calls take no time, so without this an agent that takes answers in order of arrival would rank them anew. A
crossing waits while the next unserved one of another line ended before it in the record and may still come; when
nothing moves any more, what waits for something that does not come is let go, earliest first.

Waiting tasks are woken one at a time, and the next only when the woken one's strand has moved on (crossed again,
ended) or the loop has run idle: else the second could overtake the first on its way out.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType

from otel_replay import originals
from otel_replay.limits import TURN_WAIT_MS_MAX
from otel_replay.replay.shuffling import shuffled_ends
from otel_replay.replay.tape import Entry, Line, Tape
from otel_replay.strand import Strand

_IDLE_SPINS = 6
_SAME_ROUND_NS = 200_000
_POLL_SECONDS = 0.001
_THREAD_POLL_SECONDS = 0.001
_THREAD_IDLE_SECONDS = 0.05
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "concurrent/futures/thread.py", "futures/_base.py")
_WAITING_NAMES = ("wait", "_wait_for_tstate_lock", "join", "get", "select", "_worker", "acquire")


class Turns:
    """The order in which served crossings of one lane end."""

    def __init__(
        self,
        tape: Tape,
        reachable: Callable[[Line], bool],
        served: Callable[[Entry], bool],
        covered: Callable[[Line], bool],
        *,
        shuffle: int | None = None,
    ) -> None:
        blocking = [entry for entry in tape.entries.values() if entry.envelope.end_seq > 0 and _blocks(entry)]
        self._by_end = sorted(blocking, key=lambda entry: entry.envelope.end_seq)
        self._places: dict[str, int] | None = None
        if shuffle is not None:
            self._places = shuffled_ends(self._by_end, shuffle)
            self._by_end.sort(key=self._place)
        self._first = 0
        self._covered = covered
        self._reachable = reachable
        self._served = served
        self._parallel = len({entry.envelope.strand for entry in tape.entries.values()}) > 1
        self._waiting: dict[int, tuple[Entry, Strand]] = {}
        self._moves = 0
        self._changed = threading.Condition()
        self._settling: tuple[Strand, int, int] | None = None
        self._polls = 0
        self._queues: dict[asyncio.AbstractEventLoop, list[tuple[int, int, Entry, asyncio.Future[None]]]] = {}
        self._threads: set[int] = set()
        self._sleepers: set[int] = set()
        self.home = threading.get_ident()
        """The thread that the replay was begun in."""

    def _place(self, entry: Entry) -> int:
        """Return when `entry` is to end, among the others."""
        return entry.envelope.end_seq if self._places is None else self._places.get(entry.address, 0)

    @property
    def needed(self) -> bool:
        """False where the whole record is one strand: nothing can be overtaken."""
        return self._parallel

    def moved(self, strand: Strand | None = None) -> None:
        """Something was crossed, or ended: whoever waits looks again."""
        with self._changed:
            self._moves += 1
            if self._settling is not None and strand is self._settling[0]:
                self._settling = None
            self._changed.notify_all()

    def delivered(self, entry: Entry, strand: Strand) -> None:
        """A served crossing was given to the program."""
        with self._changed:
            entry.delivered = True
            self._waiting.pop(id(entry), None)
            self._moves += 1
            self._settling = (strand, self._moves, entry.envelope.end_ns)
            self._changed.notify_all()

    def _blocked_by(self, entry: Entry) -> bool:
        """True while something that ended before `entry` in the record may still come."""
        by_end, end = self._by_end, self._place(entry)
        while self._first < len(by_end) and self._settled(by_end[self._first]):
            self._first += 1  # what is over at the front is looked at only once
        for at in range(self._first, len(by_end)):
            other = by_end[at]
            if self._place(other) >= end:
                return False
            if other.line is not entry.line and not self._settled(other) and self._reachable(other.line):
                return True
        return False

    def _settled(self, entry: Entry) -> bool:
        """True where nobody needs to wait for `entry`: it was given, is not to be served, or can't come any more."""
        if entry.delivered or entry.passed_over or entry.used == "live" or entry.instead or not self._served(entry):
            return True
        return self._covered(entry.line)

    def _free_to_go(self, entry: Entry, *, patient: bool = False) -> bool:
        """True where `entry` may end now. `patient`: not yet where a strand has only just ended.

        Whoever joined that one, a `gather` in another task, say, comes to its own end a few rounds of the loop later;
        before `entry`, unless both ended in the same round when they were recorded.
        """
        settling = self._settling
        if settling is not None:
            apart = entry.envelope.end_ns - settling[2] > _SAME_ROUND_NS
            if settling[0].done() and not (patient and apart):
                self._settling = None
            elif self._moves == settling[1] and settling[0] is not self._waiting.get(id(entry), (entry, None))[1]:
                return False
        return not self._blocked_by(entry)

    def _is_first(self, entry: Entry) -> bool:
        place = self._place(entry)
        return all(place <= self._place(other) for other, _strand in list(self._waiting.values()))

    async def wait_async(self, entry: Entry, strand: Strand) -> None:
        """Suspend until it is `entry`'s turn to end."""
        await asyncio.sleep(0)  # a call suspends: siblings that were begun together get to their first crossing
        if not self.needed or self._free_to_go(entry, patient=True):
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[id(entry)] = (entry, strand)
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = []
            loop.call_soon(self._pump, loop, 0, self._moves, originals.monotonic())
        heapq.heappush(queue, (self._place(entry), entry.envelope.seq, entry, turn))
        try:
            await turn
        finally:
            self._waiting.pop(id(entry), None)

    def _pump(self, loop: asyncio.AbstractEventLoop, idle: int, seen: int, since: float) -> None:
        """Wake whoever's turn it is, once in each round of the loop; give up on what does not come once it is idle."""
        queue = self._queues[loop]
        while queue and queue[0][3].done():  # cancelled meanwhile
            heapq.heappop(queue)
        if not queue:
            del self._queues[loop]
            return
        _end, _seq, entry, turn = queue[0]
        now = originals.monotonic()
        if self._moves != seen:
            idle, seen, since = 0, self._moves, now
        if self._free_to_go(entry, patient=idle <= _IDLE_SPINS):
            heapq.heappop(queue)
            turn.set_result(None)
            idle, since = 0, now
        elif idle > _IDLE_SPINS:
            sleeps = self._sleeps(loop)
            if self._settling is not None:
                self._settling = None
            elif self._is_first(entry) and (not sleeps or now - since > TURN_WAIT_MS_MAX / 1000):
                heapq.heappop(queue)
                turn.set_result(None)
            elif sleeps:
                self._polls += 1
                loop.call_later(_POLL_SECONDS, self._polled, loop, idle, seen, since)
                return
        loop.call_soon(self._pump, loop, idle + 1, seen, since)

    def _polled(self, loop: asyncio.AbstractEventLoop, idle: int, seen: int, since: float) -> None:
        self._polls -= 1
        self._pump(loop, idle, seen, since)

    def _sleeps(self, loop: asyncio.AbstractEventLoop) -> bool:
        """True while the loop has a timer, other than our own, that may still bring what is waited for."""
        scheduled = getattr(loop, "_scheduled", None)
        if scheduled is None:
            return True  # a loop that does not show its timers may have one
        return sum(1 for timer in scheduled if not timer.cancelled()) > self._polls

    def wait(self, entry: Entry, strand: Strand) -> None:
        """Block until it is `entry`'s turn to end. In a thread that runs an event loop nothing is waited for.

        A strand in a thread of its own is also held until the threads that it runs beside wait for something: a
        served call would else be over before its siblings are begun, or before anybody could see who came first.
        """
        if asyncio._get_running_loop() is not None:
            return
        me = threading.get_ident()
        self._threads.add(me)
        beside = strand.number != 0
        if not beside and (not self.needed or self._free_to_go(entry)):
            return
        with self._changed:
            self._waiting[id(entry)] = (entry, strand)
            seen, since = self._moves, originals.monotonic()
            deadline = since + TURN_WAIT_MS_MAX / 1000
            calm = 0
            try:
                while True:
                    free = not self.needed or self._free_to_go(entry)
                    calm = calm + 1 if free and (not beside or self._quiet(me)) else 0
                    if calm > (self._moves > 1):
                        return
                    self._sleepers.add(me)
                    try:
                        self._changed.wait(_THREAD_POLL_SECONDS)
                    finally:
                        self._sleepers.discard(me)
                    now = originals.monotonic()
                    if self._moves != seen:
                        seen, since = self._moves, now
                        calm = 0
                    elif now - since > _THREAD_IDLE_SECONDS and (now > deadline or not _others_run()):
                        self._settling = None
                        if not self.needed or self._is_first(entry):
                            return
            finally:
                self._waiting.pop(id(entry), None)

    def _quiet(self, me: int) -> bool:
        """True where each thread of the run, those aside that wait here, is blocked in the library's own waiting."""
        frames = sys._current_frames()
        for thread in {self.home, *self._threads} - self._sleepers - {me}:
            frame = frames.get(thread)
            if frame is not None and not _waits(frame):
                return False
        return True


def _others_run() -> bool:
    """True where another thread of this process could go on by itself: it runs, or waits for a processor only.

    On Linux, from the state in `/proc/self/task/*/stat` (proc(5)); elsewhere nobody knows, and False is returned.
    """
    me = str(threading.get_native_id())
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return False
    for thread in threads:
        if thread != me:
            try:
                with open(f"/proc/self/task/{thread}/stat", "rb") as file:
                    state = file.read().rpartition(b") ")[2][:1]
            except OSError:
                continue  # it has ended meanwhile
            if state == b"R":
                return True
    return False


def _waits(frame: FrameType | None) -> bool:
    """True where a thread stands in the library's own waiting, and not in the midst of beginning another."""
    assert frame is not None
    code = frame.f_code
    if code.co_name not in _WAITING_NAMES or not code.co_filename.endswith(_WAITING_FILES):
        return False
    around: FrameType | None = frame
    while around is not None and around.f_code.co_filename.endswith(_WAITING_FILES):
        if around.f_code.co_name in ("start", "submit"):
            return False
        around = around.f_back
    return True


def _blocks(entry: Entry) -> bool:
    """A cancelled crossing ends when the agent cancels it, and a lost one never: nobody waits for these."""
    return entry.envelope.outcome.kind not in ("cancelled", "lost") and entry.envelope.outcome.end != "dropped"
