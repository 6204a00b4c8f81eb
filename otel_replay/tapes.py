"""Verbatim tapes: what the program's own code drew or read at a site, kept while recording, given back in a replay.

A value is bound to the crossing around it, the strand within that, its site and its occurrence there; never to one
sequence, so that one more draw elsewhere shifts nothing. The written form is JSON: {".1|site": [value, ...]} as
`pins["chance"]` and `pins["clock"]` of the crossing's envelope; on the run, with the address before it
("search[2].1|site"), what came outside all crossings and in those that never ended. `.1` is the first strand that
was begun in the crossing. What is drawn reaches the journal before the next crossing is entered.

A value that redaction takes for a secret, by its form or by the name that the program gives it, is written as its
placeholder. A replay then draws anew there, and says so.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Protocol, TypeAlias

import orjson

from otel_replay import payload
from otel_replay import session as _session
from otel_replay.crossing import Crossing
from otel_replay.envelope import Payload, Recording
from otel_replay.errors import Unservable
from otel_replay.limits import TAPE_BYTES_MAX, TAPE_NOTES_MAX, TAPE_VALUES_MAX
from otel_replay.redaction import PLACEHOLDER, Known, Redactor, find_placeholders
from otel_replay.session import Scope, Session
from otel_replay.sites import Site

Pins: TypeAlias = dict[str, dict[str, Any]]
"""{"chance": {key: values}, "clock": {key: values}}"""
Fits: TypeAlias = Callable[[Any], bool]
"""True for a recorded value that can stand for one of now."""
KINDS = ("chance", "clock")
_FULL = f"the tape of a run holds {TAPE_VALUES_MAX} values and {TAPE_BYTES_MAX // 1024} KB"
_tapes: Mapping[Session, Tape] = {}
_lock = threading.Lock()


class Tape(Protocol):
    """What stands behind a draw: one that keeps values, or one that gives them back."""

    kinds: frozenset[str]
    remarks: list[str]
    """What the run, or the report of the replay, shall say of it."""
    ahead: dict[str, float]
    """How far what it gave of each monotonic clock is from what that clock says here."""

    def passed(self, kind: str, site: Site, value: Any, fits: Fits | None = None) -> Any:
        """Keep `value`, or return the recorded one in its place, where there is one that `fits`."""


# Whose tape it is --------------------------------------------------------------------------------------------
def start(session: Session, tape: Tape) -> None:
    """Put the tape in force for code of `session`."""
    global _tapes
    with _lock:
        _tapes = {**_tapes, session: tape}


def stop(session: Session) -> None:
    global _tapes
    with _lock:
        _tapes = {one: tape for one, tape in _tapes.items() if one is not session}


def tape_here(kind: str) -> Tape | None:
    """Return the tape of the code that runs now; None where it has none of this kind."""
    scope = _session.peek_scope()
    if scope is None or scope.session.closed:
        return None
    tape = _tapes.get(scope.session)
    return tape if tape is not None and kind in tape.kinds else None


def _here() -> Scope:
    scope = _session.current_scope()  # a task has a strand of its own from its first draw on
    assert scope is not None
    return scope


def _key(scope: Scope, text: str) -> str:
    crossing, strand = scope.crossing, scope.strand
    place = strand.place if crossing is None or strand is not crossing.strand else ""
    return f"{place}|{text}"


# Recording ---------------------------------------------------------------------------------------------------
class _Values:
    """What came at one site, in one strand of one crossing."""

    __slots__ = ("dropped", "names", "values", "written")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.names: list[tuple[str, ...]] = []  # two calls on one line may have different ones
        self.written = 0
        self.dropped = 0


class Keeper:
    """Keeps what is drawn or read in one recording."""

    def __init__(self, kinds: Iterable[str], redactor: Redactor) -> None:
        self.kinds = frozenset(kinds)
        self.remarks: list[str] = []
        self.ahead: dict[str, float] = {}
        self._redactor = redactor
        self._open: dict[str, dict[tuple[str, str], _Values]] = {}
        self._unwritten: dict[str, None] = {}
        self._lock = threading.RLock()  # a finaliser may draw, wherever this thread is
        self._count = self._bytes = 0
        self._short: dict[str, int] = {}

    def passed(self, kind: str, site: Site, value: Any, fits: Fits | None = None) -> Any:
        scope = _here()
        with scope.session.faults.contained("tape"):
            self._keep(kind, scope, site, value)
        return value

    def _keep(self, kind: str, scope: Scope, site: Site, value: Any) -> None:
        form, size = _form(value)
        address = scope.crossing.address if scope.crossing is not None else scope.session.lane
        with self._lock:
            found = self._open.setdefault(address, {}).setdefault((kind, _key(scope, site.text)), _Values())
            self._count += 1
            self._bytes += size
            if found.dropped or self._count > TAPE_VALUES_MAX or self._bytes > TAPE_BYTES_MAX:
                found.dropped += 1
                self._short[site.text] = self._short.get(site.text, 0) + 1
                return
            found.values.append(form)
            found.names.append(site.names)
            self._unwritten[address] = None

    def forked(self) -> None:
        """What the parent drew stays the parent's."""
        self._lock = threading.RLock()
        self._open, self._unwritten, self._short = {}, {}, {}
        self._count = self._bytes = 0

    def unwritten(self, known: Known, next_request: Payload) -> list[tuple[str, Pins]]:
        """Return, by address, what has come since this was last asked, redacted.

        A secret that `next_request` shows under its name is a secret on the tape too.
        """
        if not self._unwritten:
            return []
        self._redactor.redact(next_request, self._redactor.scope(known))
        with self._lock:
            addresses, self._unwritten = list(self._unwritten), {}
            return [(address, self._written(address, known, anew=False)) for address in addresses]

    def taken(self, address: str, known: Known) -> Pins:
        """Return all that came in the crossing at `address`, redacted, which has ended."""
        if address not in self._open:
            return {}
        with self._lock:
            self._unwritten.pop(address, None)
            pins = self._written(address, known, anew=True)
            self._open.pop(address, None)
        return pins

    def rest(self, known: Known) -> Pins:
        """Return all that is on no crossing's envelope, the address before each key, redacted."""
        found: Pins = {}
        with self._lock:
            for address in list(self._open):
                for kind, values in self._written(address, known, anew=True).items():
                    found.setdefault(kind, {}).update({address + key: one for key, one in values.items()})
        return found

    def notes(self) -> list[str]:
        """Return what is to be said of it: its remarks, and each site whose values did not all fit."""
        short = list(self._short.items())[:TAPE_NOTES_MAX]
        return [*self.remarks, *(f"{self._clean_key(text)}: {n} values were not kept: {_FULL}" for text, n in short)]

    def _written(self, address: str, known: Known, *, anew: bool) -> Pins:
        found: Pins = {}
        for (kind, key), values in self._open.get(address, {}).items():
            begin = 0 if anew else values.written
            values.written = len(values.values)
            written: list[Any] = []
            for names, group in itertools.groupby(range(begin, values.written), values.names.__getitem__):
                written += _redacted([values.values[at] for at in group], names, self._redactor, known)
            if values.dropped and anew:
                written.append(_lost(f"{values.dropped} more were not kept: {_FULL}"))
            if written:
                found.setdefault(kind, {})[self._clean_key(key)] = written
        return found

    def _clean_key(self, key: str) -> str:
        """Return the key without a secret that the line itself holds."""
        return self._redactor.redact_text(key)[0]


