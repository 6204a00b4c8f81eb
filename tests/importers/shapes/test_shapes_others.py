"""Every other shape: expectations written by hand, against small documents of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from otel_replay.errors import ImportFault
from otel_replay.importers import open_source
from otel_replay.span import Event, KeyValues, Link, LogRecord, Resource, Scope, Span
from otel_replay.wire.logs import request_from_logs

DATA = Path(__file__).parent / "data"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def spans_of(document: object, found: str) -> list[Span]:
    result = open_source(json.dumps(document).encode())
    spans = result.spans
    assert result.format == found
    return spans


def test_python_console_output() -> None:
    result = open_source(DATA / "im01_python_console_exporter.txt")
    spans = result.spans
    assert result.format == "console"
    assert [(span.name, span.kind, span.span_id, span.parent_span_id) for span in spans] == [
        ("agent run", 1, "2fdf7c31ca050687", ""),
        ("ChatCompletion", 3, "920db09f5de28310", "2fdf7c31ca050687"),
        ("search", 3, "0dcd9f8fa4937eeb", "2fdf7c31ca050687"),
    ]
    assert {span.trace_id for span in spans} == {"b535a7bc6f52887645b6ba5e5e1a585c"}
    assert spans[1].get("llm.token_count.total") == 9
    assert spans[1].start_ns == 1789997600123456000
    assert spans[0].resource == Resource((("service.name", "demo-agent"),))


def test_jaeger_elasticsearch_document_has_hex_binaries_and_text_values() -> None:
    document = {
        "traceID": "1",
        "spanID": "2",
        "flags": 1,
        "operationName": "op",
        "references": [
            {"refType": "CHILD_OF", "traceID": "1", "spanID": "3"},
            {"refType": "FOLLOWS_FROM", "traceID": "1", "spanID": "4"},
            {"refType": "CHILD_OF", "traceID": "ff", "spanID": "ff"},
        ],
        "startTime": 1485467191639875,
        "duration": 5,
        "tags": [
            {"key": "peer.ipv4", "type": "int64", "value": "23456"},
            {"key": "error", "type": "bool", "value": "true"},
            {"key": "temperature", "type": "float64", "value": "72.5"},
            {"key": "blob", "type": "binary", "value": "00003039"},
        ],
        "tag": {"http@method": "GET"},
        "logs": [{"timestamp": 1485467191639875, "fields": [{"key": "event", "type": "int64", "value": "123415"}]}],
        "process": {"serviceName": "service-x", "tags": []},
    }
    hit = {"hits": {"hits": [{"_index": "jaeger-span", "_source": document}]}}
    expected = Span(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "2",
        parent_span_id="0" * 15 + "3",
        name="op",
        kind=0,
        start_ns=1485467191639875000,
        end_ns=1485467191639880000,
        attributes=(("peer.ipv4", 23456), ("temperature", 72.5), ("blob", b"\0\x0009"), ("http.method", "GET")),
        events=(Event(1485467191639875000, "", (("event", 123415),)),),
        links=(
            Link("0" * 31 + "1", "0" * 15 + "4"),
            Link("0" * 30 + "ff", "0" * 14 + "ff", attributes=(("opentracing.ref_type", "child_of"),)),
        ),
        status_code=2,
        flags=1,
        resource=Resource((("service.name", "service-x"),)),
    )
    assert spans_of(document, "jaeger-es") == [expected]
    assert spans_of(hit, "jaeger-es") == [expected]
    lines = json.dumps({"_source": document}) + "\n" + json.dumps({"_source": {**document, "spanID": "5"}}) + "\n"
    assert [span.span_id[-1] for span in open_source(lines.encode()).spans] == ["2", "5"]


def test_zipkin_client_and_server_halves_stay_two_spans() -> None:
    document = [
        {"traceId": "1", "id": "a", "kind": "CLIENT", "name": "post", "timestamp": 10, "duration": 9,
         "localEndpoint": {"serviceName": "front"}, "remoteEndpoint": {"serviceName": "back", "port": 9000}},
        {"traceId": "1", "id": "a", "kind": "SERVER", "name": "post", "timestamp": 12, "duration": 5,
         "localEndpoint": {"serviceName": "back"}, "shared": True},
        {"traceId": "1", "parentId": "a", "id": "b", "name": "work", "timestamp": 13, "duration": 1,
         "localEndpoint": {"serviceName": "back"}, "tags": {"error": "no luck"}},
        {"traceId": "1", "parentId": "a", "id": "c", "name": "beside", "timestamp": 14,
         "localEndpoint": {"serviceName": "front"}, "annotations": [{"timestamp": 15, "value": "note | of mine"}]},
    ]  # fmt: skip
    client, server, work, beside = spans_of(document, "zipkin")
    assert (client.span_id, client.kind, client.start_ns, client.end_ns) == ("000000000000000a", 3, 10_000, 19_000)
    assert client.attributes == (("peer.service", "back"), ("net.peer.port", 9000))
    assert (server.parent_span_id, server.kind) == (client.span_id, 2)
    assert server.span_id != client.span_id
    assert (work.parent_span_id, work.status_code, work.status_message) == (server.span_id, 2, "no luck")
    assert beside.parent_span_id == client.span_id
    assert beside.events == (Event(15_000, "note | of mine"),)


def test_zipkin_types_come_back_for_known_keys() -> None:
    tags = {"gen_ai.usage.input_tokens": "61", "gen_ai.request.temperature": "0", "other": "61", "x": "[1]"}
    tags["gen_ai.response.finish_reasons"] = '["stop"]'
    (span,) = spans_of([{"traceId": "1", "id": "2", "name": "chat", "timestamp": 1, "tags": tags}], "zipkin")
    found = dict(span.attributes)
    assert found["gen_ai.usage.input_tokens"] == 61
    assert isinstance(found["gen_ai.request.temperature"], float)
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert (found["other"], found["x"]) == ("61", "[1]")


def test_xray_segments_subsegments_and_limits() -> None:
    segment = {
        "id": "6b55dcc497934f1a", "name": "agent", "start_time": 1484789387.126, "end_time": 1484789387.535,
        "trace_id": "1-58406520-a006649127e371903a2de979", "annotations": {"model": "m", "n": 3},
        "metadata": {"default": {"gen_ai.prompt": "hi"}, "mine": {"k": [1]}},
        "subsegments": [{
            "id": "53995c3f42cd8ad8", "name": "api", "start_time": 1484789387.2, "end_time": 1484789387.3,
            "namespace": "remote", "fault": True, "cause": {"exceptions": [{"type": "E", "message": "m"}]},
        }],
    }  # fmt: skip
    trace = {"Id": segment["trace_id"], "LimitExceeded": True, "Segments": [{"Document": json.dumps(segment)}]}
    result = open_source(json.dumps({"Traces": [trace]}).encode())
    agent, api = result.spans
    assert agent.trace_id == "58406520a006649127e371903a2de979"
    assert (agent.span_id, agent.kind, agent.start_ns) == ("6b55dcc497934f1a", 2, 1484789387126000000)
    assert dict(agent.attributes) == {"model": "m", "n": 3, "gen_ai.prompt": "hi", "mine.k": (1,)}
    assert (api.parent_span_id, api.kind, api.status_code) == (agent.span_id, 3, 2)
    assert api.events == (
        Event(1484789387300000000, "exception", (("exception.type", "E"), ("exception.message", "m"))),
    )
    assert "limit of a trace was exceeded" in result.partial


def test_tables_of_spans_come_through_the_reader_handed_in(tmp_path: Path) -> None:
    flat = {
        "Timestamp": datetime(2025, 10, 17, 21, 54, 24, 624180, tzinfo=UTC), "TraceId": TRACE,
        "SpanId": "b7ad6b7169203331", "ParentSpanId": None, "SpanName": "Get", "SpanKind": "SPAN_KIND_SERVER",
        "ServiceName": "svc", "ResourceAttributes": '{"host.name":"h"}', "SpanAttributes": [("rpc.code", "0")],
        "Duration": 367_000_000, "StatusCode": "Error", "StatusMessage": "m",
        "EventsTimestamp": [5], "EventsName": ["e"], "EventsAttributes": ['{"a":1}'],
    }  # fmt: skip
    attrs = [
        {"Key": "s", "IsArray": False, "Value": ["x"], "ValueInt": []},
        {"Key": "l", "IsArray": True, "Value": [], "ValueInt": [1]},
        {"Key": "m", "IsArray": False, "Value": [], "ValueUnsupported": '{"kvlistValue":{"values":[]}}'},
    ]
    block = {
        "TraceIDText": TRACE,
        "rs": [{
            "Resource": {"ServiceName": "svc", "K8sPodName": "p", "Attrs": [],
                         "DedicatedAttributes": {"String01": "eu", "String02": None}},
            "ss": [{"Scope": {"Name": "sc", "Version": "1"}, "Spans": [{
                "SpanID": bytes.fromhex("b7ad6b7169203331"), "ParentSpanID": b"", "Name": "Get", "Kind": 3,
                "StartTimeUnixNano": 10, "DurationNano": 5, "StatusCode": 2, "Attrs": attrs, "HttpStatusCode": 200,
                "Events": [{"Name": "e", "TimeSinceStartNano": 2, "Attrs": []}],
            }]}],
        }],
    }  # fmt: skip
    (tmp_path / "meta.json").write_text('{"dedicatedColumns": [{"s": "resource", "n": "region"}]}')
    for name, row, expected in (
        ("flat.parquet", flat, Span(
            TRACE, "b7ad6b7169203331", "Get", 1760738064624180000, 1760738064991180000, kind=2,
            attributes=(("rpc.code", "0"),), events=(Event(5, "e", (("a", 1),)),), status_code=2, status_message="m",
            resource=Resource((("service.name", "svc"), ("host.name", "h"))),
        )),
        ("data.parquet", block, Span(
            TRACE, "b7ad6b7169203331", "Get", 10, 15, kind=3, status_code=2, events=(Event(12, "e"),),
            attributes=(("s", "x"), ("l", (1,)), ("m", KeyValues()), ("http.status_code", 200)),
            resource=Resource((("service.name", "svc"), ("k8s.pod.name", "p"), ("region", "eu"))),
            scope=Scope("sc", "1"),
        )),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"PAR1....PAR1")

        def rows(path: str, row: Mapping[str, Any] = row, name: str = name) -> Iterator[Mapping[str, Any]]:
            assert path.endswith(name)
            yield row

        assert open_source(tmp_path / name, parquet_rows=rows).spans == [expected]
        with pytest.raises(ImportFault, match="no Parquet reader"):
            open_source(tmp_path / name).spans  # noqa: B018 - reading is what raises


def test_logs_beside_spans_are_kept_and_metrics_passed_over() -> None:
    record = {"timeUnixNano": "5", "body": {"stringValue": "b"}, "traceId": TRACE, "spanId": "b7ad6b7169203331"}
    span = {"traceId": TRACE, "spanId": "b7ad6b7169203331", "name": "n"}
    lines = [
        {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]},
        {"resourceMetrics": []},
    ]
    result = open_source("\n".join(map(json.dumps, lines)).encode())
    assert [found.name for found in result.spans] == ["n"]
    assert [(log.body, log.trace_id, log.span_id) for log in result.logs] == [("b", TRACE, "b7ad6b7169203331")]
    assert result.problems == []
    assert result.format == "otlp-json+otlp-logs+otlp-metrics"


def test_protobuf_log_records_are_no_spans() -> None:
    record = LogRecord(time_ns=5, body="b", trace_id=TRACE, span_id="b7ad6b7169203331")
    message = request_from_logs([record])
    for data in (message, len(message).to_bytes(4, "big") + message):
        result = open_source(data)
        assert (result.spans, result.logs) == ([], [record])
