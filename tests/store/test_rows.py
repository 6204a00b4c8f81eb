"""Law: a span is given back by its row exactly, and what the row shows beside it can always be stored and asked."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import cast

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_replay import carrying, codec, semconv
from otel_replay.envelope import Chunk, Envelope, Outcome, Payload
from otel_replay.limits import IMPORT_DEPTH_MAX
from otel_replay.span import KeyValues, Span, Value
from otel_replay.store.parquet import table_of
from otel_replay.store.rows import envelope_text, from_row, to_row
from otel_replay.store.runs import envelope_of
from otel_replay.store.schema import READ_COLUMNS

from .strategies import spans

SPAN = Span("ab" * 16, "cd" * 8, "chat", 10, 20)


def back(span: Span) -> Span:
    """Return `span` after the way through a row and an Arrow table."""
    (row,) = table_of([to_row(span)]).to_pylist()
    return from_row(row)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spans)
def test_a_row_gives_back_its_span(span: Span) -> None:
    # repr, since NaN is not equal to itself, and -0.0, 1 and True are equal to what they are not
    assert repr(back(span)) == repr(span)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spans)
def test_json_columns_are_strict_json(span: Span) -> None:
    row = to_row(span)
    for column in ("attributes", "resource", "events", "links", "rest", "content", "exact"):
        if row.get(column) is not None:
            orjson.loads(row[column])


@pytest.mark.parametrize(
    "value",
    [
        "",
        None,
        (),
        KeyValues(),
        b"\x00\xff",
        True,
        1,
        1.0,
        -0.0,
        float("nan"),
        float("-inf"),
        2**63 - 1,
        -(2**63),
        5e-324,
        "\ud83d",
        "a\x00b",
        KeyValues((("k", 1), ("k", 2))),
        KeyValues((("$text", "request"),)),
        ("a", 1, (None, b"x")),
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("key", ["k", "gen_ai.input.messages", "gen_ai.output.messages", "otel_replay.envelope"])
def test_each_kind_of_value(key: str, value: Value) -> None:
    span = dataclasses.replace(SPAN, attributes=(("before", 1), (key, value), ("after", "x")))
    assert repr(back(span)) == repr(span)


def test_a_key_that_stands_twice_keeps_both_and_shows_the_last() -> None:
    span = dataclasses.replace(SPAN, attributes=(("k", "a"), ("k", "b")))
    assert back(span) == span
    assert orjson.loads(to_row(span)["attributes"]) == {"k": "b"}


@pytest.mark.parametrize("leaf", [1, float("nan")])
@pytest.mark.parametrize("wrap", [lambda v: (v,), lambda v: KeyValues((("k", v),))])
def test_values_nested_as_deep_as_any_importer_lets_through(leaf: Value, wrap: Callable[[Value], Value]) -> None:
    value = leaf
    for _ in range(IMPORT_DEPTH_MAX):
        value = wrap(value)
    span = dataclasses.replace(SPAN, attributes=(("deep", value),))
    assert repr(back(span)) == repr(span)


payloads = st.sampled_from(
    [
        Payload("json", '{"q":"refund 42","messages":[1,2.5,null]}'),
        Payload("json", '"Grüße 😀"'),
        Payload("json", "null"),
        Payload("json", '"returned"'),
        Payload("typed-json", '{"$":"tuple","v":[1]}'),
        Payload("lost", "null", "a socket"),
    ]
)
outcomes = st.one_of(
    st.builds(Outcome, st.sampled_from(["returned", "raised", "cancelled", "lost"]), payloads),
    st.builds(
        Outcome,
        st.just("streamed"),
        payloads,
        st.lists(st.builds(Chunk, payloads), max_size=3).map(tuple),
        st.just("closed"),
    ),
)
envelopes = st.builds(
    Envelope,
    run_id=st.just("r" * 32),
    address=st.just("search[1]"),
    boundary=st.just("search"),
    kind=st.sampled_from(["tool", "model", "custom"]),
    request=payloads,
    outcome=outcomes,
    seq=st.integers(1, 9),
    end_seq=st.integers(0, 9),
    trace_id=st.just("ab" * 16),
    span_id=st.just("cd" * 8),
)


@settings(max_examples=80, deadline=None)
@given(envelopes, st.sampled_from(["json", "hex", "zstd"]), st.sampled_from([1900, 7]))
def test_a_crossing_is_given_back_with_its_texts_in_their_own_columns(
    envelope: Envelope, encoding: carrying.Encoding, part_bytes: int
) -> None:
    span = codec.to_span(envelope, encoding=encoding, part_bytes=part_bytes)
    row = to_row(span)
    assert from_row(row) == span
    assert codec.from_span(from_row(row)).envelope == envelope
    assert envelope_of({name: row.get(name) for name in READ_COLUMNS}) == (envelope, "")
    assert row["integrity"] == "intact"
    assert row["request"] == (None if envelope.request.lost else envelope.request.text)
    if envelope.outcome.kind == "returned" and not envelope.outcome.value.lost:
        assert row["response"] == envelope.outcome.value.text


def test_request_and_response_stand_once() -> None:
    request, result = Payload("json", '{"q":"' + "x" * 3000 + '"}'), Payload("json", '"' + "ü" * 3000 + '"')
    envelope = Envelope("r" * 32, "a[1]", "a", "custom", request, Outcome("returned", result), 1, 2)
    row = to_row(codec.to_span(envelope))
    assert len(row["envelope"]) < 400
    assert orjson.loads(row["envelope"])["request"] == {"json": None}
    text = envelope_text(row)
    assert hashlib.sha256(text.encode()).hexdigest() in row["attributes"]


def test_a_cut_envelope_is_named_and_kept_as_it_came() -> None:
    envelope = Envelope("r" * 32, "a[1]", "a", "tool", Payload("json", "1"), Outcome("returned"), 1, 2)
    span = codec.to_span(envelope)
    cut = tuple(
        (k, tuple(p[:20] for p in cast(tuple[str, ...], v)) if k == semconv.ENVELOPE else v) for k, v in span.attributes
    )
    span = dataclasses.replace(span, attributes=cut)
    row = to_row(span)
    assert row["integrity"] == "truncated"
    assert from_row(row) == span
