"""A process that a run begins is a lane of that run: its own addresses, numbers, journal and end.

A lane is named by the crossing that began it: `plan[2]~1` is the first process begun in `plan[2]`, `~2` the second
one begun by the run itself. A forked child goes on in the same session with fresh counters; a spawned one is told in
its environment, by one variable that stands there only while the process is started.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from otel_replay import session as _session
from otel_replay.crossing import Crossing
from otel_replay.session import Scope, Session

VARIABLE = "OTEL_REPLAY_LANE"
_forking = threading.local()
_starting = threading.local()
_popen = subprocess.Popen.__init__
_lock = threading.RLock()
_hooked = False
_users = 0


def next_lane(session: Session, crossing: Crossing | None) -> str:
    """Return the name of the next process that `crossing`, or the run itself, begins."""
    began = crossing.address if crossing is not None else session.lane
    number = next(session.begun.setdefault(began, itertools.count(1)))
    return f"{began}~{number}"


def began_in(lane: str) -> str:
    """Return the address of the crossing that began `lane`, or the lane or "" that itself did."""
    return lane.rpartition("~")[0]


def _before_fork() -> None:
    scope = _session.peek_scope()
    pending = []
    for session in _session.active_sessions():
        crossing = scope.crossing if scope is not None and scope.session is session else None
        if session.before_child is not None:
            session.before_child()
        pending.append((session, next_lane(session, crossing)))
    _forking.pending = pending
    util = sys.modules.get("multiprocessing.util")
    if pending and util is not None:
        for session, _lane in pending:  # multiprocessing forgets its finalizers in a child, and ends by os._exit
            util.register_after_fork(session, lambda forked: util.Finalize(None, _end_lane, (forked,), exitpriority=0))


def _after_in_parent() -> None:
    for session, lane in getattr(_forking, "pending", ()):
        session.lanes.append(lane)
    _forking.pending = []


def _after_in_child() -> None:
    pending, _forking.pending = getattr(_forking, "pending", []), []
    for session, lane in pending:
        session.become(lane)
        scope = _session.peek_scope()
        if scope is not None and scope.session is session:
            _session.set_scope(Scope(session, None, session.root, _session.current_line()))


def _end_lane(session: Session) -> None:
    if not session.closed and session.on_exit is not None:
        session.on_exit()


@contextmanager
def told_to_children() -> Iterator[None]:
    """While in here, a process that is started learns which lane it is."""
    scope = _session.peek_scope()
    if scope is None or scope.session.closed or scope.session.describe is None:
        yield
        return
    if scope.session.before_child is not None:
        scope.session.before_child()
    named: tuple[Crossing | None] | None = getattr(_starting, "named", None)
    lane = next_lane(scope.session, scope.crossing if named is None else named[0])
    with _lock:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = scope.session.describe(lane)
        _starting.lane = lane
        try:
            yield
            scope.session.told.append(lane)
        finally:
            _starting.lane = None
            if before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = before


@contextmanager
def begun_in_name_of(crossing: Crossing | None) -> Iterator[None]:
    """While in here, a process that is started is a lane of `crossing` (None: of the run), whatever runs now."""
    _starting.named = (crossing,)
    try:
        yield
    finally:
        _starting.named = None


def tell_request(crossing: Crossing) -> dict[str, Any]:
    """Return what a server must know to be a lane of the run while it handles `crossing`; {} if it cannot be told."""
    session = crossing.session
    if session.describe is None or session.closed:
        return {}
    if session.before_child is not None:
        session.before_child()
    lane = next_lane(session, crossing)
    told: dict[str, Any] = orjson.loads(session.describe(lane))
    session.told.append(lane)
    return told


def lane_that_begins() -> str | None:
    """Return the lane that the process is to be which this thread is starting now; None where it starts none."""
    lane: str | None = getattr(_starting, "lane", None)
    return lane


def _telling_popen(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
    with told_to_children():
        given = kwargs.get("env")
        if given is not None and VARIABLE in os.environ:
            kwargs["env"] = {**given, VARIABLE: os.environ[VARIABLE]}
        _popen(self, args, *rest, **kwargs)


def _telling_start(start: Callable[[Any], None]) -> Callable[[Any], None]:
    def telling(self: Any) -> None:
        if getattr(self, "_start_method", None) == "fork":
            start(self)
            return
        with told_to_children():
            start(self)

    telling.__wrapped__ = start  # type: ignore[attr-defined]
    return telling


def install() -> None:
    """Make processes that begin while a session is active lanes of it. Counted."""
    global _users, _hooked
    with _lock:
        _users += 1
        if not _hooked and hasattr(os, "register_at_fork"):
            _hooked = True  # such hooks can't be taken back: without an active session they do nothing
            os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
        if _users == 1:
            subprocess.Popen.__init__ = _telling_popen  # type: ignore[method-assign]
        _patch_multiprocessing()


def _patch_multiprocessing() -> None:
    context = sys.modules.get("multiprocessing.context")
    for name in ("SpawnProcess", "ForkServerProcess"):
        process = getattr(context, name, None)
        if process is not None and not hasattr(process.start, "__wrapped__"):
            process.start = _telling_start(process.start)


def uninstall() -> None:
    """Undo one `install`."""
    global _users
    with _lock:
        _users -= 1
        if not _users and subprocess.Popen.__init__ is _telling_popen:
            subprocess.Popen.__init__ = _popen  # type: ignore[method-assign]
        if not _users:
            context = sys.modules.get("multiprocessing.context")
            for name in ("SpawnProcess", "ForkServerProcess"):
                process = getattr(context, name, None)
                original = getattr(getattr(process, "start", None), "__wrapped__", None)
                if process is not None and original is not None:
                    process.start = original
