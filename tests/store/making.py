"""Runs made by hand, with fixed ids and times, and the journals and spans that record them."""

from __future__ import annotations

import base64
import random
from dataclasses import astuple, replace
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


def picture(size: int = 300_000, seed: int = 1) -> str:
    """Return a picture as models are sent them, of `size` characters that no codec makes smaller."""
    return "data:image/png;base64," + base64.b64encode(random.Random(seed).randbytes(size * 3 // 4)).decode()


def illustrated(number: int = 1, *, turns: int = 20, image: str | None = None) -> tuple[Run, list[Envelope]]:
    """Return a run whose crossings all hold the same picture, as the turns of a conversation do."""
    shown = picture() if image is None else image
    run, envelopes = make_run(number, turns, start_ns=START + number * 10_000_000)
    said = [
        replace(envelope, request=Payload("json", f'{{"q":"é{at}","image":"{shown}"}}'))
        for at, envelope in enumerate(envelopes)
    ]
    return replace(run, digest=run_digest.of_run(said)), said


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
        writer.mark(*astuple(mark_of(envelope)))
        writer.crossing(envelope)
    if close:
        writer.run_end(run)
    writer.close()
    return writer.path
