"""What an import can do, before anything runs: a line a crossing, with what is missing and which switch lost it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from otel_replay.envelope import Envelope, Recording


@dataclass(frozen=True, slots=True)
class CrossingSummary:
    """One crossing as `import` and `doctor` show it.

    `grade` is "exact", "semantic" or "insufficient". `missing` names what was not captured ("input", "output"),
    `setting` the switch that would have kept it, `reason` why it cannot be served ("" where it can), `invented` what
    the response holds that the record did not.
    """

    address: str
    kind: str
    boundary: str
    grade: str
    missing: tuple[str, ...] = ()
    setting: str = ""
    reason: str = ""
    invented: str = ""
    notes: tuple[str, ...] = ()
    convention: str = ""

    @property
    def servable(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        verdict = f"not replayable: {self.reason}" if self.reason else self.grade
        return f"{self.address} ({self.kind}): {verdict}"


def _summary(envelope: Envelope, damaged: Mapping[str, str]) -> CrossingSummary:
    origin = envelope.pins.get("import")
    found: Mapping[str, object] = origin if isinstance(origin, Mapping) else {}
    missing = found.get("missing")
    invented = next((note.partition(": ")[2] for note in envelope.notes if note.startswith("invented: ")), "")
    reason = damaged.get(envelope.address) or envelope.outcome.lost_reason or envelope.request.reason
    return CrossingSummary(
        address=envelope.address,
        kind=envelope.kind,
        boundary=envelope.boundary,
        grade="insufficient" if reason else envelope.grade,
        missing=tuple(str(item) for item in missing) if isinstance(missing, (list, tuple)) else (),
        setting=str(found.get("setting") or ""),
        reason=reason,
        invented=invented,
        notes=envelope.notes,
        convention=str(found.get("convention") or ("otel_replay" if not found else "")),
    )


def describe(recording: Recording) -> list[CrossingSummary]:
    """Return a summary of each crossing, in entry order. Agents and chains (kind custom) are only places: no fault."""
    return [_summary(envelope, recording.damaged) for envelope in recording.envelopes]
