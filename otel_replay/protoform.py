"""Envelope, Run and Mark <-> protobuf: the form of the journal and of the `hex` and `zstd` encodings.

Law: `from_message(to_message(x)) == x`.
"""

from __future__ import annotations

import orjson

from otel_replay._proto.otel_replay.v1 import envelope_pb2 as pb
from otel_replay.envelope import NOTHING, Attempt, Chunk, Envelope, Mark, Outcome, Payload, Redaction, Run


def _payload_to(payload: Payload, into: pb.Payload) -> None:
    into.encoding = payload.encoding
    into.text = payload.text.encode()
    if payload.reason:
        into.reason = payload.reason


def _payload_from(message: pb.Payload) -> Payload:
    return Payload(message.encoding, message.text.decode(), message.reason)


def envelope_to_message(envelope: Envelope) -> pb.Envelope:
    """Return the protobuf form of `envelope`."""
    message = pb.Envelope(
        schema=envelope.schema,
        run_id=envelope.run_id,
        run_name=envelope.run_name,
        lane=envelope.lane,
        address=envelope.address,
        parent=envelope.parent,
        boundary=envelope.boundary,
        kind=envelope.kind,
        mode=envelope.mode,
        strand=envelope.strand,
        place=envelope.place,
        seq=envelope.seq,
        end_seq=envelope.end_seq,
        start_ns=envelope.start_ns,
        end_ns=envelope.end_ns,
        key=envelope.key,
        side_effects=envelope.side_effects,
        trace_id=envelope.trace_id,
        span_id=envelope.span_id,
        parent_span_id=envelope.parent_span_id,
        grade=envelope.grade,
    )
    _payload_to(envelope.request, message.request)
    if envelope.changed is not None:
        _payload_to(envelope.changed, message.changed)
    outcome = message.outcome
    outcome.kind = envelope.outcome.kind
    outcome.end = envelope.outcome.end
    _payload_to(envelope.outcome.value, outcome.value)
    for chunk in envelope.outcome.chunks:
        item = outcome.chunks.add()
        _payload_to(chunk.value, item.value)
        if chunk.sent is not None:
            _payload_to(chunk.sent, item.sent)
        item.thrown = chunk.thrown
    by = envelope.outcome.ended_by
    if by is not None:
        outcome.ended_by.thrown = by.thrown
        if by.sent is not None:
            _payload_to(by.sent, outcome.ended_by.sent)
        outcome.ended_by.SetInParent()
    if envelope.pins:
        message.pins.json = orjson.dumps(dict(envelope.pins))
    if envelope.notes:
        message.notes.extend(envelope.notes)
    for redaction in envelope.redactions:
        message.redactions.add(rule=redaction.rule, path=redaction.path, length=redaction.length)
    for attempt in envelope.attempts:
        message.attempts.add(
            status=attempt.status, start_ns=attempt.start_ns, end_ns=attempt.end_ns, wait_ns=attempt.wait_ns
        )
    return message


def _came_in_from(value: Payload, chunk: pb.Chunk) -> Chunk:
    return Chunk(value, _payload_from(chunk.sent) if chunk.HasField("sent") else None, chunk.thrown)


def envelope_from_message(message: pb.Envelope) -> Envelope:
    """Return the envelope that `message` holds. Raises UnicodeDecodeError or ValueError where it holds none."""
    out = message.outcome
    return Envelope(
        run_id=message.run_id,
        address=message.address,
        boundary=message.boundary,
        kind=message.kind,
        request=_payload_from(message.request),
        outcome=Outcome(
            kind=out.kind,  # type: ignore[arg-type]
            value=_payload_from(out.value),
            chunks=tuple(_came_in_from(_payload_from(chunk.value), chunk) for chunk in out.chunks),
            end=out.end,
            ended_by=_came_in_from(NOTHING, out.ended_by) if out.HasField("ended_by") else None,
        ),
        seq=message.seq,
        end_seq=message.end_seq,
        run_name=message.run_name,
        lane=message.lane,
        parent=message.parent,
        strand=message.strand,
        place=message.place,
        mode=message.mode,
        start_ns=message.start_ns,
        end_ns=message.end_ns,
        changed=_payload_from(message.changed) if message.HasField("changed") else None,
        key=message.key,
        pins=orjson.loads(message.pins.json) if message.pins.json else {},
        side_effects=message.side_effects,
        notes=tuple(message.notes),
        redactions=tuple(Redaction(r.rule, r.path, r.length) for r in message.redactions),
        attempts=tuple(Attempt(a.status, a.start_ns, a.end_ns, a.wait_ns) for a in message.attempts),
        trace_id=message.trace_id,
        span_id=message.span_id,
        parent_span_id=message.parent_span_id,
        grade=message.grade,
        schema=message.schema,
    )


def run_to_message(run: Run) -> pb.Run:
    """Return the protobuf form of `run`."""
    message = pb.Run(
        schema=run.schema,
        run_id=run.run_id,
        run_name=run.name,
        lane=run.lane,
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        crossings=run.crossings,
        digest=run.digest,
        lanes=run.lanes,
        verdict=run.verdict,
        error=run.error,
        mode=run.mode,
        notes=run.notes,
        replay_of=run.replay_of,
        trace_id=run.trace_id,
        span_id=run.span_id,
        parent_span_id=run.parent_span_id,
    )
    if run.answer is not None:
        _payload_to(run.answer, message.answer)
    if run.faults:
        message.faults_json = orjson.dumps(dict(run.faults))
    if run.pins:
        message.pins.json = orjson.dumps(dict(run.pins))
    return message


def run_from_message(message: pb.Run) -> Run:
    """Return the run that `message` holds."""
    return Run(
        run_id=message.run_id,
        name=message.run_name,
        lane=message.lane,
        start_ns=message.start_ns,
        end_ns=message.end_ns,
        crossings=message.crossings,
        digest=message.digest,
        lanes=tuple(message.lanes),
        answer=_payload_from(message.answer) if message.HasField("answer") else None,
        verdict=message.verdict,
        error=message.error,
        faults=orjson.loads(message.faults_json) if message.faults_json else {},
        pins=orjson.loads(message.pins.json) if message.pins.json else {},
        mode=message.mode,
        notes=tuple(message.notes),
        replay_of=message.replay_of,
        trace_id=message.trace_id,
        span_id=message.span_id,
        parent_span_id=message.parent_span_id,
        schema=message.schema,
    )


def mark_to_message(mark: Mark) -> pb.Mark:
    """Return the protobuf form of `mark`."""
    return pb.Mark(
        address=mark.address,
        boundary=mark.boundary,
        kind=mark.kind,
        seq=mark.seq,
        strand=mark.strand,
        start_ns=mark.start_ns,
        parent=mark.parent,
        span_id=mark.span_id,
    )


def mark_from_message(message: pb.Mark) -> Mark:
    """Return the mark that `message` holds."""
    return Mark(
        address=message.address,
        boundary=message.boundary,
        kind=message.kind,
        seq=message.seq,
        strand=message.strand,
        start_ns=message.start_ns,
        parent=message.parent,
        span_id=message.span_id,
    )
