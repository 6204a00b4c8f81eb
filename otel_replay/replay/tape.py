"""The tape: the envelopes of one lane of a run, laid out as replay serves them.

Under each parent lie *lines*: what one strand crossed there, in entry order. The line of the parent's own strand is
its main line; the others were begun in it as tasks, jobs or threads, and wait to be claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from otel_replay.crossing import Crossing
from otel_replay.envelope import Envelope, Recording


@dataclass(slots=True, eq=False)
class Entry:
    """One recorded crossing and what this replay has done with it."""

    envelope: Envelope
    line: Line
    at: int
    used: str = ""
    """"" while unused; then stub, live, override, opened."""
    passed_over: bool = False
    delivered: bool = False
    instead: Crossing | None = None
    """The crossing with another input that ran live in its place, as far as is known: it was one more than recorded if
    this one is asked for yet."""

    @property
    def address(self) -> str:
        return self.envelope.address

    @property
    def name(self) -> str:
        return self.envelope.boundary


@dataclass(slots=True, eq=False)
class Line:
    """What one strand crossed under one parent."""

    parent: str
    strand: int
    main: bool
    entries: list[Entry]
    cursor: int = 0
    claimed: bool = False
    tainted: bool = False
    ambiguous: bool = False

    def next(self) -> Entry | None:
        """Return the next unserved entry; the cursor moves only past what was consumed."""
        entries = self.entries
        while self.cursor < len(entries) and (entries[self.cursor].used or entries[self.cursor].passed_over):
            self.cursor += 1
        return entries[self.cursor] if self.cursor < len(entries) else None

    def open(self) -> Entry | None:
        """Return the next unserved entry that nothing ran in the place of."""
        return next((entry for entry in self.ahead() if entry.instead is None), None)

    def near(self) -> Iterable[Entry]:
        """Yield what may come next: the entries that something else ran in the place of, and the one after them."""
        for entry in self.ahead():
            yield entry
            if entry.instead is None:
                return

    def ahead(self) -> Iterable[Entry]:
        """Yield the unserved entries from the cursor on."""
        for at in range(self.cursor, len(self.entries)):  # no slice: most who ask look at the first one only
            entry = self.entries[at]
            if not (entry.used or entry.passed_over):
                yield entry


class Tape:
    """The recorded crossings of one lane by address, by parent and by name."""

    def __init__(self, recording: Recording, lane: str = "") -> None:
        self.recording = recording
        self.lane = lane
        ordered = sorted((e for e in recording.envelopes if e.lane == lane), key=lambda e: e.seq)
        strands = {e.address: e.strand for e in ordered}
        self.lines: dict[str, list[Line]] = {}
        self.entries: dict[str, Entry] = {}
        self.names: dict[str, list[Entry]] = {}
        by_place: dict[tuple[str, int], Line] = {}
        for envelope in ordered:
            place = (envelope.parent, envelope.strand)
            line = by_place.get(place)
            if line is None:
                main = envelope.strand == strands.get(envelope.parent, 0)
                line = by_place[place] = Line(envelope.parent, envelope.strand, main, [])
                self.lines.setdefault(envelope.parent, []).append(line)
            entry = Entry(envelope, line, len(line.entries))
            line.entries.append(entry)
            self.entries[envelope.address] = entry
            self.names.setdefault(envelope.boundary, []).append(entry)
        for lines in self.lines.values():
            lines.sort(key=lambda line: (line.strand, line.entries[0].envelope.seq))
        self.unordered = any("order by start time" in note for note in recording.run.notes)
        """Imported spans have no strands: they are matched by key first, and order is only reported."""

    def main_line(self, parent: str) -> Line | None:
        """Return what the parent's own strand crossed under it, or None."""
        return next((line for line in self.lines.get(parent, ()) if line.main), None)

    def begun_lines(self, parent: str) -> list[Line]:
        """Return what strands begun under `parent` crossed there, in the order in which they began."""
        return [line for line in self.lines.get(parent, ()) if not line.main]

    def under(self, address: str) -> list[Entry]:
        """Return all entries below `address`, at any depth."""
        prefix = f"{address}/"
        return [entry for key, entry in self.entries.items() if key.startswith(prefix)]

    def ancestors(self, address: str) -> list[Entry]:
        """Return the entries around `address`, outermost first."""
        found: list[Entry] = []
        entry = self.entries.get(address)
        while entry is not None and entry.envelope.parent:
            entry = self.entries.get(entry.envelope.parent)
            if entry is not None:
                found.append(entry)
        return found[::-1]

    def select(self, wanted: Callable[[Entry], bool]) -> list[Entry]:
        return [entry for entry in self.entries.values() if wanted(entry)]

    def ordered_before(self, first: Entry, second: Entry) -> bool:
        """True where `first` came before `second` by the program's own order, not by accident of time."""
        if first.envelope.strand == second.envelope.strand:
            return first.envelope.seq < second.envelope.seq
        around: Entry | None = second
        while around is not None:
            if around.envelope.strand == first.envelope.strand:
                return first.envelope.seq < around.envelope.seq or around is first
            around = self.entries.get(around.envelope.parent)
        return False
