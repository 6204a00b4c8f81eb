"""Envelope and Run <-> the written-down JSON form that the `json` encoding of a span carries.

Payloads stand in it as JSON, not as escaped text: `{"json": <tree>}`, `{"typed-json": <tree>, "reason": ...}` or
`{"lost": reason}`. A payload's text is what orjson writes, so cutting it out again gives the same bytes.
Fields that have their default are left out. Ids of trace and spans stand on the span itself. An envelope's content
comes first, then what is another on each run: the run's digest hashes the first part (see digest.py).

Law: `from_json(to_json(x)) == x`, the three span ids aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, cast

import orjson

from otel_replay.envelope import NOTHING, Attempt, Chunk, Envelope, Outcome, Payload, Redaction, Run

_ON_SPAN = frozenset({"trace_id", "span_id", "parent_span_id"})
_CONTENT = (
    "lane",
    "address",
    "parent",
    "boundary",
    "kind",
    "strand",
    "place",
    "seq",
    "end_seq",
    "request",
    "changed",
    "outcome",
)
_PAYLOADS = frozenset({"request", "changed", "answer"})


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def ascii_text(text: str) -> str:
    """Return JSON `text` as it stands inside a carried form: every other character escaped, so no cut splits one."""
    return text if text.isascii() else _NOT_ASCII.sub(_escape, text)


def _defaults(kind: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in fields(kind):
        if item.name in _ON_SPAN:
            continue
        if item.default is not MISSING:
            found[item.name] = item.default
        elif item.default_factory is not MISSING:
            found[item.name] = item.default_factory()
        else:
            found[item.name] = MISSING
    return found


_ENVELOPE_DEFAULTS = _defaults(Envelope)
_CONTENT_DEFAULTS = {name: _ENVELOPE_DEFAULTS[name] for name in _CONTENT}
_REST_DEFAULTS = {name: default for name, default in _ENVELOPE_DEFAULTS.items() if name not in _CONTENT_DEFAULTS}
_RUN_DEFAULTS = _defaults(Run)


def _payload(payload: Payload) -> dict[str, object]:
    if payload.lost:
        return {"lost": payload.reason}
    form: dict[str, object] = {payload.encoding: orjson.Fragment(payload.text)}
    if payload.reason:
        form["reason"] = payload.reason
    return form


def _payload_back(form: Mapping[str, object]) -> Payload:
    if len(form) == 1 and "json" in form:
        return Payload("json", orjson.dumps(form["json"]).decode())
    if "lost" in form:
        return Payload("lost", "null", str(form["lost"]))
    for encoding, tree in form.items():
        if encoding != "reason":
            return Payload(encoding, orjson.dumps(tree).decode(), str(form.get("reason", "")))
    raise ValueError("a payload names its encoding")


def _outcome(outcome: Outcome) -> dict[str, object]:
    form: dict[str, object] = {"kind": outcome.kind, "value": _payload(outcome.value)}
    if outcome.end:
        form["end"] = outcome.end
    if outcome.chunks:
        form["chunks"] = [{"value": _payload(chunk.value), **_came_in(chunk)} for chunk in outcome.chunks]
    if outcome.ended_by is not None:
        form["ended_by"] = _came_in(outcome.ended_by)
    return form


def _came_in(chunk: Chunk) -> dict[str, object]:
    sent: dict[str, object] = {"sent": _payload(chunk.sent)} if chunk.sent is not None else {}
    return {**sent, "thrown": True} if chunk.thrown else sent


def _came_in_back(value: Payload, form: Mapping[str, Any]) -> Chunk:
    return Chunk(value, _payload_back(form["sent"]) if "sent" in form else None, bool(form.get("thrown", False)))


def _outcome_back(form: Mapping[str, Any]) -> Outcome:
    if len(form) == 2:
        return Outcome(form["kind"], _payload_back(form["value"]))
    return Outcome(
        kind=form["kind"],
        value=_payload_back(form["value"]),
        chunks=tuple(_came_in_back(_payload_back(chunk["value"]), chunk) for chunk in form.get("chunks", ())),
        end=str(form.get("end", "")),
        ended_by=_came_in_back(NOTHING, form["ended_by"]) if "ended_by" in form else None,
    )


def _forth(record: Envelope | Run, defaults: Mapping[str, object]) -> bytes:
    form: dict[str, object] = {}
    for name, default in defaults.items():
        value = getattr(record, name)
        if value == default and name != "schema":
            continue
        if name in _PAYLOADS:
            value = _payload(cast(Payload, value))
        elif name == "outcome":
            value = _outcome(cast(Outcome, value))
        elif name == "redactions":
            value = [[r.rule, r.path, r.length] for r in value]
        elif name == "attempts":
            value = [[a.status, a.start_ns, a.end_ns, a.wait_ns] for a in value]
        elif isinstance(value, Mapping):
            value = dict(value)
        form[name] = value
    return orjson.dumps(form)


def _back(form: Mapping[str, Any], defaults: Mapping[str, object]) -> dict[str, Any]:
    # A name without a default is a later version's field: what this version knows is still exact.
    return {
        name: _BACK[name](value) if name in _BACK else tuple(value) if type(value) is list else value
        for name, value in form.items()
        if name in defaults
    }


_BACK: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(_PAYLOADS, _payload_back),
    "outcome": _outcome_back,
    "redactions": lambda items: tuple(Redaction(*item) for item in items),
    "attempts": lambda items: tuple(Attempt(*item) for item in items),
}


def envelope_to_json_plainly(envelope: Envelope) -> bytes:
    """The reference for `envelope_to_json`: field by field, as the class declares them."""
    return _forth(envelope, _CONTENT_DEFAULTS)[:-1] + b"," + _forth(envelope, _REST_DEFAULTS)[1:]


def content_json(envelope: Envelope) -> bytes:
    """Return the first part of the JSON form, as ASCII: the content, without what is another on each run."""
    return ascii_text(_content(envelope).decode()).encode("ascii")


def _content(envelope: Envelope) -> bytes:
    """Return the content as an object that is still open."""
    outcome = envelope.outcome
    plain = not (outcome.chunks or outcome.end or outcome.ended_by)
    if envelope.lane or envelope.changed is not None or not plain or not envelope.end_seq:
        return _forth(envelope, _CONTENT_DEFAULTS)[:-1]
    form: dict[str, object] = {"address": envelope.address}
    if envelope.parent:
        form["parent"] = envelope.parent
    form["boundary"] = envelope.boundary
    form["kind"] = envelope.kind
    if envelope.strand:
        form["strand"] = envelope.strand
    if envelope.place:
        form["place"] = envelope.place
    form["seq"] = envelope.seq
    form["end_seq"] = envelope.end_seq
    form["request"] = _payload(envelope.request)
    form["outcome"] = {"kind": outcome.kind, "value": _payload(outcome.value)}
    return orjson.dumps(form)[:-1]


def envelope_to_json(envelope: Envelope) -> bytes:
    """Return the JSON form of `envelope` as UTF-8 bytes.

    The fields of every crossing are written out here; one with any of the rarer fields goes the plain way.
    """
    if (
        envelope.notes
        or envelope.redactions
        or envelope.attempts
        or envelope.mode != "record"
        or envelope.grade != "exact"
        or not (envelope.start_ns and envelope.end_ns and envelope.key and envelope.run_name)
    ):
        return _content(envelope) + b"," + _forth(envelope, _REST_DEFAULTS)[1:]
    form: dict[str, object] = {
        "run_id": envelope.run_id,
        "run_name": envelope.run_name,
        "start_ns": envelope.start_ns,
        "end_ns": envelope.end_ns,
        "key": envelope.key,
    }
    if envelope.pins:
        form["pins"] = dict(envelope.pins)
    if envelope.side_effects:
        form["side_effects"] = True
    form["schema"] = envelope.schema
    return _content(envelope) + b"," + orjson.dumps(form)[1:]


def envelope_from_json(data: bytes, *, trace_id: str = "", span_id: str = "", parent_span_id: str = "") -> Envelope:
    """Return the envelope that `data` holds. Raises ValueError, KeyError or TypeError where it holds none."""
    found = _back(orjson.loads(data), _ENVELOPE_DEFAULTS)
    return Envelope(**found, trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)


def envelope_from_cut_json(
    data: str, request: str | None, value: str | None, *, trace_id: str, span_id: str, parent_span_id: str
) -> Envelope:
    """Return the envelope of a JSON form out of which the texts of the request and of the outcome's value were cut.

    Each is given beside it, or None where it was left in. Texts are taken as they are, never parsed.
    """
    found = _back(orjson.loads(data), _ENVELOPE_DEFAULTS)
    if request is not None:
        kept = found["request"]
        found["request"] = Payload(kept.encoding, request, kept.reason)
    if value is not None:
        outcome = found["outcome"]
        kept = Payload(outcome.value.encoding, value, outcome.value.reason)
        found["outcome"] = replace(outcome, value=kept)
    return Envelope(**found, trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)


def run_to_json(run: Run) -> bytes:
    """Return the JSON form of `run` as UTF-8 bytes."""
    return _forth(run, _RUN_DEFAULTS)


def run_from_json(data: bytes, *, trace_id: str = "", span_id: str = "", parent_span_id: str = "") -> Run:
    """Return the run that `data` holds. Raises ValueError, KeyError or TypeError where it holds none."""
    found = _back(orjson.loads(data), _RUN_DEFAULTS)
    return Run(**found, trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)
