"""In a replay, date and time follow the record: `time.time`, `datetime.now`, `date.today` and their kin.

The clock stands where the last crossing that the tape gave had ended, and ticks on from there: code that waits for a
moment still gets there. `time.monotonic`, `perf_counter` and `sleep` are as ever, so event loops, timeouts and locks
are undisturbed, and TLS reads its time in C. Whose clock it is follows the context. It does not hold for our own
work, for OpenTelemetry (a user's spans stand beside ours), and for libraries under a live crossing: they sign
requests to a server of today.

A recording that kept a tape of its clock gives the program's own code each reading as it was, `time.monotonic` and
`perf_counter` too; what the tape lacks goes on from the last reading that it gave.

`datetime.now` belongs to a C type and can only be replaced in C: time-machine does that.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Literal, TypeAlias

from otel_replay import originals, tapes
from otel_replay import session as _session
from otel_replay.crossing import Crossing
from otel_replay.session import Scope, Session
from otel_replay.sites import site_of
from otel_replay.swaps import Swaps

ClockChoice: TypeAlias = Literal["recorded", "live", "tape"]
CHOICES = ("recorded", "live", "tape")
_READS_DATE = frozenset(("time", "time_ns", "clock_gettime", "clock_gettime_ns", "now", "utcnow", "today"))
_READS_DATE |= {"gmtime", "localtime", "strftime", "asctime", "ctime"}
_READS_SECONDS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
_OURS = ("opentelemetry", "otel_replay")
_clocks: Mapping[Session, RecordedClock] = {}
_taped: frozenset[Session] = frozenset()
_swaps = Swaps()
_travel: Any = None
_traveller: Any = None
_lock = threading.Lock()


class RecordedClock:
    """The clock of one replay, in Unix nanoseconds. `is_live` tells whether a crossing runs with today's world."""

    def __init__(self, start_ns: int, is_live: Callable[[Crossing], bool]) -> None:
        self._at_ns = start_ns
        self._since_ns = originals.monotonic_ns()
        self._is_live = is_live

    def now_ns(self) -> int:
        return self._at_ns + originals.monotonic_ns() - self._since_ns

    def move(self, to_ns: int) -> None:
        """Go on to `to_ns`; never back, since strands end in any order."""
        if to_ns > self.now_ns():
            self._at_ns, self._since_ns = to_ns, originals.monotonic_ns()

    def start(self, session: Session) -> bool:
        """Put the clock in force for code of `session`; False where the program itself has frozen time already."""
        global _clocks
        with _lock:
            if not _install():
                return False
            _clocks = {**_clocks, session: self}
        return True

    @staticmethod
    def stop(session: Session) -> None:
        """Take the clock of `session`, if it has one, out of force."""
        global _clocks
        with _lock:
            if session not in _clocks:
                return
            _clocks = {one: clock for one, clock in _clocks.items() if one is not session}
            _uninstall()


def start_tape(session: Session) -> bool:
    """Have what code of `session` reads pass its tape; False where the program itself has frozen time already."""
    global _taped
    with _lock:
        if not _install():
            return False
        if not _taped:
            for name in _READS_SECONDS:
                _swaps.c(time, name, _seconds, f"time.{name}")
            _swaps.in_program()
        _taped |= {session}
    return True


def stop_tape(session: Session) -> None:
    global _taped
    with _lock:
        if session in _taped:
            _taped -= {session}
            if not _taped:
                _swaps.undo_all()
            _uninstall()


def _seconds(original: Callable[[], Any], called: str) -> Callable[..., Any]:
    def read(*args: Any, **kwargs: Any) -> Any:
        here = original(*args, **kwargs)
        tape = tapes.tape_here("clock")
        site = site_of(sys._getframe(2), called, (called.rpartition(".")[2],)) if tape is not None else None
        if tape is None or site is None:
            return here
        given = tape.passed("clock", site, here + tape.ahead.get(called, 0), lambda value: type(value) is type(here))
        tape.ahead[called] = given - here  # what the tape lacks goes on from here
        return given

    return read


def _is_library(frame: FrameType | None) -> bool:
    return frame is not None and "site-packages" in frame.f_code.co_filename


def _time_ns() -> int:
    """Return the time as the caller may see it. Called by time-machine, in C, in the caller's own frame."""
    scope = _session.peek_scope()
    if scope is None or scope.session.closed:
        return originals.now_ns()
    frame: FrameType | None = sys._getframe(1)
    clock = _clocks.get(scope.session)
    now_ns = originals.now_ns() if clock is None else _replayed_ns(clock, scope, frame)
    tape = tapes.tape_here("clock")
    site = site_of(frame, "clock", _READS_DATE) if tape is not None else None
    if tape is None or site is None:
        return now_ns
    given: int = tape.passed("clock", site, now_ns, lambda value: type(value) is int)
    if clock is not None:
        clock.move(given)
    return given


def _replayed_ns(clock: RecordedClock, scope: Scope, frame: FrameType | None) -> int:
    if frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS:
        return originals.now_ns()
    around = scope.crossing
    while around is not None:
        if clock._is_live(around) and _is_library(frame):
            return originals.now_ns()
        around = around.parent
    return clock.now_ns()


def _install() -> bool:
    global _travel, _traveller
    if _travel is not None:
        return True
    import time_machine

    if time_machine.escape_hatch.is_travelling():
        return False
    travel = time_machine.travel(0, tick=True)
    by_system = uuid._generate_time_safe  # type: ignore[attr-defined]
    try:
        traveller = travel.start()
    except RuntimeError:  # freezegun holds the clock
        return False
    # Without it uuid1 would take a number from the program's own `random`.
    uuid._generate_time_safe = by_system  # type: ignore[attr-defined]
    traveller.time_ns = _time_ns  # type: ignore[method-assign]
    _travel, _traveller = travel, traveller
    return True


def _uninstall() -> None:
    global _travel, _traveller
    if _clocks or _taped or _travel is None:
        return
    import time_machine

    travel, traveller, _travel, _traveller = _travel, _traveller, None, None
    stack = time_machine.traveller_stack
    if stack and stack[-1] is traveller:
        travel.stop()
    elif traveller in stack:
        stack.remove(traveller)  # the program travels on by itself: its own stop ends it all
