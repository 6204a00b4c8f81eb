"""What went apart, said for people: what, where, recorded, now, next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_replay.changes import FieldChange, compare, similarity
from otel_replay.envelope import Payload
from otel_replay.errors import Diverged
from otel_replay.limits import REPORT_TEXT_CHARS_MAX
from otel_replay.match_rules import MatchRules
from otel_replay.readable import untagged
from otel_replay.replay.tape import Entry


@dataclass(frozen=True, slots=True)
class Asked:
    """What the run asks for now: a redacted request with its key."""

    name: str
    kind: str
    address: str
    request: Payload
    key: str
    rules: MatchRules


@dataclass(frozen=True, slots=True)
class Details:
    """The facts of a divergence, for programs: `fields` are those that differ from `nearest`."""

    cause: str
    address: str
    nearest: str
    fields: tuple[FieldChange, ...]
    next_steps: tuple[str, ...]


def short(value: object) -> str:
    """Return `value` as a short text on one line."""
    text = repr(value)
    return text if len(text) <= REPORT_TEXT_CHARS_MAX else f"{text[: REPORT_TEXT_CHARS_MAX - 1]}…"


def fields_between(entry: Entry, asked: Asked) -> tuple[FieldChange, ...]:
    """Return the fields in which what is asked differs from what `entry` recorded."""
    return compare(entry.envelope.request.tree(), asked.request.tree(), asked.rules)


def field_text(change: FieldChange) -> str:
    """Return one changed field as text."""
    note = f" ({change.note})" if change.note else ""
    path = change.path.removeprefix("$.")
    return f"args.{path} recorded {short(untagged(change.recorded))}, now {short(untagged(change.now))}{note}"


def _count_fields(payload: Payload) -> int:
    tree = payload.tree()
    return max(len(tree), 1) if isinstance(tree, (dict, list)) else 1


def nearest_of(entries: Sequence[Entry], asked: Asked) -> Entry | None:
    """Return the recorded crossing that is most like what is asked: of the same name where there is one."""
    same = [entry for entry in entries if entry.name == asked.name][:200]
    if not same:
        return None
    return max(same, key=lambda entry: similarity(entry.envelope.request.tree(), asked.request.tree()))


def drifted(entry: Entry, asked: Asked, *, side: str = "", cause: str = "input drifted") -> Diverged:
    """The input differs from the recorded one, and nothing that is live explains why."""
    fields = fields_between(entry, asked)
    listed = "; ".join(field_text(change) for change in fields[:6]) or "the requests differ"
    more = f"; and {len(fields) - 6} more" if len(fields) > 6 else ""
    total = max(_count_fields(entry.envelope.request), len(fields))
    steps = (f'--live "{entry.address}"', *suggestions(fields))
    text = (
        f"{asked.address} diverged: {listed}{more} ({len(fields)} of {total} fields){side}. "
        f"Nothing was served. Next: run it live with {steps[0]}"
        + "".join(f", or {step}" for step in steps[1:3])
        + f"; see otel-replay diff {entry.envelope.run_id[:8]} {entry.address}"
    )
    return _error(text, cause, asked, entry, fields, steps)


def suggestions(fields: Sequence[FieldChange]) -> list[str]:
    """Return ignore rules that would make these fields match, where they look volatile."""
    from otel_replay.changes import suggest  # only a failing replay asks

    return [text for text in suggest(tuple(fields)) if "[tool.otel_replay" in text]


def one_more(
    asked: Asked, recorded: int, nearest: Entry | None, expected: Entry | None, hint: str = "", *, served_before: bool
) -> Diverged:
    """A crossing that the record does not hold, or not so often."""
    place = "here" if expected is None else f"here; next in the record is {expected.address}"
    how_often = f"was recorded {recorded} time(s) and is crossed once more" if recorded else "is not in the record"
    fields = fields_between(nearest, asked) if nearest is not None else ()
    close = ""
    if nearest is not None and fields:
        close = f" Nearest recorded: {nearest.address}, where {'; '.join(field_text(f) for f in fields[:3])}."
    steps: tuple[str, ...] = (f'--new "{asked.name}"',)
    again = ""
    if served_before:
        steps = (*steps, f'--repeat "{asked.name}"')
        again = f", or have its last answer served again with {steps[1]} (plan.repeat({asked.name!r}))"
    text = (
        f"{asked.address} diverged: {asked.name!r} {how_often} {place} "
        f"(request {short(untagged(asked.request.tree()))})."
        f"{close} Nothing was served. Next: let it run with {steps[0]} (plan.new({asked.name!r})){again}{hint}"
    )
    return _error(text, "one more than recorded", asked, nearest, fields, steps)


def order_swapped(asked: Asked, expected: Entry, found: Entry) -> Diverged:
    """Two crossings of one strand came in another order."""
    text = (
        f"{asked.address} diverged: the order within a strand is swapped: the record holds {expected.address} and then "
        f"{found.address}, now {found.address} comes first. Nothing was served. "
        f'Next: run what changed live (--live "{expected.address}"), or record again with `otel-replay rerecord`'
    )
    steps = (f'--live "{expected.address}"', "rerecord")
    return _error(text, "order swapped", asked, found, (), steps)


def now_parallel(asked: Asked, found: Entry) -> Diverged:
    """What was recorded one after the other is now begun side by side."""
    text = (
        f"{asked.address} diverged: {found.address} was recorded one after the other with its neighbours, in one "
        "strand; now they are begun in parallel, which the record does not show to be possible. Nothing was served. "
        "Next: await them one after the other, or record again with `otel-replay rerecord`"
    )
    return _error(text, "recorded in sequence, now parallel", asked, found, (), ("rerecord",))


def not_certain(asked: Asked, candidates: Sequence[Entry]) -> Diverged:
    """A drifted strand that could be several recorded ones: serving any would be a guess."""
    listed = ", ".join(entry.address for entry in candidates[:10])
    text = (
        f"{asked.address} diverged: its input is in no recorded strand, and {len(candidates)} recorded strands "
        f"could be meant ({listed}): serving one of them would be a guess. Nothing was served. "
        f'Next: run it live, e.g. --live "{candidates[0].address}"'
    )
    steps = (f'--live "{candidates[0].address}"',)
    return _error(text, "input drifted", asked, nearest_of(candidates, asked), (), steps)


def left_over(entries: Sequence[Entry]) -> Diverged:
    """Recorded crossings that the run did not ask for, and nothing live explains it."""
    first = entries[0]
    listed = ", ".join(entry.address for entry in entries[:10]) + (" …" if len(entries) > 10 else "")
    text = (
        f"{len(entries)} recorded call(s) not used: {listed}. The run ended (or went on) without "
        f"{'it' if len(entries) == 1 else 'them'}, and nothing that is live comes before. "
        f'Next: run what changed live (e.g. --live "{first.address}"), or record again with `otel-replay rerecord`'
    )
    details = Details("one fewer than recorded", first.address, first.address, (), ("rerecord",))
    return Diverged(text, address=first.address, cause=details.cause, details=details)


def _error(
    text: str,
    cause: str,
    asked: Asked,
    nearest: Entry | None,
    fields: tuple[FieldChange, ...],
    steps: tuple[str, ...],
) -> Diverged:
    details = Details(cause, asked.address, nearest.address if nearest is not None else "", fields, steps)
    return Diverged(text, address=asked.address, cause=cause, details=details)
