"""Pins explain an outcome: which model answered, by which SDK, from which code. Recorded and now, side by side.

A difference is no fault: a new SDK may ask the very same. It is the first thing to look at where something went apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from otel_replay.envelope import Envelope
from otel_replay.replay.account import Call
from otel_replay.replay.divergence import short

_NOT_COMPARED = frozenset({"chance", "clock", "import", "program", "program.folder", "usage"})
"""What a pin holds for another purpose: drawn numbers, what an importer knows, how to run the program again."""
_ONE_WORD = {"model.asked": "model", "model.answered": "model_answered"}
"""Importers name the same facts otherwise."""
_PLACES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PinChange:
    """One pin that is not as recorded. `at` are the crossings where it differs; empty for a pin of the run."""

    name: str
    recorded: object
    now: object
    at: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"pin": self.name, "recorded": self.recorded, "now": self.now, "at": list(self.at)}

    def __str__(self) -> str:
        more = f" and {len(self.at) - _PLACES_SHOWN} more" if len(self.at) > _PLACES_SHOWN else ""
        where = f" (at {', '.join(self.at[:_PLACES_SHOWN])}{more})" if self.at else ""
        return f"{self.name}: recorded {_shown(self.recorded)}, now {_shown(self.now)}{where}"


def compare_pins(
    recorded: Mapping[str, object], now: Mapping[str, object], calls: Iterable[Call]
) -> tuple[PinChange, ...]:
    """Return the pins of the run and of `calls` (in the order of the report) that differ; equal changes as one."""
    found = [PinChange(name, was, is_) for name, was, is_ in _differing(recorded, now, both=True)]
    places: dict[str, tuple[str, object, object, list[str]]] = {}
    for call in calls:
        envelope = call.crossing.facts.get("envelope")
        if call.entry is None or not isinstance(envelope, Envelope):
            continue
        answered_now = call.action in ("live", "opened")
        for name, was, is_ in _differing(call.entry.envelope.pins, envelope.pins, both=not answered_now):
            _name, _was, _is, at = places.setdefault(repr((name, was, is_)), (name, was, is_, []))
            at.append(call.entry.address)
    return (*found, *(PinChange(name, was, is_, tuple(at)) for name, was, is_, at in places.values()))


def _differing(
    recorded: Mapping[str, object], now: Mapping[str, object], *, both: bool
) -> list[tuple[str, object, object]]:
    """Return (name, recorded, now) of pins that differ; with `both` only those that either side has."""
    then, today = _by_one_word(recorded), _by_one_word(now)
    if not then or not today:
        return []
    names = then.keys() & today.keys() if both else then.keys() | today.keys()
    return [(name, then.get(name), today.get(name)) for name in sorted(names) if then.get(name) != today.get(name)]


def _by_one_word(pins: Mapping[str, object]) -> dict[str, object]:
    return {_ONE_WORD.get(name, name): _plain(value) for name, value in pins.items() if name not in _NOT_COMPARED}


def _plain(value: object) -> object:
    """Return `value` as JSON holds it: that is how the recorded one was kept."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    try:
        return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:
        return str(value)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) and len(value) <= 64 else short(value)
