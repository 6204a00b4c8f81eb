"""One trace with every kind of value, in fifteen encodings: each gives the same spans, as far as its shape can."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from otel_replay.importers import open_source
from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span, Value

DATA = Path(__file__).parent / "data"
TRACE, ROOT, TOOL = "11c9ebb9afa01e026f7a016c2d025f7c", "c45d10fd0e03653e", "4868cb34338c6e46"
RESOURCE = Resource((("service.name", "torture-agent"), ("service.instance.id", "i-1"), ("n.replicas", 3)))
SCOPE = Scope("torture.scope", "1.2.3")
LONG = '{"messages": [{"role": "user", "content": "' + "é🙂 " * 1500 + '"}]}'
CHUNK = '{"x": "' + "y" * 1800 + '"}'
EXCEPTION = (
    ("exception.type", "ValueError"),
    ("exception.message", "boom"),
    ("exception.stacktrace", "ValueError: boom\n"),
    ("exception.escaped", "False"),
)
ATTRIBUTES: dict[str, Value] = {
    "str": "é🙂<&>",
    "empty": "",
    "int": 42,
    "big_int": 9007199254740993,
    "neg_int": -7,
    "double": 0.1,
    "double_integral": 1.0,
    "double_zero": 0.0,
    "bool": True,
    "bool_false": False,
    "bytes": b"\x00\xff\x10binary",
    "list_str": ("a", "b"),
    "list_int": (1, 2),
    "list_mixed": ("a", 1, 2.5, True, None, b"x", ("n",), KeyValues([("k", "v")])),
    "empty_list": (),
    "map": KeyValues([("z", 1), ("a", KeyValues([("b", (1.0, "x"))])), ("bin", b"\x01")]),
    "empty_map": KeyValues(),
    "null": None,
    "json_str": '{"a": 1}',
    "long_value_over_2048": LONG,
    "chunked_value": (CHUNK,) * 4,
    "dotted.key.a": 1,
    "dotted.key": "parent-and-child",
}
TOOL_SPAN = Span(
    trace_id=TRACE,
    span_id=TOOL,
    parent_span_id=ROOT,
    name="call tool",
    kind=3,
    start_ns=1796078319979947194,
    end_ns=1796078319980069236,
    attributes=tuple(ATTRIBUTES.items()),
    events=(
        Event(1796078319979996367, "evt", (("i", 1), ("s", "x"))),
        Event(1796078319980060683, "exception", EXCEPTION),
    ),
    links=(Link(TRACE, ROOT, attributes=(("link.k", "v"), ("n", 1)), flags=256),),
    status_code=2,
    status_message="boom",
    flags=256,
    resource=RESOURCE,
    scope=SCOPE,
)
ROOT_SPAN = Span(
    trace_id=TRACE,
    span_id=ROOT,
    name="agent run",
    kind=1,
    start_ns=1796078319979891451,
    end_ns=1796078319980087203,
    flags=256,
    resource=RESOURCE,
    scope=SCOPE,
)
LOSSLESS = {
    "torture.otlp.jsonl": "otlp-json",
    "torture.otlp.pb": "otlp-proto",
    "torture.collector_file_exporter.proto_4byteBE.bin": "otlp-proto (4-byte)",
    "torture.collector_file_exporter.proto_zstd_legacy_4byteBE.bin": "otlp-proto (4-byte)",
    "torture.collector_file_exporter.json_zstd_legacy_4byteBE.bin": "otlp-proto (4-byte)",
    "torture.collector_file_exporter.json_zstd_native.jsonl.zst": "otlp-json",
    "torture.protobuf_varint_delimited.bin": "otlp-proto (varint)",
    "torture.jaeger_api_v3.json": "jaeger-v3",
}
TEXT_VALUES = {
    "list_str": '["a","b"]',
    "list_int": "[1,2]",
    "list_mixed": '["a",1,2.5,true,null,"eA==",["n"],{"k":"v"}]',
    "empty_list": "[]",
    "map": '{"a":{"b":[1,"x"]},"bin":"AQ==","z":1}',
    "empty_map": "{}",
    "null": "",
    "chunked_value": json.dumps([CHUNK] * 4, separators=(",", ":")),
}


def tool_and_root(name: str) -> tuple[Span, Span]:
    spans = open_source(DATA / name).spans
    assert [span.name for span in spans] == ["call tool", "agent run"]
    return spans[0], spans[1]


def typed(span: Span) -> list[tuple[str, str, Value]]:
    """Attributes with their types: 1, 1.0 and True are equal to Python, but not to us."""
    return [(key, type(value).__name__, value) for key, value in span.attributes]


@pytest.mark.parametrize(("name", "found"), LOSSLESS.items())
def test_encodings_that_lose_nothing(name: str, found: str) -> None:
    result = open_source(DATA / name)
    assert result.spans == [TOOL_SPAN, ROOT_SPAN]
    assert typed(result.spans[0]) == typed(TOOL_SPAN)
    assert (result.format, result.problems, result.notes) == (found, [], [])


@pytest.mark.parametrize("name", ["torture.tempo_api_v1.json", "torture.tempo_api_v2.json"])
def test_tempo_loses_flags_only(name: str) -> None:
    tool, root = tool_and_root(name)
    links = (replace(TOOL_SPAN.links[0], flags=tool.links[0].flags),)
    assert tool == replace(TOOL_SPAN, flags=tool.flags, links=links)
    assert typed(tool) == typed(TOOL_SPAN)
    assert root == replace(ROOT_SPAN, flags=root.flags)


def test_tempo_cut_at_2048_names_the_attribute() -> None:
    result = open_source(DATA / "torture.tempo_api_v2_truncated_2048.json")
    tool = result.spans[0]
    cut = tool.get("long_value_over_2048")
    assert isinstance(cut, str)
    assert LONG.startswith(cut.rstrip("\ufffd"))
    assert len(cut) < len(LONG)
    lost = [problem for problem in result.problems if problem.kind == "lost"]
    assert lost
    assert all("long_value_over_2048" in problem.what for problem in lost)
    rest = [(key, value) for key, value in tool.attributes if key != "long_value_over_2048"]
    assert rest == [(key, value) for key, value in TOOL_SPAN.attributes if key != "long_value_over_2048"]


def test_jaeger_keeps_scalar_types_and_turns_lists_into_text() -> None:
    result = open_source(DATA / "torture.jaeger_api_traces.json")
    tool, root = result.spans
    expected = {**ATTRIBUTES, **TEXT_VALUES}
    assert typed(tool) == [(key, type(value).__name__, value) for key, value in expected.items()]
    assert (tool.start_ns, tool.end_ns) == (1796078319979947000, 1796078319980069000)
    assert (tool.kind, tool.status_code, tool.status_message) == (3, 2, "boom")
    assert (root.kind, root.status_code, root.attributes) == (1, 0, ())
    assert tool.scope == SCOPE
    assert dict(tool.resource.attributes) == dict(RESOURCE.attributes)
    assert tool.events == (
        Event(1796078319979996000, "evt", (("i", 1), ("s", "x"))),
        Event(1796078319980060000, "exception", EXCEPTION),
    )
    assert (tool.parent_span_id, tool.links) == (ROOT, (Link(TRACE, ROOT),))
    assert [problem.what for problem in result.problems] == ["the parent is known from a FOLLOWS_FROM reference only"]
    assert any("microseconds" in note for note in result.notes)


def test_zipkin_turns_all_values_into_text() -> None:
    result = open_source(DATA / "torture.zipkin_v2.json")
    tool, root = result.spans
    expected = {
        **{key: value for key, value in ATTRIBUTES.items() if isinstance(value, str)},
        "int": "42",
        "big_int": "9007199254740993",
        "neg_int": "-7",
        "double": "0.1",
        "double_integral": "1",
        "double_zero": "0",
        "bool": "true",
        "bool_false": "false",
        "bytes": "AP8QYmluYXJ5",
        **TEXT_VALUES,
        "dotted.key.a": "1",
    }
    assert dict(tool.attributes) == {**expected, "n.replicas": "3"}
    assert tool.resource == Resource((("service.name", "torture-agent"), ("service.instance.id", "i-1")))
    assert (tool.kind, tool.status_code, tool.status_message, root.kind) == (3, 2, "boom", 1)
    assert tool.events[1] == Event(1796078319980060000, "exception", tuple(sorted(EXCEPTION)))
    assert tool.links == (Link(TRACE, ROOT, attributes=(("link.k", "v"), ("n", 1))),)
    assert (tool.parent_span_id, root.parent_span_id) == (ROOT, "")
    assert any("as text" in note for note in result.notes)


def test_grafana_says_what_the_browser_lost() -> None:
    result = open_source(DATA / "torture.grafana_explore_export.json")
    tool, root = result.spans
    empty = {"double_zero", "bytes", "map", "empty_map", "null", "empty"}
    assert {key for key, value in tool.attributes if value == ""} == empty
    assert tool.get("list_str") == ("a", "b")
    assert tool.get("big_int") == 9007199254740992
    assert [event.name for event in tool.events] == ["", "exception"]
    assert (tool.kind, tool.status_code, root.trace_id, root.span_id) == (3, 2, TRACE, ROOT)
    (lost,) = [problem for problem in result.problems if problem.kind == "lost"]
    assert set(lost.where) < {"empty", "double_zero", "bytes", "map", "list_mixed", "empty_map", "null"}
    assert result.format == "grafana"
    assert "map, bytes and null values" in result.notes[0]
