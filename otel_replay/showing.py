"""A recording as text that people read."""

from __future__ import annotations

from typing import Any

from otel_replay import jsonform
from otel_replay.envelope import NOT_WHOLE, Envelope, Mark, Recording
from otel_replay.limits import REPORT_TEXT_CHARS_MAX
from otel_replay.readable import exception_type, genai_attributes, untagged
from otel_replay.semconv import GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS
from otel_replay.sources import incompleteness

_BRIEF = 72
_REDACTIONS_SHOWN = 20


def _short(value: object, limit: int) -> str:
    import orjson

    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def outcome_text(envelope: Envelope, limit: int = _BRIEF) -> str:
    """Return what came of a crossing, in short."""
    outcome = envelope.outcome
    if outcome.kind != "lost" and outcome.lost_reason:
        return f"{outcome.kind}, NOT REPLAYABLE: {outcome.lost_reason}"
    if outcome.kind == "returned":
        return f"-> {_short(untagged(outcome.value.tree()), limit)}"
    if outcome.kind == "raised":
        name, message = exception_type(outcome.value)
        return f"raised {name}: {_short(message, limit)}"
    if outcome.kind == "streamed":
        return f"streamed {len(outcome.chunks)} chunk(s), {outcome.end}"
    if outcome.kind == "lost":
        return f"LOST: {outcome.lost_reason}"
    return outcome.kind


def tokens_text(envelope: Envelope) -> str:
    """Return `in/out tokens` of a model crossing, or ""."""
    if envelope.kind != "model":
        return ""
    found = dict(genai_attributes(envelope, content=False))
    counts = (found.get(GEN_AI_INPUT_TOKENS), found.get(GEN_AI_OUTPUT_TOKENS))
    if counts == (None, None):
        return ""
    return "/".join(str(count if isinstance(count, int) else 0) for count in counts) + " tokens"


def _line(envelope: Envelope, limit: int) -> str:
    step = envelope.address.rpartition("/")[2]
    took = max(envelope.end_ns - envelope.start_ns, 0) / 1e6
    facts = [f"strand {envelope.strand}", f"{took:.1f} ms", tokens_text(envelope)]
    if envelope.grade != "exact":
        facts.append(envelope.grade)
    if envelope.side_effects:
        facts.append("side effects")
    facts += [note for note in envelope.notes if not note.startswith("shape:")]
    request = _short(untagged(envelope.request.tree()), limit)
    return f"{step} [{envelope.kind}] {request} {outcome_text(envelope, limit)}  ({', '.join(filter(None, facts))})"


def as_tree(recording: Recording, *, content: bool = False) -> str:
    """Return the recording as an indented tree, and all that is known to be missing from it."""
    run = recording.run
    limit = REPORT_TEXT_CHARS_MAX * 100 if content else _BRIEF
    state = "complete" if recording.complete else "INCOMPLETE"
    took = f"{max(run.end_ns - run.start_ns, 0) / 1e6:.1f} ms" if run.end_ns else "never closed"
    rows = [
        f"{run.name or 'unnamed'}  {run.run_id}",
        f"  {len(recording.envelopes)} crossings, {took}, {run.verdict}, {state}, trace {run.trace_id}",
    ]
    children: dict[str, list[Envelope | Mark]] = {}
    items: list[Envelope | Mark] = [*recording.envelopes, *recording.unfinished]
    for item in items:
        children.setdefault(item.parent, []).append(item)
    known = {envelope.address for envelope in recording.envelopes} | {mark.address for mark in recording.unfinished}

    def walk(parent: str, depth: int) -> None:
        for item in sorted(children.get(parent, ()), key=lambda found: found.seq):
            indent = "  " * depth
            if isinstance(item, Mark):
                rows.append(
                    f"{indent}{item.address.rpartition('/')[2]} [{item.kind}] IN FLIGHT when the recording stopped"
                )
            else:
                rows.append(indent + _line(item, limit))
            walk(item.address, depth + 1)

    walk("", 1)
    for parent in sorted(set(children) - known - {""}):
        rows.append(f"  under {parent}, which is not in the recording:")
        walk(parent, 2)
    if run.answer is not None:
        rows.append(f"  answer: {_short(untagged(run.answer.tree()), limit)}")
    if run.error:
        rows.append(f"  error: {run.error}")
    rows += [f"  ! {text}" for text in incompleteness(recording)]
    hits = redaction_lines(recording)
    shown = hits if content else hits[:_REDACTIONS_SHOWN]
    rows += [f"  redacted: {hit}" for hit in shown]
    if len(hits) > len(shown):
        rows.append(f"  redacted: and {len(hits) - len(shown)} more, which --content lists")
    rows += [f"  fault of the recorder: {step} x {count}" for step, count in run.faults.items()]
    rows += [f"  note: {note}" for note in run.notes if not note.startswith(NOT_WHOLE)]
    return "\n".join(rows) + "\n"


def redaction_lines(recording: Recording) -> list[str]:
    """Return a line for each hit of a redaction rule: where, the rule, and how many characters it took."""
    return [
        f"{envelope.address} {hit.path}: {hit.rule}, {hit.length} characters"
        for envelope in recording.envelopes
        for hit in envelope.redactions
    ]


def as_dict(recording: Recording) -> dict[str, Any]:
    """Return the recording as JSON-able data: the run, its envelopes in their JSON form, what is missing."""
    import orjson

    return {
        "run": orjson.loads(jsonform.run_to_json(recording.run)),
        "complete": recording.complete,
        "missing": incompleteness(recording),
        "crossings": [orjson.loads(jsonform.envelope_to_json(envelope)) for envelope in recording.envelopes],
        "unfinished": [mark.address for mark in recording.unfinished],
    }
