"""What a plan will do with a recording, before anything runs."""

from __future__ import annotations

from collections.abc import Callable

from otel_replay.envelope import Recording
from otel_replay.errors import UsageError
from otel_replay.readable import genai_attributes, untagged
from otel_replay.replay.divergence import short
from otel_replay.replay.plan import ReplayPlan, resolve
from otel_replay.replay.tape import Entry, Tape
from otel_replay.semconv import GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS

loader: Callable[[object], Recording] | None = None
"""Set by the wiring: turns a name, path or address into a recording."""


def explain(plan: ReplayPlan, source: object) -> str:
    """Return as text what will be served, live, overridden and blocked, and what the live part cost when recorded."""
    recording = source if isinstance(source, Recording) else loader(source) if loader is not None else None
    if recording is None:
        raise UsageError("explain needs a Recording, or `import otel_replay.api` for names and paths")
    tape = Tape(recording)
    resolved = resolve(plan, tape)
    rows = [f"plan for {recording.run.name or recording.run.run_id[:8]}: {len(tape.entries)} recorded crossings"]
    tokens = [0, 0]
    covered: set[str] = set()
    for entry in tape.entries.values():
        action = resolved.action(entry)
        if entry.envelope.parent in covered or resolved_served(tape, resolved.action, entry):
            covered.add(entry.address)
            rows.append(f"  covered   {entry.address} (its parent is served)")
            continue
        note = ""
        if action in ("live", "opened") and entry.envelope.side_effects and entry.address not in resolved.named:
            action, note = "BLOCKED", " (side effects, and the plan does not name it)"
        elif action == "stub" and entry.envelope.outcome.lost_reason:
            action, note = "REFUSED", f" ({entry.envelope.outcome.lost_reason})"
        elif action == "live" and entry.envelope.kind == "model":
            usage = dict(genai_attributes(entry.envelope, content=False))
            counts = [usage.get(key) for key in (GEN_AI_INPUT_TOKENS, GEN_AI_OUTPUT_TOKENS)]
            tokens = [
                total + (count if isinstance(count, int) else 0) for total, count in zip(tokens, counts, strict=True)
            ]
            note = f" (cost when recorded: {int(str(counts[0] or 0))} tokens in, {int(str(counts[1] or 0))} out)"
        elif action == "live" and entry.envelope.side_effects:
            note = " (HAS SIDE EFFECTS, and the plan names it)"
        if entry.address in resolved.changed:
            note += f" (its input was changed: on drift {plan.on_drift})"
        words = {"stub": "served", "opened": "opened"}.get(action, action)
        rows.append(f"  {words:<9} {entry.address} {short(untagged(entry.envelope.request.tree()))[:100]}{note}")
    rows += [f"  new       {name} (not in the record; runs live)" for name in sorted(resolved.new)]
    rows += [f"  repeat    {name} (may be asked again: its last answer)" for name in sorted(resolved.repeats)]
    rows.append(f"  on drift  {'hybrid: run live' if plan.hybrid else plan.on_drift}")
    rows.append(f"  cost      the live part took {tokens[0]} tokens in and {tokens[1]} out when it was recorded")
    return "\n".join(rows) + "\n"


def resolved_served(tape: Tape, action: Callable[[Entry], str], entry: Entry) -> bool:
    """True where something around `entry` is served: its body never runs."""
    return any(action(around) in ("stub", "override") for around in tape.ancestors(entry.address))
