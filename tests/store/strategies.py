"""Spans of every shape for the laws of the store, and the crossings of a small run."""

from __future__ import annotations

from hypothesis import strategies as st

from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span

texts = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["", "gen_ai.request.model", "$text", "$json", "a\x00b", "\ud83d", "naïve", "x" * 1100]
)
int64s = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0])
scalars = st.none() | texts | st.booleans() | int64s | st.floats(allow_nan=True) | st.binary(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(st.tuples(texts, inner), max_size=3).map(KeyValues),
    max_leaves=6,
)
keys = texts | st.sampled_from(
    [
        "otel_replay.run.id",
        "otel_replay.envelope",
        "otel_replay.seq",
        "otel_replay.kind",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "input.value",
        "output.value",
        "gen_ai.usage.input_tokens",
        "service.name",
    ]
)
attributes = st.lists(st.tuples(keys, values), max_size=5).map(tuple)
counts = st.integers(0, 2**32 - 1)
stamps = st.integers(0, 2**64 - 1) | st.integers(1_700_000_000_000_000_000, 1_900_000_000_000_000_000)
ids = st.sampled_from(["", "ab" * 8, "cd" * 16, "\udc00"])
events = st.builds(Event, stamps, texts, attributes, counts)
links = st.builds(Link, ids, ids, texts, attributes, counts, counts)
spans = st.builds(
    Span,
    trace_id=ids,
    span_id=ids,
    name=texts,
    start_ns=stamps,
    end_ns=stamps,
    parent_span_id=ids,
    kind=st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
    attributes=attributes,
    events=st.lists(events, max_size=2).map(tuple),
    links=st.lists(links, max_size=2).map(tuple),
    status_code=st.integers(0, 2),
    status_message=texts,
    trace_state=texts,
    flags=counts,
    dropped_attributes_count=counts,
    dropped_events_count=counts,
    dropped_links_count=counts,
    resource=st.builds(Resource, attributes, counts, texts),
    scope=st.builds(Scope, texts, texts, attributes, counts, texts),
    unknown=st.binary(max_size=4),
)
