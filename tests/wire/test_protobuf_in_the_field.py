"""OTLP protobuf as it is found: bad text, newer fields, broken spans; and what a receiver's check makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, EntityRef, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_replay.errors import ImportFault
from otel_replay.span import Span
from otel_replay.wire import check, response
from otel_replay.wire.json import json_line, loads, spans_from_json
from otel_replay.wire.protobuf import read_request, request_from_spans, spans_from_request

from .strategies import exact

NEWER = b"\xfa\x07\x03abc"  # field 127, which OTLP does not have


def official(*spans: SpanMessage) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request


def test_the_official_library_reads_what_is_written() -> None:
    span = Span("ab" * 16, "cd" * 8, "n", 1, 2, "ef" * 8, 3, (("a", (1, 2.0, None)),), status_code=2)
    message = ExportTraceServiceRequest.FromString(request_from_spans([span])).resource_spans[0].scope_spans[0].spans[0]
    assert (message.name, message.trace_id.hex(), message.kind, message.status.code) == ("n", "ab" * 16, 3, 2)
    assert [item.WhichOneof("value") for item in message.attributes[0].value.array_value.values] == [
        "int_value",
        "double_value",
        None,
    ]


def test_text_that_is_no_utf8_costs_neither_key_nor_span() -> None:
    message = SpanMessage(trace_id=b"\1" * 16, span_id=b"\2" * 8, name="XXXX")
    message.attributes.append(KeyValue(key="YYYY", value=AnyValue(string_value="cut ZZZZ")))
    data = official(message).SerializeToString()
    data = (
        data.replace(b"XXXX", b"n\xff\xc3n")
        .replace(b"YYYY", b"k\xe2\x82k")
        .replace(b"ZZZZ", b"\xf0\x9f\x98\x80"[:3] + b"!")
    )
    (span,) = spans_from_request(data)
    assert span.name == "n\udcff\udcc3n"
    assert span.attributes == (("k\udce2\udc82k", "cut \udcf0\udc9f\udc98!"),)
    assert exact(spans_from_request(request_from_spans([span]))) == exact([span])
    assert exact(spans_from_json(loads(json_line([span])))) == exact([span])


def test_newer_fields_are_kept_where_they_stood() -> None:
    request = official(SpanMessage(trace_id=b"\1" * 16, span_id=b"\2" * 8, name="n"))
    group = request.resource_spans[0]
    group.resource.entity_refs.append(EntityRef(type="service", id_keys=["service.name"]))
    group.scope_spans[0].scope.MergeFromString(NEWER)
    span = group.scope_spans[0].spans[0]
    span.attributes.append(KeyValue(key="k", value=AnyValue(string_value="v")))
    span.events.add(name="e")
    span.events.add(name="f").MergeFromString(NEWER)
    span.status.MergeFromString(NEWER)
    span.attributes[0].value.MergeFromString(NEWER)
    span.MergeFromString(NEWER)
    data = request.SerializeToString()
    kept = spans_from_request(data)
    assert ExportTraceServiceRequest.FromString(request_from_spans(kept)) == request
    through_json = spans_from_json(loads(json_line(kept)))
    assert exact(through_json) == exact(kept)
    assert ExportTraceServiceRequest.FromString(request_from_spans(through_json)) == request


def test_a_broken_span_is_refused_alone() -> None:
    spans = [Span("ab" * 16, f"{n:016x}", f"n{n}", 1, 2) for n in (1, 2, 3)]
    data = bytearray(request_from_spans(spans))
    at = data.index(b"n2") - 1
    data[at] = 200  # the name now claims to be longer than its span
    read = read_request(bytes(data))
    assert [span.name for span in read.items] == ["n1", "n3"]
    assert read.problems[0].where == "resourceSpans[0].scopeSpans[0].spans[1]"
    checked = check.check_traces(bytes(data))
    assert (checked.accepted, len(checked.problems)) == (2, 1)
    assert [span.name for span in spans_from_request(checked.data)] == ["n1", "n3"]


def test_a_check_leaves_good_requests_as_they_are() -> None:
    data = request_from_spans([Span("ab" * 16, "cd" * 8, "n", 1, 2, unknown=NEWER)]) + NEWER
    assert check.check_traces(data) == (data, 1, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trace_id": ""}, "trace id has 0 bytes, not 16"),
        ({"trace_id": "00" * 16}, "trace id is all zeros"),
        ({"span_id": "ab"}, "span id has 1 bytes, not 8"),
        ({"span_id": "00" * 8}, "span id is all zeros"),
        ({"parent_span_id": "ab"}, "parent span id has 1 bytes, not 8"),
    ],
)
def test_spans_without_valid_ids_are_refused(changes: dict[str, str], reason: str) -> None:
    facts = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "name": "n", "start_ns": 1, "end_ns": 2}
    checked = check.check_traces(request_from_spans([Span(**(facts | changes))]))  # type: ignore[arg-type]
    assert (checked.accepted, check.refusal(checked.problems)) == (
        0,
        f"resource_spans[0].scope_spans[0].spans[0]: 'n': {reason}",
    )


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 10**6), st.binary(min_size=1, max_size=3))
def test_any_bytes_give_spans_or_a_fault(noise: bytes, at: int, patch: bytes) -> None:
    data = bytearray(request_from_spans([Span("ab" * 16, "cd" * 8, "n", 1, 2, attributes=(("k", (b"x", 1)),))]))
    at %= len(data)
    data[at : at + len(patch)] = patch
    for candidate in (noise, bytes(data)):
        try:
            read = read_request(candidate)
        except ImportFault:
            continue
        for span in read.items:  # what was read can be written, and is then read as the same
            if len(span.trace_id) == 32:
                assert exact(spans_from_request(request_from_spans([span]))) == exact([span])


def test_responses_are_those_of_the_official_library() -> None:
    assert response.export_response(0, "") == b""
    told = ExportTraceServiceResponse.FromString(response.export_response(300, "é\ud83d"))
    assert (told.partial_success.rejected_spans, told.partial_success.error_message) == (300, "é\\ud83d")