def _form(value: Any) -> tuple[Any, int]:
    """Return (what is written as JSON for `value`, about how many bytes it takes)."""
    kind = type(value)
    if (kind is float and isfinite(value)) or kind is bool:
        return value, 20
    if kind is int and -(2**63) <= value < 2**63:
        return value, 12
    if kind is list:  # indices, and ours
        return value, 12 * len(value)
    kept = payload.encode(value)
    if kept.lost:
        return _lost(kept.reason), 100
    return orjson.Fragment(kept.text), len(kept.text)


def _lost(reason: str) -> dict[str, str]:
    return {"$": "lost", "t": "", "reason": reason}


def _redacted(values: list[Any], names: tuple[str, ...], redactor: Redactor, known: Known) -> list[Any]:
    """Return `values` as JSON, each that is a secret as its placeholder."""
    text = orjson.dumps(values)
    named = orjson.dumps(dict.fromkeys(names or ("",), orjson.Fragment(text))).decode()
    found, hits = redactor.redact(Payload("typed-json", named), redactor.scope(known))
    written: list[Any] = orjson.loads(text)
    if not hits:
        return written
    for tree in _mapping(found.value.tree()).values():
        if isinstance(tree, list) and len(tree) == len(written):
            written = [was if was == now else now for was, now in zip(written, tree, strict=True)]
        else:  # the whole list stands under a secret's name
            placeholders = find_placeholders(tree)
            return [placeholders[0][1] if placeholders else "[redacted:secret#1]"] * len(written)
    return written


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# Replay ------------------------------------------------------------------------------------------------------
class Giver:
    """Gives back what one recording holds."""

    def __init__(
        self, held: Pins, redactor: Redactor, twin_of: Callable[[Crossing], str], kinds: Iterable[str] = KINDS
    ) -> None:
        self.kinds = frozenset(held) & frozenset(kinds)
        self.remarks: list[str] = []
        self.ahead: dict[str, float] = {}
        self.live: dict[str, None] = {}
        self._held = held
        self._redactor = redactor
        self._twin_of = twin_of
        self.on_live: Callable[[str], None] | None = None
        self._lane: str | None = None
        self._counts: dict[tuple[str, str], itertools.count[int]] = {}
        self._clean: dict[str, str] = {}

    def passed(self, kind: str, site: Site, value: Any, fits: Fits | None = None) -> Any:
        scope = _here()
        crossing, lane = scope.crossing, scope.session.lane
        if lane != self._lane:  # a forked child, which counts for itself
            self._lane, self._counts, self.live = lane, {}, {}
        address = self._twin_of(crossing) if crossing is not None else lane
        text = self._clean.get(site.text)
        if text is None:
            text = self._clean[site.text] = self._redactor.redact_text(site.text)[0]
        key = address + _key(scope, text)
        at = next(self._counts.setdefault((kind, key), itertools.count()))
        recorded = self._held.get(kind, {}).get(key)
        why = "is not in the record"
        if isinstance(recorded, list) and recorded:
            tree = recorded[min(at, len(recorded) - 1)]
            if at < len(recorded) or (isinstance(tree, dict) and tree.get("$") == "lost"):
                given, why = _given(tree, fits)
                if not why:
                    return given
            else:
                why = f"came {len(recorded)} times in the record and more often now"
        note = f"{kind}: {text} {why}: live"
        if note not in self.live and len(self.live) < TAPE_NOTES_MAX:
            self.live[note] = None
            if self.on_live is not None:
                self.on_live(note)
        return value


