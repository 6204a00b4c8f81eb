"""The promoted columns of a row: typed copies of what people ask a span for. Nothing is given back from them alone."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from otel_replay import codec, semconv
from otel_replay.codec import Reading
from otel_replay.envelope import NOT_WHOLE, Envelope
from otel_replay.span import Span

Row: TypeAlias = dict[str, Any]

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
INT32_MAX: Final = 2**31 - 1

TEXTS: Final = {
    semconv.RUN_ID: "run_id",
    semconv.RUN_NAME: "run_name",
    semconv.RUN_LANE: "lane",
    semconv.RUN_DIGEST: "digest",
    semconv.RUN_REPLAY_OF: "replay_of",
    semconv.ADDRESS: "address",
    semconv.BOUNDARY: "boundary",
    semconv.KIND: "kind",
    semconv.MODE: "mode",
    semconv.OUTCOME: "outcome",
    semconv.KEY: "key",
    semconv.GEN_AI_OPERATION: "operation",
    semconv.GEN_AI_PROVIDER: "provider",
    semconv.GEN_AI_REQUEST_MODEL: "model",
    semconv.GEN_AI_RESPONSE_MODEL: "response_model",
    semconv.GEN_AI_TOOL_NAME: "tool",
    semconv.ERROR_TYPE: "error_type",
}
NUMBERS: Final = {
    semconv.STRAND: "strand",
    semconv.SEQ: "seq",
    semconv.END_SEQ: "end_seq",
    semconv.RUN_CROSSINGS: "crossings",
    semconv.GEN_AI_INPUT_TOKENS: "input_tokens",
    semconv.GEN_AI_OUTPUT_TOKENS: "output_tokens",
}
OLDER: Final = {
    "gen_ai.system": "provider",
    "gen_ai.usage.prompt_tokens": "input_tokens",
    "gen_ai.usage.completion_tokens": "output_tokens",
    "llm.model_name": "model",
    "llm.token_count.prompt": "input_tokens",
    "llm.token_count.completion": "output_tokens",
    "tool.name": "tool",
}
"""What earlier conventions and OpenInference call the same things; used where the current name is absent."""
COUNTS: Final = frozenset({"input_tokens", "output_tokens"})


def is_int64(value: object) -> bool:
    """True for an integer that a column holds as it is."""
    return type(value) is int and INT64_MIN <= value <= INT64_MAX


def fits(column: str, value: object) -> bool:
    """True where `value` is of the type that a column of GenAI conventions has."""
    return is_int64(value) if column in COUNTS else type(value) is str


def clamped(number: int, low: int, high: int) -> int:
    """Return `number`, or the bound that it passes."""
    return min(max(number, low), high)


def promoted(span: Span) -> Row:
    """Return what the fields and attributes of `span` say, by column; the last value of a key counts."""
    row: Row = {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "span_kind": clamped(span.kind, -INT32_MAX, INT32_MAX),
        "start_ns": clamped(span.start_ns, INT64_MIN, INT64_MAX),
        "end_ns": clamped(span.end_ns, INT64_MIN, INT64_MAX),
        "status_code": clamped(span.status_code, -INT32_MAX, INT32_MAX),
        "status_message": span.status_message,
        "trace_state": span.trace_state,
        "flags": clamped(span.flags, INT64_MIN, INT64_MAX),
        "dropped_attributes": clamped(span.dropped_attributes_count, INT64_MIN, INT64_MAX),
        "scope": span.scope.name,
    }
    older: Row = {}
    for key, value in span.attributes:
        column = TEXTS.get(key)
        if column is not None:
            if type(value) is str:
                row[column] = value
            continue
        column = NUMBERS.get(key)
        if column is not None:
            if is_int64(value):
                row[column] = value
            continue
        column = OLDER.get(key)
        if column is not None and fits(column, value):
            older[column] = value
    for column, value in older.items():
        row.setdefault(column, value)
    for key, value in span.resource.attributes:
        if key == "service.name" and type(value) is str:
            row["service"] = value
    return row


def read_ours(span: Span, row: Row, reading: Reading | None) -> None:
    """Fill what the exact form of a crossing or run says, and how whole it is."""
    row.setdefault("lane", "")
    if row.get("kind") == semconv.KIND_RUN:
        run = codec.run_from_span(span)
        if run is not None:
            row["verdict"] = run.verdict
            row["outcome"] = "lost" if not run.end_ns else "raised" if run.error else "returned"
            row["integrity"] = codec.integrity_of(span)
            if any(note.startswith(NOT_WHOLE) for note in run.notes):
                row["grade"] = "insufficient"
        return
    reading = codec.from_cut_span(span) if reading is None else reading
    row["integrity"] = reading.integrity
    envelope = reading.envelope
    if envelope is None:
        return
    row["parent"] = envelope.parent
    row["side_effects"] = envelope.side_effects
    row["grade"] = envelope.grade
    row["request"] = None if envelope.request.lost else envelope.request.text
    row["response"] = _response(envelope)


def _response(envelope: Envelope) -> str | None:
    outcome = envelope.outcome
    if outcome.kind == "streamed":
        return "[" + ",".join(chunk.value.text for chunk in outcome.chunks) + "]"
    return None if outcome.kind in ("lost", "cancelled") or outcome.value.lost else outcome.value.text
