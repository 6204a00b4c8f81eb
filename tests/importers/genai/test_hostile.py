"""What a file may hold: cycles, orphans, copies, deep nesting, huge indexes, wrong types. Never an exception."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.importers.genai import describe, recordings
from otel_replay.importers.genai._fields import indexed, parse, ranges
from otel_replay.span import LogRecord

from ._spans import of, span

MODEL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
         "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]',
         "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "ho"}]}]'}  # fmt: skip


def test_a_cycle_of_parents_ends() -> None:
    one = span("a", MODEL)
    two = span("b", MODEL, under=one)
    found = of(replace(one, parent_span_id=two.span_id), two)
    assert len(found.envelopes) >= 1
    assert len({envelope.address for envelope in found.envelopes}) == len(found.envelopes)


def test_orphans_are_read_and_the_root_is_missed() -> None:
    """IM-07: two calls under a parent that is not in the file."""
    first, second = (replace(span("a", MODEL, start=n), parent_span_id="00000000000000ff") for n in (1, 2))
    found = of(first, second)
    assert [envelope.address for envelope in found.envelopes] == [
        "openai.chat.completions[1]", "openai.chat.completions[2]",
    ]  # fmt: skip
    assert found.problems == ("root missing: the parent span 00000000000000ff is not in the file",)
    assert not found.complete


def test_of_copies_the_one_that_ends_last_counts() -> None:
    """IM-09"""
    one = span("a", MODEL)
    longer = replace(one, end_ns=one.end_ns + 5)
    found = of(one, longer, one)
    (envelope,) = found.envelopes
    assert envelope.end_ns == longer.end_ns
    assert "2 spans stood more than once: the one that ends last counts" in found.run.notes


def test_traces_of_other_things_are_no_runs() -> None:
    assert recordings([span("GET /", {"http.request.method": "GET"}), span("SELECT")]) == []


def test_a_call_that_never_ended_is_unfinished() -> None:
    root = span("agent")
    found = of(root, replace(span("a", MODEL, under=root, start=1), end_ns=0))
    assert [mark.address for mark in found.unfinished] == ["openai.chat.completions[1]"]
    assert not found.complete


def test_deep_nesting_is_damage_and_no_crash() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    found = of(span("a", MODEL | {"gen_ai.input.messages": deep}))
    assert found.envelopes[0].grade == "insufficient"


@pytest.mark.parametrize("key", ["llm.input_messages.99999999999.message.role", "llm.input_messages.9.9.9", "llm."])
def test_absurd_keys_cost_nothing(key: str) -> None:
    found = indexed({key: "x", "llm.input_messages.0.message.role": "user"}, "llm.input_messages")
    assert len(found.items) <= 2
    assert found.items[0] == {"message.role": "user"}


def test_a_far_index_among_few_is_left_out() -> None:
    found = indexed({"p.0.x": 1, "p.90000.x": 2}, "p")
    assert (found.items, found.ignored, found.missing) == (({"x": 1},), ("p.90000",), ())


def test_ranges_are_written_short() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_a_python_repr_is_read_as_the_value_it_shows() -> None:
    field = parse("input.value", "{'city': 'Paris', 'n': None}")
    assert (field.value, field.damage) == ({"city": "Paris", "n": None}, "")
    assert "Python repr" in field.note


def test_a_text_cut_by_tempo_is_recognised() -> None:
    field = parse("gen_ai.input.messages", ('[{"role": "user", "parts": "' + "x" * 3000)[:2048], must_be_json=True)
    assert field.damage == (
        "gen_ai.input.messages was cut at 2,048 characters (Tempo's distributor.max_attribute_bytes is 2,048)"
    )


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = [
    "gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions",
    "gen_ai.system_instructions", "gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
    "gen_ai.provider.name", "gen_ai.response.finish_reasons", "gen_ai.prompt.0.content", "gen_ai.completion.0.content",
    "gen_ai.prompt", "gen_ai.completion", "openinference.span.kind", "input.value", "output.value", "input.mime_type",
    "llm.input_messages.0.message.content", "llm.output_messages.0.message.tool_calls.0.tool_call.id",
    "llm.invocation_parameters", "traceloop.span.kind", "traceloop.entity.input", "logfire.msg_template",
    "logfire.json_schema", "request_data", "response_data", "return", "langfuse.observation.type",
    "langfuse.observation.input", "langfuse.observation.output", "langfuse.observation.usage_details",
    "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.tokenUsage", "langsmith.span.kind",
    "gcp.vertex.agent.llm_request", "gcp.vertex.agent.tool_call_args", "ai.operationId", "ai.prompt.messages",
    "ai.prompt.tools", "ai.response.toolCalls", "mcp.method.name", "model_request_parameters", "events",
    "tool_arguments", "error.type",
]  # fmt: skip
_KINDS = ["LLM", "TOOL", "AGENT", "EMBEDDING", "chat", "execute_tool", "generation", "tool", "llm", "ai.x.doStream",
          "tools/call", "Calling f", "streaming response from x", "application/json"]  # fmt: skip
_values = st.sampled_from(_KINDS) | _json | _json.map(lambda value: json.dumps(value))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(_KEYS), _values, max_size=8), st.sampled_from(["", "pydantic-ai", "logfire"]))
def test_wrong_types_are_never_an_exception(attributes: dict[str, Any], scope: str) -> None:
    whole = {key: value for key, value in attributes.items() if not _too_large(value)}
    one = span("x", whole, scope=scope)
    log = LogRecord(1, one.trace_id, one.span_id, "gen_ai.choice", whole.get("events"))
    for found in recordings([one], [log]):
        assert len(describe(found)) == len(found.envelopes) <= 1


def _too_large(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) > 2**63 - 1
    if isinstance(value, dict):
        return any(map(_too_large, value.values()))
    return isinstance(value, list) and any(map(_too_large, value))