def _given(tree: Any, fits: Fits | None) -> tuple[Any, str]:
    """Return (the value, "") or (None, why it can't be given)."""
    if type(tree) in (float, int, bool):
        value = tree
    elif _placeholder(tree):
        return None, "was a secret, of which the record holds a placeholder"
    else:
        try:
            value = payload.decode(Payload("typed-json", orjson.dumps(tree).decode()))
        except Unservable as fault:
            reason = tree.get("reason") if isinstance(tree, dict) and tree.get("$") == "lost" else fault
            return None, f"cannot be given back ({reason})"
    if fits is not None and not fits(value):
        return None, "does not fit what is drawn from now"
    return value, ""


def _placeholder(tree: Any) -> bool:
    if isinstance(tree, str):
        return PLACEHOLDER.search(tree) is not None
    return bool(isinstance(tree, dict) and find_placeholders(tree))


def held_by(recording: Recording) -> Pins:
    """Return what a recording's crossings, run and lanes hold, the address before each key."""
    places = [(envelope.address, envelope.pins) for envelope in recording.envelopes]
    places += [("", run.pins) for run in (recording.run, *recording.lanes)]  # what came late stands behind
    found: Pins = {}
    for address, pins in places:
        for kind in KINDS:
            sites = pins.get(kind)
            for key, values in sites.items() if isinstance(sites, dict) else ():
                if isinstance(values, list):
                    found.setdefault(kind, {}).setdefault(address + key, []).extend(values)
    return found
