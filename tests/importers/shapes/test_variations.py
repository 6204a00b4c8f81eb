"""The import cases once more, each in the spellings that people's files have: IM-01, 02, 04, 06, 09, 11, 18."""

from __future__ import annotations

import base64
import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import zstandard

from otel_replay.errors import ImportFault
from otel_replay.importers import open_source

TRACE, SPANS = "0af7651916cd43dd8448eb211c80319c", ["00f067aa0ba902b7", "00f067aa0ba902b8"]


def document(*values: Any, ids: Any = lambda text: text, **more: Any) -> dict[str, Any]:
    """Return an OTLP document of two spans; the second has `values` as its attributes."""
    spans = [{"traceId": ids(TRACE), "spanId": ids(SPANS[at]), "name": f"s{at}", "startTimeUnixNano": str(10**18 + at),
              "parentSpanId": ids(SPANS[0]) if at else "", "endTimeUnixNano": str(10**18 + 9),
              "attributes": [{"key": f"k{n}", "value": value} for n, value in enumerate(values)] if at else []}
             for at in (0, 1)]  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}], **more}


def packed(data: bytes, *ways: str) -> bytes:
    for way in ways:
        data = gzip.compress(data) if way == "gz" else zstandard.ZstdCompressor().compress(data)
    return data


PLAIN = json.dumps(document()).encode()
INDENTED = json.dumps(document(), indent=2).encode()


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.decode().encode("utf-16"),
        INDENTED.replace(b"\n", b"\r\n"),
        b"\n\n" + PLAIN + b"\n\n\n",
        b"\xef\xbb\xbf" + PLAIN + b"\r\n\r\n" + PLAIN + b"\r\n",
        PLAIN + PLAIN,
        INDENTED + b"\n" + INDENTED,
        b"[" + PLAIN + b"," + PLAIN + b"]",
        PLAIN + b"\n{not json}\n" + PLAIN + b"\n",
        packed(PLAIN, "gz"),
        packed(PLAIN, "zst"),
        packed(PLAIN, "gz", "zst"),
        packed(PLAIN, "zst", "gz"),
        packed(PLAIN, "gz", "gz"),
        packed(PLAIN + b"\n", "gz") + packed(PLAIN + b"\n", "gz"),
    ],
    ids=range(16),
)
def test_im_01_the_same_two_spans_however_they_are_wrapped(data: bytes, tmp_path: Path) -> None:
    assert [span.name for span in open_source(data).spans] == ["s0", "s1"]
    (tmp_path / "no_ending").write_bytes(data)
    assert [span.span_id for span in open_source(tmp_path / "no_ending").spans] == SPANS


def test_im_01_what_is_packed_over_and_over_is_refused() -> None:
    with pytest.raises(ImportFault, match="packed more than 3 times"):
        _ = open_source(packed(PLAIN, *["gz"] * 6)).spans


def _b64(text: str, *, url: bool = False, pad: bool = True) -> str:
    raw = bytes.fromhex(text)
    made = (base64.urlsafe_b64encode if url else base64.b64encode)(raw).decode()
    return made if pad else made.rstrip("=")


@pytest.mark.parametrize(
    "ids",
    [
        str.upper,
        _b64,
        lambda t: _b64(t, url=True),
        lambda t: _b64(t, pad=False),
        lambda t: _b64(t, url=True, pad=False),
    ],
    ids=["upper", "base64", "url", "unpadded", "url unpadded"],
)
def test_im_02_ids_in_each_spelling(ids: Any) -> None:
    spans = open_source(json.dumps(document(ids=ids)).encode()).spans
    assert [(span.trace_id, span.span_id, span.parent_span_id) for span in spans] == [
        (TRACE, SPANS[0], ""), (TRACE, SPANS[1], SPANS[0])]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"intValue": "5"}, 5),
        ({"intValue": 5}, 5),
        ({"intValue": 5.0}, 5),
        ({"int_value": "9223372036854775807"}, 2**63 - 1),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({}, None),
        (None, None),
        ({"bytesValue": "AP8="}, b"\x00\xff"),
        ({"bytesValue": "_-8"}, b"\xff\xef"),
        ({"boolValue": False}, False),
        ({"arrayValue": {}}, ()),
        ({"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "a"}, {}]}}, (1, "a", None)),
    ],
    ids=str,
)
def test_im_04_and_18_values_in_each_spelling(value: Any, expected: Any) -> None:
    found = open_source(json.dumps(document(value)).encode()).spans[1].get("k0")
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("token", ["NaN", '"NaN"', "Infinity", "-Infinity"])
def test_im_18_bare_tokens_block_nothing(token: str) -> None:
    text = json.dumps(document({"doubleValue": 7.25})).replace("7.25", token)
    found = open_source(text.encode()).spans[1].get("k0")
    assert isinstance(found, float)
    assert not math.isfinite(found)


