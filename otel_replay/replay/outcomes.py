"""Did a live crossing come out as it did in the record? Apart from what a provider makes anew with every answer."""

from __future__ import annotations

from otel_replay.changes import FieldChange, compare
from otel_replay.envelope import Outcome
from otel_replay.match_rules import MatchRules
from otel_replay.redaction import Known, Redactor
from otel_replay.renaming import equal_up_to_renaming
from otel_replay.replay.divergence import Asked

_VOLATILE_OUTCOME = MatchRules(
    ignore=(
        "$.id",
        "$.created",
        "$.created_at",
        "$.system_fingerprint",
        "$.service_tier",
        "$.usage",
        "$._request_id",
    ),
    source="outcome of a live crossing",
)
"""What a provider makes anew with each answer: the same words under a new id are the same outcome."""

_VOLATILE_ANSWER = MatchRules(
    ignore=(
        "$.headers",
        "$.retries",
        "$.portions",
        "$.recipe",
        *(path.replace("$.", f"$.{inside}.", 1) for path in _VOLATILE_OUTCOME.ignore for inside in ("body", "data")),
    ),
    source="outcome of a live HTTP answer",
)
"""The same where an instrument keeps the answer with its status and headers, or the events of a stream."""


def outcome_changes(
    recorded: Outcome, outcome: Outcome, asked: Asked, redactor: Redactor, known: Known, renamed: dict[str, str]
) -> tuple[FieldChange, ...]:
    """Return how a live crossing's outcome differs from the recorded one; empty where it is the same.

    Ids that are new in this run and nothing else count as the same, and are learnt into `renamed`.
    """
    if recorded.kind != outcome.kind:
        return (FieldChange("$", recorded.kind, outcome.kind, "another kind of outcome"),)
    rules = asked.rules.merged(_VOLATILE_OUTCOME)
    if asked.kind in ("model", "http"):
        rules = rules.merged(_VOLATILE_ANSWER)
    then = [recorded.value, *(chunk.value for chunk in recorded.chunks)]
    now = [outcome.value, *(chunk.value for chunk in outcome.chunks)]
    if len(then) != len(now):
        return (FieldChange("$.chunks", len(then) - 1, len(now) - 1, "another number of chunks"),)
    changes: list[FieldChange] = []
    for was, is_ in zip(then, now, strict=True):
        redacted, _hits = redactor.redact(is_, redactor.scope(known))
        before, _hits = redactor.redact(was)
        old, new = before.value.tree(), redacted.value.tree()
        mapping = equal_up_to_renaming(old, new, rules, dict(renamed))
        if mapping is None:
            changes += compare(old, new, rules)
        else:
            renamed.update({k: v for k, v in mapping.items() if k != v})
    return tuple(changes)
