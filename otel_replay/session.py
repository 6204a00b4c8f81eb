"""The session that a crossing belongs to, and where in the run it stands. Holds the only ContextVar.

A *strand* is one line of control: the run's own, one for each task, and one for each job or thread begun in it.
A task is recognised at its first crossing, by being another task than the one that its inherited scope was made
in; jobs and threads are given their strand when they are submitted (see carry.py).
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from asyncio import events as _events
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TypeAlias

from otel_replay.crossing import Crossing, Driver, Spec, enter
from otel_replay.errors import ScopeClosed
from otel_replay.faults import Faults
from otel_replay.settings import replay_wanted
from otel_replay.strand import Strand

Line: TypeAlias = "weakref.ref[asyncio.Task[object]] | int"
"""Who executes: a task (weakly, so that a scope in its context does not keep it alive) or a thread's number."""


class Scope:
    """Where control stands: the session, the crossing around it, the strand, and who executes that strand."""

    __slots__ = ("crossing", "line", "session", "strand")

    def __init__(self, session: Session, crossing: Crossing | None, strand: Strand, line: Line) -> None:
        self.session = session
        self.crossing = crossing
        self.strand = strand
        self.line = line


_scope: ContextVar[Scope | None] = ContextVar("otel_replay_scope", default=None)
_active: list[Session] = []
_jobs = threading.local()
_continues: weakref.WeakKeyDictionary[asyncio.Task[object], Strand] = weakref.WeakKeyDictionary()
on_unscoped: list[Callable[[], Session | None]] = []
"""Asked for the session of a crossing that has none: how a mode set from outside begins its runs. What it begins it
may make active in the current context; it may also name a session that is under way elsewhere."""
on_handed_over: list[Callable[[], Scope | None]] = []
"""Asked where control stands when code outside any run hands work to a thread: the work's first crossing may be the
first of a run that a mode set from outside is to begin."""


def _task() -> asyncio.Task[object] | None:
    loop = _events._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def current_line() -> Line:
    """Return who executes now."""
    task = _task()
    return threading.get_ident() if task is None else weakref.ref(task)


def _same_line(line: Line, task: asyncio.Task[object] | None) -> bool:
    if task is None:
        return line == threading.get_ident()
    return isinstance(line, weakref.ref) and line() is task


