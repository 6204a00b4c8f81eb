"""The driver that replays: matches each crossing with the tape, serves it or lets it run, and keeps the account.

It is handed envelopes and a recorder (which writes this replay's own spans), and knows neither store nor exporter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, cast

from otel_replay.changes import FieldChange
from otel_replay.crossing import Crossing, Served
from otel_replay.envelope import Envelope, Outcome, Payload
from otel_replay.errors import Diverged, PlaceholderReachedLive, ReplayError, SideEffectBlocked, Unservable
from otel_replay.fingerprint import plain_key
from otel_replay.match_rules import MatchRules
from otel_replay.redaction import Known, Redacted, Redactor, find_placeholders
from otel_replay.replay.account import Call, Ends, Leftovers, leftovers
from otel_replay.replay.deferred import Deferred
from otel_replay.replay.divergence import Asked, fields_between
from otel_replay.replay.matching import KeyOf, Matcher, is_rebuilt
from otel_replay.replay.outcomes import outcome_changes
from otel_replay.replay.plan import Resolved, resolve
from otel_replay.replay.served import Overridden, TapeServed
from otel_replay.replay.tape import Entry, Line, Tape
from otel_replay.replay.turns import Turns
from otel_replay.strand import Strand


class CrossingRecorder(Protocol):
    """What records the crossings of a replay itself: its spans, linked to the recorded ones."""

    def enter(self, crossing: Crossing, link: tuple[str, str] | None = None) -> None: ...
    def opened(self, crossing: Crossing) -> object: ...
    def closed(self, crossing: Crossing, token: object) -> None: ...
    def leave(self, crossing: Crossing) -> None: ...
    def forked(self, lane: str) -> None: ...


class ReplayDriver:
    """Drives one lane of a replay. Raises Diverged and its kin; after the first, every later crossing raises it."""

    def __init__(
        self,
        tape: Tape,
        resolved: Resolved,
        *,
        recorder: CrossingRecorder,
        redactor: Redactor,
        rules_for: Callable[[str, str], MatchRules],
        key_of_request: Callable[[Redacted[Payload], MatchRules], str],
    ) -> None:
        self.tape = tape
        self.resolved = resolved
        self.calls: list[Call] = []
        self.fault: ReplayError | None = None
        self._came_by: TracebackType | None = None
        self._recorder = recorder
        self._redactor = redactor
        self._known = Known()
        self._rules_for = rules_for
        self._key_of_request = key_of_request
        self.names = {envelope.boundary: envelope for envelope in tape.recording.envelopes}
        """All names of the run, whichever lane holds them."""
        self.on_call: Callable[[Call], None] | None = None
        self.on_fault: Callable[[ReplayError], None] | None = None
        self.on_time: Callable[[int], None] | None = None
        """Told the recorded time, in Unix nanoseconds, that this run has come to."""
        self._matcher = Matcher(tape, resolved, KeyOf(self._key_of_envelope))
        self._turns = self._turns_of(tape, resolved)
        self._scans: dict[tuple[str, str], Callable[[bytes], bool] | None] = {}
        self._parents: dict[str, str] = {}
        self._ends = Ends()
        self._lock = threading.Lock()

    # Keys: by today's redaction and ignore rules, so that a new rule also helps old recordings -------------
    def _key_of_envelope(self, envelope: Envelope) -> str:
        redacted, _hits = self._redactor.redact(envelope.request)
        return self._key_of_request(redacted, self._rules_for(envelope.kind, envelope.boundary))

    def _asked(self, crossing: Crossing) -> Asked:
        rules = self._rules_for(crossing.kind, crossing.name)
        asked = crossing.asked
        if asked is not None and crossing.live is not None and self._known.regex is None:
            name = (crossing.kind, crossing.name)
            if name not in self._scans:
                self._scans[name] = self._redactor.scan((rules.scan,))
            scan = self._scans[name]
            if scan is not None and not scan(asked):
                # What stands here is what the call is about to see: its key needs no second reading of the text.
                key = crossing.facts["key"] = plain_key(crossing.live)
                return Asked(crossing.name, crossing.kind, crossing.address, crossing.request, key, rules)
        redacted, _hits = self._redactor.redact(crossing.request, self._redactor.scope(self._known))
        key = self._key_of_request(redacted, rules)
        return Asked(crossing.name, crossing.kind, crossing.address, redacted.value, key, rules)

    # Driver ----------------------------------------------------------------------------------------------
    def enter(self, crossing: Crossing) -> None:
        if self.fault is not None:
            raise self._again(self.fault)
        crossing.strand.join()
        if crossing.strand.matching is None:
            self._ends.watch(crossing.strand)
        self._turns.moved(crossing.strand)
        asked = self._asked(crossing)
        free = self.free(crossing)
        try:
            decision = self._matcher.match(crossing, asked, free=free)
            call = Call(crossing, asked, decision.action, decision.entry, reordered=decision.reordered, free=free)
            call.repeated = decision.repeated
            if decision.more is not None and isinstance(decision.more.state, Call):
                decision.more.state.is_one_more()
            if decision.drifted and decision.entry is not None:
                call.drift = fields_between(decision.entry, asked)
            if decision.candidates:
                call.waiting = decision
            if decision.entry is not None and is_rebuilt(decision.entry.envelope):
                call.note = _unknown_fields(decision.entry, asked)
            if call.action in ("live", "new", "opened"):
                self._before_live(crossing, asked, call)
            elif call.action == "stub" and asked.request.lost:
                raise _unknown_request(asked)
        except ReplayError as fault:
            raise self.latch(fault) from None
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        crossing.state = call
        if call.entry is not None:
            self._parents[call.entry.address] = call.action
            if self.on_time is not None and call.action in ("live", "opened"):
                self.on_time(call.entry.envelope.start_ns)
        crossing.facts["mode"] = {"opened": "live"}.get(call.action, call.action)
        twin = call.entry.envelope if call.entry is not None else None
        self._recorder.enter(crossing, (twin.trace_id, twin.span_id) if twin is not None else None)
        if call.action in ("stub", "override"):
            self._serve(crossing, call)

    def free(self, crossing: Crossing) -> bool:
        """True where a live crossing comes before or lies around, so that a difference has its cause there."""
        if crossing.strand.tainted:
            return True
        around = crossing.parent
        while around is not None:
            if isinstance(around.state, Call) and around.state.inside_live:
                return True
            around = around.parent
        return False

    def _before_live(self, crossing: Crossing, asked: Asked, call: Call) -> None:
        """Refuse what must not run: side effects that the plan does not name, and placeholders of secrets."""
        call.inside_live = call.action in ("live", "new")
        entry = call.entry
        side_effects = crossing.spec.side_effects or (entry is not None and entry.envelope.side_effects)
        address = entry.address if entry is not None else asked.address
        if side_effects and not self.resolved.names_it(asked.name, address):
            raise SideEffectBlocked(
                f"{asked.address} has side effects and would have run live, which the plan does not name: blocked, "
                f'nothing ran. Next: name it with --live "{address}" if that is what you want'
            )
        found = find_placeholders(asked.request.tree()) if call.action != "opened" else []
        fresh = find_placeholders(crossing.request.tree()) if found else []
        if fresh:
            path, placeholder = fresh[0]
            raise PlaceholderReachedLive(
                f"{asked.address} would run live with {placeholder} in place of a secret, at {path}: the record "
                "holds the placeholder only. Ways out: serve it (plan.stub), run the crossing live that the secret "
                "comes from, or give it with plan.override(...)"
            )

    def _serve(self, crossing: Crossing, call: Call) -> None:
        if call.entry is None:
            crossing.served = cast("Served", Deferred(lambda: self.settle(crossing, call)))
            return
        crossing.served = self._served(crossing, call)

    def _served(self, crossing: Crossing, call: Call) -> TapeServed:
        entry = call.entry
        assert entry is not None
        crossing.notes.extend(note for note in entry.envelope.notes if note.startswith("shape:"))
        served = TapeServed(
            crossing,
            entry,
            self._turns,
            self._matcher.renamed,
            lambda o, e: self._given(crossing, o),
            self.latch,
            lambda sent: self._redactor.redact(sent)[0].value,
        )
        if call.action == "override":
            choice = self.resolved.actions[entry.address]
            return Overridden(served, choice.value, choice.raises)
        return served

    def settle(self, crossing: Crossing, call: Call) -> TapeServed:
        """Decide a drifted strand once the others have claimed theirs."""
        assert call.waiting is not None
        try:
            call.entry = self._matcher.settle(crossing, call.asked, call.waiting)
        except ReplayError as fault:
            raise self.latch(fault) from None
        call.drift = fields_between(call.entry, call.asked)
        return self._served(crossing, call)

    def forked(self, lane: str) -> None:
        """Go on in a forked child as `lane`: serve what that lane recorded."""
        self._recorder.forked(lane)
        self._set_tape(Tape(self.tape.recording, lane))
        self.calls = []
        self._lock = threading.Lock()

    def _set_tape(self, tape: Tape) -> None:
        self.tape = tape
        self.resolved = resolve(self.resolved.plan, tape, self.names)
        self._matcher = Matcher(tape, self.resolved, KeyOf(self._key_of_envelope))
        resolved = self.resolved
        self._turns = self._turns_of(tape, resolved)
        self._parents = {}

    def _turns_of(self, tape: Tape, resolved: Resolved) -> Turns:
        return Turns(
            tape,
            self._reachable,
            lambda entry: resolved.action(entry) == "stub",
            self._covered,
            shuffle=resolved.plan.shuffle,
        )

    def opened(self, crossing: Crossing) -> object:
        return self._recorder.opened(crossing)

    def closed(self, crossing: Crossing, token: object) -> None:
        self._recorder.closed(crossing, token)

    def leave(self, crossing: Crossing) -> None:
        call = crossing.state
        outcome = crossing.outcome
        if isinstance(call, Call) and outcome is not None:
            if call.action == "live":
                self._compare_outcome(crossing, call, outcome)
            elif call.action == "new":
                crossing.strand.tainted = True
            if self.on_time is not None and call.entry is not None:
                self.on_time(call.entry.envelope.end_ns)
        self._turns.moved(crossing.strand)
        self._recorder.leave(crossing)

    def _given(self, crossing: Crossing, outcome: Outcome) -> None:
        """A served crossing was handed over: it ends here."""
        call = crossing.state
        if isinstance(call, Call) and call.action == "override" and call.entry is not None:
            call.differed = self._outcome_changes(call.entry, call.asked, outcome)
            if call.differed:
                crossing.strand.tainted = True
        crossing.end_with(outcome)

    def _compare_outcome(self, crossing: Crossing, call: Call, outcome: Outcome) -> None:
        """Learn whether a live crossing came out otherwise than recorded: what follows is free then."""
        if call.entry is None:
            crossing.strand.tainted = True
            return
        call.differed = self._outcome_changes(call.entry, call.asked, outcome)
        if call.differed:
            crossing.strand.tainted = True

    def _outcome_changes(self, entry: Entry, asked: Asked, outcome: Outcome) -> tuple[FieldChange, ...]:
        recorded = entry.envelope.outcome
        return outcome_changes(recorded, outcome, asked, self._redactor, self._known, self._matcher.renamed)

    # The end ---------------------------------------------------------------------------------------------
    def latch(self, fault: Exception) -> Exception:
        """Keep the first fault: every later crossing raises it again, whatever the agent caught."""
        with self._lock:
            if self.fault is None and isinstance(fault, ReplayError):
                self.fault = fault
                if self.on_fault is not None:
                    self.on_fault(fault)
        return fault

    def _again(self, fault: ReplayError) -> ReplayError:
        """Return the first fault to be raised once more, by the way that it came first: else that grows each time."""
        if self._came_by is None:
            self._came_by = fault.__traceback__
        return fault.with_traceback(self._came_by)

    def _reachable(self, line: Line) -> bool:
        """True where the run may still come to what `line` holds: its parent runs, or may be about to."""
        parent = line.parent
        return not parent or self._parents.get(parent) in ("live", "opened")

    def _covered(self, line: Line) -> bool:
        """True where what `line` holds lies under a served crossing: it never runs."""
        return self._parents.get(line.parent) in ("stub", "override")

    def leftovers(self, root: Strand) -> Leftovers:
        """Return what the run did not ask for, and whether that is a fault."""
        hybrid = self.resolved.plan.hybrid
        self._matcher.end()
        return leftovers(self.tape, self.calls, self._parents, root, self._ends, hybrid=hybrid)

    @staticmethod
    def recorded_address(crossing: Crossing) -> str:
        """Return the address of a crossing's twin in the record; its own where it has none."""
        call = crossing.state
        return call.entry.address if isinstance(call, Call) and call.entry is not None else crossing.address

    def action_of(self, address: str) -> str:
        """Return what was done with the recorded crossing at `address`; "" where it was not met."""
        return self._parents.get(address, "")

    def any_free(self) -> bool:
        """True where anything was live or overridden: the final answer may rightly differ then."""
        return any(call.action in ("live", "override", "new") for call in self.calls)


def _unknown_request(asked: Asked) -> Unservable:
    """Two requests of which nothing was kept look the same: an answer to one may be another's."""
    return Unservable(
        f"{asked.address} cannot be served: nothing of its request could be kept, so nobody knows whether the record "
        f'answers it: {asked.request.reason}. Next: run it live with --live "{asked.address}"',
        address=asked.address,
    )


def _unknown_fields(entry: Entry, asked: Asked) -> str:
    """Return a note on the fields that an imported request does not know, which were therefore not compared."""
    recorded, now = entry.envelope.request.tree(), asked.request.tree()
    if not isinstance(recorded, dict) or not isinstance(now, dict):
        return ""
    unknown = sorted(str(name) for name in now if name not in recorded)
    return f"not in the imported request, so not compared: {', '.join(unknown)}" if unknown else ""


__all__ = ["Call", "CrossingRecorder", "Diverged", "ReplayDriver"]
