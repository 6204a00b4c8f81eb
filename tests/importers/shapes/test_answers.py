"""Tempo's answers in protobuf and Langfuse's batch export in CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from otel_replay.importers import open_source
from otel_replay.importers.genai import recordings
from otel_replay.span import Resource, Span
from otel_replay.wire.protobuf import request_from_spans

SPANS = [
    Span("a" * 32, f"{number:016x}", f"span {number}", 10**18 + number, 10**18 + number + 5, kind=3,
         attributes=(("n", number), ("text", "x" * 40)), resource=Resource((("service.name", "s"),)))
    for number in range(1, 6)
]  # fmt: skip


def field(number: int, data: bytes | int) -> bytes:
    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


TRACE = request_from_spans(SPANS)


@pytest.mark.parametrize(
    ("data", "partial"),
    [
        (field(1, TRACE), ""),
        (field(1, TRACE) + field(2, b""), ""),
        (field(1, TRACE) + field(2, field(1, 12_345)) + field(3, 0), ""),
        (field(1, TRACE) + field(3, 1) + field(4, b"Trace exceeds maximum size"), "Trace exceeds maximum size"),
        (field(1, TRACE) + field(3, 1), "the backend returned a partial trace"),
    ],
)
def test_tempo_v2_in_protobuf(data: bytes, partial: str) -> None:
    result = open_source(data)
    assert result.spans == SPANS
    assert (result.format, result.partial) == ("tempo-proto", partial)


def test_tempo_v1_in_protobuf_is_otlps_own_form() -> None:
    result = open_source(TRACE)
    assert (result.spans, result.format) == (SPANS, "otlp-proto")


def exported(**more: Any) -> dict[str, str]:
    row = {"id": "b" * 16, "traceId": "a" * 32, "parentObservationId": "", "type": "GENERATION", "name": "chat",
           "startTime": "2026-03-02T10:00:00.000Z", "endTime": "2026-03-02T10:00:01.500Z", "level": "DEFAULT",
           "statusMessage": "", "model": "m-1", "modelParameters": '{"temperature":0.2}',
           "input": json.dumps([{"role": "user", "content": 'say "hi",\nplease'}]),
           "output": json.dumps({"role": "assistant", "content": "hi"}), "metadata": "{}",
           "usageDetails": '{"input":9,"output":4}'}  # fmt: skip
    return {**row, **more}


def csv_of(*rows: dict[str, str], names: dict[str, str] | None = None) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, [(names or {}).get(key, key) for key in rows[0]])
    writer.writeheader()
    for row in rows:
        writer.writerow({(names or {}).get(key, key): value for key, value in row.items()})
    return out.getvalue().encode()


SNAKE = {"traceId": "trace_id", "parentObservationId": "parent_observation_id", "startTime": "start_time",
         "endTime": "end_time", "statusMessage": "status_message", "modelParameters": "model_parameters",
         "usageDetails": "usage_details"}  # fmt: skip


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("names", [None, SNAKE], ids=["camel", "snake"])
def test_langfuse_csv_is_read_as_its_json_is(names: dict[str, str] | None, bom: bytes) -> None:
    tool = exported(id="c" * 16, type="TOOL", name="look", input='{"kwargs":{"q":1}}', output='"found"', model="")
    result = open_source(bom + csv_of(exported(), tool, names=names))
    (found,) = recordings(result.spans)
    model, looked = found.envelopes
    assert (result.format, model.request.tree()["messages"][0]["content"]) == (  # type: ignore[index]
        "langfuse-csv", 'say "hi",\nplease')  # fmt: skip
    assert model.outcome.value.tree()["choices"][0]["message"]["content"] == "hi"  # type: ignore[index]
    assert (looked.request.tree(), looked.outcome.value.tree()) == ({"q": 1}, "found")
    as_json = [{k: (json.loads(v) if v[:1] in ("{", "[") else v or None) for k, v in row.items()}
               for row in (exported(), tool)]  # fmt: skip
    (same,) = recordings(open_source(json.dumps(as_json).encode()).spans)
    assert [e.request for e in same.envelopes] == [e.request for e in found.envelopes]


def test_a_bad_row_is_skipped_counted_and_named() -> None:
    good, bad = csv_of(exported(id="d" * 16)), csv_of(exported(startTime="soon"))
    result = open_source(good + bad.partition(b"\n")[2] + b"1,2,3" + b",x" * 30 + b"\n")
    assert len(result.spans) == 1
    assert sorted((p.what[:42], p.count) for p in result.problems if p.kind == "skipped") == [
        ("a Langfuse observation: startTime is 'soon", 1), ("a row with more fields than its header", 1)]  # fmt: skip
