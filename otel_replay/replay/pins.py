"""Pins explain an outcome: which model answered, by which SDK, from which code. Recorded and now, side by side.

A difference is no fault: a new SDK may ask the very same. It is the first thing to look at where something went apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from otel_replay.envelope import Payload
from otel_replay.redaction import Redactor
from otel_replay.replay.account import Call
from otel_replay.replay.divergence import short

_NOT_COMPARED = frozenset({"chance", "clock", "import", "mcp", "program", "program.folder", "usage"})
"""What a pin holds for another purpose: drawn numbers, an importer's account, a request's id, how to run it again."""
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
    recorded: Mapping[str, object], now: Mapping[str, object], calls: Iterable[Call], redactor: Redactor
) -> tuple[PinChange, ...]:
    """Return the pins of the run and of `calls` (in the order of the report) that differ; equal changes as one."""
    found = [PinChange(name, was, is_) for name, was, is_ in _differing(recorded, now, redactor, both=True)]
    places: dict[str, tuple[str, object, object, list[str]]] = {}
    for call in calls:
        spec = call.crossing.spec
        if call.entry is None or spec.pins is None or not call.entry.envelope.pins:
            continue
        try:
            today = spec.pins(call.crossing)
        except Exception:  # noqa: BLE001, S112  # an instrument's own code: it explains nothing then, and ends nothing
            continue
        served = call.action not in ("live", "opened")  # it answered nothing today
        for name, was, is_ in _differing(call.entry.envelope.pins, today, redactor, both=served):
            _name, _was, _is, at = places.setdefault(repr((name, was, is_)), (name, was, is_, []))
            at.append(call.entry.address)
    return (*found, *(PinChange(name, was, is_, tuple(at)) for name, was, is_, at in places.values()))


def _differing(
    recorded: Mapping[str, object], now: Mapping[str, object], redactor: Redactor, *, both: bool
) -> list[tuple[str, object, object]]:
    """Return (name, recorded, now) of pins that differ, redacted; with `both` only those that either side has."""
    then, today = _by_one_word(recorded), _by_one_word(now)
    if not then or not today:
        return []
    names = then.keys() & today.keys() if both else then.keys() | today.keys()
    names = {name for name in names if then.get(name) != today.get(name)}
    if not names:
        return []
    redacted, _hits = redactor.redact(Payload("json", orjson.dumps(today).decode()))
    shown = cast("dict[str, object]", redacted.value.tree())
    return [(name, then.get(name), shown.get(name)) for name in sorted(names) if then.get(name) != shown.get(name)]


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
