"""Envelope <-> span: the attributes that carry the exact form, and what is found when they are read back.

The exact form is one attribute, `otel_replay.envelope`: a list of ASCII strings of at most 1,900 bytes each. It
survives Tempo's cut at 2,048 bytes, attribute-count limits and Jaeger; its length and digest stand beside it, so
whatever was cut, scrubbed or dropped on the way is noticed.

Law: `from_span(to_span(e)).envelope == e`, for each encoding and under every attribute limit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import zstandard

from otel_replay import jsonform, limits, protoform, semconv
from otel_replay._proto.otel_replay.v1 import envelope_pb2 as pb
from otel_replay.carrying import Encoding, carried, cut_text, envelope_attributes, is_part, joined
from otel_replay.envelope import Envelope, Run
from otel_replay.jsonform import ascii_text
from otel_replay.readable import error_event, genai_attributes, span_kind, span_name, span_status
from otel_replay.span import KeyValue, Scope, Span, Value

Integrity: TypeAlias = Literal["intact", "truncated", "scrubbed", "missing"]

_SCOPE = Scope(semconv.SCOPE_NAME, str(semconv.SCHEMA_VERSION))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a span gave back: the envelope where it is intact, else None and the reason."""

    envelope: Envelope | None
    integrity: Integrity
    reason: str = ""


def _carry(json_form: bytes, message: pb.Envelope | pb.Run | None, encoding: Encoding) -> str:
    if encoding == "json":
        return ascii_text(json_form.decode())
    assert message is not None
    if encoding == "hex":
        return message.SerializeToString().hex()
    return base64.b64encode(zstandard.ZstdCompressor(level=3).compress(message.SerializeToString())).decode()


def index_attributes(envelope: Envelope) -> list[KeyValue]:
    """Return the short attributes that name a crossing: what a person or a query looks for."""
    found: list[KeyValue] = [
        (semconv.SCHEMA, envelope.schema),
        (semconv.RUN_ID, envelope.run_id),
        (semconv.RUN_NAME, envelope.run_name),
        (semconv.ADDRESS, envelope.address),
        (semconv.STRAND, envelope.strand),
        (semconv.SEQ, envelope.seq),
        (semconv.END_SEQ, envelope.end_seq),
        (semconv.BOUNDARY, envelope.boundary),
        (semconv.KIND, envelope.kind),
        (semconv.MODE, envelope.mode),
        (semconv.OUTCOME, envelope.outcome.kind),
    ]
    if envelope.lane:
        found.append((semconv.RUN_LANE, envelope.lane))
    if envelope.key:
        found.append((semconv.KEY, envelope.key))
    return found


def readable(value: Value) -> Value:
    """Return a readable value, cut with a mark where it is too long for one attribute: the exact form holds all."""
    limit = limits.ENVELOPE_ATTRIBUTE_BYTES_MAX // 4  # a character takes at most four bytes
    if not isinstance(value, str) or len(value) <= limit:
        return value
    return f"{value[:limit]}… [cut: {limit} of {len(value)} characters; otel_replay.envelope holds all]"


def to_attributes(
    envelope: Envelope,
    *,
    encoding: Encoding = "json",
    part_bytes: int = limits.ENVELOPE_PART_BYTES_MAX,
    content: bool = True,
    envelope_bytes_max: int | None = None,
) -> list[KeyValue]:
    """Return all attributes of a crossing's span, the exact form last.

    `content=False` leaves out whatever shows content (readable messages and the exact form). An exact form beyond
    `envelope_bytes_max` is left out too; its length and digest stay, so that the reader knows what is missing.
    """
    found = index_attributes(envelope)
    found += [(key, readable(value)) for key, value in genai_attributes(envelope, content=content)]
    if not content:
        return found
    message = None if encoding == "json" else protoform.envelope_to_message(envelope)
    exact = envelope_attributes(_carry(jsonform.envelope_to_json(envelope), message, encoding), encoding, part_bytes)
    if envelope_bytes_max is not None and int(str(exact[1][1])) > envelope_bytes_max:
        del exact[3:]
    return found + exact


