"""Real exports of other people's tools, where they are at hand: what stands in them, written down by hand.

Each shape has an equivalent of our own in the tests beside this one, which always runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_replay.importers import open_source
from otel_replay.span import Event, Link, Span

SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
Row = tuple[str, int, int, list[tuple[str, str, str, str]]]
"""(format, spans, log records, the first spans as (trace id, span id, parent id, name))."""

EXPECTED: dict[str, Row] = {
    "jaeger/api_traces_otlp2jaeger-out.json": (
        "jaeger", 1, 0, [("83a9efd15c1c98a977e0711cc93ee28b", "e127af99e3b3e074", "909541b92cf05311", "okey-dokey-0")]),
    "jaeger/anonymizer_spans_array.json": (
        "jaeger-spans", 2, 0, [
            ("00000000000000002be38093ead7a083", "7606ddfe69932d34", "492770a15935810f", "a071653098f9250d"),
            ("00000000000000002be38093ead7a083", "7bd66f09ba90ea3d", "7606ddfe69932d34", "471418097747d04a")]),
    "jaeger/elasticsearch_span_doc.json": (
        "jaeger-es", 1, 0, [("0" * 31 + "1", "0" * 15 + "2", "0" * 15 + "3", "test-general-conversion")]),
    "jaeger/ui_single_trace_typed_tags.json": (
        "jaeger-trace", 4, 0, [("0" * 31 + "1", "0" * 15 + "2", "", "some-operation")]),
    "jaeger/ui_multi_out.json": (
        "jaeger", 4, 0, [("c620759e5d60fafb8ee0922b30e06bc6", "26f5ef9dbb885479", "49b8e9efa1e8a3b1", "ohboy.do")]),
    "jaeger/api_v3_GetTrace.json": ("jaeger-v3", 1, 0, [("0" * 31 + "1", "0" * 15 + "2", "", "foobar")]),
    "jaeger/api_v3_FindTraces.json": ("jaeger-v3", 1, 0, [("0" * 31 + "1", "0" * 15 + "2", "", "foobar")]),
    "otlp/otlp_proto_example_trace.json": (
        "otlp-json", 1, 0,
        [("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173", "I'm a server span")]),
    "otlp/otlp_proto_example_logs.json": ("otlp-logs", 0, 1, []),
    "otlp/spec_file_exporter_traces.jsonl": ("otlp-json", 8, 0, [("", "", "", "operationA")]),
    "otlp/spec_file_exporter_logs.jsonl": ("otlp-logs", 0, 8, []),
    "otlp/jaeger_otlp2jaeger-in.json": (
        "otlp-json", 1, 0,
        [("83a9efd15c1c98a977e0711cc93ee28b", "e127af99e3b3e074", "909541b92cf05311", "okey-dokey-0")]),
    "otlp/jaegerui_multi_in.jsonl": (
        "otlp-json", 4, 0, [("c620759e5d60fafb8ee0922b30e06bc6", "26f5ef9dbb885479", "49b8e9efa1e8a3b1", "ohboy.do")]),
    "otlp/jaegerui_multi_in_combined.json": (
        "otlp-json", 4, 0, [("c620759e5d60fafb8ee0922b30e06bc6", "26f5ef9dbb885479", "49b8e9efa1e8a3b1", "ohboy.do")]),
    "otlp/jaeger_storage_example_trace.json": ("otlp-json", 5, 0, []),
    "otlp/jaeger_storage_link_attributes.json": (
        "otlp-json", 1, 0, [("0" * 29 + "226", "0" * 15 + "4", "", "query25-operation")]),
    "otlp/jaeger_storage_scope_attributes.json": ("otlp-json", 1, 0, []),
    "otlp/otlp2parquet_trace.json": ("otlp-json", 2, 0, []),
    "otlp/otlp2parquet_traces.jsonl": (
        "otlp-json", 19, 0,
        [("69842a979911036cf3e822086ecaa007", "5a69fc178ba8f837", "44e61d9ab30fcb06", "product-catalog.execute")]),
    "otlp/otlp2parquet_traces.pb": (
        "otlp-proto", 19, 0,
        [("69842a979911036cf3e822086ecaa007", "5a69fc178ba8f837", "44e61d9ab30fcb06", "product-catalog.execute")]),
    "otlp/duckdbotlp_otlp_traces.pb": ("otlp-proto", 1, 0, []),
    "otlp/duckdbotlp_traces_simple.jsonl": ("otlp-json", 3, 0, []),
    "otlp/duckdbotlp_traces_nulls.jsonl": (
        "otlp-json", 3, 0, [("0" * 31 + "1", "0" * 15 + "1", "", "minimal_span"),
                            ("0" * 31 + "2", "0" * 15 + "2", "", "empty_metadata")]),
    "otlp/duckdbotlp_traces_deep_nesting.jsonl": ("otlp-json", 1, 0, []),
    "otlp/duckdbotlp_traces_large_attrs.jsonl": ("otlp-json", 1, 0, []),
    "zipkin/yelp.json": (
        "zipkin", 16, 0, []),
    "zipkin/messaging-kafka.json": ("zipkin", 28, 0, [("0" * 16 + "0562809467078eab", "0562809467078eab", "", "poll")]),
    "zipkin/ascend.json": ("zipkin", 8, 0, []),
    "zipkin/skew.json": (
        "zipkin", 4, 0, []),
    "zipkin/envoy.json": (
        "zipkin", 1, 0, [("0" * 16 + "978883983d506fa5", "978883983d506fa5", "", "localhost:10000")]),
    "langfuse/pydantic-ai-tools-2025-12-04.json": (
        "langfuse", 12, 0, [("7a38edd8123db47ad8dcb8aa4c5e3926", "00d3f40ee8e3b716", "", "run_joke_generator")]),
    "langfuse/openai-agents-2025-09-30.json": ("langfuse", 5, 0, []),
    "langfuse/microsoft-agent-2025-10-14.json": ("langfuse", 4, 0, []),
    "langfuse/langgraph-2025-08-22.json": (
        "langfuse", 9, 0, [("e1fde3efec57ce8a69bafd3fb928a7eb", "3b239b11cbb2ac0b", "b024c7ee7680b708", "agent")]),
    "langfuse/google-adk-2025-08-28.json": ("langfuse", 5, 0, []),
    "langfuse/llamaindex-2025-06-05.json": ("langfuse", 2, 0, []),
    "langfuse/autogen-2025-06-06.json": (
        "langfuse", 2, 0, [("1b72c51fabed12ae7df83bfd4a09f545", "95f4f51edeb603d9", "", "autogen-chat-trace"),
                           ("1b72c51fabed12ae7df83bfd4a09f545", "83517f9062f5ada4", "95f4f51edeb603d9", "chat gpt-4o"),
        ]),
    "langfuse/koog-2025-08-26.json": ("langfuse", 11, 0, []),
    "mlflow/mlflow_trace_to_json.json": (
        "mlflow", 3, 0, [("02342fe8e44576252e257431d71a2a56", "d662fc086c5d74ec", "", "agent run"),
                         ("02342fe8e44576252e257431d71a2a56", "8a7b4b579e3c54db", "d662fc086c5d74ec", "Completions"),
                         ("02342fe8e44576252e257431d71a2a56", "957383e67e613f3a", "d662fc086c5d74ec", "get_weather")]),
    "genai/genai_openai.jsonl": ("otlp-json", 6, 0, []),
    "genai/genai_openai.logs.jsonl": ("otlp-logs", 0, 4, []),
    "genai/openai_v2_21b0.logs.jsonl": ("otlp-logs", 0, 13, []),
    "genai/openinference.jsonl": ("otlp-json", 6, 0, []),
    "genai/openllmetry.jsonl": ("otlp-json", 5, 0, []),
    "genai/logfire_pydantic.jsonl": ("otlp-json", 4, 0, []),
}  # fmt: skip
HERE = [name for name in EXPECTED if (SAMPLES / name).exists()]


def spans(name: str) -> list[Span]:
    return open_source(SAMPLES / name).spans


@pytest.mark.parametrize("name", HERE)
def test_what_stands_in_it(name: str) -> None:
    found, count, logs, first = EXPECTED[name]
    result = open_source(SAMPLES / name)
    assert (result.format, len(result.spans), len(result.logs)) == (found, count, logs)
    assert result.problems_of("skipped") == []
    shown = [(span.trace_id, span.span_id, span.parent_span_id, span.name) for span in result.spans]
    assert shown[: len(first)] == first


@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("jaeger/ui_single")])
def test_jaeger_ui_typed_tags(name: str) -> None:
    first, third, fourth, _ = spans(name)
    assert first.attributes == (
        ("peer.service", "service-y"),
        ("peer.ipv4", 23456),
        ("temperature", 72.5),
        ("javascript_limit", 9223372036854775222),
        ("blob", b"\x00\x00\x30\x39"),
    )
    assert (first.status_code, first.start_ns, first.end_ns) == (2, 1485467191639875000, 1485467191639880000)
    assert dict(third.resource.attributes) == {"service.name": "service-y"}
    assert fourth.parent_span_id == "0000000000000002"
    assert fourth.links == (
        Link("0" * 30 + "ff", "0" * 14 + "ff", attributes=(("opentracing.ref_type", "child_of"),)),
        Link("0" * 31 + "1", "0" * 15 + "2"),
    )


@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("otlp/jaeger_storage_link")])
def test_otlp_links_keep_typed_attributes(name: str) -> None:
    (span,) = spans(name)
    assert dict(span.links[0].attributes) == {
        "opentracing.ref_type": "child_of",
        "sameplacelinkattribute1": "sameplacevalue",
        "sameplacelinkattribute2": 123,
        "sameplacelinkattribute4": True,
        "sameplacelinkattribute3": 72.5,
        "linkblob": b"\x00\x00\x30\x39",
    }
    assert (span.start_ns, span.end_ns) == (1485449191639875000, 1485449191639877000)


@pytest.mark.parametrize("name", [name for name in HERE if name == "otlp/spec_file_exporter_traces.jsonl"])
def test_the_specifications_own_example(name: str) -> None:
    result = open_source(SAMPLES / name)
    first = result.spans[0]
    assert (first.start_ns, first.end_ns) == (1581452772000000321, 1581452773000000789)
    assert (first.dropped_attributes_count, first.dropped_events_count) == (1, 1)
    assert first.events[0] == Event(
        1581452773000000123, "event-with-attr", (("span-event-attr", "span-event-attr-val"),), 2
    )
    assert (first.status_code, first.status_message) == (2, "status-cancelled")
    assert {problem.kind for problem in result.problems} == {"lost"}


@pytest.mark.parametrize("name", [name for name in HERE if name == "zipkin/skew.json"])
def test_zipkin_shared_span_becomes_client_and_server(name: str) -> None:
    inner, server, root, client = spans(name)
    assert (client.span_id, client.parent_span_id, client.kind) == ("74280ae0c10d8062", "bf396325699c84bf", 3)
    assert (server.parent_span_id, server.kind) == (client.span_id, 2)
    assert (inner.name, inner.parent_span_id) == ("async", server.span_id)
    assert (root.span_id, root.parent_span_id) == ("bf396325699c84bf", "")
    assert len({span.span_id for span in (inner, server, root, client)}) == 4


@pytest.mark.parametrize("name", [name for name in HERE if name == "otlp/otlp2parquet_traces.pb"])
def test_two_encodings_of_one_capture_are_equal(name: str) -> None:
    assert spans(name) == spans("otlp/otlp2parquet_traces.jsonl")


@pytest.mark.parametrize("name", ["invalid_base64", "invalid_kind", "mixed_encoding"] if HERE else [])
def test_a_bad_span_is_skipped_and_named(name: str) -> None:
    result = open_source(SAMPLES / "otlp" / f"otlp2parquet_trace_{name}.json")
    assert result.spans == []
    (problem,) = result.problems
    assert problem.kind == "skipped"
    assert "test-span" in problem.where[0]


@pytest.mark.parametrize("name", [name for name in HERE if "pydantic-ai" in name])
def test_langfuse_download_of_a_pydantic_ai_run(name: str) -> None:
    found = {span.span_id: span for span in spans(name)}
    root, agent = found["00d3f40ee8e3b716"], found["49ae06cbfa06611f"]
    assert root.get("langfuse.observation.input") == '{"args":["programming"],"kwargs":{}}'
    assert (root.start_ns, root.end_ns) == (1764859882049000000, 1764859889473000000)
    assert root.scope.name == "langfuse-sdk"
    assert agent.parent_span_id == root.span_id
    assert agent.get("gen_ai.usage.input_tokens") == 502
    messages = agent.get("pydantic_ai.all_messages")
    assert isinstance(messages, tuple)
    assert len(messages) == 7


@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("mlflow/")])
def test_mlflow_values_stay_json_text(name: str) -> None:
    result = open_source(SAMPLES / name)
    root, model, tool = result.spans
    assert tool.get("mlflow.spanOutputs") == '{"temp": 18}'
    assert model.get("mlflow.spanType") == '"CHAT_MODEL"'
    assert (root.start_ns, root.end_ns) == (1796078180175767564, 0)
    assert [problem.what for problem in result.problems] == ["a span had not ended when the trace was written"]


def test_an_equivalent_of_our_own_is_always_read() -> None:
    assert len(open_source(Path(__file__).parent / "data" / "genai_openai.otlp.pb").spans) == 6
