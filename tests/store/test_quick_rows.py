"""The quick way from export requests to columns and the plain one by spans and rows give the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_replay import semconv
from otel_replay.errors import ImportFault
from otel_replay.span import Attributes, Event, KeyValue, KeyValues, Link, Resource, Scope, Span, Value
from otel_replay.store import open_store
from otel_replay.store.parquet import table_of
from otel_replay.store.promoted import NUMBERS, OLDER, TEXTS
from otel_replay.store.quick_rows import QuickRows
from otel_replay.store.rows import OWN_KEYS, to_row
from otel_replay.wire.protobuf import read_request, request_from_spans
from tests.wire import strategies as wire

NO_SHRINK = [phase for phase in Phase if phase is not Phase.shrink]
"""Each example writes and reads several files."""
KEYS = st.sampled_from(sorted({*TEXTS, *NUMBERS, *OLDER, *OWN_KEYS} - {semconv.RUN_ID})) | wire.TEXT
SOME: list[Value] = ["chat", "m", "x" * 1024, "x" * 1025, "é" * 600, "y" * 2000, 7, True, None, KeyValues(), ()]
SOME += [KeyValues([("$text", "content")]), (KeyValues([("role", "user")]),), float("nan"), b"\xff"]
VALUES: st.SearchStrategy[Value] = st.sampled_from(SOME) | wire.VALUES
PAIRS: st.SearchStrategy[KeyValue] = st.tuples(KEYS, VALUES)
ATTRIBUTES: st.SearchStrategy[Attributes] = st.lists(PAIRS, max_size=6).map(tuple)
OUR_OWN: st.SearchStrategy[Attributes] = st.sampled_from(
    [(), (), ((semconv.RUN_ID, "r"),), ((semconv.RUN_ID, "r"), (semconv.KIND, "run")), ((semconv.RUN_ID, 1),)]
)


@st.composite
def span_lists(draw: st.DrawFn) -> list[Span]:
    """Lists of spans of which most have nothing but attributes, in groups, as they come from programs."""
    shared = draw(ATTRIBUTES)
    spans = draw(wire.span_lists())
    return [
        replace(
            span,
            attributes=draw(ATTRIBUTES) + draw(st.sampled_from([(), shared])) + draw(OUR_OWN),
            events=draw(st.sampled_from([(), span.events])),
            links=draw(st.sampled_from([(), span.links])),
            unknown=draw(st.sampled_from([b"", span.unknown])),
        )
        for span in spans
    ]


def plain(requests: Sequence[bytes]) -> tuple[pa.Table, list[bool]]:
    rows, whole = [], []
    for request in requests:
        try:
            read = read_request(request)
        except ImportFault:
            whole.append(False)
            continue
        rows += [to_row(span) for span in read.items]
        whole.append(not read.problems)
    return table_of(rows), whole


def quick(rows: QuickRows, requests: Sequence[bytes]) -> tuple[pa.Table, list[bool]]:
    """What is not taken quickly is added as the store does."""
    whole = []
    for request in requests:
        if rows.add(request):
            whole.append(True)
            continue
        table, was_whole = plain([request])
        whole += was_whole
        for row in table.to_pylist():
            rows.add_row(row)
    return rows.table(), whole


def assert_same(requests: Sequence[bytes]) -> None:
    """Twice, as the second time all that can be remembered is."""
    rows = QuickRows()
    for _ in range(2):
        table, whole = quick(rows, requests)
        expected, was_whole = plain(requests)
        assert table.to_pylist() == expected.to_pylist()
        assert table.schema.equals(expected.schema)
        assert whole == was_whole


@given(st.lists(span_lists(), max_size=3))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_both_ways_give_the_same_table(batches: list[list[Span]]) -> None:
    assert_same([request_from_spans(batch) for batch in batches])


@given(span_lists(), st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_damaged_requests_are_read_the_same(batch: list[Span], damage: list[tuple[int, bytes]]) -> None:
    request = request_from_spans(batch)
    for at, data in damage:
        place = at % (len(request) + 1)
        request = request[:place] + data + request[place + len(data) // 2 :]
    assert_same([request])


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": (("k", "first"), ("k", "second"))},
        {"attributes": (("gen_ai.system", "older"), ("gen_ai.provider.name", "newer"))},
        {"attributes": (("gen_ai.provider.name", "newer"), ("gen_ai.system", "older"))},
        {"attributes": (("tool.name", 5), ("llm.model_name", "a"), ("gen_ai.request.model", 7))},
        {"attributes": (("gen_ai.usage.prompt_tokens", 1), ("llm.token_count.prompt", 2))},
        {"attributes": (("llm.token_count.prompt", 2), ("gen_ai.usage.prompt_tokens", 1))},
        {"attributes": (("input.value", "one"), ("gen_ai.prompt", "two"), ("gen_ai.input.messages", "x" * 2000))},
        {"attributes": (("gen_ai.request.model", "m" * 2000), ("gen_ai.tool.name", "t" * 1025))},
        {"attributes": (("gen_ai.usage.input_tokens", 2**63),)},
        {"kind": -(2**31)},
        {"kind": -1},
        {"status_code": -(2**31)},
        {"start_ns": 2**63},
        {"end_ns": 2**64 - 1},
        {"name": "otel-replay:int:99999999999999999999"},
        {"name": "\ud83d"},
    ],
    ids=str,
)
def test_what_is_rare(changes: dict[str, object]) -> None:
    odd = replace(SPAN, **changes)  # type: ignore[arg-type]
    assert_same([request_from_spans([SPAN, odd, replace(SPAN, span_id="03" * 8)])])


def official(text: bytes) -> bytes:
    """Return a request whose one attribute has these bytes for a value, whether they are UTF-8 or not."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, name="n")
    attribute = span.attributes.add(key="k")
    attribute.value.string_value = "?" * len(text)
    return bytes(request.SerializeToString()).replace(b"?" * len(text), text)


