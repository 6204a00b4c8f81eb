"""Our own spans -> recordings, exact where the envelope came through whole."""

from __future__ import annotations

from collections.abc import Sequence

from otel_replay import codec, run_digest, semconv
from otel_replay.envelope import NOT_WHOLE, Envelope, Outcome, Recording, Run, lost
from otel_replay.span import Span

_CROSSINGS_MAX = 1_000_000
"""Beyond this a count is damage, not a run: gaps are named up to here."""

is_ours = codec.is_ours


def recordings_of(spans: Sequence[Span], source: str) -> list[Recording]:
    """Return one recording a run. A crossing whose envelope is not whole stands as lost, with the reason."""
    by_run: dict[str, list[Span]] = {}
    for span in codec.assemble(spans):
        by_run.setdefault(str(span.get(semconv.RUN_ID)), []).append(span)
    return [_recording(run_id, group, source) for run_id, group in by_run.items()]


def _recording(run_id: str, spans: Sequence[Span], source: str) -> Recording:
    runs = [run for run in map(codec.run_from_span, spans) if run is not None]
    envelopes: dict[tuple[str, int], Envelope] = {}
    damaged: dict[str, str] = {}
    for span in spans:
        if codec.is_run(span):
            continue
        reading = codec.from_span(span)
        envelope = reading.envelope or _damaged(span, reading.reason)
        key = (envelope.lane, envelope.seq)
        if reading.envelope is not None:
            damaged.pop(envelope.address, None)
            if envelope.grade == "insufficient" and envelope.kind != "custom":  # imported once, and short of content
                damaged[envelope.address] = envelope.outcome.lost_reason or envelope.request.reason
        elif key in envelopes:
            continue
        else:
            damaged[envelope.address] = f"{reading.integrity}: {reading.reason}"
        envelopes[key] = envelope
    found = tuple(sorted(envelopes.values(), key=lambda envelope: (envelope.lane, envelope.seq)))
    run = next((run for run in runs if not run.lane), None)
    problems = [] if run is not None else ["the run's own span is not here: the run was interrupted, or it was lost"]
    run = run or _run_without_span(run_id, spans)
    problems += [note.removeprefix(NOT_WHOLE) for note in run.notes if note.startswith(NOT_WHOLE)]
    seqs = {envelope.seq for envelope in found if not envelope.lane}
    gaps = tuple(n for n in range(1, min(run.crossings, _CROSSINGS_MAX) + 1) if n not in seqs)
    whole = not (gaps or damaged or problems or run.lanes)
    if whole and run.digest and run_digest.of_run(found, like=run.digest) != run.digest:
        problems.append("the crossings do not add up to the run's digest")
    others = tuple(sorted((one for one in runs if one.lane), key=lambda one: one.lane))
    return Recording(run, found, (), gaps, damaged, tuple(problems), source, others)


def _run_without_span(run_id: str, spans: Sequence[Span]) -> Run:
    first = min(spans, key=lambda span: span.start_ns)
    return Run(run_id, str(first.get(semconv.RUN_NAME) or ""), start_ns=first.start_ns, trace_id=first.trace_id)


def _damaged(span: Span, reason: str) -> Envelope:
    """Return what the short attributes still say of a crossing whose envelope is not whole."""

    def text(key: str) -> str:
        value = span.get(key)
        return value if isinstance(value, str) else ""

    def number(key: str) -> int:
        value = span.get(key)
        return value if isinstance(value, int) and value >= 0 else 0

    address = text(semconv.ADDRESS)
    return Envelope(
        run_id=text(semconv.RUN_ID),
        run_name=text(semconv.RUN_NAME),
        lane=text(semconv.RUN_LANE),
        address=address,
        parent=address.rpartition("/")[0],
        boundary=text(semconv.BOUNDARY),
        kind=text(semconv.KIND),
        mode=text(semconv.MODE) or "record",
        request=lost(reason),
        outcome=Outcome("lost", lost(reason), end=reason),
        strand=number(semconv.STRAND),
        seq=number(semconv.SEQ),
        end_seq=number(semconv.END_SEQ),
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        grade="insufficient",
        notes=(reason,),
    )
