"""The account of a replay: each crossing with what was decided, and what the run never asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_replay.changes import FieldChange
from otel_replay.crossing import Crossing
from otel_replay.replay.divergence import Asked
from otel_replay.replay.matching import Decision
from otel_replay.replay.tape import Entry, Tape
from otel_replay.session import Strand


@dataclass(slots=True, eq=False)
class Call:
    """One crossing of this replay: what was decided, and what came of it."""

    crossing: Crossing
    asked: Asked
    action: str
    entry: Entry | None = None
    drift: tuple[FieldChange, ...] = ()
    reordered: bool = False
    free: bool = False
    differed: tuple[FieldChange, ...] = ()
    note: str = ""
    inside_live: bool = False
    """True for what lies under it: it runs new code, so what is crossed there may rightly differ."""
    waiting: Decision | None = None


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What the run did not ask for, in recorded order: a fault, or explained by something live, or never to run."""

    missing: list[Entry] = field(default_factory=list)
    not_reached: list[Entry] = field(default_factory=list)
    covered: list[Entry] = field(default_factory=list)


def leftovers(
    tape: Tape, calls: Sequence[Call], actions: Mapping[str, str], root: Strand, *, hybrid: bool
) -> Leftovers:
    """Return what `calls` left of `tape`. `actions` says what was done with each recorded crossing that was met."""
    root.join()
    found = Leftovers()
    freedom = _Freedom(tape, calls, root)
    fate: dict[str, list[Entry]] = {}
    for entry in tape.entries.values():
        if entry.used:
            continue
        parent = entry.envelope.parent
        if actions.get(parent) in ("stub", "override"):
            what = found.covered
        elif parent in fate:
            what = fate[parent]
        elif entry.passed_over or hybrid or freedom.has(entry):
            what = found.not_reached
        else:
            what = found.missing
        fate[entry.address] = what
        what.append(entry)
    return found


class _Freedom:
    """Whether something live explains that a recorded crossing was not asked for: it lies around it, or before it."""

    def __init__(self, tape: Tape, calls: Sequence[Call], root: Strand) -> None:
        self._tape = tape
        self._root = root
        self._live: set[str] = set()
        self._strands: dict[str, Strand] = {}
        self._tainted_lines: set[int] = set()
        for call in calls:
            if call.entry is None:
                continue
            self._strands.setdefault(call.entry.address, call.crossing.strand)
            if call.inside_live:
                self._live.add(call.entry.address)
            if call.crossing.strand.tainted:
                self._tainted_lines.add(id(call.entry.line))

    def has(self, entry: Entry) -> bool:
        if id(entry.line) in self._tainted_lines:
            return True
        parent = entry.envelope.parent
        if parent in self._live or any(above.address in self._live for above in self._tape.ancestors(parent)):
            return True
        holder = self._strands.get(parent, self._root)
        holder.join()
        return holder.tainted
