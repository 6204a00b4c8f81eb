"""OTLP/JSON as it is found: other spellings, other encodings, broken parts."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest

from otel_replay.errors import ImportFault
from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span
from otel_replay.wire.json import json_from_spans, json_line, loads, read_json, spans_from_json

from .strategies import exact

TRACE, SPAN = "e58d5052d729603f92c216e5469ebdd6", "f53d18b73405292a"
SHARED = Path(__file__).parents[3] / "shared"


def document(span: dict[str, Any]) -> dict[str, Any]:
    base = {"traceId": TRACE, "spanId": SPAN, "name": "n", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [base | span]}]}]}


def one(span: dict[str, Any]) -> Span:
    (found,) = spans_from_json(document(span), lenient=False)
    return found


def value(any_value: object) -> object:
    return one({"attributes": [{"key": "k", "value": any_value}]}).attributes[0][1]


def test_what_is_written_is_the_form_of_the_file_exporter() -> None:
    span = Span(
        TRACE, SPAN, "n", 1, 2, "aa" * 8, 3,
        (("i", 2**63 - 1), ("d", math.nan), ("b", b"\xff"), ("none", None), ("m", KeyValues((("x", ()),))),
         ("t", True)),
        (Event(5, "e"),), (Link("bb" * 16, "cc" * 8),), 2, "no", "a=b", 256,
        resource=Resource((("service.name", "s"),), schema_url="r"), scope=Scope("sc", "1", schema_url="u"),
    )  # fmt: skip
    assert json_line([span]) == (
        b'{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}}]},'
        b'"scopeSpans":[{"scope":{"name":"sc","version":"1"},"spans":[{"traceId":"e58d5052d729603f92c216e5469ebdd6",'
        b'"spanId":"f53d18b73405292a","traceState":"a=b","parentSpanId":"aaaaaaaaaaaaaaaa","flags":256,"name":"n",'
        b'"kind":3,"startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":['
        b'{"key":"i","value":{"intValue":"9223372036854775807"}},{"key":"d","value":{"doubleValue":"NaN"}},'
        b'{"key":"b","value":{"bytesValue":"/w=="}},{"key":"none","value":{}},'
        b'{"key":"m","value":{"kvlistValue":{"values":[{"key":"x","value":{"arrayValue":{}}}]}}},'
        b'{"key":"t","value":{"boolValue":true}}],"events":[{"timeUnixNano":"5","name":"e"}],'
        b'"links":[{"traceId":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","spanId":"cccccccccccccccc"}],'
        b'"status":{"message":"no","code":2}}],"schemaUrl":"u"}],"schemaUrl":"r"}]}\n'
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"intValue": "25"}, 25),
        ({"intValue": 7}, 7),
        ({"intValue": 7.0}, 7),
        ({"int_value": "9223372036854775807"}, 2**63 - 1),
        ({"intValue": 9007199254740993}, 9007199254740993),
        ({}, None),
        (None, None),
        ({"stringValue": None}, None),
        ({"arrayValue": {}}, ()),
        ({"arrayValue": {"values": None}}, ()),
        ({"arrayValue": {"values": [{"intValue": 1}, {}, {"stringValue": "a"}]}}, (1, None, "a")),
        ({"kvlistValue": {}}, KeyValues()),
        ({"kvlist_value": {"values": [{"key": "n", "value": {"double_value": 1}}]}}, KeyValues((("n", 1.0),))),
        ({"bytesValue": "//4="}, b"\xff\xfe"),
        ({"bytesValue": "__4"}, b"\xff\xfe"),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "1.5"}, 1.5),
        ({"boolValue": "true"}, True),
        ({"stringValue": "x", "somethingNew": 1}, "x"),
    ],
)
def test_values(written: object, expected: object) -> None:
    assert exact(value(written)) == exact(expected)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"intValue": 1.5}, "intValue is a number (1.5), not an exact integer"),
        ({"intValue": 1e300}, "not an exact integer"),
        ({"intValue": True}, "not an exact integer"),
        ({"stringValue": 5}, "stringValue is a number (5), not text"),
        ({"bytesValue": "!"}, "bytesValue is not base64"),
        ({"boolValue": 1}, "neither true nor false"),
        ({"newKind": 1}, "a value has none of stringValue"),
        ({"stringValue": "a", "intValue": 1}, "a value has both stringValue and intValue"),
        ("plain", "a value is text ('plain'), not an object"),
    ],
)
def test_one_bad_value_refuses_its_span_alone(written: object, reason: str) -> None:
    tree = document({"attributes": [{"key": "k", "value": written}]})
    spans = tree["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append(spans[0] | {"attributes": [], "name": "good"})
    read = read_json(tree)
    assert [span.name for span in read.items] == ["good"]
    assert read.problems[0].where == "resourceSpans[0].scopeSpans[0].spans[0] 'n'"
    assert "attribute 'k'" in read.problems[0].reason
    assert reason in read.problems[0].reason
    with pytest.raises(ImportFault, match="1 spans cannot be read"):
        spans_from_json(tree, lenient=False)


def test_spellings() -> None:
    old = {
        "batches": [
            {
                "resource": None,
                "instrumentation_library_spans": None,
                "instrumentationLibrarySpans": [
                    {
                        "instrumentationLibrary": {"name": "lib"},
                        "spans": [
                            {
                                "trace_id": TRACE.upper(),
                                "span_id": SPAN,
                                "parent_span_id": "",
                                "start_time_unix_nano": 1790000000123456789,
                                "kind": "SPAN_KIND_CLIENT",
                                "status": {"code": "STATUS_CODE_ERROR"},
                                "events": None,
                            }
                        ],
                    }
                ],
            }
        ]
    }
    (span,) = spans_from_json(old, lenient=False)
    assert (span.trace_id, span.scope.name, span.kind, span.status_code) == (TRACE, "lib", 3, 2)
    assert span.start_ns == 1790000000123456789
    assert one({"kind": "2"}).kind == 2
    assert one({"kind": "server"}).kind == 2
    assert one({"traceId": "0123456789abcdef"}).trace_id == "0" * 16 + "0123456789abcdef"
    for wrapped in ({"trace": document({})}, {"result": document({})}):
        assert spans_from_json(wrapped, lenient=False) == [one({})]


def test_ids_in_base64_are_known_by_the_whole_document() -> None:
    written = {
        "traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(),
        "spanId": base64.b64encode(bytes.fromhex(SPAN)).decode(),
        "parentSpanId": base64.b64encode(bytes.fromhex("ab" * 8)).decode(),
        "links": [{"traceId": base64.b64encode(b"\1" * 16).decode(), "spanId": base64.b64encode(b"\2" * 8).decode()}],
    }
    span = one(written)
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE, SPAN, "ab" * 8)
    assert span.links[0].trace_id == "01" * 16
    # 32 hex digits are valid base64 too: among hex ids they stay hex, and a base64 id among them is refused.
    tree = document({})
    spans = tree["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans += [spans[0] | {"spanId": "0" * 15 + str(n)} for n in range(1, 4)] + [spans[0] | written]
    read = read_json(tree)
    assert len(read.items) == 4
    assert "not hex" in read.problems[0].reason


def test_text_that_is_almost_json() -> None:
    text = b"\xef\xbb\xbf" + json.dumps(document({})).encode()
    text = text.replace(b'"name": "n"', b'"name": "cut \\ud83d", "attributes": [%s]')
    text %= b'{"key": "d", "value": {"doubleValue": NaN}}, {"key": "s", "value": {"stringValue": "tab\there \xff"}}'
    (span,) = spans_from_json(loads(text), lenient=False)
    assert span.name == "cut \ud83d"
    assert exact(span.attributes) == exact((("d", math.nan), ("s", "tab\there \udcff")))
    again = spans_from_json(loads(json_line([span])), lenient=False)
    assert exact(again) == exact([span])
    assert loads("\ufeff[1]".encode("utf-16")) == [1]


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b'{"a" 1}', b"\xff\xfe\x00"])
def test_text_that_is_no_json_is_a_fault_with_a_reason(text: bytes) -> None:
    with pytest.raises(ImportFault, match="not JSON"):
        loads(text)


def test_hostile_depth_is_refused_alone() -> None:
    deep: dict[str, Any] = {"intValue": 1}
    for _ in range(3000):
        deep = {"arrayValue": {"values": [deep]}}
    tree = document({"attributes": [{"key": "k", "value": deep}]})
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"].append(
        document({})["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    )
    read = read_json(tree)
    assert (len(read.items), len(read.problems)) == (1, 1)
    assert "nested deeper than 200" in read.problems[0].reason


@pytest.mark.parametrize("tree", [[], 5, None, {"data": []}, {"resourceLogs": []}, {"resourceSpans": 1}])
def test_other_documents_are_named(tree: object) -> None:
    with pytest.raises(ImportFault, match="not OTLP/JSON traces"):
        read_json(tree)


def _shared_documents() -> list[Path]:
    found = [
        *SHARED.glob("cases/im0*.otlp.json"),
        *SHARED.glob("cases/im1*.otlp.json"),
        *SHARED.glob("samples/otlp/*trace.json"),
    ]
    return sorted(found)


@pytest.mark.parametrize("path", _shared_documents() or [None], ids=lambda path: path.name if path else "own")
def test_documents_of_the_field_survive_a_round(path: Path | None) -> None:
    tree = loads(path.read_bytes()) if path else document({"kind": 3})
    spans = spans_from_json(tree, lenient=False)
    assert spans
    assert exact(spans_from_json(json_from_spans(spans), lenient=False)) == exact(spans)
