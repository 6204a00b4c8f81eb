"""Which shape is it? Told from the content of a document, never from a name.

Each row of `SHAPES` is one shape: how to know it, how to read it, and how to call it in a message to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import LazyList
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import (
    agent_replay,
    agentreplay,
    chronicle,
    console,
    jaeger,
    langfuse,
    langsmith,
    mlflow,
    otlp,
    phoenix,
    vcr,
    xray,
    zipkin,
)
from otel_replay.importers.shapes._common import (
    objects,
    rows_in,
    table,
    tables_in,
    text,
)
from otel_replay.span import Span
from otel_replay.wire import logs

Read = Callable[[Any, Report], Iterator[Span]]


class Shape(NamedTuple):
    name: str
    knows: Callable[[Any], bool]
    read: Read
    says: str


def sample(value: Any) -> Any:
    """Return the first element of an array (of arrays), or the value itself: what a shape is known by."""
    for _ in range(2):
        if isinstance(value, (list, LazyList)):
            value = next(iter(islice(value, 1)), None)
    return value


def _jaeger_api(value: Any) -> bool:
    data = table(value).get("data")
    if not isinstance(data, (list, LazyList)):
        return False
    first = sample(data)
    return jaeger.is_trace(first) or (first is None and "total" in table(value))


def _read_jaeger_api(value: Any, report: Report) -> Iterator[Span]:
    for error in rows_in(value, "errors", report):
        report.part(str(table(error).get("msg") or error)[:300], trace_id=text(table(error).get("traceID")))
    for trace in objects(value["data"], report):
        yield from jaeger.read_trace(trace, report)


def _read_jaeger_traces(value: Any, report: Report) -> Iterator[Span]:
    for trace in objects(value, report):
        yield from jaeger.read_trace(trace, report)


def _jaeger_es(value: Any) -> bool:
    one = table(value)
    hits = table(one.get("hits")).get("hits")
    if hits is not None:
        return jaeger.is_span(table(sample(hits)).get("_source"))
    return jaeger.is_span(one.get("_source")) or (jaeger.is_span(one) and "process" in one)


def _read_jaeger_es(value: Any, report: Report) -> Iterator[Span]:
    found = table(value.get("hits"))
    sources = tables_in(found, "hits", report) if found.get("hits") is not None else iter([value])
    return jaeger.read_spans((hit.get("_source", hit) for hit in sources), report, binary_is_hex=True)


def _read_jaeger_spans(value: Any, report: Report) -> Iterator[Span]:
    return jaeger.read_spans(objects(value, report), report)


def _otlp(name: str) -> Callable[[Any], bool]:
    return lambda value: otlp.holds_groups(value) and otlp.spelling(value) == name


def _arrays_of(read: Read) -> Read:
    """Let a shape that is read from objects also be read from an array of them."""

    def each(value: Any, report: Report) -> Iterator[Span]:
        for item in objects(value, report):
            yield from read(item, report)

    return each


def _read_logs(value: Any, report: Report) -> Iterator[Span]:
    read = logs.read_logs_json(value)
    report.log(read.items)
    for problem in read.problems:
        report.problem("skipped", f"a log record: {problem.reason[:120]}", str(problem))
    yield from ()


def _skip_metrics(value: Any, report: Report) -> Iterator[Span]:
    report.note("metrics stand among the traces; they are not imported")
    yield from ()


def _langfuse(value: Any) -> bool:
    first = sample(value)
    return langfuse.is_trace(first) or langfuse.is_observation(first)


def _phoenix(value: Any) -> bool:
    return phoenix.is_span(sample(value)) or phoenix.is_span(sample(table(value).get("data")))


def _langsmith(value: Any) -> bool:
    return langsmith.is_run(sample(value)) or langsmith.is_run(sample(table(value).get("runs")))


def _chronicle(value: Any) -> bool:
    return chronicle.is_envelope(sample(value)) or chronicle.is_envelope(sample(table(value).get("envelopes")))


def _vcr(value: Any) -> bool:
    found = vcr.list_of(value)
    return vcr.is_interaction(sample(value if found is None else found)) or (
        found is not None and sample(found) is None and "version" in table(value)
    )


SHAPES: tuple[Shape, ...] = (
    Shape("otlp-json", lambda v: _otlp("otlp-json")(sample(v)), _arrays_of(otlp.read), "OTLP/JSON {resourceSpans}"),
    Shape("tempo", lambda v: _otlp("tempo")(sample(v)), _arrays_of(otlp.read), "Tempo {batches} or {trace}"),
    Shape("grafana", lambda v: _otlp("grafana")(sample(v)), _arrays_of(otlp.read), "Grafana's export {batches}"),
    Shape("jaeger-v3", lambda v: _otlp("jaeger-v3")(sample(v)), _arrays_of(otlp.read), "Jaeger v3 {result}"),
    Shape("jaeger", _jaeger_api, _read_jaeger_api, "Jaeger {data: [traces]}"),
    Shape("jaeger-trace", lambda v: jaeger.is_trace(sample(v)), _read_jaeger_traces, "Jaeger traces"),
    Shape("jaeger-es", _jaeger_es, _read_jaeger_es, "Jaeger's Elasticsearch documents"),
    Shape("jaeger-spans", lambda v: jaeger.is_span(sample(v)), _read_jaeger_spans, "Jaeger spans"),
    Shape("langfuse", _langfuse, langfuse.read, "Langfuse {trace, observations}"),
    Shape("mlflow", lambda v: mlflow.is_trace(sample(v)), mlflow.read, "MLflow {info, data}"),
    Shape("phoenix", _phoenix, phoenix.read, "Phoenix spans"),
    Shape("console", lambda v: console.is_span(sample(v)), console.read, "the Python console exporter's output"),
    Shape("langsmith", _langsmith, langsmith.read, "LangSmith runs"),
    Shape("xray", lambda v: xray.is_answer(v) or xray.is_segment(sample(v)), xray.read, "X-Ray {Traces}"),
    Shape("zipkin", lambda v: zipkin.is_span(sample(v)), zipkin.read, "Zipkin v2 [{traceId, id}]"),
    Shape("chronicle", _chronicle, chronicle.read, "Chronicle's envelopes"),
    Shape("agentreplay", lambda v: agentreplay.is_event(sample(v)), agentreplay.read, "AgentReplay's events"),
    Shape("agent-replay", lambda v: agent_replay.is_line(sample(v)), agent_replay.read, "agent-replay's cassettes"),
    Shape("vcr", _vcr, vcr.read, "vcrpy cassettes {interactions}"),
    Shape("otlp-logs", lambda v: "resourceLogs" in table(v), _read_logs, "OTLP/JSON {resourceLogs}"),
    Shape("otlp-metrics", lambda v: "resourceMetrics" in table(v), _skip_metrics, "(metrics are passed over)"),
)
FORMATS = tuple(shape.name for shape in SHAPES)


def shape_of(value: Any) -> Shape | None:
    """Return the shape that knows the document, or None."""
    return next((shape for shape in SHAPES if shape.knows(value)), None)


def named(name: str) -> Shape:
    """Return the shape called `name`. Raises ImportFault with the names there are."""
    for shape in SHAPES:
        if shape.name == name:
            return shape
    raise ImportFault(f"no format is called {name!r}; there are {', '.join(FORMATS)}, otlp-proto")


def what(value: Any) -> str:
    """Say in a few words what stands at the top of a document."""
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:6])
        return f"an object with {keys}{', ...' if len(value) > 6 else ''}" if value else "an empty object"
    if isinstance(value, (list, LazyList)):
        first = next(iter(islice(value, 1)), None)
        return "an empty array" if first is None else f"an array whose first element is {what(first)}"
    return {str: "a text", bool: "a bool", type(None): "null"}.get(type(value), "a number")


def accepted() -> str:
    return "; ".join(shape.says for shape in SHAPES) + "; OTLP protobuf"
