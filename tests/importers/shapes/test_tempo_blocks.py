"""Tempo blocks of the first Parquet form (Tempo 1.5 and 2.0): other column names than vParquet2 and later."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from otel_replay.importers import open_source
from otel_replay.sources import parquet_rows
from otel_replay.span import Event, Resource, Scope, Span

DATA = Path(__file__).parent / "data"
TRACE = "00000000000000000af7651916cd43dd"


def _row(spans: list[dict[str, object]]) -> dict[str, object]:
    resource = {"Attrs": [{"Key": "host.name", "Value": "h"}], "ServiceName": "shop", "Cluster": "c"}
    scopes = [{"il": {"Name": "sc", "Version": "1"}, "Spans": spans}]
    return {
        "TraceID": bytes.fromhex(TRACE),
        "rs": [{"Resource": resource, "ils": scopes}],
        "TraceIDText": TRACE.lstrip("0"),
    }


def _span() -> dict[str, object]:
    attributes = [
        {"Key": "s", "Value": "x", "ValueInt": None, "ValueArray": None},
        {"Key": "i", "Value": None, "ValueInt": 7, "ValueArray": None},
        {"Key": "l", "Value": None, "ValueInt": None, "ValueArray": '{"arrayValue":{"values":[{"intValue":"1"}]}}'},
    ]
    event = {
        "TimeUnixNano": 12,
        "Name": "e",
        "Attrs": [{"Key": "k", "Value": b"\x0a\x02hi"}],
        "DroppedAttributesCount": 1,
    }
    return {
        "ID": bytes.fromhex("b7ad6b7169203331"), "Name": "Get", "Kind": 3, "ParentSpanID": b"", "TraceState": "",
        "StartUnixNanos": 10, "EndUnixNanos": 15, "StatusCode": 2, "StatusMessage": "m", "Attrs": attributes,
        "DroppedAttributesCount": 0, "Events": [event], "DroppedEventsCount": 0, "HttpMethod": "GET",
    }  # fmt: skip


def test_a_block_of_the_first_form_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    pq.write_table(pa.Table.from_pylist([_row([_span()])]), file)
    result = open_source(file, parquet_rows=parquet_rows)
    assert result.spans == [
        Span(
            TRACE, "b7ad6b7169203331", "Get", 10, 15, kind=3, status_code=2, status_message="m",
            attributes=(("s", "x"), ("i", 7), ("l", (1,)), ("http.method", "GET")),
            events=(Event(12, "e", (("k", "hi"),), 1),),
            resource=Resource((("service.name", "shop"), ("cluster", "c"), ("host.name", "h"))),
            scope=Scope("sc", "1"),
        )
    ]  # fmt: skip
    assert result.problems == []


def test_a_trace_in_which_no_span_was_found_is_named(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    row = {"TraceID": bytes.fromhex(TRACE), "rs": [{"Resource": {"ServiceName": "shop"}, "renamed": [{"Spans": [1]}]}]}
    pq.write_table(pa.Table.from_pylist([row]), file)
    (problem,) = open_source(file, parquet_rows=parquet_rows).problems
    assert (problem.kind, problem.what) == ("skipped", "a row in which no span was found")


def test_a_block_by_tempos_own_writer_holds_the_spans_it_was_made_of() -> None:
    made_of = {span.span_id: span for span in open_source(DATA / "genai_openai.otlp.pb").spans}
    found = open_source(DATA.parent / "tempo_block" / "data.parquet", parquet_rows=parquet_rows)
    assert len(found.spans) == len(made_of) == 6
    for span in found.spans:
        other = made_of[span.span_id]
        assert (span.name, span.start_ns, span.end_ns, span.parent_span_id) == (
            other.name, other.start_ns, other.end_ns, other.parent_span_id,
        )  # fmt: skip
        assert dict(span.attributes) == dict(other.attributes)
        assert span.events == other.events
    assert found.problems == []


def test_what_stands_beside_a_block_is_named_for_what_it_is(tmp_path: Path) -> None:
    block = tmp_path / "block"
    shutil.copytree(DATA.parent / "tempo_block", block, ignore=shutil.ignore_patterns("writer", "README.md"))
    for name in ("bloom-0", "bloom-12", "index"):
        (block / name).write_bytes(bytes(range(256)))
    found = open_source(tmp_path, parquet_rows=parquet_rows)
    assert len(found.spans) == 6
    (problem,) = found.problems
    assert str(problem) == "skipped: a file of a Tempo block that holds no spans (4x: {})".format(
        "; ".join(str(block / name) for name in ("bloom-0", "bloom-12", "index", "meta.json"))
    )
    (block / "data.parquet").rename(tmp_path / "data.parquet")  # then they are files like others
    assert "cannot be read" in str(open_source(tmp_path, parquet_rows=parquet_rows).problems[0])
