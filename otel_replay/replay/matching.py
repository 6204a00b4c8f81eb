"""Which recorded crossing is it that the run asks for? By strand, never by clock.

A strand has the lines that it may take from: the main line of what it runs under, or the line that it claimed at
its first crossing there. A line's cursor moves only when something is consumed, so an inserted call shifts nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from otel_replay.crossing import Crossing
from otel_replay.errors import Diverged
from otel_replay.renaming import equal_up_to_renaming
from otel_replay.replay import divergence
from otel_replay.replay.divergence import Asked
from otel_replay.replay.plan import Resolved, nearest
from otel_replay.replay.rebuilt import comparable, is_rebuilt
from otel_replay.replay.tape import Entry, Line, Tape
from otel_replay.strand import Strand


@dataclass(slots=True)
class Decision:
    """What happens to a crossing: `action` is stub, override, live, opened or new; `entry` its recorded twin."""

    action: str
    entry: Entry | None = None
    drifted: bool = False
    reordered: bool = False
    repeated: bool = False
    """`entry` was served before, and the plan lets it be served again."""
    more: Crossing | None = None
    """The crossing that was taken for `entry` with another input, and that the record lacks: `entry` came after all."""
    candidates: tuple[Entry, ...] = ()
    """Where the strand drifted and several recorded ones are unclaimed: decided once the others have claimed theirs."""


def _begun_in_the_same_place(equal: list[Entry], strand: Strand) -> Entry:
    """Return which of several lines that begin alike is the one of `strand`: the one begun in the same place.

    Which of two threads gets to its first crossing first is an accident, where it was begun is not. Where none was
    begun there, or the record is too old to say, the first in recorded order; but never one around `strand`, which
    crosses only after what it began.
    """
    for entry in equal:
        if entry.envelope.place == strand.place:
            return entry
    return next((entry for entry in equal if not strand.place.startswith(f"{entry.envelope.place}.")), equal[0])


class Matcher:
    """Finds the recorded twin of each crossing of one lane. `key_of` computes an entry's key by today's rules."""

    def __init__(self, tape: Tape, resolved: Resolved, key_of: KeyOf) -> None:
        self.tape = tape
        self.resolved = resolved
        self.key_of = key_of
        self.renamed: dict[str, str] = {}
        """Recorded id -> the id of this run, learnt from live outcomes and their recorded twins."""
        self._lock = threading.RLock()
        self._taken: dict[int, Strand] = {}
        self._first_of: dict[str, dict[tuple[str, str], list[Line]]] = {}

    def match(self, crossing: Crossing, asked: Asked, *, free: bool) -> Decision:
        """Return what happens to `crossing`. Raises Diverged where the record cannot answer it."""
        with self._lock:
            twin = self._parent_twin(crossing)
            if crossing.parent is not None and twin is None:
                return self._off_tape(asked, [], free=True)
            under = twin.address if twin is not None else ""
            lines = self._lines_of(crossing, under)
            found = self._at_cursor(lines, asked) or self._claim(crossing, asked, under, lines)
            if found is not None:
                return self._consume(found)
            return self._mismatch(crossing, asked, under, lines, free=free)

    def _parent_twin(self, crossing: Crossing) -> Entry | None:
        parent = crossing.parent
        state = parent.state if parent is not None else None
        entry = getattr(state, "entry", None)
        return entry if isinstance(entry, Entry) else None

    def _lines_of(self, crossing: Crossing, under: str) -> list[Line]:
        """Return the lines that this strand takes from under this parent."""
        strand = crossing.strand
        if not isinstance(strand.matching, dict):
            strand.matching = {}
        lines: list[Line] | None = strand.matching.get(id(crossing.parent))
        if lines is None:
            lines = strand.matching[id(crossing.parent)] = []
            home = crossing.parent.strand if crossing.parent is not None else crossing.session.root
            main = self.tape.main_line(under)
            if strand is home and main is not None and not main.claimed:
                self._take(main, strand, lines)
        return lines

    def _take(self, line: Line, strand: Strand, lines: list[Line]) -> None:
        line.claimed = True
        self._taken[id(line)] = strand
        lines.insert(0, line)

    # Equal requests --------------------------------------------------------------------------------------
    def _equal(self, entry: Entry, asked: Asked) -> bool:
        if entry.name != asked.name:
            return False
        envelope = entry.envelope
        same = envelope.kind == asked.kind and envelope.request == asked.request  # as ever: both keys are one
        return same or self.key_of(entry) == asked.key

    def _equal_renamed(self, entry: Entry, asked: Asked) -> bool:
        """True up to renaming of ids that live outcomes brought; the renaming is kept."""
        if entry.name != asked.name or not self.renamed:
            return False
        mapping = equal_up_to_renaming(
            entry.envelope.request.tree(), asked.request.tree(), asked.rules, dict(self.renamed)
        )
        if mapping is None:
            return False
        self.renamed.update(mapping)
        return True

    def _equal_rebuilt(self, entry: Entry, asked: Asked) -> bool:
        """True where all that an imported request is known to hold is equal: what its convention dropped is unknown."""
        if entry.name != asked.name or not is_rebuilt(entry.envelope):
            return False
        known = comparable(entry.envelope, asked.request.tree())
        return known is not None and equal_up_to_renaming(*known, asked.rules, dict(self.renamed)) is not None

    def _first_equal(self, entries: Iterable[Entry], asked: Asked) -> Entry | None:
        listed = list(entries)
        for same in (self._equal, self._equal_renamed, self._equal_rebuilt):
            equal = [entry for entry in listed if same(entry, asked)]
            if equal:
                return min(equal, key=lambda entry: entry.envelope.seq)
        return None

    def _at_cursor(self, lines: list[Line], asked: Asked) -> Entry | None:
        if len(lines) == 1 and (only := lines[0].next()) is not None and self._equal(only, asked):
            return only
        return self._first_equal((entry for line in lines for entry in line.near()), asked)

    def _claim(self, crossing: Crossing, asked: Asked, under: str, lines: list[Line]) -> Entry | None:
        """Claim the unclaimed recorded strand whose next crossing is what is asked.

        A strand that was begun claims at its first crossing. A strand that already has a line may claim too: it runs
        one after the other what was recorded in parallel, which was one of the possible orders.
        """
        strand = crossing.strand
        equal = self._unclaimed_equal(under, asked)
        unclaimed = [] if equal else [line for line in self.tape.begun_lines(under) if not line.claimed]
        for also in (self._equal_renamed, self._equal_rebuilt):
            equal = equal or [e for line in unclaimed if (e := line.next()) is not None and also(e, asked)]
        if equal:
            found = _begun_in_the_same_place(equal, strand)
            if any(other.envelope.outcome != found.envelope.outcome for other in equal):
                found.line.ambiguous = True
            self._take(found.line, strand, lines)
            return found
        return self._take_over(crossing, asked, under, lines)

    def _unclaimed_equal(self, under: str, asked: Asked) -> list[Entry]:
        """Return the first entries with the asked name and key of unclaimed lines under a parent, in recorded order."""
        index = self._first_of.get(under)
        if index is None:
            index = self._first_of[under] = {}
            for line in self.tape.begun_lines(under):
                first = line.entries[0]
                index.setdefault((first.name, self.key_of(first)), []).append(line)
        lines = index.get((asked.name, asked.key), [])
        while lines and lines[0].claimed:
            lines.pop(0)
        return [line.entries[0] for line in lines if not line.claimed and not line.entries[0].passed_over]

    def _take_over(self, crossing: Crossing, asked: Asked, under: str, lines: list[Line]) -> Entry | None:
        """Take a line whose strand has ended, or the main line that no strand has begun to use."""
        strand = crossing.strand
        for line in self.tape.lines.get(under, ()):
            entry = line.next()
            if entry is None or line in lines or not self._first_equal((entry,), asked):
                continue
            holder = self._taken.get(id(line))
            if holder is None or (line.main and line.cursor == 0 and holder.number == 0 and not entry.at):
                self._release(line, holder)
                self._take(line, strand, lines)
                return entry
            if holder.done() and holder not in strand.alive_at_birth:
                self._release(line, holder)
                self._take(line, strand, lines)
                return entry
            if line.main or holder is not strand:
                raise divergence.now_parallel(asked, entry)
        return None

    def _release(self, line: Line, holder: Strand | None) -> None:
        if holder is None or not isinstance(holder.matching, dict):
            return
        for lines in holder.matching.values():
            if line in lines:
                lines.remove(line)

    def _consume(self, entry: Entry, *, drifted: bool = False, reordered: bool = False) -> Decision:
        action = self.resolved.action(entry)
        for other in entry.line.ahead() if not reordered else ():
            if other is entry:
                break
            self._stands(other)
        more, entry.instead = entry.instead, None
        entry.used = action
        return Decision(action, entry, drifted, reordered, more=more)

    @staticmethod
    def _stands(entry: Entry) -> None:
        """What ran in the place of `entry` did so for good: the run went on past it."""
        if entry.instead is not None:
            entry.used, entry.instead = "live", None

    def end(self) -> None:
        """The run came to its end: what ran in the place of a recorded crossing stands."""
        with self._lock:
            for entry in self.tape.entries.values():
                self._stands(entry)

    # No equal request ------------------------------------------------------------------------------------
    def _mismatch(self, crossing: Crossing, asked: Asked, under: str, lines: list[Line], *, free: bool) -> Decision:
        own = lines or self._begun_instead(crossing, under)
        cursors = [entry for line in own if (entry := line.open()) is not None]
        same_name = [entry for entry in cursors if entry.name == asked.name]
        begun = [] if lines else self._unclaimed_first(under, asked)
        for entry in (*same_name, *begun):
            if self.resolved.action(entry) == "live":
                if not entry.line.claimed:
                    self._take(entry.line, crossing.strand, lines)
                return self._consume(entry, drifted=True)
        if asked.name in self.resolved.new:
            return Decision("new")
        later = self._first_equal((entry for line in lines for entry in line.ahead()), asked)
        if later is not None:
            return self._out_of_order(later, cursors, asked, free=free)
        if asked.name in self.resolved.live_names and not (same_name or begun):
            return Decision("live")
        if asked.name in self.resolved.repeats and (again := self._served_before(under, asked)) is not None:
            return Decision("stub", again, repeated=True)
        if not free and self.tape.unordered:
            found = self._anywhere(under, asked)
            if found is not None:
                return found
        if not lines:
            begins = self._further_on(crossing, asked, under, lines) if free or self.resolved.plan.hybrid else None
            if begins is not None:
                near = begins in begins.line.near()
                return self._consume(begins) if near else self._out_of_order(begins, [begins], asked, free=free)
            if not self._lets_run(free):
                self._refuse_parallel(under, asked)
        if same_name or begun:
            return self._drift(crossing, asked, same_name, begun, lines, free=free)
        return self._off_tape(asked, cursors, free=free)

    def _served_before(self, under: str, asked: Asked) -> Entry | None:
        """Return the last one under this parent that was served for the same request; None where another is left."""
        equal = [
            entry
            for line in self.tape.lines.get(under, ())
            for entry in line.entries
            if not entry.passed_over and self._equal(entry, asked)
        ]
        return equal[-1] if equal and all(entry.used for entry in equal) and equal[-1].used == "stub" else None

    def _begun_instead(self, crossing: Crossing, under: str) -> list[Line]:
        """Return the unclaimed strand in whose place, as far as is known, the strand of `crossing` was begun."""
        for line in self.tape.begun_lines(under):
            first = line.next() if not line.claimed else None
            if first is not None and first.instead is not None and first.instead.strand is crossing.strand:
                return [line]
        return []

    def _lets_run(self, free: bool) -> bool:
        """True where what the record does not hold here runs live."""
        plan = self.resolved.plan
        return plan.hybrid or (free and plan.on_drift == "live")

    def _further_on(self, crossing: Crossing, asked: Asked, under: str, lines: list[Line]) -> Entry | None:
        """Claim the one unclaimed strand that has what is asked further on: how it began went apart, for a cause."""
        ahead = [line.ahead() for line in self.tape.begun_lines(under) if not line.claimed]
        equal = [found for entries in ahead if (found := self._first_equal(entries, asked)) is not None]
        if len(equal) != 1:
            return None
        self._take(equal[0].line, crossing.strand, lines)
        return equal[0]

    def _refuse_parallel(self, under: str, asked: Asked) -> None:
        """A strand that was just begun asks for what stands further on in another strand's line."""
        for line in self.tape.lines.get(under, ()):
            found = self._first_equal((entry for entry in line.ahead() if entry is not line.next()), asked)
            if found is not None:
                raise divergence.now_parallel(asked, found)

    def _unclaimed_first(self, under: str, asked: Asked) -> list[Entry]:
        lines = [line for line in self.tape.lines.get(under, ()) if not line.claimed]
        firsts = [entry for line in lines if (entry := line.next()) is not None]
        return [entry for entry in firsts if entry.name == asked.name and entry.instead is None]

    def _anywhere(self, under: str, asked: Asked) -> Decision | None:
        """Imported spans have no strands: an equal key anywhere under the parent will do, its order is reported."""
        ahead = (entry for line in self.tape.lines.get(under, ()) for entry in line.ahead())
        found = self._first_equal(ahead, asked)
        return None if found is None else self._consume(found, reordered=True)

    def _out_of_order(self, later: Entry, cursors: list[Entry], asked: Asked, *, free: bool) -> Decision:
        plan = self.resolved.plan
        if plan.hybrid or self.resolved.action(later) == "override":
            for entry in later.line.ahead():  # what is passed over is unused, and says so in the report
                if entry is later:
                    break
                entry.passed_over = True
            return self._consume(later)
        if free or self.tape.unordered:
            return self._consume(later, reordered=True)
        expected = next((entry for entry in cursors if entry.line is later.line), later)
        if expected.name == asked.name:
            side = f"; the order is swapped: {later.address}, further on in the record, is equal"
            raise divergence.drifted(expected, asked, side=side, cause="order swapped")
        raise divergence.order_swapped(asked, expected, later)

    def _drift(
        self,
        crossing: Crossing,
        asked: Asked,
        same_name: list[Entry],
        begun: list[Entry],
        lines: list[Line],
        *,
        free: bool,
    ) -> Decision:
        plan = self.resolved.plan
        candidates = same_name or begun
        free = free or all(entry.address in self.resolved.changed for entry in candidates)
        if not (free or plan.hybrid):
            if len(candidates) > 1 and not same_name:
                close = divergence.nearest_of(candidates, asked)
                raise divergence.drifted(close or candidates[0], asked)
            raise divergence.drifted(candidates[0], asked)
        if plan.hybrid:
            return Decision("live", drifted=True)  # it may be an inserted call: the record stays where it is
        if plan.on_drift == "live":
            taken_for = same_name[0] if same_name else begun[0] if len(begun) == 1 else None
            if taken_for is not None:
                taken_for.instead = crossing  # it may be one more: the record stays where it is
            return Decision("live", taken_for, drifted=True)
        serve = plan.on_drift == "serve" or all(self.resolved.stubbed_by_address(entry) for entry in candidates)
        if not serve:
            raise divergence.drifted(candidates[0], asked, side="; on_drift is 'fail'")
        if same_name:
            return self._consume(same_name[0], drifted=True)
        return Decision("stub", drifted=True, candidates=tuple(begun))

    def settle(self, crossing: Crossing, asked: Asked, decision: Decision) -> Entry:
        """Decide a drifted strand once the others have claimed theirs: the one left over, or none."""
        with self._lock:
            left = [entry for entry in decision.candidates if not entry.line.claimed and not entry.used]
            if len(left) != 1:
                raise divergence.not_certain(asked, left or decision.candidates)
            lines = crossing.strand.matching[id(crossing.parent)] if isinstance(crossing.strand.matching, dict) else []
            self._take(left[0].line, crossing.strand, lines)
            self._consume(left[0])
            decision.entry = left[0]
            return left[0]

    def _off_tape(self, asked: Asked, cursors: list[Entry], *, free: bool) -> Decision:
        """The record holds nothing of that name here: one more than recorded."""
        if asked.name in self.resolved.new:
            return Decision("new")
        if asked.name in self.resolved.live_names:
            return Decision("live")
        if self._lets_run(free):
            return Decision("live", drifted=True)
        recorded = self.tape.names.get(asked.name, [])
        close = divergence.nearest_of([entry for entry in recorded if not entry.used], asked)
        hint = nearest(asked.name, sorted(self.resolved.new)) if self.resolved.new else ""
        before = asked.name not in self.resolved.repeats and any(
            entry.used == "stub" and self._equal(entry, asked) for entry in recorded
        )
        expected = cursors[0] if cursors else None
        raise divergence.one_more(asked, len(recorded), close, expected, hint, served_before=before)


class KeyOf:
    """The key of a recorded request by today's redaction and ignore rules, computed once."""

    def __init__(self, compute: object) -> None:
        self._compute = compute
        self._known: dict[int, str] = {}

    def __call__(self, entry: Entry) -> str:
        key = self._known.get(id(entry))
        if key is None:
            key = self._known[id(entry)] = self._compute(entry.envelope)  # type: ignore[operator]
        return key


__all__ = ["Decision", "Diverged", "KeyOf", "Matcher", "is_rebuilt"]
