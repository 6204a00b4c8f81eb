"""Files made to hurt: each ends in spans, in a named problem or in an ImportFault, soon and in little memory."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.errors import ImportFault
from otel_replay.importers import documents, open_source, repair, sources
from otel_replay.span import Span

DATA = Path(__file__).parent / "data"


def ends_well(data: bytes, **options: Any) -> None:
    """Read it: spans and problems, or an ImportFault; anything else is a fault of ours."""
    try:
        result = open_source(data, **options)
        spans = result.spans
    except ImportFault:
        return
    assert all(isinstance(span, Span) for span in spans)
    assert all(str(problem) for problem in result.problems)


def spans_document(**fields: Any) -> bytes:
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "n", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


DEEP = b'{"resourceSpans":[{"scopeSpans":[{"spans":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}]}"
NESTED = b'{"arrayValue":{"values":[' * 5_000 + b"{}" + b"]}}" * 5_000
HOSTILE = {
    "brackets": b"[" * 1_000_000,
    "braces": b'{"a":' * 300_000,
    "deep spans": DEEP,
    "deep value": b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":'
    + NESTED
    + b"}]}]}]}]}",
    "huge integer": b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":' + b"9" * 100_000 + b"}]}]}]}",
    "huge exponent": spans_document(startTimeUnixNano=1).replace(b'Nano": 1', b'Nano": 1e999999999'),
    "negative time": spans_document(startTimeUnixNano="-5"),
    "bool time": spans_document(startTimeUnixNano=True),
    "unterminated": b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "',
    "lone bracket": b"]",
    "zeros": bytes(1_000_000),
    "noise": bytes(range(256)) * 100,
    "length of everything": b"\xff\xff\xff\xff" + b"\x0a" * 100,
    "a varint without end": b"\xff" * 100,
    "a zstd frame of nothing": b"\x28\xb5\x2f\xfd" + b"\0" * 50,
    "a gzip of nothing": b"\x1f\x8b" + b"\0" * 50,
    "null bytes in lines": b'{"resourceSpans":[]}\n\0\0\0\n{"resourceSpans":[]}\n',
    "wrong types": json.dumps({"data": [{"traceID": 1, "spans": [1, None, {"spanID": [], "tags": {}}]}]}).encode(),
    "wrong top": json.dumps({"resourceSpans": {"a": 1}}).encode(),
    "wrong inside": json.dumps({"resourceSpans": [None, 1, "x", {"scopeSpans": [[], {"spans": {}}]}]}).encode(),
    "wrong zipkin": json.dumps([{"traceId": [], "id": {}, "tags": [], "annotations": {"a": 1}}]).encode(),
    "wrong langfuse": json.dumps({"trace": [], "observations": [{"id": 5, "startTime": {}}, 7]}).encode(),
    "wrong mlflow": json.dumps({"info": 1, "data": {"spans": [{"trace_id": "?"}, []]}}).encode(),
    "wrong x-ray": json.dumps({"Traces": [{"Id": 7, "Segments": [{"Document": "{"}, {"Document": "[]"}]}]}).encode(),
    "wrong console": json.dumps({"kind": "SpanKind.X", "context": {"trace_id": "zz"}}).encode(),
    "wrong phoenix": json.dumps([{"span_kind": 1, "context": {"trace_id": None}, "start_time": "x"}]).encode(),
    "wrong langsmith": json.dumps([{"run_type": "llm", "id": [], "start_time": {}, "child_runs": [1]}]).encode(),
    "path tricks": json.dumps({"resourceSpans": [], "file": "../../../../etc/passwd"}).encode(),
    "xml": b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    "pickle": b"\x80\x04\x95\x00cos\nsystem\n",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("in_pieces", [False, True])
def test_hostile_bytes_end_well_and_soon(name: str, in_pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_pieces:
        monkeypatch.setattr(documents, "WHOLE_BYTES_MAX", 64)
    begin = time.monotonic()
    ends_well(HOSTILE[name])
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_refused_within_its_bounds(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_RATIO_FLOOR_BYTES", 1_000_000)
    bomb = pack(b"[" + b" " * 50_000_000)
    with pytest.raises(ImportFault, match="times its size"):
        open_source(bomb).spans  # noqa: B018 - reading is what raises
    monkeypatch.setattr(sources, "DECOMPRESSED_BYTES_MAX", 2_000_000)
    monkeypatch.setattr(sources, "DECOMPRESSED_RATIO_MAX", 10**9)
    with pytest.raises(ImportFault, match="more than 2000000 bytes"):
        open_source(bomb).spans  # noqa: B018 - reading is what raises


def test_a_zstd_bomb_within_a_frame_is_one_skipped_message(monkeypatch: pytest.MonkeyPatch) -> None:
    from otel_replay.importers.shapes import frames

    monkeypatch.setattr(frames, "IMPORT_SPAN_BYTES_MAX", 1_000_000)
    bomb = zstandard.compress(bytes(50_000_000))
    good = (DATA / "torture.collector_file_exporter.proto_zstd_legacy_4byteBE.bin").read_bytes()
    result = open_source(len(bomb).to_bytes(4, "big") + bomb + good)
    assert [span.name for span in result.spans] == ["call tool", "agent run"]
    (problem,) = result.problems
    assert "more than 1000000 bytes when unpacked" in problem.where[0]


def test_memory_stays_bounded_for_one_long_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "WHOLE_BYTES_MAX", 500_000)
    monkeypatch.setattr(documents, "_CHUNK", 100_000)
    file = tmp_path / "big.json"
    count = 3_000
    with open(file, "w") as out:
        out.write('{"data": [{"traceID": "1", "spans": [')
        jaeger = {"traceID": "1", "operationName": "n", "startTime": 1, "processID": "p1",
                  "tags": [{"key": "k", "type": "string", "value": "x" * 1000}]}  # fmt: skip
        out.writelines(("," if n else "") + json.dumps({**jaeger, "spanID": f"{n + 1:x}"}) for n in range(count))
        out.write('], "processes": {"p1": {"serviceName": "late"}}}]}')
    assert file.stat().st_size > 3_000_000
    tracemalloc.start()
    result = open_source(file)
    seen = 0
    for one in result:
        seen += 1
        assert one.resource.attributes == (("service.name", "late"),)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == count
    assert peak < 1_500_000


def test_parents_in_a_circle_are_cut_once() -> None:
    ring = [Span("1" * 32, f"{n:016x}", "n", n, n, parent_span_id=f"{n % 4 + 1:016x}") for n in (1, 2, 3, 4)]
    tail = Span("1" * 32, "f" * 16, "tail", 9, 9, parent_span_id=ring[0].span_id)
    own = Span("1" * 32, "e" * 16, "own", 9, 9, parent_span_id="e" * 16)
    repaired = repair.repair([tail, *ring, own])
    assert [span.parent_span_id[-1:] for span in repaired.spans] == ["1", "", "3", "4", "1", ""]
    assert sum("each other's parents" in note for note in repaired.notes) == 2


def test_a_long_chain_of_parents_is_quick() -> None:
    count = 20_000
    chain = [Span("1" * 32, f"{n + 1:016x}", "n", n, n, parent_span_id=f"{n:016x}" if n else "") for n in range(count)]
    begin = time.monotonic()
    assert len(repair.repair(reversed(chain)).spans) == count
    assert time.monotonic() - begin < 5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("1" * 32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    here = [path]
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        here += _places(item, (*path, key))
    return here


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = _with(tree[path[0]], path[1:], value)
    return copy


SEEDS = [
    json.loads((DATA / name).read_text())
    for name in (
        "im16_jaeger_tag_types.json", "im04_any_values.otlp.json", "im02_tempo_v2_trace_base64.json",
        "genai_openai.zipkin_v2.json", "genai_openai.grafana_explore_export.json",
    )
]  # fmt: skip
OBSERVATION = {"id": "2" * 16, "type": "TOOL", "startTime": "2025-01-01T00:00:00Z"}
SEEDS.append({"trace": {"id": "1" * 32}, "observations": [{**OBSERVATION, "metadata": {"attributes": {"a": "1"}}}]})
SEEDS.append([{"name": "n", "span_kind": "LLM", "context": {"trace_id": "1" * 32, "span_id": "2" * 16},
               "start_time": 1.5, "attributes": {"llm": {"tools": [{"tool": {"json_schema": {}}}]}}}])  # fmt: skip
SEEDS.append({"info": {}, "data": {"spans": [{"trace_id": "CvdlGRbNQ92ESOshHIAxnA==", "span_id": "t61rcWkgMzE=",
              "start_time_unix_nano": 1, "status": {"code": "OK"}, "attributes": {}, "events": [{}]}]}})  # fmt: skip
SEEDS.append([{"run_type": "llm", "id": "x", "start_time": "2025-01-01", "extra": {"metadata": {"ls_model_name": 1}}}])
SEGMENT = {"id": "6b55dcc497934f1a", "name": "a", "start_time": 1.5, "metadata": {"default": {}}, "subsegments": [{}]}
SEEDS.append({"Traces": [{"Id": "1-58406520-a006649127e371903a2de979", "Segments": [{"Document": SEGMENT}]}]})


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_part_of_any_shape_replaced_by_anything(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS))
    path = data.draw(st.sampled_from(_places(seed)))
    ends_well(json.dumps(_with(seed, path, data.draw(JSON))).encode())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(path.name for path in DATA.iterdir())), st.integers(0, 2**30), st.binary(max_size=6))
def test_any_file_with_a_hole_in_it(name: str, where: int, instead: bytes) -> None:
    whole = (DATA / name).read_bytes()
    at = where % len(whole)
    ends_well(whole[:at] + instead + whole[at + len(instead) + where % 3 :])


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x0a", b"[", b"{", b"\0\0\0\x05", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes(data: bytes, head: bytes) -> None:
    ends_well(head + data)