class Session:
    """One recording or replay that is under way in this process."""

    def __init__(self, driver: Driver, *, run_id: str, name: str, lane: str = "", faults: Faults | None = None) -> None:
        self.driver = driver
        self.run_id = run_id
        self.name = name
        self.lane = lane
        self.prefix = f"{lane}/" if lane else ""
        self.faults = faults or Faults()
        self.counts: dict[str, Iterator[int]] = {}
        self.entries = itertools.count(1)
        self.ends = itertools.count(1)
        self.strands = itertools.count(1)
        self.root = Strand(0, None, None)
        self.closed = False
        self.raises_when_late = False
        self.keeps_results = False
        """A crossing keeps what it returned or raised, as a replay needs it that is asked for it afterwards."""
        self.lanes: list[str] = []
        """The processes that this one has forked: lanes for certain."""
        self.begun: dict[str, Iterator[int]] = {}
        """How many processes each crossing, or the run itself under "", has begun."""
        self.told: list[str] = []
        """Those that it has started and told their lane: they are lanes only if they cross a boundary."""
        self.asked_elsewhere: set[str] = set()
        """Addresses of crossings that asked a server which this run did not begin: it may not know of the run."""
        self.describe: Callable[[str], str] | None = None
        """Returns what a spawned process must know to be that lane of this session."""
        self.before_child: Callable[[], None] | None = None
        """Called before a process is begun."""
        self.on_exit: Callable[[], None] | None = None
        """Ends this lane where the process ends without unwinding."""
        self.on_answer: Callable[[object], None] | None = None
        """Takes the final answer that a recording in the program's own code is told while a replay is under way."""
        self.notes: list[str] = []
        """What is to be said on the run when it ends."""
        self.strays: dict[str, int] = {}
        """Crossings, by name, of code that belongs to none of several runs: nobody knows whose they are."""
        self.gives_way: Callable[[], Scope | None] | None = None
        """Returns the scope of another session that what is crossed here belongs to by now."""
        self.on_stray: Callable[[str], Exception] | None = None
        """Told the name of such a crossing before it runs; returns what is raised in its place."""
        self._token: Token[Scope | None] | None = None

    # Opening and closing ---------------------------------------------------------------------------------
    def activate(self, *, ambient: bool = False) -> None:
        """Make this the session of the current context. `ambient`: also of code that lost its context."""
        _active.append(self)
        if not ambient:
            self._token = _scope.set(Scope(self, None, self.root, current_line()))

    def deactivate(self) -> None:
        """End the session: crossings that come later in its scope are late."""
        self.closed = True
        if self in _active:
            _active.remove(self)
        if self._token is not None:
            try:
                _scope.reset(self._token)
            except ValueError:  # closed in another context than it was opened in: an async fixture, a generator
                if (scope := _scope.get()) is not None and scope.session is self:
                    _scope.set(None)
            self._token = None

    # Scopes ----------------------------------------------------------------------------------------------
    def push(self, crossing: Crossing) -> Token[Scope | None]:
        return _scope.set(Scope(self, crossing, crossing.strand, current_line()))

    def pop(self, token: object) -> None:
        try:
            _scope.reset(token)  # type: ignore[arg-type]
        except ValueError:
            pass  # a step of a stream that began in one context and ended in another: nothing to restore here

    def become(self, lane: str) -> None:
        """Go on as `lane`: called in a forked child, whose first crossing is number 1 again."""
        self.lane = lane
        self.prefix = f"{lane}/"
        self.counts = {}
        self.entries = itertools.count(1)
        self.ends = itertools.count(1)
        self.strands = itertools.count(1)
        self.root = Strand(0, None, None)
        self.lanes, self.told, self.begun = [], [], {}
        self.driver.forked(lane)

    def new_strand(self, begun_in: Strand, parent: Crossing | None) -> Strand:
        # Frameworks run each step in a task of its own, and cross nothing between two: the next one follows them.
        begun_in.join()
        return Strand(next(self.strands), begun_in, parent)


def _rebound(scope: Scope) -> Scope:
    """Return the scope of the line of control that runs now, beginning a strand where it has none yet."""
    task = _task()
    if _same_line(scope.line, task):
        return scope
    session = scope.session
    if task is not None and _continues.get(task) is scope.strand:
        strand = scope.strand
    elif task is None and (begun := _job_begun_from(scope)) is not None:
        strand = begun
    else:
        strand = session.new_strand(scope.strand, scope.crossing)
        if task is not None:
            reference = weakref.ref(task)
            strand.until = lambda: (alive := reference()) is None or alive.done()
    bound = Scope(session, scope.crossing, strand, current_line())
    _scope.set(bound)
    return bound


def _job_begun_from(scope: Scope) -> Strand | None:
    """Return this thread's job where `scope` is the one that it was begun in.

    Programs copy a context before they submit and run it inside the job: that brings the submitter's scope back.
    """
    strand: Strand | None = getattr(_jobs, "strand", None)
    if strand is not None and strand.begun_in is scope.strand and strand.parent is scope.crossing:
        return strand
    return None


def set_job(strand: Strand | None) -> Strand | None:
    """Say which job or thread this thread executes now. Returns what it executed before."""
    before: Strand | None = getattr(_jobs, "strand", None)
    _jobs.strand = strand
    return before


def _unscoped() -> Scope | None:
    """Return the scope of code that has none: the one active session's, where it is the only one."""
    found = _begun_from_outside()
    if found is not None:
        return found
    if len(_active) != 1:
        return None
    session = _active[0]
    task = _task()
    strand = session.root
    if session._token is not None or task is not None:
        strand = session.new_strand(session.root, None)
        strand.adrift = True
    scope = Scope(session, None, strand, current_line())
    _scope.set(scope)
    return scope


