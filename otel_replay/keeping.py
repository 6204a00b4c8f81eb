"""Spans of an import -> crossings and rows of a store, a group of traces at a time, so that memory stays bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from otel_replay.envelope import NOTHING, Outcome, Payload, Recording, lost
from otel_replay.importers import ImportResult, repair
from otel_replay.importers.by_trace import weight_of
from otel_replay.span import LogRecord, Span, SpanSink
from otel_replay.wire.logs import log_from_span

RUNS_KEPT = 200
"""Runs of a large import that its account names; of the others it counts crossings and losses."""
_WRITE_SPANS = 2_000
_WRITE_BYTES = 16 * 1024 * 1024
_ID = re.compile(r"\b[0-9a-f]{8,32}\b|\d+")

Made = Callable[[Sequence[Span], Sequence[LogRecord]], tuple[list[Span], list[Recording]]]
"""Turns whole traces into (what is kept of them, their runs)."""


class Keeper:
    """Takes groups of spans, repairs them, has crossings made of them, and writes what is kept."""

    def __init__(self, into: SpanSink | None, account: ImportResult, make: Made, *, all_runs: bool) -> None:
        self.runs: list[Recording] = []
        self.runs_found = self.crossings = self.redacted = self.spans = 0
        self.lost: Counter[tuple[str, str]] = Counter()
        self._into = into
        self._account = account
        self._make = make
        self._all_runs = all_runs
        self._pending: list[Span] = []
        self._weight = 0
        self._notes: dict[str, list[str]] = {}

    def take(self, spans: list[Span], losses_of: Callable[[Recording], Counter[tuple[str, str]]]) -> None:
        """Take the spans of whole traces, log records among them as spans."""
        logs = [log for span in spans if (log := log_from_span(span)) is not None]
        repaired = repair.repair([span for span in spans if log_from_span(span) is None] if logs else spans)
        for note in repaired.notes:
            self._notes.setdefault(_ID.sub("#", note), []).append(note)
        kept, runs = self._make(repaired.spans, logs)
        for run in runs:
            self.runs_found += 1
            self.crossings += len(run.envelopes)
            self.redacted += sum(len(envelope.redactions) for envelope in run.envelopes)
            self.lost += losses_of(run)
            if self._all_runs:
                self.runs.append(run)
            elif len(self.runs) < RUNS_KEPT:
                self.runs.append(without_payloads(run))
        self._write(kept)

    def take_part(self, kept: list[Span]) -> None:
        """Take a part of a trace that is too large to be read as one: its spans are kept, and that is all."""
        trace_id = kept[0].trace_id
        self._account.problem("lost", "a trace too large for memory: its spans are kept, no crossing is made", trace_id)
        self._write(kept)

    def _write(self, kept: list[Span]) -> None:
        for span in kept:
            self._pending.append(span)
            self._weight += weight_of(span)
            if len(self._pending) >= _WRITE_SPANS or self._weight >= _WRITE_BYTES:
                self._flush()

    def _flush(self) -> None:
        self.spans += len(self._pending)
        if self._into is not None and self._pending:
            self._into.write(self._pending)
        self._pending, self._weight = [], 0

    def close(self) -> None:
        """Write the rest, and put the notes of all groups into the account, those of one kind as one."""
        self._flush()
        self.runs.sort(key=lambda run: (run.run.start_ns, run.run.run_id))
        for notes in self._notes.values():
            more = f" (and {len(notes) - 3} more like it)" if len(notes) > 4 else ""
            for at, note in enumerate(notes[: 3 if more else None]):
                self._account.note(note + (more if at == 2 else ""))


def without_payloads(run: Recording) -> Recording:
    """Return the recording with what its account tells, and nothing of what was asked and answered."""
    envelopes = tuple(
        replace(envelope, request=_bare(envelope.request), outcome=Outcome(
            envelope.outcome.kind, _bare(envelope.outcome.value), (), envelope.outcome.end))
        for envelope in run.envelopes
    )  # fmt: skip
    return replace(run, run=replace(run.run, answer=None), envelopes=envelopes)


def _bare(payload: Payload) -> Payload:
    return lost(payload.reason) if payload.lost else NOTHING
