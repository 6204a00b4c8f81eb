"""From the account of a replay to the lines of its report: in recorded order, whoever came first today."""

from __future__ import annotations

from collections.abc import Iterable

from otel_replay.envelope import APPROXIMATE, ELSEWHERE, Envelope, Outcome
from otel_replay.limits import REPORT_TEXT_CHARS_MAX
from otel_replay.readable import genai_attributes, untagged
from otel_replay.replay.account import Call, Leftovers
from otel_replay.replay.divergence import fields_between, nearest_of
from otel_replay.replay.report import Line, brief
from otel_replay.replay.tape import Entry, Tape
from otel_replay.semconv import GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS

_SECTIONS = {"stub": "served", "live": "live", "override": "overridden", "opened": "opened", "new": "new"}


def in_recorded_order(calls: Iterable[Call]) -> list[Call]:
    """Return `calls` by the record; what it lacks comes after, by its own order."""
    return sorted(
        calls,
        key=lambda call: (call.entry.envelope.seq, 0) if call.entry is not None else (1 << 62, call.crossing.seq),
    )


def lines_of(calls: Iterable[Call], left: Leftovers, *, ended: bool) -> list[Line]:
    """Return a line for each crossing of `calls`, further ones for how it differs, and one for each that is left.

    `ended` says that the run came to its end: only then is what it left unused worth its recorded outcome.
    """
    unused = [*left.missing, *left.not_reached]
    found = [line for call in in_recorded_order(calls) for line in _lines_of(call, unused)]
    for entry in left.missing:
        found.append(Line("unused", entry.address, _outcome_text(entry.envelope.outcome) if ended else ""))
    for section, entries in (("not reached", left.not_reached), ("covered", left.covered)):
        found += [
            Line("unused" if entry.passed_over else section, entry.address, note=_why_left(entry)) for entry in entries
        ]
    return found


def _why_left(entry: Entry) -> str:
    """Return what is known of why a recorded crossing was not met: passed over, or never of this process."""
    if entry.passed_over:
        return "passed over"
    return next((note for note in entry.envelope.notes if note.startswith(ELSEWHERE)), "")


def ambiguities(tape: Tape) -> list[str]:
    """Return a note for each strand that was matched by the place in which it began."""
    found = []
    for lines in tape.lines.values():
        for line in lines:
            if line.ambiguous:
                found.append(
                    f"{line.entries[0].address}: parallel strands asked the same and were answered differently; "
                    "each was given to the strand that began in the same place"
                )
    return sorted(found)


def approximations(calls: Iterable[Call]) -> list[str]:
    """Return a note for the answers that were served and are not, word for word, what was received; [] for none."""
    found = [
        call.entry.address
        for call in in_recorded_order(calls)
        if call.action == "stub" and call.entry is not None
        and any(note.startswith(APPROXIMATE) for note in call.entry.envelope.notes)
    ]  # fmt: skip
    listed = ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
    return [f"{APPROXIMATE}: rebuilt from derived data, not kept word for word: {listed}"] if found else []


def _lines_of(call: Call, unused: list[Entry]) -> list[Line]:
    address = call.entry.address if call.entry is not None else call.crossing.address
    recorded, now = _outcomes_of(call)
    note = "; ".join(filter(None, (call.note, _left_early(call), _cost_of(call))))
    if call.repeated:
        return [Line("repeated", address, note="the record has no more of these: its answer was served again")]
    lines = [Line(_SECTIONS[call.action], address, recorded, now, note=note)]
    if call.drift:
        lines.append(Line("drifted", address, fields=call.drift))
    if call.action == "live" and call.entry is None:
        lines.append(_extra(call, unused))
    if call.reordered:
        lines.append(Line("reordered", address, note="came in another order than recorded"))
    return lines


def _outcomes_of(call: Call) -> tuple[str, str]:
    """Return what was recorded and what came now, where they differ: long ones only where they do."""
    envelope = call.crossing.facts.get("envelope")
    if call.action not in ("live", "new", "override") or not isinstance(envelope, Envelope):
        return "", ""
    now = _outcome_text(envelope.outcome)  # of the envelope: what it shows is redacted
    if call.entry is None:
        return "", now
    if not call.differed:
        return "", ""
    recorded = _outcome_text(call.entry.envelope.outcome)
    if max(len(recorded), len(now)) < REPORT_TEXT_CHARS_MAX:
        return recorded, now
    changes = call.differed[:3]
    return (
        brief({change.path: untagged(change.recorded) for change in changes}),
        brief({change.path: untagged(change.now) for change in changes}),
    )


def _left_early(call: Call) -> str:
    """Say of a stream that was left sooner than when it was recorded: nothing tells what the rest would have done."""
    taken = call.crossing.facts.get("taken")
    if call.entry is None or not isinstance(taken, int):
        return ""
    recorded = len(call.entry.envelope.outcome.chunks)
    return f"left after {taken} of {recorded} recorded chunks" if taken < recorded else ""


def _cost_of(call: Call) -> str:
    """Return what a model call took that ran live."""
    envelope = call.crossing.facts.get("envelope")
    if call.action not in ("live", "new") or call.crossing.kind != "model" or not isinstance(envelope, Envelope):
        return ""
    usage = dict(genai_attributes(envelope, content=False))
    found = [usage.get(key) for key in (GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS)]
    counts = [count if isinstance(count, int) else 0 for count in found]
    return f"cost: {counts[0]} tokens in, {counts[1]} out" if any(counts) else ""


def _extra(call: Call, unused: list[Entry]) -> Line:
    """Say of a crossing that the record lacks what is nearest to it: it may be that one with another input."""
    near = nearest_of(unused, call.asked)
    if near is None:
        return Line("extra", call.crossing.address, note="not in the record")
    return Line(
        "extra",
        call.crossing.address,
        fields=fields_between(near, call.asked),
        note=f"not in the record; nearest that was not used: {near.address}",
    )


def _outcome_text(outcome: Outcome) -> str:
    if outcome.kind == "returned":
        return brief(untagged(outcome.value.tree()))
    return f"{outcome.kind} {outcome.end}".strip()
