"""Requests that an importer rebuilt: what of them is known, and what of a live request may be compared with it."""

from __future__ import annotations

from collections.abc import Mapping

from otel_replay.envelope import Envelope
from otel_replay.replay.meaning import meaning

POSITIONAL = "*args"
"""Under which name a recorded request keeps arguments whose parameters' names it does not know."""
_RECEIVERS = ("self", "cls")


def _facts(envelope: Envelope) -> Mapping[str, object]:
    facts = envelope.pins.get("import")
    return facts if isinstance(facts, dict) else {}


def is_rebuilt(envelope: Envelope) -> bool:
    """True where an importer rebuilt the request from what a convention or a file keeps of it."""
    facts = _facts(envelope)
    return bool(facts.get("rebuilt")) or "unknown" in facts


def comparable(envelope: Envelope, now: object) -> tuple[dict[str, object], dict[str, object]] | None:
    """Return (what is known of the recorded request, the same of the request `now`), or None where nothing is.

    Where the import names the `unknown` fields, all others are compared. Else a field that the record lacks is unknown,
    unless it is one of `dropped`: those the recorder always left out, so that two different requests look alike. With
    `defaults` an empty request is a call with every argument left to its default. A model's rebuilt request is
    compared by what it means (`meaning.py`).
    """
    facts, recorded = _facts(envelope), envelope.request.tree()
    if not isinstance(recorded, dict) or not isinstance(now, dict) or not (recorded or facts.get("defaults")):
        return None
    unknown = facts.get("unknown")
    if isinstance(unknown, (list, tuple)):
        return _without(recorded, unknown), _without(now, unknown)
    dropped = facts.get("dropped")
    if isinstance(dropped, (list, tuple)) and any(name in now and name not in recorded for name in dropped):
        return None
    if envelope.kind == "model" and not facts.get("defaults"):
        recorded, now = meaning(recorded), meaning(now)
    recorded = _named(recorded, now)
    return recorded, {name: value for name, value in now.items() if name in recorded}


def _without(tree: Mapping[str, object], names: list[object] | tuple[object, ...]) -> dict[str, object]:
    return {name: value for name, value in tree.items() if name not in names}


def _named(recorded: dict[str, object], now: Mapping[str, object]) -> dict[str, object]:
    """Return the recorded request with its positional arguments under the names that they have now, by their order."""
    given = recorded.get(POSITIONAL)
    if not isinstance(given, list) or POSITIONAL in now:
        return recorded
    names = [name for at, name in enumerate(now) if not (at == 0 and name in _RECEIVERS)][: len(given)]
    if len(names) < len(given) or any(name in recorded for name in names):
        return recorded
    rest = {name: value for name, value in recorded.items() if name != POSITIONAL}
    return {**dict(zip(names, given, strict=True)), **rest}
