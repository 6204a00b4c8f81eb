"""`with record(...)`: a run while it is recorded, from its first crossing to its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace as _replace
from types import TracebackType

import orjson

from otel_replay import carry, chance, lanes, payload
from otel_replay import session as _session
from otel_replay.coverage import Coverage
from otel_replay.envelope import Run
from otel_replay.errors import UsageError
from otel_replay.otel.recorder import Recorder
from otel_replay.session import Session
from otel_replay.tapes import Keeper

STRAYS_NAMED_MAX = 20
INSIDE = "a run of its own was recorded inside this one, which lacks its crossings: "
"""How the note of a run begins in which another was recorded."""


class RecordedRun:
    """A run while it is recorded: what `with record(...) as run` gives.

    Inside another recording it takes the crossings, and the outer run notes it. Inside a replay it records nothing:
    the crossings are the replay's, and so is the answer where the run has the replayed run's name.
    """

    def __init__(
        self,
        run: Run,
        session: Session,
        recorder: Recorder,
        *,
        parent: tuple[str, str] | None = None,
        coverage: bool = False,
        tape: Collection[str] = (),
    ) -> None:
        self._run = run
        self._session = session
        self._recorder = recorder
        self._parent = parent
        self._open = False
        self._begun = False
        self._replay: Session | None = None
        self._coverage = Coverage(session) if coverage else None
        self._tape = Keeper(tape, recorder.redactor) if tape else None
        recorder.tape = self._tape

    @property
    def session(self) -> Session:
        """The session that the run's crossings belong to."""
        return self._session

    @property
    def id(self) -> str:
        """The run's id: 32 hex characters. Any beginning of it that is unique names the run."""
        return self._run.run_id

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def trace_id(self) -> str:
        """The trace that the run's spans are in, as 32 hex characters; "" before the run has begun."""
        return self._recorder.run.trace_id

    @property
    def faults(self) -> Mapping[str, int]:
        """How often each step of the recorder failed so far."""
        return dict(self._recorder.faults.counts)

    def answer(self, value: object) -> None:
        """Keep the run's final answer; a replay in which nothing is live compares its own with it."""
        if self._replay is not None:
            if self._replay.on_answer is not None and self._replay.name == self.name:
                self._replay.on_answer(value)
            return
        with self._recorder.faults.contained("answer"):
            redacted, _hits = self._recorder.redactor.redact(payload.encode(value))
            self._run = _replace(self._run, answer=redacted.value)

    def verdict(self, verdict: str) -> None:
        """Say how the run ended: "passed", "failed" or "unknown"."""
        self._run = _replace(self._run, verdict=verdict)

    def __enter__(self) -> RecordedRun:
        return self.begin()

    def begin(self, *, ambient: bool = False) -> RecordedRun:
        """Begin the run, in the current context unless it is `ambient`: there for those who are led to it."""
        if self._begun:
            raise UsageError(f"the recording of {self.name!r} was begun before: call record(...) anew for each run")
        self._begun = True
        self._replay = _session.replay_around()
        if self._replay is not None:
            return self  # to record what is replayed would be to run it live
        around = _session.peek_scope()
        if around is not None and around.session is not self._session and not around.session.closed:
            around.session.notes.append(f"{INSIDE}{self.name or 'unnamed'} ({self.id[:8]})")
        carry.install()
        lanes.install()
        self._session.on_exit = lambda: self.__exit__(None, None, None)
        self._session.describe = self._describe
        try:
            with _session.outside():  # what begins the run is no part of it, nor of another
                self._recorder.start(parent=self._parent)
        except BaseException:  # only under test do its faults raise: nothing is left behind then
            self._recorder.abandon()
            carry.uninstall()
            lanes.uninstall()
            raise
        self._session.activate(ambient=ambient)
        if self._coverage is not None:
            self._coverage.start()
        if self._tape is not None:
            chance.start(self._session, self._tape)
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._open:
            return
        self._open = False
        if self._coverage is not None:
            self._run = _replace(self._run, notes=(*self._run.notes, *self._coverage.stop()))
        if self._tape is not None:
            chance.stop(self._session, self._tape)
        self._session.deactivate()
        carry.uninstall()
        lanes.uninstall()
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            with self._recorder.faults.contained("error"):
                text, _hits = self._recorder.redactor.redact_text(f"{type(error).__name__}: {error}")
                self._run = _replace(self._run, error=text, verdict="failed")
        with self._recorder.faults.contained("run end"):
            self._recorder.finish(
                _replace(
                    self._run,
                    lanes=(*self._session.lanes, *self._recorder.begun(self._session.told)),
                    notes=(*self._run.notes, *self._session.notes, *_strays(self._session)),
                )
            )

    def _describe(self, lane: str) -> str:
        run = self._recorder.run
        told = {
            "mode": "record",
            "run_id": run.run_id,
            "name": run.name,
            "lane": lane,
            "store": self._recorder.store,
            "parent": [run.trace_id, run.span_id],
            "tape": sorted(self._tape.kinds) if self._tape is not None else [],
        }
        return orjson.dumps(told).decode()

    async def __aenter__(self) -> RecordedRun:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


def _strays(session: Session) -> list[str]:
    """Return what is to be said of crossings that some run of several may lack: perhaps this one."""
    return [
        f"{name} was crossed {count} time(s) by code that belongs to none of the runs that were active: not recorded"
        for name, count in list(session.strays.items())[:STRAYS_NAMED_MAX]
    ]
