"""`with replay(...)`: a session that serves a recording to the code inside, and reports what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from otel_replay import carry, chance, lanes, originals, payload
from otel_replay.changes import compare
from otel_replay.clock import ClockChoice, RecordedClock
from otel_replay.envelope import Recording
from otel_replay.errors import (
    Diverged,
    NotCaptured,
    NothingCompared,
    ReplayError,
    ScopeClosed,
    UnknownBoundary,
    UsageError,
)
from otel_replay.lane_account import LaneAccount
from otel_replay.otel.recorder import Recorder
from otel_replay.readable import untagged
from otel_replay.replay import divergence, tokens
from otel_replay.replay.account import Call
from otel_replay.replay.driver import ReplayDriver
from otel_replay.replay.guard import Guard, interception, runs_live
from otel_replay.replay.lines import ambiguities, approximations, in_recorded_order, lines_of
from otel_replay.replay.pins import compare_pins
from otel_replay.replay.plan import Resolved, nearest
from otel_replay.replay.report import Report, brief
from otel_replay.session import Session
from otel_replay.tapes import KINDS, Giver, held_by


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One line of `session.call_log`."""

    address: str
    action: str
    request: object
    outcome: str
    result: object


class ReplaySession:
    """A replay under way. Leaving it raises whatever went apart, even where the agent swallowed it."""

    def __init__(
        self,
        session: Session,
        driver: ReplayDriver,
        recorder: Recorder,
        recording: Recording,
        notes: Sequence[str],
        *,
        clock: ClockChoice = "recorded",
    ) -> None:
        self.recording = recording
        self._session = session
        self._driver = driver
        self._recorder = recorder
        self._notes = tuple(notes)
        self._report: Report | None = None
        self._lane = session.lane
        self._account = LaneAccount(session)
        self._guard = Guard(session, driver)
        held = held_by(recording)
        if clock == "tape" and "clock" not in held:
            raise UsageError(
                f"{self._source()!r} was recorded without a tape of its clock. Next: leave clock='recorded', which "
                "takes its times from the crossings, or record it with clock='tape' (--clock tape)"
            )
        kinds = ("chance",) if clock == "live" else KINDS
        self._tape = Giver(held, recorder.redactor, driver.recorded_address, kinds) if held else None
        if self._tape is not None:
            self._tape.on_live = lambda note: self._account.noted(note)
        start_ns = recording.run.start_ns
        self._clock = RecordedClock(start_ns, runs_live) if clock != "live" and start_ns else None
        self._answer: tuple[object] | None = None
        self._begun = False

    # What happened ---------------------------------------------------------------------------------------
    @property
    def plan(self) -> Resolved:
        return self._driver.resolved

    @property
    def report(self) -> Report:
        """The report so far; final once the session is left."""
        return self._report or self._make_report(None)

    @property
    def call_log(self) -> list[CallRecord]:
        """Every crossing of this replay so far, in entry order."""
        return [
            CallRecord(
                call.crossing.address,
                call.action,
                untagged(call.asked.request.tree()),
                call.crossing.outcome.kind if call.crossing.outcome is not None else "running",
                call.crossing.result,
            )
            for call in self._driver.calls
        ]

    def captured_result(self, name: str, occurrence: int = 1) -> Any:
        """Return what this crossing returned in this replay, or raise what it raised.

        `name` is a boundary's name (with its 1-based occurrence in this replay) or an address. Raises NotCaptured
        where it did not happen.
        """
        crossing = self._call(name, occurrence).crossing
        if crossing.outcome is None:
            raise NotCaptured(f"{crossing.address} has not ended yet")
        failed = crossing.outcome.kind in ("raised", "cancelled") or crossing.outcome.end in ("raised", "cancelled")
        if crossing.outcome.kind == "streamed" and not failed:
            return [payload.decode(chunk.value) for chunk in crossing.outcome.chunks]
        if failed and isinstance(crossing.result, BaseException):
            raise crossing.result
        return crossing.result

    def captured_input(self, name: str, occurrence: int = 1) -> Any:
        """Return the request of this crossing in this replay as {argument: value}. Raises NotCaptured."""
        return payload.decode(self._call(name, occurrence).crossing.request)

    def _call(self, name: str, occurrence: int) -> Call:
        calls = self._driver.calls
        if "[" in name:
            found = [call for call in calls if call.crossing.address == name]
        else:
            found = [call for call in calls if call.crossing.name == name][occurrence - 1 :]
        if not found:
            happened = ", ".join(call.crossing.address for call in calls[:20]) or "nothing"
            where = name if "[" in name else f"{name}[{occurrence}]"
            raise NotCaptured(f"{where} did not happen in this replay; what happened: {happened}")
        return found[0]

    def answer(self, value: object) -> None:
        """Say what the run's final answer is: compared with the recorded one where nothing was live."""
        self._answer = (value,)

    # The context -----------------------------------------------------------------------------------------
    def __enter__(self) -> ReplaySession:
        if self._begun:
            raise UsageError(f"the replay of {self._source()!r} was begun before: call replay(...) anew for each run")
        self._begun = True
        carry.install()
        lanes.install()
        session = self._session
        session.before_child = self._account.prepare
        session.on_exit = self._end_lane
        session.describe = self._describe
        session.on_answer = self.answer
        session.on_stray = self._stray
        self._driver.on_call = self._account.called
        self._driver.on_fault = self._account.failed
        self._recorder.start(self._link())
        self._session.activate()
        self._guard.start()
        if self._tape is not None:
            chance.start(self._session, self._tape)
        if self._clock is not None:
            self._driver.on_time = self._clock.move
            if not self._clock.start(self._session):
                self._clock = None
                self._notes = (*self._notes, "the program itself had frozen its clock, which was left so")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        fault = self._close(error)
        if fault is not None and fault is not error:
            raise fault from error

    async def __aenter__(self) -> ReplaySession:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _stray(self, name: str) -> Exception:
        fault = ScopeClosed(
            f"{name} was crossed by code that belongs to none of the runs that are active here: a thread that was "
            "begun before them, or that lost its context. Nothing was served, and nothing ran. Next: begin its thread "
            "inside the `with replay(...)`, or run one replay at a time"
        )
        return self._driver.latch(fault)

    def be_lane(self, account: str) -> None:
        """Be a lane of another process's replay, which reads `account`."""
        self._account = LaneAccount(self._session, account)

    def _end_lane(self) -> None:
        """End this process's lane: what it did is in the account that the parent reads."""
        from dataclasses import replace

        self._session.closed = True
        self._recorder.finish(replace(self._recorder.run, lanes=tuple(self._session.lanes)))

    def _describe(self, lane: str) -> str:
        clock = "live" if self._clock is None else "recorded"
        return self._account.describe(lane, self.recording, self._driver.resolved.plan, clock)

    def _link(self) -> tuple[str, str] | None:
        run = self.recording.run
        return (run.trace_id, run.span_id) if run.trace_id and run.span_id else None

    def _close(self, error: BaseException | None) -> ReplayError | UnknownBoundary | None:
        """End the session; return what went apart, if anything did."""
        if self._tape is not None:
            chance.stop(self._session, self._tape)
        RecordedClock.stop(self._session)
        self._guard.stop()
        self._session.deactivate()
        carry.uninstall()
        lanes.uninstall()
        if self._session.lane != self._lane or self._account.is_child:
            self._end_lane()
            return self._driver.fault
        fault = self._final_fault(error)
        self._account.close()
        self._report = self._make_report(fault or error)
        from dataclasses import replace

        run = self._recorder.run
        verdict = "passed" if self._report.verdict.startswith("passed") else "failed"
        self._recorder.finish(replace(run, verdict=verdict, error=self._report.error))
        return fault

    def _final_fault(self, error: BaseException | None) -> ReplayError | UnknownBoundary | None:
        driver = self._driver
        if driver.fault is not None:
            return driver.fault
        in_lane = self._account.fault(self.recording, driver, self._session.lanes)
        if in_lane is not None:
            return in_lane
        if error is not None:
            return None  # the program's own failure: what it did not reach because of it is no divergence
        if not any(call.entry is not None for call in driver.calls) and not self._account.compared:
            return NothingCompared(
                f"the replay of {self._source()} compared nothing: the code inside crossed none of the "
                f"{len(driver.tape.entries)} recorded boundaries. Is it the same agent, and does it run in the `with`?"
            )
        missing = driver.leftovers(self._session.root).missing
        if missing:
            return divergence.left_over(missing)
        crossed = {call.crossing.name for call in driver.calls}
        for name in sorted(driver.resolved.new - crossed):
            known = sorted({*crossed, *driver.tape.names})
            hint = nearest(name, known)
            if hint:
                return UnknownBoundary(f".new({name!r}) was never crossed{hint}")
        return self._answer_fault()

    def _answer_fault(self) -> Diverged | None:
        recorded = self.recording.run.answer
        if self._answer is None or recorded is None or recorded.reason or self._driver.any_free():
            return None
        redacted, _hits = self._recorder.redactor.redact(payload.encode(self._answer[0]))
        now = redacted.value
        if now.text == recorded.text or not compare(recorded.tree(), now.tree()):
            return None
        return Diverged(
            f"the final answer differs: recorded {brief(untagged(recorded.tree()))}, now "
            f"{brief(untagged(now.tree()))}; nothing was live that would explain it. "
            "Next: look for what the agent reads beside its boundaries",
            cause="final answer differs",
        )

    def _source(self) -> str:
        return self.recording.run.name or self.recording.run.run_id[:8]

    # The report ------------------------------------------------------------------------------------------
    def _make_report(self, error: BaseException | None) -> Report:
        driver = self._driver
        lines = lines_of(driver.calls, driver.leftovers(self._session.root), ended=error is None)
        notes = [*self._notes, *ambiguities(driver.tape), *approximations(driver.calls)]
        if driver.resolved.plan.shuffle is not None:
            notes.append(f"shuffled by {driver.resolved.plan.shuffle}: parallel crossings ended in another order")
        if self._tape is not None:
            notes += [*self._tape.remarks, *sorted(self._tape.live), *self._account.notes()]
        details = getattr(error, "details", None)
        cause = getattr(error, "cause", "") or (type(error).__name__ if error is not None else "")
        steps = tuple(getattr(details, "next_steps", ()))
        expired = self._expired_tokens() if error is not None else []
        if expired:
            notes, cause, steps = [*notes, *expired], tokens.CAUSE, (tokens.NEXT_STEP, *steps)
        return Report(
            source=self._source(),
            verdict=self._verdict(error),
            lines=tuple(lines),
            recorded=len(driver.tape.entries),
            error=str(error) if error is not None else "",
            cause=cause,
            next_steps=steps,
            notes=tuple(notes),
            pins=compare_pins(
                self.recording.run.pins,
                self._recorder.run.pins,
                in_recorded_order(driver.calls),
                self._recorder.redactor,
            ),
            interception=interception(),
        )

    def _expired_tokens(self) -> list[str]:
        if self._clock is not None:
            return []
        calls = self._driver.calls
        served = [(c.entry.address, c.entry.envelope) for c in calls if c.action == "stub" and c.entry is not None]
        return tokens.expired(served, originals.now_ns())

    def _verdict(self, error: BaseException | None) -> str:
        if isinstance(error, NothingCompared):
            return "nothing compared"
        if isinstance(error, (ReplayError, UnknownBoundary)):
            return "diverged"
        if error is not None:
            return "failed"
        return "passed on drift" if any(c.drift and c.action == "stub" for c in self._driver.calls) else "passed"