def _begun_from_outside() -> Scope | None:
    for begin in on_unscoped:
        session = begin()
        scope = _scope.get()
        if scope is not None and not scope.session.closed:
            return scope
        if session is not None and not session.closed:
            scope = Scope(session, None, session.new_strand(session.root, None), current_line())
            _scope.set(scope)
            return scope
    return None


def current_scope() -> Scope | None:
    """Return where control stands, or None outside any session. Begins a strand for a new line of control."""
    scope = _scope.get()
    if scope is None:
        if not _active and not on_unscoped:
            return None
        scope = _unscoped()
        return scope
    session = scope.session
    if session.closed:
        return _late(scope)
    if session.gives_way is not None and (other := session.gives_way()) is not None:
        _scope.set(other)
        return other
    return _rebound(scope)


def _late(scope: Scope) -> Scope | None:
    session = scope.session
    if scope.strand.adrift:  # a worker that was lent to that session for want of another: it is free again
        _scope.set(None)
        return current_scope()
    if session.raises_when_late:
        raise ScopeClosed(
            f"a crossing came after the replay of {session.name!r} had ended: something it started still runs; "
            "join its threads and tasks before the `with replay(...)` ends"
        )
    if on_unscoped:
        _scope.set(None)  # the run before it in this context has ended: this may be the first crossing of the next
        found = _begun_from_outside()
        if found is not None:
            return found
        _scope.set(scope)
    return _rebound(scope)


def enter_call(spec: Spec, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Crossing | None:
    """Enter a crossing of `spec`; None where nothing is active, or where it is silent beneath another."""
    scope = current_scope()
    if scope is None:
        if len(_active) > 1:
            _stray(spec.name)
        return None
    if spec.layer and scope.crossing is not None and scope.crossing.mutes:
        return None
    return enter(scope, spec, args, kwargs)


def _stray(name: str) -> None:
    """A crossing in a line of control that lost its context, or never was in a run, while several are active."""
    refused: Exception | None = None
    for session in tuple(_active):
        session.strays[name] = session.strays.get(name, 0) + 1
        if session.on_stray is not None:
            refused = session.on_stray(name)
    if refused is not None:
        raise refused


def peek_scope() -> Scope | None:
    """Return the scope as inherited, without beginning a strand."""
    return _scope.get()


@contextmanager
def outside() -> Iterator[None]:
    """Begin threads in here that outlive the work they are begun for: they stand in no run."""
    token = _scope.set(None)
    before = getattr(_jobs, "outside", False)
    _jobs.outside = True
    try:
        yield
    finally:
        _jobs.outside = before
        _scope.reset(token)


def handed_over() -> Scope | None:
    """Return the scope that work submitted here belongs to, beginning a strand for a new line of control."""
    scope = _scope.get()
    if scope is not None and not scope.session.closed:
        return current_scope()
    for ask in () if getattr(_jobs, "outside", False) else on_handed_over:
        found = ask()
        if found is not None:
            _scope.set(found)
            return found
    return None


def set_scope(scope: Scope | None) -> Token[Scope | None]:
    """Put `scope` in force in the current context."""
    return _scope.set(scope)


def reset_scope(token: Token[Scope | None]) -> None:
    _scope.reset(token)


def replay_around() -> Session | None:
    """Return the replay that a crossing here would belong to; None where there is none."""
    scope = _scope.get()
    if scope is None and not _active and replay_wanted():
        scope = current_scope()  # a replay that a mode set from outside has yet to begin
    if scope is not None and not scope.session.closed:
        found = scope.session
    elif len(_active) == 1:
        found = _active[0]
    else:
        return None
    return found if found.keeps_results else None


def active_sessions() -> tuple[Session, ...]:
    """Return the sessions that are open in this process."""
    return tuple(_active)


def continue_in(task: asyncio.Task[object], strand: Strand) -> None:
    """Say that `task` is the same line of control as the caller who blocks until it ends (`asyncio.run`)."""
    _continues[task] = strand
