"""Langfuse, MLflow, Phoenix and LangSmith: expectations written by hand, against small documents of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_replay.importers import open_source
from otel_replay.span import Event, KeyValues, Resource, Scope, Span

DATA = Path(__file__).parent / "data"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def spans_of(document: object, found: str) -> list[Span]:
    result = open_source(json.dumps(document).encode())
    spans = result.spans
    assert result.format == found
    return spans


OBSERVATION = {
    "id": "b7ad6b7169203331",
    "traceId": TRACE,
    "type": "GENERATION",
    "name": "chat",
    "startTime": "2025-12-04T14:51:22.049Z",
    "endTime": "2025-12-04T14:51:23.5Z",
    "parentObservationId": "00f067aa0ba902b7",
    "level": "ERROR",
    "statusMessage": "quota",
    "model": "gpt-4o",
    "modelParameters": {"temperature": 1},
    "usageDetails": {"input": 41},
    "input": [{"role": "user", "content": "hi"}],
    "output": "hello",
    "metadata": {
        "attributes": {"gen_ai.request.choice.count": "1", "final": {"a": [1, 2.5]}},
        "resourceAttributes": {"service.name": "svc"},
        "scope": {"name": "langfuse-sdk", "version": "3.10.5", "attributes": {"public_key": "pk"}},
        "topic": "t",
    },
}


@pytest.mark.parametrize(
    "document",
    [
        {"trace": {"id": TRACE, "name": "n"}, "observations": [OBSERVATION]},
        {"id": TRACE, "name": "n", "observations": [OBSERVATION]},
        [OBSERVATION],
        OBSERVATION,
    ],
)
def test_langfuse_in_its_four_forms(document: object) -> None:
    (span,) = spans_of(document, "langfuse")
    assert span == Span(
        trace_id=TRACE,
        span_id="b7ad6b7169203331",
        parent_span_id="00f067aa0ba902b7",
        name="chat",
        kind=0,
        start_ns=1764859882049000000,
        end_ns=1764859883500000000,
        attributes=(
            ("langfuse.observation.type", "generation"),
            ("langfuse.observation.level", "ERROR"),
            ("langfuse.observation.input", '[{"role":"user","content":"hi"}]'),
            ("langfuse.observation.output", "hello"),
            ("langfuse.observation.model.name", "gpt-4o"),
            ("langfuse.observation.model.parameters", '{"temperature":1}'),
            ("langfuse.observation.usage_details", '{"input":41}'),
            ("langfuse.observation.status_message", "quota"),
            ("langfuse.observation.metadata.topic", "t"),
            ("gen_ai.request.choice.count", 1),
            ("final", KeyValues([("a", (1, 2.5))])),
        ),
        status_code=2,
        status_message="quota",
        resource=Resource((("service.name", "svc"),)),
        scope=Scope("langfuse-sdk", "3.10.5", (("public_key", "pk"),)),
    )


def test_langfuse_says_which_observation_lost_its_content() -> None:
    empty = {**OBSERVATION, "input": None, "output": None}
    result = open_source(json.dumps({"trace": {"id": TRACE}, "observations": [empty]}).encode())
    (problem,) = result.problems
    assert (problem.kind, problem.what) == ("lost", "an observation came without input and output")
    assert "b7ad6b7169203331" in problem.where[0]


def test_mlflow_schema_3_and_2() -> None:
    attributes = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"city": "Paris"}'}
    three = {
        "info": {"trace_id": "tr-" + TRACE},
        "data": {"spans": [{
            "trace_id": "CvdlGRbNQ92ESOshHIAxnA==", "span_id": "t61rcWkgMzE=", "parent_span_id": None,
            "name": "get_weather", "start_time_unix_nano": 1796078180188547797,
            "end_time_unix_nano": 1796078180188854253, "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": attributes, "events": [], "links": [],
        }]},
    }  # fmt: skip
    two = {
        "info": {"request_id": "r1"},
        "data": {"spans": [{
            "context": {"trace_id": "0x" + TRACE, "span_id": "0xb7ad6b7169203331"}, "parent_id": None,
            "name": "get_weather", "start_time": 1796078180188547797, "end_time": 1796078180188854253,
            "status_code": "OK", "status_message": "", "attributes": attributes, "events": [],
        }]},
    }  # fmt: skip
    for document, named in ((three, ("mlflow.trace_id", "tr-" + TRACE)), (two, ("mlflow.request_id", "r1"))):
        assert spans_of(document, "mlflow") == [
            Span(
                trace_id=TRACE,
                span_id="b7ad6b7169203331",
                name="get_weather",
                kind=0,
                start_ns=1796078180188547797,
                end_ns=1796078180188854253,
                attributes=tuple(attributes.items()),
                status_code=1,
                resource=Resource((named,)),
            )
        ]


PHOENIX = {
    "id": "U3BhbjoX",
    "name": "chat",
    "context": {"trace_id": TRACE, "span_id": "b7ad6b7169203331"},
    "span_kind": "LLM",
    "parent_id": None,
    "start_time": "2025-06-06T11:31:33.965123+00:00",
    "end_time": "2025-06-06T13:31:34+02:00",
    "status_code": "ERROR",
    "status_message": "bad",
    "events": [{"name": "exception", "timestamp": "2025-06-06T11:31:34Z", "attributes": {"exception.type": "E"}}],
}
PHOENIX_FLAT = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "llm.invocation_parameters": '{"temperature":0}',
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "hi",
    "embedding.vector": (0.5, 1.0),
}


@pytest.mark.parametrize(
    "attributes",
    [
        {key: list(value) if isinstance(value, tuple) else value for key, value in PHOENIX_FLAT.items()},
        {
            "openinference": {"span": {"kind": "LLM"}},
            "llm": {
                "model_name": "m",
                "invocation_parameters": {"temperature": 0},
                "input_messages": [{"message": {"role": "user", "content": "hi"}}],
            },
            "embedding": {"vector": [0.5, 1.0]},
        },
    ],
)
def test_phoenix_flat_and_unfolded_attributes_are_the_same(attributes: dict[str, object]) -> None:
    document = {"data": [{**PHOENIX, "attributes": attributes}], "next_cursor": None}
    (span,) = spans_of(document, "phoenix")
    assert dict(span.attributes) == PHOENIX_FLAT
    assert (span.trace_id, span.span_id, span.kind, span.status_code) == (TRACE, "b7ad6b7169203331", 0, 2)
    assert (span.start_ns, span.end_ns) == (1749209493965123000, 1749209494000000000)
    assert span.events == (Event(1749209494000000000, "exception", (("exception.type", "E"),)),)


def test_phoenix_dataframe_row_and_old_uuid_ids() -> None:
    row = {
        "name": "t", "span_kind": "TOOL", "parent_id": None, "status_code": "OK",
        "start_time": 1749209493965, "end_time": 1749209494000,
        "context.trace_id": "0af76519-16cd-43dd-8448-eb211c80319c",
        "context.span_id": "7b2f9df0-57ae-4a0f-8f2b-6d2f5a1c0e11",
        "attributes.tool.name": "search", "attributes.llm.model_name": None,
    }  # fmt: skip
    result = open_source(json.dumps([row]).encode())
    (span,) = result.spans
    assert (span.trace_id, span.start_ns, span.status_code) == (TRACE, 1749209493965000000, 1)
    assert len(span.span_id) == 16
    assert dict(span.attributes) == {"openinference.span.kind": "TOOL", "tool.name": "search"}
    assert any("digest" in note for note in result.notes)


RUN: dict[str, Any] = {
    "id": "7b2f9df0-57ae-4a0f-8f2b-6d2f5a1c0e11",
    "trace_id": "0af76519-16cd-43dd-8448-eb211c80319c",
    "parent_run_id": None,
    "name": "ChatOpenAI",
    "run_type": "llm",
    "start_time": "2025-06-06T11:31:33.965123",
    "end_time": "2025-06-06T11:31:34",
    "inputs": {"messages": []},
    "outputs": {"text": "hi"},
    "extra": {"metadata": {"ls_model_name": "gpt-4o"}, "invocation_params": {"n": 1}},
    "status": "success",
    "prompt_tokens": 3,
    "tags": ["a"],
}


def test_langsmith_runs_as_objects_and_as_columns_of_text() -> None:
    child = {**RUN, "id": "00000000-0000-0000-0000-000000000002", "parent_run_id": RUN["id"], "run_type": "tool"}
    columns = {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in RUN.items()}
    parent, tool = spans_of({"runs": [RUN, child]}, "langsmith")
    assert tool.parent_span_id == parent.span_id
    assert (parent.trace_id, parent.status_code, parent.start_ns) == (TRACE, 1, 1749209493965123000)
    found = dict(parent.attributes)
    assert found["langsmith.span.kind"] == "llm"
    assert found["gen_ai.prompt"] == '{"messages":[]}'
    assert found["gen_ai.completion"] == '{"text":"hi"}'
    assert found["gen_ai.request.model"] == "gpt-4o"
    assert found["gen_ai.usage.input_tokens"] == 3
    assert found["langsmith.span.tags"] == ("a",)
    (from_text,) = spans_of([columns], "langsmith")
    assert json.loads(str(from_text.get("gen_ai.prompt"))) == {"messages": []}
    assert from_text.get("gen_ai.request.model") == "gpt-4o"
