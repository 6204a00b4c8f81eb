"""Law: what travels in part spans comes together again, in any order and by any road, or is missing; never wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import carrying, codec, limits, semconv
from otel_replay.blobs import name_of
from otel_replay.envelope import Envelope, Outcome, Payload
from otel_replay.span import Span, Value
from otel_replay.wire.json import json_line, loads, spans_from_json
from otel_replay.wire.protobuf import request_from_spans, spans_from_request

from .strategies import ENVELOPES

IDS: dict[str, Any] = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "parent_span_id": ""}

SMALL = 24


@contextmanager
def small_limits(threshold: int) -> Iterator[None]:
    """A few bytes are large, and a span holds next to nothing."""
    before = limits.BLOB_THRESHOLD_BYTES, limits.ENVELOPE_ATTRIBUTES_MAX
    limits.BLOB_THRESHOLD_BYTES, limits.ENVELOPE_ATTRIBUTES_MAX = threshold, 3
    try:
        yield
    finally:
        limits.BLOB_THRESHOLD_BYTES, limits.ENVELOPE_ATTRIBUTES_MAX = before


def sent(envelopes: Sequence[Envelope], part_bytes: int = 1_900) -> list[Span]:
    """Return the spans that a recorder sends of one run."""
    known: set[str] = set()
    found: list[Span] = []
    for envelope in envelopes:
        attributes = codec.to_attributes(envelope, part_bytes=part_bytes)
        crossing = codec.to_span(envelope, content=False)
        for part in carrying.part_spans(attributes, part_bytes, known):
            found.append(replace(crossing, span_id=f"{len(found):016x}", attributes=tuple(part)))
        found.append(replace(crossing, attributes=tuple(attributes)))
    return found


def read(spans: Sequence[Span]) -> list[codec.Reading]:
    return [codec.from_span(span) for span in carrying.assemble(spans)]


def of_one_run(envelopes: list[Envelope], lanes: list[str]) -> list[Envelope]:
    return [
        replace(envelope, run_id="r" * 32, lane=lane, seq=seq, **IDS)
        for seq, (envelope, lane) in enumerate(zip(envelopes, lanes, strict=False))
    ]


@settings(max_examples=80, deadline=None)
@given(st.lists(ENVELOPES, min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 100) | st.just(1_900), st.data())
def test_any_order_and_both_wires_give_back_all(
    envelopes: list[Envelope], threshold: int, part_bytes: int, data: st.DataObject
) -> None:
    envelopes = of_one_run(envelopes, [""] * 3)
    with small_limits(threshold):
        spans = sent(envelopes, part_bytes)
        shuffled = data.draw(st.permutations(spans))
        again = [span for span in shuffled for _ in range(data.draw(st.integers(1, 2)))]  # some arrive twice
        by_protobuf = list(spans_from_request(request_from_spans(again)))
        by_json = list(spans_from_json(loads(json_line(again))))
        for arrived in (again, by_protobuf, by_json):
            found = {reading.envelope.seq: reading.envelope for reading in read(arrived) if reading.envelope}
            assert [found.get(envelope.seq) for envelope in envelopes] == envelopes


@settings(max_examples=80, deadline=None)
@given(st.lists(ENVELOPES, min_size=1, max_size=3), st.integers(1, 40), st.data())
def test_what_is_lost_or_changed_on_the_way_is_never_served(
    envelopes: list[Envelope], threshold: int, data: st.DataObject
) -> None:
    envelopes = of_one_run(envelopes, [""] * 3)
    with small_limits(threshold):
        spans = sent(envelopes)
        at = data.draw(st.integers(0, len(spans) - 1))
        hurt = spans[at]
        key = data.draw(st.sampled_from([key for key, value in hurt.attributes if key.startswith(semconv.ENVELOPE)]))
        damaged = data.draw(st.sampled_from(_damages(hurt.get(key))))
        changed = replace(hurt, attributes=tuple((k, damaged if k == key else v) for k, v in hurt.attributes))
        lost = data.draw(st.booleans())
        for reading in read([*spans[:at], *([] if lost else [changed]), *spans[at + 1 :]]):
            if reading.envelope is None:
                assert reading.reason
            else:
                assert reading.envelope == envelopes[reading.envelope.seq]


def _damages(value: Value) -> list[Any]:
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return [
            value[:-1],
            (*value, "0"),
            tuple(reversed(value)),
            (value[0][::-1], *value[1:]),
            "".join(map(str, value)),
            (),
        ]
    return [None, 0, 1, 2, 99, "json", "hex", "f" * 64]


def test_a_picture_goes_once_however_many_crossings_hold_it() -> None:
    picture = "iVBORw0KGgo" + "p" * 2_000_000
    request = Payload("json", f'{{"é":"ü","image":"{picture}"}}')
    envelopes = [
        Envelope("r" * 32, f"a[{seq}]", "a", "tool", request, Outcome("returned"), seq, seq, **IDS) for seq in range(20)
    ]
    spans = sent(envelopes)
    parts = [span for span in spans if carrying.is_part(span)]
    assert len(parts) == 3
    sizes = [len(request_from_spans([span])) for span in spans]
    assert max(sizes) < limits.BLOB_SPAN_BYTES_MAX
    assert sum(sizes) < len(picture) * 1.01 + 20 * 20_000  # each shows 15,000 characters of it to people
    assert [reading.envelope for reading in read(spans)] == envelopes
    (crossing,) = [span for span in spans if span.get(semconv.SEQ) == 19]
    shown = codec.from_cut_span(crossing).envelope
    assert shown is not None
    asked: Any = loads(shown.request.text)
    assert asked["image"] == {
        "$": "blob", "sha256": name_of(picture), "bytes": len(picture), "media_type": "image/png",
    }  # fmt: skip
    for at in range(3):
        lacking = [span for span in spans if span is not parts[at]]
        assert {(reading.envelope, reading.integrity) for reading in read(lacking)} == {(None, "missing")}
        assert "1 large strings" in read(lacking)[0].reason


def test_two_processes_that_cut_one_string_differently_do_not_disturb_each_other() -> None:
    request = Payload("json", f'["{"x" * 300_000}"]')
    both = [
        Envelope("r" * 32, f"a[{n}]", "a", "tool", request, Outcome("returned"), n, n, lane=f"a~{n}", **IDS)
        for n in (1, 2)
    ]
    spans = [*sent(both[:1], 1_900), *sent(both[1:], 7)]
    assert [reading.envelope for reading in read(spans)] == both
    assert [reading.envelope for reading in read(spans[::-1])] == both[::-1]


@pytest.mark.parametrize("encoding", ["hex", "zstd"])
def test_other_encodings_go_in_parts_as_they_are(encoding: Any) -> None:
    request = Payload("json", f'["{"".join(f"{n * 7919 % 99991}" for n in range(400_000))}"]')
    envelope = Envelope("r" * 32, "a[1]", "a", "tool", request, Outcome("returned"), 1, 1, **IDS)
    attributes = codec.to_attributes(envelope, encoding=encoding)
    crossing = codec.to_span(envelope, content=False)
    parts = [replace(crossing, attributes=tuple(part)) for part in carrying.part_spans(attributes)]
    spans = [*parts, replace(crossing, attributes=tuple(attributes))]
    assert all(len(request_from_spans([span])) < limits.BLOB_SPAN_BYTES_MAX for span in spans)
    (reading,) = read(spans)
    assert reading.envelope is not None
    assert reading.envelope.request == request
