"""Foreign traces into a store: redacted on the way in, the original spans kept, and each run replayable from there.

A crossing that an importer understood gets its envelope on the very span that told of it: one span, one row. So the
original attributes stay, and `runs`, `show`, `sql` and `replay` see the run as they see one of our own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import orjson

from otel_replay import carrying, codec, jsonform, limits, run_digest, semconv, settings
from otel_replay.envelope import NOT_WHOLE, Envelope, Payload, Recording, Run
from otel_replay.importers import ImportResult, open_source
from otel_replay.importers.by_trace import ByTrace
from otel_replay.importers.genai import describe
from otel_replay.importers.genai import recordings as to_recordings
from otel_replay.importers.result import Progress
from otel_replay.keeping import Keeper
from otel_replay.location import printable
from otel_replay.readable import genai_attributes
from otel_replay.redaction import Known, Redactor, Scope
from otel_replay.sources import incompleteness, parquet_rows
from otel_replay.span import Attributes, KeyValue, KeyValues, LogRecord, Resource, Span, SpanSink, Value
from otel_replay.wire.logs import span_from_log

_OURS = "otel_replay."


@dataclass(frozen=True, slots=True)
class Imported:
    """What one source held. `spans` counts those kept, log records among them.

    `runs` are all runs of a source that fits in memory; of a larger one the first (`keeping.RUNS_KEPT`), without what
    was asked and answered. `runs_found` and `crossings` count all, `lost` says what was lost in any.
    """

    source: str
    format: str
    spans: int
    runs: tuple[Recording, ...]
    account: ImportResult
    redacted: int = 0
    runs_found: int = 0
    crossings: int = 0
    lost: tuple[str, ...] = ()


def import_source(
    source: str,
    into: SpanSink | None,
    *,
    redactor: Redactor | None = None,
    format: str | None = None,
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    keeping: Progress | None = None,
) -> Imported:
    """Read `source`, redact it and write it `into` a store (None: only look), in bounded memory.

    `keeping` is called with (groups done, groups in all known so far). Raises ImportFault where nothing of it can be
    read, StoreError where it cannot be kept. Nothing is written before all of it has been read.
    """
    redactor = redactor or project_redactor()
    found = open_source(source, format=format, headers=headers, progress=progress, parquet_rows=parquet_rows)

    def make(spans: Sequence[Span], logs: Sequence[LogRecord]) -> tuple[list[Span], list[Recording]]:
        runs = [
            redacted_recording(run, redactor) for run in to_recordings(spans, logs, source=source, parts=found.parts)
        ]
        runs = _as_versions(runs, into)
        # The bodies of log records have been joined to their spans; they are kept as rows of their own, too.
        return kept_spans([*spans, *(span_from_log(log) for log in logs)], runs, redactor), runs

    with ByTrace() as spool:
        for span in found.each(lambda log: spool.add(span_from_log(log))):
            spool.add(span)
        keeper = Keeper(into, found, make, all_runs=not spool.spilled)
        done = 0
        for group, whole in spool.groups():
            if whole:
                keeper.take(group, _losses)
            else:
                keeper.take_part([redacted_span(span, redactor) for span in group])
            done += len(group)
            if keeping is not None:
                keeping(done, spool.count)
        keeper.close()
    lost = tuple(_loss_lines(keeper.lost))
    runs = tuple(keeper.runs)
    return Imported(printable(source), found.format, keeper.spans, runs, found, keeper.redacted, keeper.runs_found,
                    keeper.crossings, lost)  # fmt: skip


class _Holding(Protocol):
    """A store that tells which runs it holds."""

    def accounts(self, run_ids: Sequence[str]) -> Mapping[str, Run]:
        """Return the record of each of these runs that is there."""
        ...


def _as_versions(runs: list[Recording], into: object) -> list[Recording]:
    """Return the runs; a foreign one that the store holds otherwise, a trace that grew, say, as a run of its own.

    Rows of both under one id would replace each other crossing by crossing, and leave neither whole.
    """
    foreign = [run.run.run_id for run in runs if _foreign(run)]
    if not foreign or not hasattr(into, "accounts"):
        return runs
    held = cast(_Holding, into).accounts(foreign)
    return [_version(run, held.get(run.run.run_id)) if _foreign(run) else run for run in runs]


def _version(recording: Recording, held: Run | None) -> Recording:
    now = _state(_account(recording))
    if held is None or _state(held) == now:
        return recording
    before = recording.run.run_id
    run_id = hashlib.sha256("\n".join((before, *now)).encode()).hexdigest()[:32]
    note = f"the store holds this trace otherwise, as run {before}: it was imported before it had grown or changed"
    run = replace(recording.run, run_id=run_id, notes=(*recording.run.notes, note))
    envelopes = tuple(replace(envelope, run_id=run_id) for envelope in recording.envelopes)
    return replace(recording, run=run, envelopes=envelopes)


def _state(run: Run) -> tuple[str, ...]:
    return run.digest, *(note for note in run.notes if note.startswith(NOT_WHOLE))


def project_redactor() -> Redactor:
    """Return the redactor that the project's settings ask for."""
    table = settings.load().project.get("redaction", {})
    return Redactor.from_project(table if isinstance(table, Mapping) else {})


