"""The short ways of the OTLP/JSON reader give what the lenient one gives, and leave every odd spelling to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.wire import _jsonvalue
from otel_replay.wire import json as wire_json

texts = st.text(max_size=6) | st.sampled_from(["otel-replay:text:x", "otel-replay:int:1", "\u0663", "12", "-5", ""])
odd_values: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"intValue": 5}, {"intValue": "\u0663"}, {"intValue": "99999999999999999999"}, {"intValue": "-7"},
        {"intValue": ""},
        {"boolValue": "true"}, {"boolValue": True}, {"doubleValue": "NaN"}, {"doubleValue": 1}, {"bytesValue": "AAE="},
        {"string_value": "x"}, {"stringValue": None}, {"stringValue": 5}, {}, None,
        {"stringValue": "a", "intValue": "1"},
        {"arrayValue": {"values": None}}, {"arrayValue": {}}, {"arrayValue": {"values": [{"intValue": "1"}]}},
        {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}, {"unknownValue": 1},
    ]
)  # fmt: skip
plain_values = texts.map(lambda t: {"stringValue": t}) | st.integers(-5, 2**63).map(lambda n: {"intValue": str(n)})
arrays = st.lists(texts, max_size=3).map(lambda ts: {"arrayValue": {"values": [{"stringValue": t} for t in ts]}})
odd_items: st.SearchStrategy[Any] = st.sampled_from(
    [None, {}, {"key": "k"}, {"key": 5, "value": {}}, {"Key": "k", "value": {"stringValue": "v"}}, []]
)
items = st.fixed_dictionaries({"key": texts, "value": plain_values | arrays | odd_values}) | odd_items
members = st.fixed_dictionaries(
    {},
    optional={
        "traceId": st.sampled_from(["ab" * 16, "AB" * 16, "ab" * 8, "zz" * 16, "", None, 5]),
        "spanId": st.sampled_from(["cd" * 8, "CD" * 8, "", "cd"]),
        "parentSpanId": st.sampled_from(["ef" * 8, "", None]),
        "parent_span_id": st.just("ef" * 8),
        "name": texts | st.none(),
        "kind": st.sampled_from([0, 3, 5, 9, "SPAN_KIND_CLIENT", "3", True, None]),
        "startTimeUnixNano": st.sampled_from(
            ["1", 1, "18446744073709551615", "18446744073709551616", "x", "", "\u0663"]
        ),
        "endTimeUnixNano": st.sampled_from(["2", 2, None, " 3"]),
        "attributes": st.lists(items, max_size=3) | st.none(),
        "status": st.sampled_from([{}, None, {"code": 2, "message": "no"}, []]),
        "flags": st.sampled_from([0, 257]),
        "events": st.sampled_from([[], [{"name": "e"}]]),
    },
)


def read(document: Any) -> tuple[list[Any], list[str]]:
    found = wire_json.read_json(document)
    return found.items, [str(problem) for problem in found.problems]


@settings(max_examples=300)
@given(members)
def test_a_span_is_the_same_either_way(span: dict[str, Any]) -> None:
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    quick = read(copy.deepcopy(document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_json, "_plain_span", lambda *_: None)
        patch.setattr(_jsonvalue, "_plain_pair", lambda *_: None)
        plain = read(document)
    assert repr(quick) == repr(plain)


def test_a_span_of_ours_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_json, "pick_id", None)  # the long way would call it
    span = {
        "traceId": "ab" * 16, "spanId": "cd" * 8, "name": "s", "kind": 1, "startTimeUnixNano": "1",
        "endTimeUnixNano": "2", "status": {},
        "attributes": [{"key": "otel_replay.envelope", "value": {"arrayValue": {"values": [{"stringValue": "{}"}]}}}],
    }  # fmt: skip
    (found,), problems = read({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    assert (found.get("otel_replay.envelope"), problems) == (("{}",), [])
