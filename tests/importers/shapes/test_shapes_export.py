"""Out to Jaeger and Zipkin, and back: what the shape can hold returns as it was; our envelope always does."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import codec, semconv
from otel_replay.envelope import Envelope, Outcome, Payload
from otel_replay.importers import open_source
from otel_replay.importers.shapes.jaeger import to_jaeger
from otel_replay.importers.shapes.zipkin import to_zipkin
from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span

RESOURCE = Resource((("service.name", "agent"), ("service.version", "1")))
SPAN = Span(
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_span_id="00f067aa0ba902b7",
    name="chat ü",
    kind=3,
    start_ns=1_796_078_319_979_947_000,
    end_ns=1_796_078_319_980_069_000,
    attributes=(
        (semconv.SEQ, 4),
        (semconv.ENVELOPE, ('{"a":1,', '"b":"|x|"}')),
        (semconv.ENVELOPE_BYTES, 17),
        ("gen_ai.response.finish_reasons", ("stop",)),
        ("gen_ai.usage.input_tokens", 2**60),
        ("text", '["not", "a list"]'),
    ),
    events=(Event(1_796_078_319_980_000_000, "exception", (("exception.message", "a | b"), ("n", 1)), 0),),
    links=(Link("1" * 32, "2" * 16),),
    status_code=2,
    status_message="boom",
    trace_state="a=b",
    resource=RESOURCE,
    scope=Scope("otel_replay", "1"),
)


def back(document: object) -> list[Span]:
    return open_source(orjson.dumps(document)).spans


def test_jaeger_and_back() -> None:
    assert back(to_jaeger([SPAN])) == [SPAN]


def test_zipkin_and_back() -> None:
    assert back(to_zipkin([SPAN])) == [SPAN]


def test_jaeger_answer_reads_as_jaeger_writes_it() -> None:
    (trace,) = to_jaeger([SPAN, replace(SPAN, span_id="c" * 16, resource=Resource())])["data"]
    assert set(trace["processes"]) == {"p1", "p2"}
    first = trace["spans"][0]
    assert first["references"][0] == {"refType": "CHILD_OF", "traceID": SPAN.trace_id, "spanID": SPAN.parent_span_id}
    assert {"key": "error", "type": "bool", "value": True} in first["tags"]
    assert {"key": "gen_ai.usage.input_tokens", "type": "int64", "value": str(2**60)} in first["tags"]
    assert (first["startTime"], first["duration"]) == (1_796_078_319_979_947, 122)


@pytest.mark.parametrize("write", [to_jaeger, to_zipkin])
@pytest.mark.parametrize("encoding", ["json", "hex", "zstd"])
def test_our_own_envelope_comes_back_exact(write, encoding) -> None:  # type: ignore[no-untyped-def]
    envelope = Envelope(
        run_id="r" * 32,
        run_name="123",
        address="plan[1]/search[2]",
        boundary="search",
        kind="tool",
        request=Payload("json", '{"q":"' + "é🙂\\u0000[1]" * 900 + '"}'),
        outcome=Outcome("returned", Payload("json", "[1.0,9007199254740993,null]")),
        seq=7,
        end_seq=9,
        start_ns=1_796_078_319_979_947_123,
        end_ns=1_796_078_319_980_069_456,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
    )
    span = codec.to_span(envelope, encoding=encoding)
    (returned,) = back(write([span]))
    reading = codec.from_span(returned)
    assert reading.integrity == "intact"
    assert reading.envelope == codec.from_span(span).envelope
    assert reading.envelope is not None
    assert reading.envelope.request == envelope.request


SCALARS = st.one_of(
    st.text(),
    st.sampled_from(["half \ud83d", "\udfff", 'otel-replay:text:"x"', "otel-replay:int:7"]),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
)
KEYS = st.text(min_size=1).filter(lambda key: not key.startswith(("otel.", "span.kind", "error", "w3c.", "event")))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, SCALARS, max_size=5), st.text(), st.text())
def test_jaeger_keeps_every_scalar_in_value_and_type(attributes, name, message) -> None:  # type: ignore[no-untyped-def]
    span = replace(SPAN, attributes=tuple(attributes.items()), name=name, status_message=message)
    (returned,) = back(to_jaeger([span]))
    assert returned == span
    assert [type(value) for _, value in returned.attributes] == [type(value) for value in attributes.values()]


def test_lists_maps_and_unknown_numbers_become_text_and_are_announced() -> None:
    span = replace(SPAN, attributes=(("map", KeyValues([("k", (1, b"x"))])), ("nan", float("inf")), ("none", None)))
    for document, infinity in ((to_jaeger([span]), float("inf")), (to_zipkin([span]), "inf")):
        result = open_source(json.dumps(document).encode())
        (returned,) = result.spans
        assert returned.attributes == (("map", '{"k":[1,"eA=="]}'), ("nan", infinity), ("none", ""))
        assert any("text" in note for note in result.notes)
