"""Runs made by hand, with fixed ids and times, and the journals and spans that record them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from otel_replay import codec, run_digest
from otel_replay.envelope import Envelope, Mark, Outcome, Payload, Run
from otel_replay.journal import JournalWriter
from otel_replay.span import Span

START = 1_750_000_000_000_000_000
DAY = 86_400 * 1_000_000_000


def crossing(run: Run, seq: int, **changes: object) -> Envelope:
    """Return the `seq`-th crossing of `run`: search(q=seq) -> {"r": seq}."""
    envelope = Envelope(
        run_id=run.run_id,
        run_name=run.name,
        lane=run.lane,
        address=f"search[{seq}]",
        boundary="search",
        kind="tool",
        request=Payload("json", f'{{"q":{seq}}}'),
        outcome=Outcome("returned", Payload("json", f'{{"r":"é{seq}"}}')),
        seq=seq,
        end_seq=seq,
        start_ns=run.start_ns + seq * 1_000,
        end_ns=run.start_ns + seq * 1_000 + 500,
        trace_id=run.trace_id,
        span_id=f"{seq + 1:016x}",
        parent_span_id=run.span_id,
    )
    return replace(envelope, **changes)  # type: ignore[arg-type]


def make_run(
    number: int = 1, crossings: int = 3, *, name: str = "refund", start_ns: int = START, lane: str = ""
) -> tuple[Run, list[Envelope]]:
    """Return a closed run and its crossings; `number` tells runs apart."""
    run = Run(
        run_id=f"{number:032x}"[::-1],
        name=name,
        lane=lane,
        start_ns=start_ns,
        trace_id=f"{number:032x}",
        span_id=f"{number + 0xF000:016x}",
    )
    envelopes = [crossing(run, seq) for seq in range(1, crossings + 1)]
    closed = replace(
        run,
        end_ns=start_ns + 1_000_000,
        crossings=crossings,
        digest=run_digest.of_run(envelopes),
        verdict="unknown",
    )
    return closed, envelopes


def run_spans(run: Run, envelopes: list[Envelope]) -> list[Span]:
    """Return the spans of a run as they come through a Collector."""
    return [*(codec.to_span(envelope) for envelope in envelopes), codec.run_to_span(run)]


def mark_of(envelope: Envelope) -> Mark:
    return Mark(
        envelope.address,
        envelope.boundary,
        envelope.kind,
        envelope.seq,
        envelope.strand,
        envelope.start_ns,
        envelope.parent,
        envelope.span_id,
    )


def open_journal(folder: Path, run: Run, label: str = "1") -> JournalWriter:
    """Return a journal that the run has begun in; the file is locked until it is closed."""
    writer = JournalWriter(folder / "journal" / f"{run.run_id}-{label}.journal")
    writer.run_start(replace(run, end_ns=0, crossings=0, digest=""))
    return writer


def write_journal(folder: Path, run: Run, envelopes: list[Envelope], *, close: bool = True, label: str = "1") -> Path:
    """Write a whole journal, as a recorder that ended leaves it; without its end where `close` is off."""
    writer = open_journal(folder, run, label)
    for envelope in envelopes:
        writer.mark(mark_of(envelope))
        writer.crossing(envelope)
    if close:
        writer.run_end(run)
    writer.close()
    return writer.path