@pytest.mark.parametrize("size", [1, 100, 127, 128, 129, 300, 16_383, 16_384, 20_000])
@pytest.mark.parametrize("end", [b"", b"\xff", b"\xe2\x82", "é".encode(), b'"\\\n\x00', b"\xed\xa0\x80"])
def test_texts_of_any_length_and_encoding(size: int, end: bytes) -> None:
    assert_same([official(b"x" * size + end)])


@given(st.binary(max_size=12))
@example(b"\x0a\x01k\x12\x02\x18\x01\x78\x01")
@example(b"\x0a\x01k\x0a\x01l\x12\x00")
@example(b"\x12\x03\x0a\x01v\x0a\x01k")
@example(b"\x0a\x01k\x12\x07\x0a\x01v\x0a\x02vw")
@example(b"\x0a\x81\x00k\x12\x03\x0a\x01v")
@example(b"\x0a\x01k\x12\x83\x00\x0a\x01v")
def test_an_attribute_of_any_bytes(data: bytes) -> None:
    body = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + b"\2" * 8 + b"\x4a" + bytes([len(data)]) + data
    request = body
    for _tag in range(3):
        request = b"\x12" + bytes([len(request)]) + request
    assert_same([b"\x0a" + request[1:]])


def nested(depth: int, *, maps: bool) -> Value:
    value: Value = "leaf"
    for _ in range(depth):
        value = KeyValues([("k", value)]) if maps else (value,)
    return value


@pytest.mark.parametrize("depth", [23, 24, 25, 26, 30, 31, 32, 33, 46, 47, 48, 49, 50])
@pytest.mark.parametrize("maps", [True, False])
def test_values_nested_to_where_protobuf_refuses_them(depth: int, maps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_replay.wire.text.DEPTH_MAX", 1_000)
    value = nested(depth, maps=maps)
    spans = [
        replace(SPAN, attributes=(("k", value),)),
        replace(SPAN, events=(Event(1, "e", (("k", value),)),)),
        replace(SPAN, links=(Link("01" * 16, "02" * 8, "", (("k", value),)),)),
        replace(SPAN, resource=Resource((("k", value),))),
    ]
    requests = [request_from_spans([span]) for span in spans]
    monkeypatch.undo()
    assert_same(requests)


SPAN = Span("01" * 16, "02" * 8, "chat", 1_790_000_000_000_000_000, 1_790_000_000_000_000_001)
ORDINARY: tuple[KeyValue, ...] = (
    ("gen_ai.operation.name", "chat"),
    ("gen_ai.system", "openai"),
    ("gen_ai.usage.input_tokens", 12),
    ("gen_ai.request.temperature", 0.7),
    ("gen_ai.input.messages", '[{"role": "user"}]'),
    ("gen_ai.output.messages", (KeyValues([("role", "assistant")]),)),
    ("log", "x" * 3000),
    ("empty", None),
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attributes": ORDINARY},
        {"events": (Event(5, "exception", ORDINARY, 1),)},
        {"links": (Link("03" * 16, "04" * 8, "a=b", ORDINARY, 1, 1),)},
        {"status_code": 2, "status_message": "it broke: é", "trace_state": "a=b", "flags": 257},
        {"resource": Resource((("service.name", "shop"), *ORDINARY), 1, "u"), "scope": Scope("s", "1", ORDINARY, 1)},
        {"dropped_events_count": 2, "dropped_links_count": 1, "dropped_attributes_count": 3},
        {"name": "Grüße", "parent_span_id": "05" * 8},
    ],
    ids=lambda changes: "+".join(changes) or "bare",
)
def test_what_is_ordinary_goes_the_quick_way(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    span = replace(SPAN, **changes)  # type: ignore[arg-type]
    expected = table_of([to_row(span)] * 2)
    monkeypatch.setattr("otel_replay.store.quick_rows.to_row", None)
    rows = QuickRows()
    assert rows.add(request_from_spans([span, span]))
    assert rows.table().to_pylist() == expected.to_pylist()


@given(span_lists(), span_lists())
@settings(max_examples=15, phases=NO_SHRINK, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_store_holds_the_same_by_either_way(
    tmp_path_factory: pytest.TempPathFactory, first: list[Span], second: list[Span]
) -> None:
    found = []
    for quickly in (True, False):
        with open_store(tmp_path_factory.mktemp("store"), create=True) as store:
            for batch in ([*first, *second], second):
                if quickly:
                    count, refused = store.write_requests([request_from_spans(batch)], batch[:1])
                    assert (count, refused) == (len(batch) + len(batch[:1]), [])
                else:
                    store.write([*batch, *batch[:1]])
            kept = store.arrow("SELECT * FROM stored ORDER BY ALL").to_pylist()
            found.append(kept)
    assert found[0] == found[1]


def test_what_could_not_be_read_is_handed_back(tmp_path: Path) -> None:
    whole = request_from_spans([SPAN])
    broken = whole[:-1]
    with open_store(tmp_path, create=True) as store:
        count, ((request, reason),) = store.write_requests([broken, whole], [])
        assert (count, request) == (1, broken)
        assert "not an OTLP trace request" in reason
        assert store.arrow("SELECT span_id FROM spans").to_pylist() == [{"span_id": SPAN.span_id}]