# Redaction ---------------------------------------------------------------------------------------------------


def redacted_recording(recording: Recording, redactor: Redactor) -> Recording:
    """Return the recording with every envelope and the run redacted; its digest follows."""
    known = Known()
    envelopes = tuple(redactor.redact_envelope(envelope, known) for envelope in recording.envelopes)
    run = _redacted_run(recording.run, redactor)
    for before, after in zip(recording.envelopes, envelopes, strict=True):
        if before is not after and not after.lane:
            run = replace(run, digest=_moved(run.digest, before, after))
    return replace(recording, run=run, envelopes=envelopes)


def _redacted_run(run: Run, redactor: Redactor) -> Run:
    scope = Scope()
    answer = redactor.redact(run.answer, scope)[0].value if run.answer is not None else None
    pins, hits = redactor.redact(Payload("json", orjson.dumps(run.pins, default=str).decode()), scope)
    tree = pins.value.tree()
    return replace(
        run,
        name=redactor.redact_text(run.name, scope)[0],
        error=redactor.redact_text(run.error, scope)[0],
        notes=tuple(redactor.redact_text(note, scope)[0] for note in run.notes),
        answer=answer,
        pins=tree if hits and isinstance(tree, dict) else run.pins,
    )


def _moved(digest: str, before: Envelope, after: Envelope) -> str:
    """Return a run's digest after one of its crossings was redacted; a digest that did not fit still does not."""
    return run_digest.exchanged(digest, before, after) if run_digest.recipe_of(digest) else digest


def redacted_span(span: Span, redactor: Redactor) -> Span:
    """Return the span with its name, status, attributes and events redacted; the same object where nothing is found."""
    scope = Scope()
    attributes = _redacted_attributes(span.attributes, redactor, scope)
    events = tuple(
        event if (made := _redacted_attributes(event.attributes, redactor, scope)) is event.attributes
        else replace(event, attributes=made)
        for event in span.events
    )  # fmt: skip
    held = _redacted_attributes(span.resource.attributes, redactor, scope)
    name, status = redactor.redact_text(span.name, scope)[0], redactor.redact_text(span.status_message, scope)[0]
    if (name, status, attributes, held, events) == (
        span.name, span.status_message, span.attributes, span.resource.attributes, span.events
    ):  # fmt: skip
        return span
    resource: Resource = replace(span.resource, attributes=held)
    return replace(span, name=name, status_message=status, attributes=attributes, events=events, resource=resource)


def _redacted_attributes(attributes: Attributes, redactor: Redactor, scope: Scope) -> Attributes:
    made: list[KeyValue] = []
    changed = False
    for key, value in attributes:
        new = _redacted_value(key, value, redactor, scope)
        changed = changed or new is not value
        made.append((key, new))
    return tuple(made) if changed else attributes


