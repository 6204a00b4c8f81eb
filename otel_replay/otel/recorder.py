"""The driver that records: entry mark, envelope, journal, span.

Every step is contained: a fault of the recorder is counted and logged, and the agent goes on. What the agent's own
call returned or raised has been handed on before anything in here could fail.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from otel_replay import originals, run_digest
from otel_replay.crossing import Crossing
from otel_replay.envelope import Attempt, Envelope, Outcome, Payload, Run, lost
from otel_replay.faults import Faults
from otel_replay.fingerprint import fingerprint
from otel_replay.journal import SUFFIX, JournalWriter
from otel_replay.match_rules import MatchRules
from otel_replay.otel.quick import Quick
from otel_replay.otel.tracing import Tracing
from otel_replay.redaction import Known, Redactor
from otel_replay.tapes import Keeper


def _journal_prefix(run_id: str, lane: str) -> str:
    """Return how the names of a lane's journals begin; a lane's name may hold what no file name may."""
    return f"{run_id}-{hashlib.sha256(lane.encode()).hexdigest()[:12]}-"


class Recorder:
    """Records the crossings of one lane of a run. Thread-safe; nothing in it waits."""

    def __init__(
        self,
        run: Run,
        *,
        journal_folder: Path | None,
        tracing: Tracing,
        redactor: Redactor,
        rules_for: Callable[[str, str], MatchRules],
        faults: Faults,
        fsync: bool = False,
    ) -> None:
        self.run = run
        self.faults = faults
        self._folder = journal_folder
        self._fsync = fsync
        self._tracing = tracing
        self.redactor = redactor
        self._rules_for = rules_for
        self._quick: Quick | None = None
        self._known = Known()  # secrets of this run: one seen under its name is also known where it stands bare
        self._journal: JournalWriter | None = None
        self._running: dict[int, Crossing] = {}
        self._lock = threading.RLock()  # a stream may end in a finaliser, wherever this thread is
        self._total: int | None = 0
        self._entered = 0
        self._finished = False
        self._late = False
        self.tape: Keeper | None = None
        """What keeps the numbers that the program draws and the times that it reads, where that was asked for."""

    # The run ---------------------------------------------------------------------------------------------
    @property
    def store(self) -> str:
        """The store that the journal goes to; "" where nothing is kept."""
        return str(self._folder.parent) if self._folder is not None else ""

    def start(self, link: tuple[str, str] | None = None, parent: tuple[str, str] | None = None) -> None:
        """Open the run's span and journal. `parent` is the run's span in the process that began this lane."""
        with self.faults.contained("run span"):
            self._tracing.run_started(self.run.name, self.run.start_ns, link, parent)
        self.run = self._with_ids(self.run)
        with self.faults.contained("quick way"):
            if self._tracing.plain_json:
                part_bytes = self._tracing.part_bytes
                self._quick = Quick.of(self.run, self.redactor, self._known, self._rules_for, part_bytes)
        self._open_journal("")

    def _with_ids(self, run: Run) -> Run:
        tracing = self._tracing
        return replace(
            run, trace_id=tracing.trace_id, span_id=tracing.run_span_id, parent_span_id=tracing.run_parent_id
        )

    def _open_journal(self, suffix: str) -> None:
        if self._folder is None:
            return
        with self.faults.contained("journal"):
            name = f"{_journal_prefix(self.run.run_id, self.run.lane)}{os.getpid()}{suffix}{SUFFIX}"
            self._journal = JournalWriter(self._folder / name, fsync=self._fsync)
            self._journal.run_start(self.run)

    def begun(self, lanes: Sequence[str]) -> tuple[str, ...]:
        """Return those of `lanes` that have begun a journal: a program started by the agent may know nothing of us."""
        if self._folder is None:
            return ()
        names = [path.name for path in self._folder.glob(f"{self.run.run_id}-*")] if lanes else []
        return tuple(
            lane for lane in lanes if any(name.startswith(_journal_prefix(self.run.run_id, lane)) for name in names)
        )

    def finish(self, run: Run) -> Run:
        """Close the run with its number of crossings and its digest; returns the run as it was written."""
        for crossing in list(self._running.values()):
            with self.faults.contained("unfinished"):
                if crossing.facts.get("stream"):
                    crossing.stream_end("dropped")
                else:
                    crossing.abandon("it was still running when the run ended")
        self._finished = True
        if self.tape is not None:
            with self.faults.contained("tape"):
                pins = {**run.pins, **self.tape.rest(self._known)}
                run = replace(run, pins=pins, notes=(*run.notes, *self.tape.notes()))
        closed = self._with_ids(
            replace(
                run,
                lane=self.run.lane,
                start_ns=self.run.start_ns,
                end_ns=originals.now_ns(),
                crossings=self._entered,
                digest=run_digest.text(self._total) if self._total is not None else "",
                faults=dict(self.faults.counts),
            )
        )
        try:
            if self._journal is not None:
                with self.faults.contained("journal"):
                    self._journal.run_end(closed)
        finally:
            if self._journal is not None:
                self._journal.close()
                self._journal = None
            with self.faults.contained("run span"):
                self._tracing.run_ended(closed)
        self.run = closed
        return closed

    def abandon(self) -> None:
        """Leave a run that could not begin: its span is no longer current, its journal is let go."""
        self._tracing.abandon()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def forked(self, lane: str) -> None:
        """Go on in a forked child as `lane`, with a journal of its own. The parent's crossings stay the parent's."""
        for crossing in self._running.values():
            crossing.forget()
        self._running = {}
        self._quick = None  # it writes the run's own lane only
        self._lock = threading.RLock()  # a stream may end in a finaliser, wherever this thread is
        self._total = self._entered = 0
        if self.tape is not None:
            self.tape.forked()
        if self._journal is not None:
            self._journal.abandon_in_child()
            self._journal = None
        self._tracing.forked()
        self.run = replace(
            self.run,
            lane=lane,
            start_ns=originals.now_ns(),
            span_id=self._tracing.run_span_id,
            parent_span_id=self._tracing.run_parent_id,
            notes=(),
        )
        self._open_journal("")

    # Driver ----------------------------------------------------------------------------------------------
    def enter(self, crossing: Crossing, link: tuple[str, str] | None = None) -> None:
        if self._finished and not self._late:
            self._late = True
            self._open_journal("-late")
        self._entered += 1
        self._running[crossing.seq] = crossing
        facts = crossing.facts
        try:
            facts["span_id"], facts["parent_span_id"], facts["span"] = self._tracing.crossing_started(crossing, link)
        except Exception as fault:  # noqa: BLE001
            self.faults.caught("span start", fault)
        journal = self._journal
        if journal is not None:
            if self.tape is not None:
                with self.faults.contained("tape"):
                    for address, pins in self.tape.unwritten(self._known, crossing.request):
                        journal.drawn(address, pins)
            try:
                journal.mark(
                    crossing.address,
                    crossing.name,
                    crossing.kind,
                    crossing.seq,
                    crossing.strand.number,
                    crossing.start_ns,
                    crossing.parent.address if crossing.parent is not None else "",
                    str(facts.get("span_id", "")),
                )
            except Exception as fault:  # noqa: BLE001
                self.faults.caught("journal", fault)

    def opened(self, crossing: Crossing) -> object:
        try:
            return self._tracing.opened(crossing.facts)
        except Exception as fault:  # noqa: BLE001
            self.faults.caught("context", fault)
        return None

    def closed(self, crossing: Crossing, token: object) -> None:
        try:
            self._tracing.closed(crossing.facts, token)
        except Exception as fault:  # noqa: BLE001
            self.faults.caught("context", fault)

    def leave(self, crossing: Crossing) -> None:
        self._running.pop(crossing.seq, None)
        if self._folder is None and crossing.facts.get("mode") == "stub" and crossing.facts.get("span") is None:
            self._total = None  # nobody reads what a served crossing would leave
            return
        if self._quick is not None and self.tape is None and not self._late and self._left_quickly(crossing):
            return
        envelope: Envelope | None = None
        with self.faults.contained("envelope"):
            envelope = self.envelope(crossing)
        if envelope is None:
            envelope = self._bare(crossing)
        digest: int | None = None
        with self.faults.contained("digest"):
            digest = run_digest.term(envelope)
        with self._lock:  # one crossing without its digest leaves the whole run without one
            self._total = None if digest is None or self._total is None else self._total + digest
        crossing.facts["envelope"] = envelope
        journal = self._journal
        if journal is not None:
            with self.faults.contained("journal"):
                journal.crossing(envelope)
        with self.faults.contained("span end"):
            self._tracing.crossing_ended(crossing.facts.get("span"), envelope)

    def _left_quickly(self, crossing: Crossing) -> bool:
        """Write the crossing by the quick way; False, with nothing done, where the plain way must."""
        assert self._quick is not None
        facts = crossing.facts
        span = facts.get("span")
        try:
            written = self._quick.written(crossing)
            if written is None:
                return False
            attributes = self._quick.attributes(crossing, written) if span is not None else {}
        except Exception:  # noqa: BLE001  # the plain way fails by itself, and says at which step
            return False
        with self._lock:
            if self._total is not None:
                self._total += written.term
        if self._journal is not None:
            try:
                self._journal.written(
                    written.data,
                    self.run.trace_id,
                    str(facts.get("span_id", "")),
                    str(facts.get("parent_span_id", "")),
                )
            except Exception as fault:  # noqa: BLE001
                self.faults.caught("journal", fault)
        try:
            self._tracing.crossing_written(span, attributes, crossing.end_ns)
        except Exception as fault:  # noqa: BLE001
            self.faults.caught("span end", fault)
        return True

    # Envelopes -------------------------------------------------------------------------------------------
    def envelope(self, crossing: Crossing) -> Envelope:
        """Return the redacted envelope of an ended crossing, its key computed after redaction."""
        pins: dict[str, object] = {}
        if crossing.spec.pins is not None:
            with self.faults.contained("pins"):
                pins = dict(crossing.spec.pins(crossing))
        if self.tape is not None:
            with self.faults.contained("tape"):
                pins.update(self.tape.taken(crossing.address, self._known))
        assert crossing.outcome is not None
        raw = self._fill(crossing, crossing.request, crossing.outcome, pins)
        envelope, request = self.redactor.redact_crossing(raw, self._known)
        with self.faults.contained("key"):
            key = fingerprint(request, self._rules_for(crossing.kind, crossing.name))
            # Made a moment ago and seen by nobody yet: a copy of 27 fields would only cost time.
            object.__setattr__(envelope, "key", key)
        return envelope

    def _fill(self, crossing: Crossing, request: Payload, outcome: Outcome, pins: Mapping[str, object]) -> Envelope:
        facts = crossing.facts
        late = ("after the run's end",) if self._late else ()
        return Envelope(
            run_id=self.run.run_id,
            run_name=self.run.name,
            lane=self.run.lane,
            address=crossing.address,
            parent=crossing.parent.address if crossing.parent is not None else "",
            boundary=crossing.name,
            kind=crossing.kind,
            mode=str(facts.get("mode", "record")),
            strand=crossing.strand.number,
            place=crossing.strand.place,
            seq=crossing.seq,
            end_seq=crossing.end_seq,
            start_ns=crossing.start_ns,
            end_ns=crossing.end_ns,
            request=request,
            changed=crossing.changed,
            outcome=outcome,
            pins=pins,
            side_effects=crossing.spec.side_effects,
            notes=(*crossing.notes, *late),
            attempts=tuple(cast("list[Attempt]", facts.get("attempts", ()))),
            trace_id=self.run.trace_id,
            span_id=str(facts.get("span_id", "")),
            parent_span_id=str(facts.get("parent_span_id", "")),
        )

    def _bare(self, crossing: Crossing) -> Envelope:
        """Return what can still be said of a crossing whose envelope could not be made: that it was there."""
        reason = f"the recorder failed: {self.faults.last.get('envelope', 'unknown fault')}"
        crossing.changed = None
        return self._fill(crossing, lost(reason), Outcome("lost", lost(reason), (), reason), {})
