"""Documents whose parts are not what their shape says: read as far as they are, and the rest named, never passed over.

For each shape a small document is broken at one place after another: whatever is then not read must be told of.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from otel_replay.errors import ImportFault
from otel_replay.importers import ImportResult, open_source

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
MS = 1_700_000_000_000

SHAPES: dict[str, Any] = {
    "otlp-json": {"resourceSpans": [{
                  "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
                  "scopeSpans": [{"scope": {"name": "sc"}, "spans": [
                      {"traceId": TRACE, "spanId": SPAN, "name": "a", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
                       "attributes": [{"key": "k", "value": {"stringValue": "v"}}],
                       "events": [{"name": "e", "timeUnixNano": "1"}],
                       "links": [{"traceId": TRACE, "spanId": SPAN}]}]}]}]},
    "jaeger": {"data": [{"traceID": TRACE,
               "processes": {"p1": {"serviceName": "s", "tags": [{"key": "h", "value": "x"}]}},
               "spans": [{"traceID": TRACE, "spanID": SPAN, "operationName": "a", "startTime": MS * 1000, "duration": 5,
                          "processID": "p1", "tags": [{"key": "k", "type": "string", "value": "v"}],
                          "logs": [{"timestamp": MS * 1000, "fields": [{"key": "event", "value": "e"}]}],
                          "references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": SPAN[::-1]}],
                          "warnings": ["w"]}]}]},
    "jaeger-es": {"hits": {"hits": [{"_source": {
                  "traceID": TRACE, "spanID": SPAN, "operationName": "a", "startTime": MS * 1000, "duration": 5,
                  "process": {"serviceName": "s", "tag": {"h": "x"}}, "tag": {"k": "v"}, "tags": []}}]}},
    "zipkin": [{"traceId": TRACE, "id": SPAN, "name": "a", "timestamp": MS * 1000, "duration": 5, "tags": {"k": "v"},
                "localEndpoint": {"serviceName": "s"}, "remoteEndpoint": {"serviceName": "r"},
                "annotations": [{"timestamp": MS * 1000, "value": "e"}]}],
    "mlflow": {"info": {"trace_id": "tr-1"}, "data": {"spans": [
               {"trace_id": TRACE, "span_id": SPAN, "name": "a", "start_time_unix_nano": 1, "end_time_unix_nano": 2,
                "attributes": {"k": "v"}, "events": [{"name": "e", "time_unix_nano": 1, "attributes": {"x": 1}}],
                "links": [{"trace_id": TRACE, "span_id": SPAN}]}]}},
    "langfuse": {"id": "t", "observations": [
                 {"id": "o", "traceId": "t", "type": "SPAN", "name": "a", "startTime": "2025-01-01T00:00:00Z",
                  "endTime": "2025-01-01T00:00:01Z", "input": {"a": 1}, "output": 1,
                  "metadata": {"scope": {"name": "sc"}, "attributes": {"k": "v"}, "more": 1}}]},
    "phoenix": {"data": [{"context": {"trace_id": TRACE, "span_id": SPAN}, "span_kind": "LLM", "name": "a",
                          "start_time": "2025-01-01T00:00:00Z", "end_time": "2025-01-01T00:00:01Z",
                          "events": [{"name": "e", "timestamp": "2025-01-01T00:00:00Z", "attributes": {"k": 1}}]}]},
    "console": {"name": "a", "context": {"trace_id": "0x" + TRACE, "span_id": "0x" + SPAN, "trace_state": "[]"},
                "kind": "SpanKind.INTERNAL", "start_time": "2025-01-01T00:00:00Z", "end_time": "2025-01-01T00:00:01Z",
                "status": {"status_code": "OK"}, "attributes": {"k": "v"},
                "events": [{"name": "e", "timestamp": "2025-01-01T00:00:00Z", "attributes": {"x": 1}}],
                "links": [{"context": {"trace_id": "0x" + TRACE, "span_id": "0x" + SPAN}, "attributes": {"y": 1}}],
                "resource": {"attributes": {"service.name": "s"}}},
    "langsmith": {"runs": [{"id": "r", "trace_id": "t", "run_type": "llm", "name": "a", "inputs": {"a": 1},
                            "outputs": {"b": 1}, "start_time": "2025-01-01T00:00:00Z",
                            "child_runs": [{"id": "c", "run_type": "tool", "name": "b", "inputs": {}, "outputs": {},
                                            "start_time": "2025-01-01T00:00:00Z"}]}]},
    "xray": {"Traces": [{"Id": "1-58406520-a006649127e371903a2de979", "Segments": [
             {"Id": "1", "Document": {"id": "70de5b6f19ff9a0a", "name": "a", "start_time": 1.0, "end_time": 2.0,
                                      "subsegments": [{"id": "70de5b6f19ff9a0b", "name": "b", "start_time": 1.0,
                                                       "end_time": 2.0}]}}]}]},
}  # fmt: skip
WRONG: tuple[Any, ...] = ("x", 7, True, {"a": 1}, [7], [[7]])

def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path and isinstance(value, (dict, list)):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def broken(document: Any, path: tuple[Any, ...], wrong: Any) -> tuple[Any, Any]:
    """Return the document with `wrong` at `path`, and what was there."""
    made = copy.deepcopy(document)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    before, holder[path[-1]] = holder[path[-1]], wrong
    return made, before


def weight(result: ImportResult) -> int:
    """Return how much of a document was read."""
    found = 0
    for span in result.spans:
        found += 1 + len(span.attributes) + len(span.resource.attributes) + len(span.links)
        found += bool(span.parent_span_id) + bool(span.scope.name)
        found += sum(1 + len(event.attributes) + bool(event.name) for event in span.events)
    return found


PLACES = [(name, path) for name, document in SHAPES.items() for path in places(document)]


@pytest.mark.parametrize(("name", "path"), PLACES, ids=[f"{name}-{'.'.join(map(str, path))}" for name, path in PLACES])
def test_im_01_what_is_not_as_its_shape_says_is_named(name: str, path: tuple[Any, ...]) -> None:
    whole = open_source(json.dumps(SHAPES[name]).encode())
    assert (whole.format, bool(whole.spans)) == (name, True)
    said = set(map(str, whole.problems))
    for wrong in WRONG:
        document, before = broken(SHAPES[name], path, wrong)
        found = open_source(json.dumps(document).encode())
        try:
            less = weight(found) < weight(whole)
        except ImportFault:
            continue
        lawful = isinstance(before, dict) and isinstance(wrong, dict)  # members that nobody knows are no fault
        lawful = lawful or path[-1] == "metadata"  # of Langfuse: any JSON
        assert not less or lawful or set(map(str, found.problems)) - said, f"{wrong!r} is passed over in silence"


@pytest.mark.parametrize("name", ["jaeger", "zipkin", "mlflow", "langfuse", "phoenix", "console", "langsmith"])
def test_im_01_arrays_in_arrays_are_read_as_far_as_they_are_recognised(name: str) -> None:
    plain = open_source(json.dumps(SHAPES[name]).encode()).spans
    document = SHAPES[name]
    key = {"jaeger": "data", "phoenix": "data", "langsmith": "runs"}.get(name)
    wrapped = {**document, key: [document[key]]} if key else [[document] if name != "zipkin" else document]
    found = open_source(json.dumps(wrapped).encode())
    assert found.spans == plain, found.problems


def test_im_18_one_bad_group_never_blocks_its_neighbours() -> None:
    (group,) = SHAPES["otlp-json"]["resourceSpans"]
    for bad in (7, "x", {"scopeSpans": "x"}, {"scopeSpans": 7}, {"ScopeSpans": group["scopeSpans"]}):
        found = open_source(json.dumps({"resourceSpans": [bad, group]}).encode())
        assert [span.name for span in found.spans] == ["a"]
        (problem,) = found.problems
        assert problem.kind == "skipped"
    assert str(problem) == "skipped: a resource group without scopeSpans holds 'ScopeSpans'"
