"""An agent that already has OpenTelemetry: its spans are its own, ours are among them, and nothing is put at risk."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from otel_replay import boundary, codec, open_store, record, replay, semconv
from otel_replay.otel.convert import to_neutral
from otel_replay.otel.exporter import ParquetSpanExporter
from otel_replay.otel.processor import RecordingSpanProcessor
from otel_replay.otel.splitting import SplittingExporter, encoded_bytes


@boundary("lookup", kind="tool")
def lookup(number: int) -> dict[str, int]:
    return {"customer": number}


@boundary("model", kind="model")
def model(messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"model": "m-1", "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "choices": []}


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def provider_with(exporter: SpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def by_name(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_own_spans_are_unchanged_and_ours_nest_among_them(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = provider_with(exporter)
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("request", attributes={"http.route": "/chat"}):
        with record("run", store=tmp_path, tracer_provider=provider, strict=True):
            with tracer.start_as_current_span("step"):
                lookup(1)
    spans = by_name(exporter)
    assert set(spans) == {"request", "run", "step", "execute_tool lookup"}
    assert dict(spans["request"].attributes) == {"http.route": "/chat"}
    assert dict(spans["step"].attributes) == {}
    ids = {name: span.get_span_context().span_id for name, span in spans.items()}
    assert spans["run"].parent.span_id == ids["request"]
    assert spans["step"].parent.span_id == ids["run"]
    assert spans["execute_tool lookup"].parent.span_id == ids["step"]
    assert len({context_of(span).trace_id for span in spans.values()}) == 1


def test_the_span_holds_the_envelope_that_the_journal_holds(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    with record("run", store=tmp_path, tracer_provider=provider_with(exporter), strict=True) as run:
        lookup(7)
    reading = codec.from_span(to_neutral(by_name(exporter)["execute_tool lookup"]))
    with open_store(tmp_path) as store:
        (kept,) = store.recording(run.id).envelopes
    assert reading.integrity == "intact"
    assert reading.envelope == kept


@pytest.mark.parametrize("variable", ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"])
def test_a_value_length_limit_cuts_no_envelope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "100")
    exporter = InMemorySpanExporter()
    with record("run", store=tmp_path, tracer_provider=provider_with(exporter), strict=True):
        lookup(7)
    span = to_neutral(by_name(exporter)["execute_tool lookup"])
    parts = span.get(semconv.ENVELOPE)
    assert isinstance(parts, tuple)
    assert max(len(str(part)) for part in parts) <= 100
    assert codec.from_span(span).integrity == "intact"


def test_incident_and_replay_stand_side_by_side(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = provider_with(exporter)
    with record("run", store=tmp_path, tracer_provider=provider, strict=True):
        lookup(7)
    (recorded,) = [s for s in exporter.get_finished_spans() if s.name == "execute_tool lookup"]
    with replay("run", store=tmp_path, tracer_provider=provider):
        lookup(7)
    replayed = [s for s in exporter.get_finished_spans() if s.name == "execute_tool lookup"][-1]
    assert replayed is not recorded
    assert replayed.attributes is not None
    assert replayed.attributes[semconv.MODE] == "stub"
    assert [link.context.span_id for link in replayed.links] == [context_of(recorded).span_id]
    assert [link.context.trace_id for link in replayed.links] == [context_of(recorded).trace_id]


def test_genai_attributes_are_readable_and_follow_the_capture_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    with record("run", store=tmp_path, tracer_provider=provider_with(exporter), strict=True):
        model([{"role": "user", "content": "private words"}])
    attributes = dict(by_name(exporter)["model"].attributes)
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.usage.input_tokens"] == 3
    exporter.clear()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT")
    with record("quiet", store=tmp_path, tracer_provider=provider_with(exporter), strict=True):
        model([{"role": "user", "content": "private words"}])
    span = by_name(exporter)["model"]
    assert "private words" not in repr(dict(span.attributes))
    assert semconv.ENVELOPE not in span.attributes
    with replay("quiet", store=tmp_path):  # the journal and the store keep it
        model([{"role": "user", "content": "private words"}])


def test_ids_come_from_a_private_source(tmp_path: Path) -> None:
    def numbers(exporter: InMemorySpanExporter | None) -> tuple[list[float], set[int]]:
        random.seed(42)
        if exporter is None:
            lookup(1)
            return [random.random() for _ in range(3)], set()
        with record("run", store=tmp_path, tracer_provider=provider_with(exporter), strict=True):
            lookup(1)
            found = [random.random() for _ in range(3)]
        return found, {context_of(span).trace_id for span in exporter.get_finished_spans()}

    bare, _ = numbers(None)
    first, trace_one = numbers(InMemorySpanExporter())
    second, trace_two = numbers(InMemorySpanExporter())
    assert bare == first == second
    assert len(trace_one) == len(trace_two) == 1
    assert trace_one != trace_two


def test_an_unsampled_trace_is_recorded_all_the_same(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with record("run", store=tmp_path, tracer_provider=provider, strict=True):
        lookup(1)
    assert exporter.get_finished_spans() == ()
    with replay("run", store=tmp_path) as session:
        assert lookup(1) == {"customer": 1}
    assert session.report.count("served") == 1


def test_a_thread_without_context_is_attached_to_the_only_run(tmp_path: Path) -> None:
    import _thread

    done = threading.Event()

    def bare() -> None:  # not through threading.Thread, which carries the scope
        lookup(5)
        done.set()

    with record("run", store=tmp_path, strict=True) as run:
        _thread.start_new_thread(bare, ())
        assert done.wait(5)
    with open_store(tmp_path) as store:
        (envelope,) = store.recording(run.id).envelopes
    assert "context lost: attached to the only active run" in envelope.notes


class Keeping(SpanExporter):
    """Keeps batches; takes `delay` seconds for each."""

    def __init__(self, delay: float = 0.0) -> None:
        self.batches: list[list[Any]] = []
        self.delay = threading.Event()
        self.seconds = delay

    def export(self, spans: Any) -> SpanExportResult:
        self.delay.wait(self.seconds)
        self.batches.append(list(spans))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def test_batches_are_cut_by_bytes_and_the_programs_own_spans_arrive() -> None:
    inner = Keeping()
    splitting = SplittingExporter(inner, batch_bytes_max=100_000)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(splitting, schedule_delay_millis=60_000))
    tracer = provider.get_tracer("app")
    for number in range(30):
        tracer.start_span(f"s{number}", attributes={"text": "x" * 20_000}).end()
    big = tracer.start_span("big", attributes={semconv.ENVELOPE: ["y" * 1_900] * 100, semconv.ENVELOPE_BYTES: 190_000})
    big.end()
    provider.force_flush()
    names = [span.name for batch in inner.batches for span in batch]
    assert names == [f"s{number}" for number in range(30)] + ["big"]
    assert all(sum(encoded_bytes(span) for span in batch) <= 100_000 for batch in inner.batches)
    last = to_neutral(inner.batches[-1][-1])
    assert last.get(semconv.ENVELOPE) is None
    assert codec.from_span(last).integrity == "missing"
    assert "190000" in codec.from_span(last).reason
    assert splitting.stripped_spans == 1


def test_our_processor_loses_nothing_where_the_sdk_loses_most() -> None:
    inner = Keeping(0.005)
    processor = RecordingSpanProcessor(inner, queue_bytes_max=100_000, batch_spans_max=100)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("app")
    for number in range(2_000):
        tracer.start_span(f"s{number}").end()
    assert provider.force_flush()
    assert sorted(span.name for batch in inner.batches for span in batch) == sorted(f"s{n}" for n in range(2_000))
    assert (processor.dropped_spans, processor.failed_spans) == (0, 0)
    provider.shutdown()


def test_what_our_processor_must_drop_is_counted_exactly() -> None:
    inner = Keeping(0.3)
    processor = RecordingSpanProcessor(inner, queue_bytes_max=2_000, batch_spans_max=1, wait_ms_max=1)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("app")
    for number in range(100):
        tracer.start_span(f"s{number}").end()
    inner.seconds = 0.0
    assert not processor.force_flush()
    assert sum(len(batch) for batch in inner.batches) + processor.dropped_spans == 100
    assert processor.dropped_spans > 0
    provider.shutdown()


def test_the_exporter_keeps_foreign_spans_beside_ours(tmp_path: Path) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ParquetSpanExporter(str(tmp_path / "behind"))))
    with provider.get_tracer("app").start_as_current_span("request"):
        with record("run", store=tmp_path / "journal", tracer_provider=provider, strict=True) as run:
            lookup(3)
    provider.shutdown()
    with open_store(tmp_path / "behind") as store, open_store(tmp_path / "journal") as own:
        assert {row["name"] for row in store.arrow("SELECT name FROM spans").to_pylist()} == {
            "request",
            "run",
            "execute_tool lookup",
        }
        behind, journal = store.recording(run.id), own.recording(run.id)
    assert behind.complete
    assert behind.envelopes == journal.envelopes


def test_the_exporter_is_found_by_name(tmp_path: Path) -> None:
    from importlib.metadata import entry_points

    (found,) = entry_points(group="opentelemetry_traces_exporter", name="otel_replay")
    assert found.load() is ParquetSpanExporter


def test_async_with_and_an_async_agent(tmp_path: Path) -> None:
    @boundary("ask", kind="model")
    async def ask(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    async def agent() -> list[str]:
        return list(await asyncio.gather(ask("a"), ask("b")))

    async def main() -> tuple[list[str], list[str]]:
        async with record("run", store=tmp_path, strict=True):
            recorded = await agent()
        async with replay("run", store=tmp_path):
            return recorded, await agent()

    recorded, replayed = asyncio.run(main())
    assert recorded == replayed == ["A", "B"]


@pytest.mark.parametrize("size", [1_000, 58_000, 60_000, 61_000, 119_000, 500_000])
def test_no_attribute_is_too_large_for_a_backend_and_the_envelope_is_whole(tmp_path: Path, size: int) -> None:
    @boundary("big", kind="tool")
    def big(text: str) -> str:
        return text

    exporter = InMemorySpanExporter()
    with record("run", store=tmp_path, tracer_provider=provider_with(exporter), strict=True) as run:
        big("é" * (size // 12))
    span = to_neutral(by_name(exporter)["execute_tool big"])
    for key, value in span.attributes:
        parts = value if isinstance(value, tuple) else (value,)
        assert sum(len(str(part).encode()) for part in parts) <= 62_000, key
    with open_store(tmp_path) as store, open_store(tmp_path / "other", create=True) as other:
        (kept,) = store.recording(run.id).envelopes
        other.write([to_neutral(each) for each in exporter.get_finished_spans()])
        assert other.recording(run.id).envelopes == (kept,)
    assert codec.from_span(span).envelope == kept
    missing = dataclasses.replace(span, attributes=span.attributes[:-1])
    assert codec.from_span(missing).integrity in ("truncated", "missing")
