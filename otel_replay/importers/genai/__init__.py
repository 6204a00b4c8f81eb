"""Foreign spans -> recordings: every GenAI convention that we know, as envelopes that can be replayed.

    for recording in recordings(spans, logs):
        for line in describe(recording):
            print(line.address, line.grade, line.reason)

Our own spans are read through the codec and stay exact; of all others the best grade is `semantic`: the messages are
the recorded ones, the response around them is rebuilt, and what was invented is named in the envelope's notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from otel_replay import semconv
from otel_replay.envelope import ELSEWHERE, Recording
from otel_replay.importers.genai import own
from otel_replay.importers.genai._build import recording_of
from otel_replay.importers.genai._call import Call, Source
from otel_replay.importers.genai._fields import attributes_of
from otel_replay.importers.genai._stitch import Stitched, service_of, stitch
from otel_replay.importers.genai._tree import Tree
from otel_replay.importers.genai.conventions import after, best_reading
from otel_replay.importers.genai.describe import CrossingSummary, describe
from otel_replay.importers.genai.resolve import resolve
from otel_replay.importers.result import low_half
from otel_replay.span import LogRecord, Span
from otel_replay.wire.logs import log_from_span

__all__ = ["CrossingSummary", "describe", "recordings"]


def recordings(
    spans: Sequence[Span], logs: Sequence[LogRecord] = (), *, source: str = "", parts: Mapping[str, str] | None = None
) -> list[Recording]:
    """Return one recording a run (our own spans) or a trace (foreign ones), in start order.

    `parts` are an import's `ImportResult.parts`. A run of ours counts its crossings; a foreign trace that the backend
    returned in part is not whole.

    Log records are joined to spans by trace and span id, also those that a store keeps as spans. Spans that tell of no
    call are only places in the tree; a trace without any call or agent gives no recording. Never raises for what a
    span holds.
    """
    ours: list[Span] = []
    by_trace: dict[str, list[Span]] = {}
    kept_logs: list[LogRecord] = []
    for span in spans:
        log = log_from_span(span)
        if log is not None:
            kept_logs.append(log)
        elif own.is_ours(span):
            ours.append(span)
        else:
            by_trace.setdefault(span.trace_id, []).append(span)
    found = own.recordings_of(ours, source)
    mixed = {recording.run.trace_id for recording in found}
    by_span: dict[tuple[str, str], list[LogRecord]] = {}
    for log in (*logs, *kept_logs):
        by_span.setdefault((log.trace_id, log.span_id), []).append(log)
    stitched = stitch(
        {trace_id: group for trace_id, group in by_trace.items() if trace_id not in mixed},
        [span for span in ours if span.get(semconv.JSONRPC_ID) is not None],
    )
    found = [_with_notes(recording, stitched) for recording in found]
    for trace_id, group in stitched.traces.items():
        if trace_id in mixed:
            continue  # where the exact form is here, what other tools saw of the same run adds nothing to serve
        recording = _foreign(group, by_span, source, stitched, trace_id)
        if recording is not None:
            said = (parts or {}).get(low_half(trace_id))
            partial = (f"the backend returned only a part of the trace: {said}",) if said else ()
            found.append(replace(recording, problems=(*recording.problems, *partial)))
    return sorted(found, key=lambda recording: (recording.run.start_ns, recording.run.run_id))


def _with_notes(recording: Recording, stitched: Stitched) -> Recording:
    """Return a run of ours, told which spans of other traces serve calls of it."""
    told = [f"{note}: only what it gave back is replayed" for note in stitched.notes.get(recording.run.trace_id, ())]
    new = tuple(note for note in told if note not in recording.run.notes)
    return replace(recording, run=replace(recording.run, notes=(*recording.run.notes, *new))) if new else recording


def _foreign(
    spans: Iterable[Span],
    logs: dict[tuple[str, str], list[LogRecord]],
    source: str,
    stitched: Stitched,
    trace_id: str,
) -> Recording | None:
    tree = Tree(spans)
    calls: list[Call] = []
    for span in tree.spans:
        held = sorted(logs.get((span.trace_id, span.span_id), ()), key=lambda log: log.time_ns or log.observed_time_ns)
        call = best_reading(Source(span, attributes_of(span.attributes), held))
        if call is not None:
            if any(stitched.is_serving(one) for one in tree.ancestors(span)):
                call.notes.append(f"{ELSEWHERE}{service_of(span)}: only what it gave back is replayed")
            calls.append(call)
    if not calls:
        return None
    notes: list[str] = list(stitched.notes.get(trace_id, ()))
    calls = after(calls, notes)
    calls, resolved = resolve(tree, calls)
    notes.extend(resolved)
    if tree.copies:
        notes.append(f"{tree.copies} spans stood more than once: the one that ends last counts")
    problems = [f"root missing: the parent span {parent} is not in the file" for parent in tree.missing_parents]
    return recording_of(tree, calls, notes, problems, source)
