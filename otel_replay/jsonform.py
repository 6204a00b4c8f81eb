"""Envelope and Run <-> the written-down JSON form that the `json` encoding of a span carries.

Payloads stand in it as JSON, not as escaped text: `{"json": <tree>}`, `{"typed-json": <tree>, "reason": ...}` or
`{"lost": reason}`. A payload's text is what orjson writes, so cutting it out again gives the same bytes.
Fields that have their default are left out. Ids of trace and spans stand on the span itself.

Law: `from_json(to_json(x)) == x`, the three span ids aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

import orjson

from otel_replay.envelope import Attempt, Chunk, Envelope, Outcome, Payload, Redaction, Run

_ON_SPAN = frozenset({"trace_id", "span_id", "parent_span_id"})
_PAYLOADS = frozenset({"request", "changed", "answer"})


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
_RUN_DEFAULTS = _defaults(Run)


def _payload(payload: Payload) -> dict[str, object]:
    if payload.lost:
        return {"lost": payload.reason}
    form: dict[str, object] = {payload.encoding: orjson.Fragment(payload.text)}
    if payload.reason:
        form["reason"] = payload.reason
    return form


def _payload_back(form: Mapping[str, object]) -> Payload:
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
        form["chunks"] = [
            {
                "value": _payload(chunk.value),
                **({"sent": _payload(chunk.sent)} if chunk.sent is not None else {}),
                **({"thrown": True} if chunk.thrown else {}),
            }
            for chunk in outcome.chunks
        ]
    return form


def _outcome_back(form: Mapping[str, Any]) -> Outcome:
    return Outcome(
        kind=form["kind"],
        value=_payload_back(form["value"]),
        chunks=tuple(
            Chunk(
                _payload_back(chunk["value"]),
                _payload_back(chunk["sent"]) if "sent" in chunk else None,
                bool(chunk.get("thrown", False)),
            )
            for chunk in form.get("chunks", ())
        ),
        end=str(form.get("end", "")),
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
    found: dict[str, Any] = {}
    for name, value in form.items():
        if name not in defaults:
            continue  # a later version's field: what this version knows is still exact
        if name in _PAYLOADS:
            value = _payload_back(value)
        elif name == "outcome":
            value = _outcome_back(value)
        elif name == "redactions":
            value = tuple(Redaction(*item) for item in value)
        elif name == "attempts":
            value = tuple(Attempt(*item) for item in value)
        elif isinstance(value, list):
            value = tuple(value)
        found[name] = value
    return found


def envelope_to_json_plainly(envelope: Envelope) -> bytes:
    """The reference for `envelope_to_json`: field by field, as the class declares them."""
    return _forth(envelope, _ENVELOPE_DEFAULTS)


def envelope_to_json(envelope: Envelope) -> bytes:
    """Return the JSON form of `envelope` as UTF-8 bytes.

    The fields of every crossing are written out here; one with any of the rarer fields goes the plain way.
    """
    outcome = envelope.outcome
    if (
        envelope.lane
        or envelope.changed is not None
        or envelope.notes
        or envelope.redactions
        or envelope.attempts
        or outcome.chunks
        or outcome.end
        or envelope.mode != "record"
        or envelope.grade != "exact"
        or not (envelope.end_seq and envelope.start_ns and envelope.end_ns and envelope.key and envelope.run_name)
    ):
        return _forth(envelope, _ENVELOPE_DEFAULTS)
    form: dict[str, object] = {
        "run_id": envelope.run_id,
        "address": envelope.address,
        "boundary": envelope.boundary,
        "kind": envelope.kind,
        "request": _payload(envelope.request),
        "outcome": {"kind": outcome.kind, "value": _payload(outcome.value)},
        "seq": envelope.seq,
        "end_seq": envelope.end_seq,
        "run_name": envelope.run_name,
    }
    if envelope.parent:
        form["parent"] = envelope.parent
    if envelope.strand:
        form["strand"] = envelope.strand
    form["start_ns"] = envelope.start_ns
    form["end_ns"] = envelope.end_ns
    form["key"] = envelope.key
    if envelope.pins:
        form["pins"] = dict(envelope.pins)
    if envelope.side_effects:
        form["side_effects"] = True
    form["schema"] = envelope.schema
    return orjson.dumps(form)


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
        found["outcome"] = Outcome(outcome.kind, kept, outcome.chunks, outcome.end)
    return Envelope(**found, trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)


def run_to_json(run: Run) -> bytes:
    """Return the JSON form of `run` as UTF-8 bytes."""
    return _forth(run, _RUN_DEFAULTS)


def run_from_json(data: bytes, *, trace_id: str = "", span_id: str = "", parent_span_id: str = "") -> Run:
    """Return the run that `data` holds. Raises ValueError, KeyError or TypeError where it holds none."""
    found = _back(orjson.loads(data), _RUN_DEFAULTS)
    return Run(**found, trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)