def _redacted_value(key: str, value: Value, redactor: Redactor, scope: Scope) -> Value:
    if isinstance(value, KeyValues):
        pairs = [(name, _redacted_value(name, inner, redactor, scope)) for name, inner in value]
        return KeyValues(pairs) if any(a[1] is not b[1] for a, b in zip(pairs, value, strict=True)) else value
    if isinstance(value, tuple):
        parts = tuple(_redacted_value(key, inner, redactor, scope) for inner in value)
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    if not isinstance(value, str) or not value:
        return value
    try:
        text = orjson.dumps({key: value}).decode()
    except (orjson.JSONEncodeError, TypeError):  # lone surrogates
        return redactor.redact_text(value, scope)[0]
    clean, hits = redactor.redact(Payload("json", text), scope)
    tree = clean.value.tree()
    return next(iter(tree.values())) if hits and isinstance(tree, dict) and tree else value


# Spans that carry their envelopes ----------------------------------------------------------------------------


def _put_together(spans: list[Span]) -> list[Span]:
    """Return `spans` with what travelled in part spans put back, so that redaction sees it whole.

    As they are, where a part may be in another file.
    """
    whole = carrying.assemble(spans)
    return spans if not whole or any(map(carrying.is_elsewhere, whole)) else whole


def kept_spans(spans: Iterable[Span], runs: Sequence[Recording], redactor: Redactor) -> list[Span]:
    """Return the spans as the store keeps them: redacted, and with the envelope where one tells of a crossing."""
    ours = {run.run.run_id: run.run for run in runs}
    exact = {(e.run_id, e.lane, e.seq): e for run in runs if not _foreign(run) for e in run.envelopes}
    envelopes = {
        (envelope.trace_id, envelope.span_id): envelope for run in runs for envelope in run.envelopes if _foreign(run)
    }
    tops = {
        (run.run.trace_id, run.run.span_id): run
        for run in runs
        if _foreign(run) and (run.run.trace_id, run.run.span_id) not in envelopes
    }
    doubles = {place for run in runs if _foreign(run) for place in _doubles(run)}
    made: list[Span] = []
    closed: set[str] = set()
    for span in _put_together(list(spans)):
        clean = redacted_span(span, redactor)
        place = (span.trace_id, span.span_id)
        if place in doubles and place not in tops:
            clean = replace(clean, attributes=(*clean.attributes, (semconv.KIND, semconv.KIND_DOUBLE)))
        if codec.is_ours(span):
            made.append(_own(span, clean, ours, exact))
        elif place in envelopes:
            made.append(_carrying(clean, envelopes[place]))
        elif place in tops:
            run = _account(tops[place])
            made.append(replace(clean, attributes=(*clean.attributes, *codec.run_to_attributes(run))))
            closed.add(run.run_id)
        else:
            made.append(clean)
    for recording in runs:
        if _foreign(recording) and recording.run.run_id not in closed:
            digest = hashlib.sha256(f"run of {recording.run.run_id}".encode()).hexdigest()[:16]
            made.append(codec.run_to_span(replace(_account(recording), span_id=digest, parent_span_id="")))
    return made


