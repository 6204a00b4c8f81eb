"""Two recordings side by side: aligned by address, field by field."""

from __future__ import annotations

from otel_replay.changes import compare
from otel_replay.envelope import Envelope, Recording
from otel_replay.match_rules import DEFAULT
from otel_replay.readable import untagged
from otel_replay.replay.divergence import short
from otel_replay.showing import outcome_text


def compare_recordings(first: Recording, second: Recording, address: str = "") -> str:
    """Return the differences as text; "" at the end of the first line means that there are none."""
    ours = {e.address: e for e in first.envelopes if not address or e.address == address}
    theirs = {e.address: e for e in second.envelopes if not address or e.address == address}
    rows = [f"{_title(first)} against {_title(second)}: {len(ours)} and {len(theirs)} crossings"]
    same = 0
    for key in sorted({*ours, *theirs}, key=lambda k: (ours[k].seq if k in ours else theirs[k].seq, k)):
        left, right = ours.get(key), theirs.get(key)
        if left is None or right is None:
            side, envelope = ("second", right) if left is None else ("first", left)
            assert envelope is not None
            rows.append(f"  only in the {side}: {key} {outcome_text(envelope)}")
            continue
        changes = _differences(left, right)
        if changes:
            rows.append(f"  {key}:")
            rows += [f"    {text}" for text in changes]
        else:
            same += 1
    rows.append(f"  {same} crossing(s) equal")
    return "\n".join(rows) + "\n"


def _title(recording: Recording) -> str:
    return f"{recording.run.name or 'unnamed'} ({recording.run.run_id[:8]})"


def _differences(left: Envelope, right: Envelope) -> list[str]:
    found = []
    pairs = [("request", left.request, right.request), ("outcome", left.outcome.value, right.outcome.value)]
    if left.outcome.kind != right.outcome.kind:
        found.append(f"outcome: {left.outcome.kind} | {right.outcome.kind}")
    for label, was, now in pairs:
        for change in compare(was.tree(), now.tree(), DEFAULT):
            path = change.path.removeprefix("$")
            note = f"  ({change.note})" if change.note else ""
            found.append(f"{label}{path}: {short(untagged(change.recorded))} | {short(untagged(change.now))}{note}")
    if len(left.outcome.chunks) != len(right.outcome.chunks):
        found.append(f"chunks: {len(left.outcome.chunks)} | {len(right.outcome.chunks)}")
    for name in sorted({*left.pins, *right.pins}):
        if left.pins.get(name) != right.pins.get(name):
            found.append(f"pin {name}: {left.pins.get(name)!r} | {right.pins.get(name)!r}")
    return found
