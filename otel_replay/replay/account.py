"""The account of a replay: each crossing with what was decided, and what the run never asked for."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_replay.changes import FieldChange
from otel_replay.crossing import Crossing
from otel_replay.envelope import LATE
from otel_replay.replay.divergence import Asked
from otel_replay.replay.matching import Decision
from otel_replay.replay.tape import Entry, Tape
from otel_replay.strand import Strand


@dataclass(slots=True, eq=False)
class Call:
    """One crossing of this replay: what was decided, and what came of it."""

    crossing: Crossing
    asked: Asked
    action: str
    entry: Entry | None = None
    drift: tuple[FieldChange, ...] = ()
    reordered: bool = False
    repeated: bool = False
    free: bool = False
    differed: tuple[FieldChange, ...] = ()
    note: str = ""
    inside_live: bool = False
    """True for what lies under it: it runs new code, so what is crossed there may rightly differ."""
    waiting: Decision | None = None

    def is_one_more(self) -> None:
        """It was taken for a recorded crossing with another input, but that one came after it: the record lacks it."""
        self.entry, self.drift, self.differed, self.note = None, (), (), ""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What the run did not ask for, in recorded order: a fault, or explained by something live, or never to run."""

    missing: list[Entry] = field(default_factory=list)
    not_reached: list[Entry] = field(default_factory=list)
    covered: list[Entry] = field(default_factory=list)


class Ends:
    """Which strands came to their own end: of one that was cancelled, or still runs, the rest was cut off."""

    def __init__(self) -> None:
        self._tasks: set[int] = set()
        self._ended: set[int] = set()

    def watch(self, strand: Strand) -> None:
        """Begin to watch the strand that control is in."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return
        if task is not None:
            self._tasks.add(strand.number)
            task.add_done_callback(functools.partial(self._task_done, strand.number))

    def _task_done(self, number: int, task: asyncio.Task[object]) -> None:
        if not (task.cancelled() or task.cancelling()):
            self._ended.add(number)

    def cut(self, strand: Strand) -> bool:
        return strand.number not in self._ended if strand.number in self._tasks else not strand.done()


def leftovers(
    tape: Tape, calls: Sequence[Call], actions: Mapping[str, str], root: Strand, ends: Ends, *, hybrid: bool
) -> Leftovers:
    """Return what `calls` left of `tape`. `actions` says what was done with each recorded crossing that was met."""
    root.join()
    found = Leftovers()
    freedom = _Freedom(tape, calls, root, ends)
    fate: dict[str, list[Entry]] = {}
    for entry in tape.entries.values():
        if entry.used:
            continue
        parent = entry.envelope.parent
        if actions.get(parent) in ("stub", "override"):
            what = found.covered
        elif parent in fate:
            what = fate[parent]
        elif entry.passed_over or hybrid or LATE in entry.envelope.notes or freedom.has(entry):
            what = found.not_reached
        else:
            what = found.missing
        fate[entry.address] = what
        what.append(entry)
    return found


class _Freedom:
    """Whether something live explains that a recorded crossing was not asked for: it lies around it, or before it."""

    def __init__(self, tape: Tape, calls: Sequence[Call], root: Strand, ends: Ends) -> None:
        self._tape = tape
        self._root = root
        self._ends = ends
        self._live: set[str] = set()
        self._strand_of: dict[str, Strand] = {}
        self._takers: dict[int, set[Strand]] = {}
        for call in calls:
            if call.entry is None:
                continue
            self._strand_of.setdefault(call.entry.address, call.crossing.strand)
            self._takers.setdefault(id(call.entry.line), set()).add(call.crossing.strand)
            if call.inside_live:
                self._live.add(call.entry.address)

    def has(self, entry: Entry) -> bool:
        parent = entry.envelope.parent
        if parent in self._live or any(above.address in self._live for above in self._tape.ancestors(parent)):
            return True
        takers = self._takers.get(id(entry.line), set())
        if any(strand.tainted for strand in takers):
            return True
        if any(not self._ends.cut(strand) for strand in takers if strand.number):
            return False  # it ran to its end beside what is live, and did not ask
        holder = self._strand_of.get(parent, self._root)
        holder.join()
        return holder.tainted