def test_im_09_the_same_span_over_several_files_is_one(tmp_path: Path) -> None:
    grown = document({"stringValue": "more"})
    grown["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["endTimeUnixNano"] = str(10**18 + 99)
    (tmp_path / "a.json").write_bytes(PLAIN)
    (tmp_path / "b.jsonl.gz").write_bytes(packed(PLAIN, "gz"))
    (tmp_path / "c.json.zst").write_bytes(packed(json.dumps(grown).encode(), "zst"))
    result = open_source(tmp_path)
    assert [(span.name, span.get("k0")) for span in result.spans] == [("s0", None), ("s1", "more")]
    assert len(result.history) == 1


@pytest.mark.parametrize("status", ["PARTIAL", "partial", "Partial", 1, "PARTIAL_STATUS_PARTIAL"])
@pytest.mark.parametrize("outer", ["trace", ""])
def test_im_11_partial_in_each_spelling(status: Any, outer: str) -> None:
    inner = document()
    told = {"status": status, "message": "Trace exceeds maximum size"}
    whole = {outer: inner, **told} if outer else {**inner, **told}
    result = open_source(json.dumps(whole).encode())
    assert len(result.spans) == 2
    assert result.partial == "Trace exceeds maximum size"


@pytest.mark.parametrize("status", ["COMPLETE", "complete", 0, None, ""])
def test_im_11_a_whole_answer_is_not_partial(status: Any) -> None:
    assert open_source(json.dumps({"trace": document(), "status": status}).encode()).partial == ""


def jaeger(*tags: dict[str, Any]) -> bytes:
    span = {"traceID": TRACE, "spanID": SPANS[0], "operationName": "a", "startTime": 5, "duration": 1, "tags": tags}
    return json.dumps({"data": [{"traceID": TRACE, "processes": {}, "spans": [span]}]}).encode()


@pytest.mark.parametrize(
    ("tag", "expected", "exact"),
    [
        ({"type": "int64", "value": "9223372036854775807"}, 2**63 - 1, True),
        ({"type": "INT64", "value": -(2**63)}, -(2**63), True),
        ({"type": "int64", "value": "9223372036854775808"}, "9223372036854775808", False),
        ({"type": "int64", "value": 1.5}, "1.5", False),
        ({"type": "int64", "value": 2.0}, 2, True),
        ({"type": "bool", "value": 1}, True, True),
        ({"type": "bool", "value": "FALSE"}, False, True),
        ({"type": "bool", "value": "perhaps"}, "perhaps", False),
        ({"type": "binary", "value": "AAH_"}, b"\x00\x01\xff", True),
        ({"type": "binary", "value": "!!"}, "!!", False),
        ({"vType": "LONG", "vLong": 7}, 7, True),
        ({"vType": "INT64", "vInt64": "9007199254740993"}, 9007199254740993, True),
        ({"vType": "STRING", "vStr": "x"}, "x", True),
        ({"vStr": "x"}, "x", True),
        ({"v_type": "FLOAT64", "v_float64": 0.5}, 0.5, True),
        ({"vType": "BOOL", "vBool": False}, False, True),
        ({"vType": "BINARY", "vBinary": "AAE="}, b"\x00\x01", True),
    ],
)
def test_im_16_a_tags_value_in_each_spelling(tag: dict[str, Any], expected: Any, exact: bool) -> None:
    found = open_source(jaeger({"key": "n", **tag}))
    ((_, value),) = found.spans[0].attributes
    assert (value, type(value)) == (expected, type(expected))
    assert (found.problems == []) is exact


@pytest.mark.parametrize("value", [True, "true", "True"])
def test_im_16_an_error_and_a_kind_in_each_spelling(value: Any) -> None:
    kind = {"key": "span.kind", "type": "string", "value": "Server"}
    (span,) = open_source(jaeger({"key": "error", "type": "string", "value": value}, kind)).spans
    assert (span.status_code, span.kind, span.attributes) == (2, 2, ())
