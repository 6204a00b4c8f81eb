"""Envelopes of every shape: the common one that fast paths serve, and each of the rarer fields."""

from __future__ import annotations

import orjson
from hypothesis import strategies as st

from otel_replay.envelope import NOTHING, Attempt, Chunk, Envelope, Mark, Outcome, Payload, Redaction

texts = st.text(st.characters(codec="utf-8"), max_size=12)
trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts.filter(lambda key: key != "$"), inner, max_size=3)
    ),
    max_leaves=8,
)
plain = trees.map(lambda tree: Payload("json", orjson.dumps(tree).decode()))
tagged = trees.map(lambda tree: Payload("typed-json", orjson.dumps({"$": "tuple", "v": [tree]}).decode()))
payloads = plain | tagged | st.builds(Payload, st.just("lost"), st.just("null"), texts)
counts = st.integers(0, 2**32 - 1)
stamps = st.integers(0, 2**64 - 1)
chunks = st.builds(Chunk, payloads, st.none() | payloads, st.booleans())
outcomes = st.builds(
    Outcome,
    st.sampled_from(["returned", "raised", "streamed", "cancelled", "lost"]),
    payloads,
    st.just(()) | st.lists(chunks, max_size=2).map(tuple),
    st.just("") | texts,
    st.none() | st.builds(Chunk, st.just(NOTHING), st.none() | payloads, st.booleans()),
)
envelopes = st.builds(
    Envelope,
    run_id=texts,
    address=texts,
    boundary=texts,
    kind=st.sampled_from(["model", "tool", "router", "http", "custom"]),
    request=payloads,
    outcome=outcomes,
    seq=st.integers(0, 2**64 - 1),
    end_seq=st.just(0) | st.integers(1, 2**64 - 1),
    run_name=st.just("run") | texts,
    lane=st.just("") | texts,
    parent=st.just("") | texts,
    strand=st.just(0) | counts,
    place=st.just("") | texts,
    mode=st.just("record") | texts,
    start_ns=stamps,
    end_ns=stamps,
    changed=st.none() | payloads,
    key=st.just("1:ab") | texts,
    pins=st.just({}) | st.dictionaries(texts, trees, max_size=2),
    side_effects=st.booleans(),
    notes=st.just(()) | st.lists(texts, max_size=2).map(tuple),
    redactions=st.just(()) | st.lists(st.builds(Redaction, texts, texts, counts), max_size=2).map(tuple),
    attempts=st.just(()) | st.lists(st.builds(Attempt, texts, stamps, stamps, stamps), max_size=2).map(tuple),
    trace_id=texts,
    span_id=texts,
    parent_span_id=texts,
    grade=st.just("exact") | texts,
)
common = st.builds(
    Envelope,
    run_id=texts,
    address=texts,
    boundary=texts,
    kind=st.sampled_from(["model", "tool", "custom"]),
    request=payloads,
    outcome=st.builds(Outcome, st.sampled_from(["returned", "raised"]), payloads),
    seq=st.integers(1, 2**40),
    end_seq=st.integers(1, 2**40),
    run_name=texts.filter(bool),
    parent=st.just("") | texts,
    strand=st.integers(0, 3),
    place=st.sampled_from(["", ".1", ".2.1"]),
    start_ns=st.integers(1, 2**63),
    end_ns=st.integers(1, 2**63),
    key=texts.filter(bool),
    pins=st.just({}) | st.dictionaries(texts, trees, max_size=2),
    side_effects=st.booleans(),
    trace_id=texts,
    span_id=texts,
    parent_span_id=texts,
)
marks = st.builds(Mark, texts, texts, texts, st.integers(0, 2**64 - 1), counts, stamps, texts, texts)
