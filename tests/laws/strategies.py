"""Arbitrary envelopes and runs."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import strategies as st

from otel_replay import payload
from otel_replay.envelope import NOTHING, Attempt, Chunk, Envelope, Outcome, Payload, Redaction, Run, lost

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HEX = st.sampled_from(["", "a" * 32, "0123456789abcdef" * 2])
NUMBERS = st.integers(0, 2**53)
NANOS = st.integers(0, 2**63 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4) | st.tuples(inner)
    ),
    max_leaves=12,
)
PAYLOADS = VALUES.map(payload.encode) | TEXT.map(lost) | st.just(Payload())
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PINS = st.dictionaries(TEXT, JSON, max_size=3)
CHUNKS = st.builds(Chunk, PAYLOADS, st.none() | PAYLOADS, st.booleans())
OUTCOMES = st.builds(
    Outcome,
    st.sampled_from(["returned", "raised", "streamed", "cancelled", "lost"]),
    PAYLOADS,
    st.lists(CHUNKS, max_size=3).map(tuple),
    st.sampled_from(["", "exhausted", "closed", "dropped", "raised", "cancelled"]) | TEXT,
    st.none() | st.builds(Chunk, st.just(NOTHING), st.none() | PAYLOADS, st.booleans()),
)
ENVELOPES = st.builds(
    Envelope,
    run_id=HEX.filter(bool),
    address=TEXT.filter(bool),
    boundary=TEXT.filter(bool),
    kind=st.sampled_from(["model", "tool", "router", "http", "mcp", "custom"]),
    request=PAYLOADS,
    outcome=OUTCOMES,
    seq=NUMBERS,
    end_seq=NUMBERS,
    run_name=TEXT,
    lane=TEXT,
    parent=TEXT,
    strand=st.integers(0, 2**31),
    place=st.sampled_from(["", ".1", ".2.1"]),
    mode=st.sampled_from(["record", "stub", "live", "override", "new"]),
    start_ns=NANOS,
    end_ns=NANOS,
    changed=st.none() | PAYLOADS,
    key=TEXT,
    pins=PINS,
    side_effects=st.booleans(),
    notes=st.lists(TEXT, max_size=3).map(tuple),
    redactions=st.lists(st.builds(Redaction, TEXT, TEXT, st.integers(0, 2**31)), max_size=2).map(tuple),
    attempts=st.lists(st.builds(Attempt, TEXT, NANOS, NANOS, NANOS), max_size=2).map(tuple),
    trace_id=st.sampled_from(["ab" * 16]),
    span_id=st.sampled_from(["cd" * 8]),
    parent_span_id=st.sampled_from(["", "ef" * 8]),
    grade=st.sampled_from(["exact", "exact, redacted", "semantic", "insufficient"]),
)
RUNS = st.builds(
    Run,
    run_id=HEX.filter(bool),
    name=TEXT,
    lane=TEXT,
    start_ns=NANOS,
    end_ns=NANOS,
    crossings=NUMBERS,
    digest=TEXT,
    lanes=st.lists(TEXT, max_size=3).map(tuple),
    answer=st.none() | PAYLOADS,
    verdict=st.sampled_from(["passed", "failed", "unknown"]),
    error=TEXT,
    faults=st.dictionaries(TEXT, st.integers(0, 99), max_size=2),
    pins=PINS,
    mode=st.sampled_from(["record", "replay"]),
    notes=st.lists(TEXT, max_size=2).map(tuple),
    replay_of=HEX,
    trace_id=st.sampled_from(["ab" * 16]),
    span_id=st.sampled_from(["cd" * 8]),
    parent_span_id=st.sampled_from(["", "ef" * 8]),
)


def text_is_as_orjson_writes(item: Payload) -> bool:
    return orjson.dumps(orjson.loads(item.text)) == item.text.encode()