def _doubles(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the spans that tell of a crossing which another span carries."""
    for envelope in recording.envelopes:
        origin = envelope.pins.get("import")
        listed = origin.get("spans") if isinstance(origin, Mapping) else None
        for span_id in listed if isinstance(listed, (list, tuple)) else ():
            if span_id != envelope.span_id:
                yield envelope.trace_id, str(span_id)


def _foreign(recording: Recording) -> bool:
    return any("import" in envelope.pins for envelope in recording.envelopes)


def _account(recording: Recording) -> Run:
    """Return the run with what is known to be missing from it among its notes, so that it stays known."""
    run = recording.run
    notes = (*run.notes, *(f"{NOT_WHOLE}{problem}" for problem in recording.problems))
    return replace(run, notes=notes)


def _carrying(span: Span, envelope: Envelope) -> Span:
    carried = jsonform.ascii_text(jsonform.envelope_to_json(envelope).decode())
    own = [
        *codec.index_attributes(envelope),
        *carrying.envelope_attributes(carried, "json", limits.ENVELOPE_PART_BYTES_MAX),
    ]
    theirs = tuple((key, value) for key, value in span.attributes if not key.startswith(_OURS))
    return replace(span, attributes=(*theirs, *_readable(envelope, {key for key, _ in theirs}), *own))


def _readable(envelope: Envelope, known: set[str]) -> list[KeyValue]:
    """Return the conventional attributes that the span lacks: what `sql` asks a model call for, in any convention."""
    if envelope.kind != "model":
        return []
    found = genai_attributes(envelope, content=False)
    provider = envelope.pins.get("provider")
    if isinstance(provider, str) and provider and "gen_ai.system" not in known:
        found.append((semconv.GEN_AI_PROVIDER, provider))
    return [(key, value) for key, value in found if key not in known]


def _own(span: Span, clean: Span, runs: Mapping[str, Run], exact: Mapping[tuple[str, str, int], Envelope]) -> Span:
    """Return a span of ours as it was, unless redaction changed what it carries."""
    if codec.is_run(span):
        before = codec.run_from_span(span)
        run = runs.get(before.run_id) if before is not None and not before.lane else None
        if run is None or run == before:
            return span
        theirs = tuple((key, value) for key, value in clean.attributes if not key.startswith(_OURS))
        return replace(clean, attributes=(*theirs, *codec.run_to_attributes(run)))
    envelope = codec.from_span(span).envelope
    if envelope is None:
        return clean  # damaged on the way: nothing of it is served, and nothing in it may stay
    kept = exact.get((envelope.run_id, envelope.lane, envelope.seq), envelope)
    return span if kept.redactions == envelope.redactions else _carrying(clean, kept)


# For people --------------------------------------------------------------------------------------------------


def grades(recording: Recording) -> Counter[str]:
    """Return how many crossings have which grade; agents and chains are only places, and count as such."""
    return Counter(
        "place" if line.kind == "custom" and not line.servable else line.grade for line in describe(recording)
    )


def losses(recordings: Iterable[Recording]) -> list[str]:
    """Return what was lost on the way, each with the setting that would have kept it."""
    return _loss_lines(sum((_losses(recording) for recording in recordings), Counter()))


def _losses(recording: Recording) -> Counter[tuple[str, str]]:
    return Counter(
        (" and ".join(line.missing), line.setting)
        for line in describe(recording)
        if line.missing and line.kind != "custom"
    )


def _loss_lines(found: Counter[tuple[str, str]]) -> list[str]:
    return [
        f"{what} of {count} crossing(s) not captured" + (f"; kept by: {setting}" if setting else "")
        for (what, setting), count in found.most_common()
    ]


def account_lines(recording: Recording, *, crossings_max: int = 40) -> list[str]:
    """Return a run's account: what it is, each crossing's grade, and what is missing."""
    run = recording.run
    counted = ", ".join(f"{count} {grade}" for grade, count in grades(recording).most_common())
    state = "whole" if recording.complete else "NOT WHOLE"
    title = f"{run.name or 'unnamed'} ({run.run_id[:8]})"
    rows = [f"{title}: {len(recording.envelopes)} crossings ({counted or 'none'}), {state}"]
    summaries = describe(recording)
    for line in summaries[:crossings_max]:
        rows.append(f"  {line}" + (f" [{line.setting}]" if line.setting and line.setting not in str(line) else ""))
    if len(summaries) > crossings_max:
        rows.append(f"  and {len(summaries) - crossings_max} more")
    rows += [f"  ! {text}" for text in incompleteness(recording) if text.partition(": ")[0] not in recording.damaged]
    return rows


def as_dict(imported: Imported) -> dict[str, Any]:
    """Return the account of an import as JSON-able data."""
    return {
        "source": imported.source,
        "format": imported.format,
        "spans": imported.spans,
        "redactions": imported.redacted,
        "problems": [str(problem) for problem in imported.account.problems],
        "notes": list(imported.account.notes),
        "lost": list(imported.lost),
        "runs_found": imported.runs_found,
        "runs": [
            {
                "run_id": run.run.run_id,
                "name": run.run.name,
                "complete": run.complete,
                "missing": incompleteness(run),
                "crossings": [
                    {
                        "address": line.address,
                        "kind": line.kind,
                        "grade": line.grade,
                        "reason": line.reason,
                        "missing": list(line.missing),
                        "setting": line.setting,
                    }
                    for line in describe(run)
                ],
            }
            for run in imported.runs
        ],
    }
