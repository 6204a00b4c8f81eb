"""Spans of every shape that OTLP allows, and a form in which two of them differ where `==` would not see it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import strategies as st

from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span

TEXT = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(), max_size=6),
    st.sampled_from(
        ["", "\ud83d", "a\udc80b", "otel-replay:text:", 'otel-replay:text:"x"', "otel-replay:int:12", "é🙂"]
    ),
    st.sampled_from(['otel-replay:value:{"arrayValue":{}}', "otel-replay:int:99999999999999999999", "\x00", "NaN"]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -(2**63), 2**63 - 1, 2**53 + 1, 2**63, -(2**70), 10**30]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf"), 5e-324]),
    TEXT,
    st.binary(max_size=6),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(st.tuples(TEXT, inner), max_size=3).map(KeyValues),
    max_leaves=6,
)
ATTRIBUTES = st.lists(st.tuples(TEXT, VALUES), max_size=4).map(tuple)
COUNTS = st.sampled_from([0, 0, 1, 2**32 - 1])
TIMES = st.one_of(st.just(0), st.integers(0, 2**64 - 1))
TRACE_IDS = st.one_of(st.just(""), st.binary(min_size=16, max_size=16).map(bytes.hex))
SPAN_IDS = st.one_of(st.just(""), st.binary(min_size=8, max_size=8).map(bytes.hex))
RESOURCES = st.builds(Resource, ATTRIBUTES, COUNTS, TEXT)
SCOPES = st.builds(Scope, TEXT, TEXT, ATTRIBUTES, COUNTS, TEXT)
EVENTS = st.builds(Event, TIMES, TEXT, ATTRIBUTES, COUNTS)
LINKS = st.builds(Link, TRACE_IDS, SPAN_IDS, TEXT, ATTRIBUTES, COUNTS, COUNTS)
UNKNOWN = st.sampled_from([b"", b"", b"\xf8\x07\x2a", b"\xfa\x07\x03abc"])
"""Valid protobuf fields of number 127, which OTLP does not have."""

SPANS = st.builds(
    Span,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    name=TEXT,
    start_ns=TIMES,
    end_ns=TIMES,
    parent_span_id=SPAN_IDS,
    kind=st.sampled_from([0, 1, 2, 3, 5, 17]),
    attributes=ATTRIBUTES,
    events=st.lists(EVENTS, max_size=2).map(tuple),
    links=st.lists(LINKS, max_size=2).map(tuple),
    status_code=st.sampled_from([0, 1, 2, 9]),
    status_message=TEXT,
    trace_state=TEXT,
    flags=COUNTS,
    dropped_attributes_count=COUNTS,
    dropped_events_count=COUNTS,
    dropped_links_count=COUNTS,
    resource=RESOURCES,
    scope=SCOPES,
    unknown=UNKNOWN,
)


@st.composite
def span_lists(draw: st.DrawFn) -> list[Span]:
    """Lists in which neighbours often share their resource and scope, as real batches do."""
    from dataclasses import replace

    resources = draw(st.lists(RESOURCES, min_size=1, max_size=2))
    scopes = draw(st.lists(SCOPES, min_size=1, max_size=2))
    spans = draw(st.lists(SPANS, max_size=4))
    return [
        replace(span, resource=draw(st.sampled_from(resources)), scope=draw(st.sampled_from(scopes))) for span in spans
    ]


def exact(value: Any) -> Any:
    """Return `value` in a form where 1, 1.0 and True differ, NaN equals NaN, and a map is no array."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: exact(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return (type(value).__name__, [exact(item) for item in value])
    return (type(value).__name__, repr(value))
