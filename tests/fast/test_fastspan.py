"""Attributes set at once give the span that the SDK's own `set_attributes` gives, whatever its limits."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider

from otel_replay.otel import fastspan

keys = st.sampled_from(["a", "b", "c", "d", "e", "f", ""])
values = st.text(max_size=5) | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.binary(max_size=3)
attributes = st.dictionaries(keys, values | st.lists(st.text(max_size=3) | st.integers(), max_size=3).map(tuple))


def made(before: dict[str, Any], then: dict[str, Any], limits: SpanLimits, short: bool, ended: bool) -> ReadableSpan:
    span: Any = TracerProvider(shutdown_on_exit=False, span_limits=limits).get_tracer("t").start_span("s")
    span.set_attributes(before)
    if ended:
        span.end()
    fastspan.set_attributes(span, then) if short else span.set_attributes(then)
    return cast(ReadableSpan, span)


def test_short_way_is_taken_with_this_sdk() -> None:
    assert fastspan.usable()


@settings(max_examples=100, deadline=None)
@given(attributes, attributes, st.sampled_from([1, 4, 128]), st.sampled_from([None, 2]), st.booleans())
def test_same_span_as_the_public_way(
    before: dict[str, Any], then: dict[str, Any], count: int, length: int | None, ended: bool
) -> None:
    limits = SpanLimits(max_span_attributes=count, max_span_attribute_length=length)
    fast = made(before, then, limits, True, ended)
    plain = made(before, then, limits, False, ended)
    assert fast.attributes is not None
    assert plain.attributes is not None
    assert list(fast.attributes.items()) == list(plain.attributes.items())
    assert fast.dropped_attributes == plain.dropped_attributes
    assert [type(value) for value in fast.attributes.values()] == [type(value) for value in plain.attributes.values()]
