"""The laws of the wire: what is written is read back, in value, type and order."""

from __future__ import annotations

from dataclasses import replace

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.span import Event, KeyValues, LogRecord, Resource, Scope, Span, Value
from otel_replay.wire import json as wire_json
from otel_replay.wire import logs, protobuf, text

from .strategies import (
    ATTRIBUTES,
    COUNTS,
    RESOURCES,
    SCOPES,
    SPAN_IDS,
    TEXT,
    TIMES,
    TRACE_IDS,
    VALUES,
    exact,
    span_lists,
)

LOGS = st.builds(
    LogRecord,
    time_ns=TIMES,
    observed_time_ns=TIMES,
    severity_number=st.integers(0, 24),
    severity_text=TEXT,
    event_name=TEXT,
    body=VALUES,
    attributes=ATTRIBUTES,
    dropped_attributes_count=COUNTS,
    flags=COUNTS,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    resource=RESOURCES,
    scope=SCOPES,
)


@settings(max_examples=100, deadline=None)
@given(span_lists())
def test_protobuf_gives_back_what_it_was_given(spans: list[Span]) -> None:
    read = protobuf.read_request(protobuf.request_from_spans(spans))
    assert read.problems == []
    assert exact(read.items) == exact(spans)


@settings(max_examples=100, deadline=None)
@given(span_lists())
def test_json_gives_back_what_it_was_given(spans: list[Span]) -> None:
    line = wire_json.json_line(spans)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read = wire_json.read_json(orjson.loads(line))
    assert read.problems == []
    assert exact(read.items) == exact(spans)


@settings(max_examples=100, deadline=None)
@given(st.lists(LOGS, max_size=3))
def test_log_records_survive_protobuf_and_the_form_of_a_span(records: list[LogRecord]) -> None:
    assert exact(logs.logs_from_request(logs.request_from_logs(records))) == exact(records)
    spans = [logs.span_from_log(record) for record in records]
    carried = protobuf.spans_from_request(protobuf.request_from_spans(spans))
    assert exact([logs.log_from_span(span) for span in carried]) == exact(records)


@settings(max_examples=200, deadline=None)
@given(st.one_of(TEXT, st.text(st.characters()), TEXT.map(text.to_wire)))
def test_any_text_has_one_form_that_utf8_can_hold(given_text: str) -> None:
    carried = text.to_wire(given_text)
    assert carried.encode().decode() == carried
    assert text.from_wire(carried) == given_text


def test_values_nested_deeper_than_protobuf_readers_allow_survive() -> None:
    value: Value = KeyValues((("leaf", 2**53 + 1),))
    for level in range(90):
        value = KeyValues(((f"k{level}", value),)) if level % 2 else (value, None, 1.0)
    span = Span("ab" * 16, "cd" * 8, "deep", 1, 2, attributes=(("deep", value), ("next", True)))
    assert exact(protobuf.spans_from_request(protobuf.request_from_spans([span]))) == exact([span])
    assert exact(wire_json.spans_from_json(wire_json.loads(wire_json.json_line([span])))) == exact([span])


def test_equal_looking_resources_of_different_types_stay_apart() -> None:
    spans = [
        Span("ab" * 16, "cd" * 8, str(value), 1, 2, resource=Resource((("n", value),)))
        for value in (1, True, 1.0, (("a", 1),), KeyValues((("a", 1),)))
    ]
    assert exact(protobuf.spans_from_request(protobuf.request_from_spans(spans))) == exact(spans)
    assert exact(wire_json.spans_from_json(wire_json.json_from_spans(spans))) == exact(spans)


def test_a_name_that_is_the_digit_nought_is_a_name() -> None:
    span = Span("1" * 32, "2" * 16, "0", 1, 2, events=(Event(0, "0"),), trace_state="0", status_message="0")
    named = replace(span, resource=Resource(schema_url="0"), scope=Scope("0", "0", schema_url="0"))
    assert wire_json.spans_from_json(orjson.loads(wire_json.json_line([named]))) == [named]