def to_span(
    envelope: Envelope,
    *,
    encoding: Encoding = "json",
    part_bytes: int = limits.ENVELOPE_PART_BYTES_MAX,
    content: bool = True,
) -> Span:
    """Return `envelope` as a span with the conventional name, kind, status and events."""
    code, message = span_status(envelope)
    event = error_event(envelope)
    return Span(
        trace_id=envelope.trace_id,
        span_id=envelope.span_id,
        parent_span_id=envelope.parent_span_id,
        name=span_name(envelope),
        kind=span_kind(envelope),
        start_ns=envelope.start_ns,
        end_ns=envelope.end_ns or envelope.start_ns,
        attributes=tuple(to_attributes(envelope, encoding=encoding, part_bytes=part_bytes, content=content)),
        events=(event,) if event else (),
        status_code=code,
        status_message=message,
        scope=_SCOPE,
    )


def run_to_attributes(run: Run, *, part_bytes: int = limits.ENVELOPE_PART_BYTES_MAX) -> list[KeyValue]:
    """Return the attributes of a run's own span: the one that closes it with its count and digest."""
    found: list[KeyValue] = [
        (semconv.SCHEMA, run.schema),
        (semconv.RUN_ID, run.run_id),
        (semconv.RUN_NAME, run.name),
        (semconv.KIND, semconv.KIND_RUN),
        (semconv.MODE, run.mode),
        (semconv.RUN_CROSSINGS, run.crossings),
        (semconv.RUN_DIGEST, run.digest),
    ]
    if run.lane:
        found.append((semconv.RUN_LANE, run.lane))
    if run.replay_of:
        found.append((semconv.RUN_REPLAY_OF, run.replay_of))
    return found + envelope_attributes(ascii_text(jsonform.run_to_json(run).decode()), "json", part_bytes)


def run_to_span(run: Run) -> Span:
    """Return the run's own span."""
    return Span(
        trace_id=run.trace_id,
        span_id=run.span_id,
        parent_span_id=run.parent_span_id,
        name=run.name or "run",
        start_ns=run.start_ns,
        end_ns=run.end_ns or run.start_ns,
        attributes=tuple(run_to_attributes(run)),
        status_code=2 if run.error else 0,
        status_message=run.error,
        scope=_SCOPE,
    )


def _whole_text(span: Span) -> tuple[str, Integrity, str]:
    """Return (text, integrity, reason) of the exact form on `span`."""
    facts = dict(span.attributes)
    text = carried(facts)
    length, digest = facts.get(semconv.ENVELOPE_BYTES), joined(facts.get(semconv.ENVELOPE_SHA256))
    if text is None:
        if span.dropped_attributes_count:
            return "", "missing", f"{span.dropped_attributes_count} attributes were dropped, the envelope among them"
        if span.get(semconv.ENVELOPE_PARTS) is not None:
            return (
                "",
                "missing",
                f"not all of the {span.get(semconv.ENVELOPE_PARTS)!r} spans with its envelope are here",
            )
        if length is not None:
            return "", "missing", f"the envelope of {length!r} bytes was too large for the way it travelled"
        return "", "missing", "the span carries no envelope (content was not captured, or it was removed on the way)"
    if cut_text(facts) is not None:
        return "", "missing", f"not all of the spans are here that carry its {_blob_count(facts)} large strings"
    if digest == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest():
        return text, "intact", ""
    if "[Scrubbed due to" in text or span.get("logfire.scrubbed") is not None:
        return text, "scrubbed", "the envelope was scrubbed on the way: record with the hex encoding"
    if isinstance(length, int) and len(text) < length:
        return text, "truncated", f"the envelope was cut: {len(text)} of {length} bytes are left"
    return text, "scrubbed", "the envelope was changed on the way: its digest does not match"


def _blob_count(facts: Mapping[str, Value]) -> int:
    return len(set(re.findall(r",([0-9a-f]{64})", joined(facts.get(semconv.ENVELOPE_BLOBS)) or "")))


