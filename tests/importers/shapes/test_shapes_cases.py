"""Real problems of imported traces: which format, ids, values, copies, missing parents, partial answers, limits."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from otel_replay.errors import ImportFault
from otel_replay.importers import open_source
from otel_replay.importers.repair import MissingParent, repair
from otel_replay.span import Event, KeyValues, Span

DATA = Path(__file__).parent / "data"
TRACE = "b535a7bc6f52887645b6ba5e5e1a585c"
LLM = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "demo",
    "input.value": '{"messages":[{"role":"user","content":"hi"}]}',
    "output.value": '{"content":"hello"}',
    "llm.token_count.total": 9,
}
TOOL = {
    "openinference.span.kind": "TOOL",
    "tool.name": "search",
    "input.value": '{"q":"fjord"}',
    "output.value": "[1, 2]",
}


def check_demo_run(spans: list[Span]) -> None:
    assert [(span.trace_id, span.span_id, span.parent_span_id, span.name, span.kind) for span in spans] == [
        (TRACE, "2fdf7c31ca050687", "", "agent run", 1),
        (TRACE, "920db09f5de28310", "2fdf7c31ca050687", "ChatCompletion", 3),
        (TRACE, "0dcd9f8fa4937eeb", "2fdf7c31ca050687", "search", 3),
    ]
    assert [dict(span.attributes) for span in spans] == [{"openinference.span.kind": "AGENT"}, LLM, TOOL]
    assert {span.resource.attributes for span in spans} == {(("service.name", "demo-agent"),)}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("im01_jaeger_api.json", "jaeger"),
        ("im01_jaeger_bare_trace.json", "jaeger-trace"),
        ("im01_jaeger_list.json", "jaeger-trace"),
        ("im01_otlp.json", "otlp-json"),
        ("im01_otlp_file_exporter.jsonl", "otlp-json"),
        ("im02_tempo_v1_batches_base64.json", "tempo"),
        ("im02_tempo_v2_trace_base64.json", "tempo"),
        ("im11_tempo_partial.json", "tempo"),
    ],
)
def test_one_run_in_many_shapes_under_a_name_that_says_nothing(name: str, found: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.bin"
    shutil.copy(DATA / name, file)
    result = open_source(file)
    check_demo_run(result.spans)
    assert result.format == found
    assert result.problems_of("skipped") == []
    whole_us = found.startswith("jaeger")
    assert result.spans[0].start_ns == (1790000000123456000 if whole_us else 1790000000123456789)
    assert result.spans[0].end_ns == (1790000005123456000 if whole_us else 1790000005123456789)


def test_unknown_shape_says_what_it_found_and_what_it_takes() -> None:
    with pytest.raises(ImportFault) as fault:
        open_source(b'{"hello": 1, "world": []}').spans  # noqa: B018 - reading is what raises
    message = str(fault.value)
    assert "an object with 'hello', 'world'" in message
    assert "OTLP/JSON {resourceSpans}" in message
    assert "\n" not in message


def test_any_values_keep_their_types() -> None:
    (span,) = open_source(DATA / "im04_any_values.otlp.json").spans
    found = dict(span.attributes)
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 25,
        "gen_ai.usage.output_tokens": 7,
        "big": 2**63 - 1,
        "empty": None,
        "list": (1, "a", None),
        "map": KeyValues([("n", 1.0)]),
        "blob": b"\xff\xfe",
    }
    assert str(found["map"]) == "KeyValues((('n', 1.0),))" or isinstance(found["map"], KeyValues)


def test_trace_id_cut_to_64_bits_is_joined() -> None:
    result = open_source(DATA / "im06_mixed_width_trace_ids.jaeger.json")
    assert {span.trace_id for span in result.spans} == {"6e1828cd18051e7aa1326dc7a41ba2f6"}
    assert result.missing_parents == ()
    assert "joined 64-bit trace id a1326dc7a41ba2f6 to 6e1828cd18051e7aa1326dc7a41ba2f6" in result.notes


def test_orphans_stand_under_one_placeholder_in_start_order() -> None:
    result = open_source(DATA / "im07_missing_parent.jaeger.json")
    assert [span.name for span in result.spans] == ["llm", "tool"]
    assert result.missing_parents == (
        MissingParent("7c2f4e051026acd33003b317e6fd874b", "cb0128e8f2622bd5", ("6ccda0896781b9d9", "37b0a6c3ce0c615b")),
    )
    assert any(note.startswith("root missing: span cb0128e8f2622bd5") for note in result.notes)


def test_copies_collapse_and_the_latest_end_wins() -> None:
    result = open_source(DATA / "im09_same_span_three_times.otlp.jsonl")
    (span,) = result.spans
    assert dict(span.attributes) == {"gen_ai.usage.output_tokens": 31, "output.value": "hello there"}
    assert [dict(old.attributes) for old in result.history] == [
        {"gen_ai.usage.output_tokens": 10, "output.value": "hel"}
    ]
    assert "1 equal copies of spans collapsed" in result.notes


def test_partial_answer_of_tempo_is_said() -> None:
    result = open_source(DATA / "im11_tempo_partial.json")
    assert len(result.spans) == 3
    assert result.partial == "Trace exceeds maximum size of 5000000 bytes, a partial trace is returned"
    assert [problem.kind for problem in result.problems] == ["partial"]


def test_jaeger_tags_become_fields_and_types() -> None:
    result = open_source(DATA / "im16_jaeger_tag_types.json")
    (span,) = result.spans
    assert (span.kind, span.status_code, span.status_message) == (3, 2, "boom")
    assert span.attributes == (
        ("flag_text", "true"),
        ("n", 3),
        ("n_as_text", 3),
        ("ratio", 0.5),
        ("blob", b"\xff\xfe"),
        ("list", '["a","b"]'),
        ("twice", "1"),
        ("twice", "2"),
    )
    exception = (("exception.type", "ValueError"), ("exception.message", "boom"))
    assert span.events == (Event(1790000000123459000, "exception", exception),)
    assert [problem.what for problem in result.problems] == ["tag 'twice' stands twice; both values are kept"]


@pytest.mark.parametrize("name", ["im18_nan.otlp.json", "im18_nan_bare_tokens.otlp.json"])
def test_nan_and_infinity_in_both_spellings(name: str) -> None:
    (span,) = open_source(DATA / name).spans
    score, limit = span.get("eval.score"), span.get("limit")
    assert isinstance(score, float)
    assert math.isnan(score)
    assert limit == -math.inf
    assert span.get("output.value") == '{"score": NaN, "limit": Infinity}'


def test_evicted_attributes_are_named_with_their_indices() -> None:
    result = open_source(DATA / "ot05_first_72_attributes_evicted.otlp.json")
    (lost,) = result.problems
    assert lost.kind == "lost"
    assert "llm.input_messages 0-35" in lost.what
    assert "72 dropped" in lost.where[0]
    assert result.spans[0].dropped_attributes_count == 72


def test_a_value_cut_within_its_json_is_named_with_its_length() -> None:
    result = open_source(DATA / "ot06_value_cut_at_1028.otlp.json")
    assert [(problem.kind, problem.what) for problem in result.problems] == [
        ("lost", "input.value was cut at 1028 characters, within its JSON")
    ]


def test_a_round_number_of_spans_and_orphans_hint_at_a_limit() -> None:
    spans = [
        Span(TRACE, f"{n:016x}", "n", n, n + 1, parent_span_id=f"{n - 1:016x}" if n > 1 else "f" * 16)
        for n in range(1, 513)
    ]
    assert any("exactly 512 spans" in note for note in repair(spans).notes)
    assert not any("exactly" in note for note in repair(spans[:-1]).notes)
