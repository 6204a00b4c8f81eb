"""LangSmith runs: rows of its bulk export (Parquet), and the JSON of its SDK and API.

A run becomes a span with the attributes of LangSmith's own OpenTelemetry export (`langsmith.span.kind`,
`gen_ai.prompt`, `gen_ai.completion`).
Source: LangSmith documentation, "Run data format"; langchain-ai/langsmith-sdk, `_internal/otel/_otel_exporter.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.importers.documents import LazyList, loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    any_id,
    iso_ns,
    json_text,
    objects,
    rows,
    table,
    tables_in,
    text,
    whole,
)
from otel_replay.span import Event, KeyValue, Span

_KNOWN = {
    "ls_provider": "gen_ai.system",
    "ls_model_name": "gen_ai.request.model",
    "ls_temperature": "gen_ai.request.temperature",
    "ls_max_tokens": "gen_ai.request.max_tokens",
}
_TOKENS = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "total_tokens": "gen_ai.usage.total_tokens",
}


def is_run(value: object) -> bool:
    one = table(value)
    return "run_type" in one and "id" in one and "start_time" in one


def read(document: Any, report: Report) -> Iterator[Span]:
    """Read a run, an array of runs, or the API's `{"runs": [...]}`."""
    report.note("LangSmith keeps no OpenTelemetry names, resource or scope; span ids are made from run ids")
    if isinstance(document, dict) and isinstance(document.get("runs"), (list, LazyList)):
        document = document["runs"]
    for raw in objects(document, report):
        one = table(raw)
        try:
            yield from _run(one, report, 0)
        except Unreadable as fault:
            report.problem("skipped", f"a LangSmith run: {fault}", text(one.get("name"))[:80])


def _run(raw: Mapping[str, Any], report: Report, depth: int) -> Iterator[Span]:
    if depth > 100:
        raise Unreadable("child_runs are nested deeper than 100")
    yield _span(raw, report)
    for child in tables_in(raw, "child_runs", report, text(raw.get("name"))[:80]):
        yield from _run(child, report, depth + 1)


def _object(value: Any) -> Any:
    """Return a column that Parquet holds as JSON text as the value that it spells."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return loads(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return value
    return value


def _span(raw: Mapping[str, Any], report: Report) -> Span:
    error = text(raw.get("error"))
    name = text(raw.get("name"))
    if raw.get("inputs") is None and raw.get("outputs") is None:
        report.problem("lost", "a run came without inputs and outputs", name[:80])
    if "id" not in raw:
        raise Unreadable("it has no id")
    end_ns = iso_ns(raw.get("end_time"), "end_time")
    return Span(
        trace_id=any_id(raw.get("trace_id") or raw["id"], 32, report),
        span_id=any_id(raw["id"], 16, report),
        parent_span_id=any_id(raw.get("parent_run_id"), 16, report),
        name=name,
        kind=0,
        start_ns=iso_ns(raw.get("start_time"), "start_time"),
        end_ns=end_ns,
        attributes=tuple(_attributes(raw)),
        events=(Event(end_ns, "exception", (("exception.message", error),)),) if error else (),
        status_code=2 if error else 1 if text(raw.get("status")) == "success" else 0,
        status_message=error,
    )


def _attributes(raw: Mapping[str, Any]) -> Iterator[KeyValue]:
    yield "langsmith.span.kind", text(raw.get("run_type"))
    yield "langsmith.span.id", text(raw.get("id"))
    for column, attribute in (
        ("session_name", "langsmith.trace.session_name"),
        ("dotted_order", "langsmith.dotted_order"),
    ):
        if raw.get(column):
            yield attribute, text(raw[column])
    for column, attribute in (("inputs", "gen_ai.prompt"), ("outputs", "gen_ai.completion")):
        if raw.get(column) is not None:
            yield attribute, json_text(raw[column])
    extra = table(_object(raw.get("extra")))
    for key, value in table(_object(extra.get("metadata"))).items():
        if key in _KNOWN and isinstance(value, (str, int, float)):
            yield _KNOWN[key], value
        elif value is not None:
            yield f"langsmith.metadata.{key}", json_text(value)
    if extra.get("invocation_params") is not None:
        yield "langsmith.invocation_params", json_text(extra["invocation_params"])
    for column, attribute in _TOKENS.items():
        if raw.get(column) is not None:
            yield attribute, whole(raw[column], column)
    if tags := [text(tag) for tag in rows(_object(raw.get("tags")))]:
        yield "langsmith.span.tags", tuple(tags)
