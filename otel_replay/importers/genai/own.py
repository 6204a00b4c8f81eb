"""Our own spans -> recordings, exact where the envelope came through whole."""

from __future__ import annotations

from collections.abc import Sequence

from otel_replay import carrying, codec, run_digest, semconv
from otel_replay.envelope import NOT_WHOLE, Envelope, Outcome, Recording, Run, lost
from otel_replay.span import Span
from otel_replay.wholeness import gaps_and_problems

is_ours = codec.is_ours


def recordings_of(spans: Sequence[Span], source: str) -> list[Recording]:
    """Return one recording a run. A crossing whose envelope is not whole stands as lost, with the reason."""
    by_run: dict[str, list[Span]] = {}
    for span in carrying.assemble(spans):
        by_run.setdefault(str(span.get(semconv.RUN_ID)), []).append(span)
    return [_recording(run_id, group, source) for run_id, group in by_run.items()]


def _recording(run_id: str, spans: Sequence[Span], source: str) -> Recording:
    runs: dict[str, Run] = {}
    for run in map(codec.run_from_span, spans):
        if run is not None:
            runs.setdefault(run.lane, run)
    envelopes: dict[tuple[str, int], Envelope] = {}
    damaged: dict[str, str] = {}
    twice: list[str] = []
    for span in spans:
        if codec.is_run(span):
            continue
        reading = codec.from_span(span)
        envelope = reading.envelope or _damaged(span, reading.reason)
        key = (envelope.lane, envelope.seq)
        if reading.envelope is not None:
            before = envelopes.get(key)
            if (
                before is not None
                and envelope.address not in damaged
                and run_digest.term(before) != run_digest.term(envelope)
            ):
                twice.append(f"{envelope.address} came twice, and the two differ")
            damaged.pop(envelope.address, None)
            if envelope.grade == "insufficient" and envelope.kind != "custom":  # imported once, and short of content
                damaged[envelope.address] = envelope.outcome.lost_reason or envelope.request.reason
        elif key in envelopes:
            continue
        else:
            damaged[envelope.address] = f"{reading.integrity}: {reading.reason}"
        envelopes[key] = envelope
    found = tuple(sorted(envelopes.values(), key=lambda envelope: (envelope.lane, envelope.seq)))
    main = runs.get("")
    problems = [] if main is not None else ["the run's own span is not here: the run was interrupted, or it was lost"]
    main = main or _run_without_span(run_id, spans)
    problems += [note.removeprefix(NOT_WHOLE) for note in main.notes if note.startswith(NOT_WHOLE)]
    seqs: dict[str, list[int]] = {}
    for envelope in found:
        seqs.setdefault(envelope.lane, []).append(envelope.seq)
    gaps, short = gaps_and_problems(runs, main.lanes, seqs, found, damaged)
    others = tuple(one for lane, one in sorted(runs.items()) if lane)
    return Recording(main, found, (), gaps, damaged, (*problems, *twice, *short), source, others)


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