def _message(text: str, encoding: str, message: pb.Envelope | pb.Run) -> None:
    if encoding == "hex":
        message.ParseFromString(bytes.fromhex(text))
    elif encoding == "zstd":
        raw = base64.b64decode(text, validate=True)
        data = zstandard.ZstdDecompressor().decompress(raw, max_output_size=limits.PAYLOAD_BYTES_MAX)
        message.ParseFromString(data)
    else:
        raise ValueError(f"unknown envelope encoding {encoding!r}: written by a later version?")


def from_span(span: Span) -> Reading:
    """Return the envelope that `span` carries, or why it carries none that may be served. Never raises."""
    text, integrity, reason = _whole_text(span)
    if integrity != "intact":
        return Reading(None, integrity, reason)
    named = str(span.get(semconv.ENVELOPE_ENCODING) or "json")
    # A limit on the length of values may have cut the name; its first letter tells, and the digest has been checked.
    encoding = next((known for known in ("json", "hex", "zstd") if known.startswith(named)), named)
    ids = {"trace_id": span.trace_id, "span_id": span.span_id, "parent_span_id": span.parent_span_id}
    try:
        if encoding == "json":
            return Reading(jsonform.envelope_from_json(text.encode(), **ids), "intact")
        message = pb.Envelope()
        _message(text, encoding, message)
        return Reading(protoform.envelope_from_message(message), "intact")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, zstandard.ZstdError) as fault:
        return Reading(None, "scrubbed", f"the envelope could not be read: {fault}")
    except Exception as fault:  # noqa: BLE001  # protobuf's DecodeError has no public base worth an import
        return Reading(None, "scrubbed", f"the envelope could not be read: {fault}")


def from_cut_span(span: Span) -> Reading:
    """Return what an envelope shows whose large strings travel in part spans: references stand in their places.

    For people and queries to look at. `carrying.assemble` gives what may be served. Never raises.
    """
    text = cut_text(dict(span.attributes))
    if text is None:
        return from_span(span)
    try:
        return Reading(jsonform.envelope_from_json(text.encode()), "intact")
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        return Reading(None, "scrubbed", f"the envelope could not be read: {fault}")


def carries(text: str, attributes_json: str) -> bool:
    """True where the digest of carried `text` stands in `attributes_json`, the attributes as a JSON object."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f'"{semconv.ENVELOPE_SHA256}":"{digest}"' in attributes_json


def integrity_of(span: Span) -> Integrity:
    """Return how whole the exact form on `span` is, without reading it.

    One that travels in part spans counts as intact here; `assemble` and `from_span` know better.
    """
    if span.get(semconv.ENVELOPE_PARTS) is not None or is_part(span) or cut_text(dict(span.attributes)) is not None:
        return "intact"
    return _whole_text(span)[1]


def is_ours(span: Span) -> bool:
    """True where `span` was written by a recorder of this package."""
    return isinstance(span.get(semconv.RUN_ID), str)


def is_run(span: Span) -> bool:
    """True where `span` is a run's own span."""
    return is_ours(span) and span.get(semconv.KIND) == semconv.KIND_RUN


def run_from_span(span: Span) -> Run | None:
    """Return the run that its own span closes; from the short attributes alone where the exact form is damaged."""
    if not is_run(span):
        return None
    text, integrity, _ = _whole_text(span)
    ids = {"trace_id": span.trace_id, "span_id": span.span_id, "parent_span_id": span.parent_span_id}
    if integrity == "intact":
        try:
            return jsonform.run_from_json(text.encode(), **ids)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
    crossings = span.get(semconv.RUN_CROSSINGS)
    return Run(
        run_id=str(span.get(semconv.RUN_ID)),
        name=str(span.get(semconv.RUN_NAME) or ""),
        lane=str(span.get(semconv.RUN_LANE) or ""),
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        crossings=crossings if isinstance(crossings, int) else 0,
        digest=str(span.get(semconv.RUN_DIGEST) or ""),
        mode=str(span.get(semconv.MODE) or "record"),
        notes=("the run's own record was damaged on the way",),
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
    )
