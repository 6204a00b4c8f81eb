"""The envelope: the immutable record of one crossing, and the record of the run around it.

Fields are those of `proto/otel_replay/v1/envelope.proto`; `to_proto` and `from_proto` are each other's inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import orjson

OutcomeKind: TypeAlias = Literal["returned", "raised", "streamed", "cancelled", "lost"]
NOT_WHOLE = "not whole: "
"""How a run's note begins that says what was missing when an importer read it."""
APPROXIMATE = "approximate"
"""Begins the note of an imported crossing whose request or answer was put together from what was derived from it."""
ELSEWHERE = "in another process"
"""Begins the note of an imported crossing that a server of the run crossed: only what it gave back is replayed."""
LATE = "after the run's end"
"""The note of a crossing that was entered or ended after its run had closed: it is in no count and no digest."""
StreamEnd: TypeAlias = Literal["", "exhausted", "closed", "dropped", "raised", "cancelled"]


@dataclass(frozen=True, slots=True)
class Payload:
    """A value as text, or the reason why it is lost.

    `encoding` is "json" (JSON types only), "typed-json" (tagged values, see payload.py) or "lost".
    `text` is compact JSON in the value's own key order, exactly as orjson writes it.
    """

    encoding: str = "json"
    text: str = "null"
    reason: str = ""

    @property
    def lost(self) -> bool:
        return self.encoding == "lost"

    def tree(self) -> object:
        """Return the JSON tree of `text` (tags left in place); None where the payload is lost."""
        return None if self.lost else orjson.loads(self.text)


def lost(reason: str) -> Payload:
    """Return the payload of a value that could not be kept."""
    return Payload("lost", "null", reason)


NOTHING = Payload()
"""The payload of None."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One step of a stream: the value handed out, and what the consumer sent or threw in to get it."""

    value: Payload
    sent: Payload | None = None
    thrown: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a crossing. `value` is the result, the exception, or what ended the stream."""

    kind: OutcomeKind
    value: Payload = NOTHING
    chunks: tuple[Chunk, ...] = ()
    end: str = ""
    ended_by: Chunk | None = None
    """Of a generator that came to its own end: what was sent or thrown in last. None: it is not known."""

    @property
    def lost_reason(self) -> str:
        """Why this outcome cannot be served, or "" where it can."""
        if self.kind == "lost":
            return self.end or self.value.reason or "the crossing was still running when the recording ended"
        for payload in (self.value, *(chunk.value for chunk in self.chunks)):
            if payload.reason:
                return payload.reason
        return ""


@dataclass(frozen=True, slots=True)
class Redaction:
    """One hit of a redaction rule: which rule, where, and how many characters it took."""

    rule: str
    path: str
    length: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try inside a crossing that retries by itself. Times in Unix nanoseconds, wait in nanoseconds."""

    status: str
    start_ns: int = 0
    end_ns: int = 0
    wait_ns: int = 0


@dataclass(frozen=True, slots=True)
class Envelope:
    """The record of one crossing. Times are Unix nanoseconds; `end_seq` 0 means that it never ended."""

    run_id: str
    address: str
    boundary: str
    kind: str
    request: Payload
    outcome: Outcome
    seq: int
    end_seq: int = 0
    run_name: str = ""
    lane: str = ""
    parent: str = ""
    strand: int = 0
    place: str = ""
    mode: str = "record"
    start_ns: int = 0
    end_ns: int = 0
    changed: Payload | None = None
    key: str = ""
    pins: Mapping[str, object] = field(default_factory=dict)
    side_effects: bool = False
    notes: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    grade: str = "exact"
    schema: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run, or of one lane of it. `end_ns` 0: still open, or interrupted."""

    run_id: str
    name: str = ""
    lane: str = ""
    start_ns: int = 0
    end_ns: int = 0
    crossings: int = 0
    digest: str = ""
    lanes: tuple[str, ...] = ()
    answer: Payload | None = None
    verdict: str = "unknown"
    error: str = ""
    faults: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, object] = field(default_factory=dict)
    mode: str = "record"
    notes: tuple[str, ...] = ()
    replay_of: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    schema: int = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A crossing was entered: what names it, should its end never come."""

    address: str
    boundary: str
    kind: str
    seq: int
    strand: int = 0
    start_ns: int = 0
    parent: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """One run with its crossings in entry order, and all that is known to be missing from it.

    `unfinished` are crossings entered but never ended. `gaps` are sequence numbers that should be there and are not.
    `damaged` maps an address to what is wrong with its envelope (truncated, scrubbed, missing).
    """

    run: Run
    envelopes: tuple[Envelope, ...]
    unfinished: tuple[Mark, ...] = ()
    gaps: tuple[int, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    source: str = ""
    lanes: tuple[Run, ...] = ()
    """The records of the run's other processes."""

    @property
    def complete(self) -> bool:
        """True where the run closed, every crossing that it counted is here and intact, and none came after."""
        return bool(self.run.end_ns) and not (
            self.unfinished or self.gaps or self.damaged or self.problems or self.late
        )

    @property
    def late(self) -> tuple[str, ...]:
        """The addresses of crossings that came after the run had closed: its record cannot vouch for them."""
        return tuple(envelope.address for envelope in self.envelopes if LATE in envelope.notes)
