"""OT-04, 05, 06, 10, 12, 14, 16: what becomes of our spans in a program's own OpenTelemetry set-up."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anthropic
import pytest
import time_machine
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import boundary, instrument, open_store, record, replay
from otel_replay.errors import IncompleteRecording
from otel_replay.importers.genai import recordings
from otel_replay.importing import import_source
from otel_replay.otel import tracing
from otel_replay.otel.convert import to_neutral
from otel_replay.otel.exporter import ParquetSpanExporter
from otel_replay.showing import as_tree
from otel_replay.sources import load
from otel_replay.testing import ModelServer, reply
from otel_replay.wire.json import json_line
from tests.importers.genai._spans import span as foreign

from .clients import ASK, SHARED
from .conftest import Lab


@boundary("tool", kind="tool")
def tool(value: Any) -> Any:
    return {"value": value}


def memory(limits: SpanLimits | None = None) -> tuple[InMemorySpanExporter, TracerProvider]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


def read_back(spans: Sequence[ReadableSpan]) -> Any:
    """Return the one recording that these spans hold, as an importer reads them."""
    (found,) = recordings([to_neutral(span) for span in spans])
    return found


# OT-04 -------------------------------------------------------------------------------------------------------------
class Slow(ParquetSpanExporter):
    """A collector that takes its time."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        time.sleep(0.05)
        return super().export(spans)


def test_ot_04_a_burst_past_the_batch_processors_queue_loses_nothing_of_ours_and_names_what_the_pipeline_lost(
    tmp_path: Path,
) -> None:
    provider = TracerProvider()
    collected = Slow(tmp_path / "collected")
    provider.add_span_processor(BatchSpanProcessor(collected, max_queue_size=100, max_export_batch_size=50))
    logging.getLogger("opentelemetry.sdk").setLevel(logging.CRITICAL)
    with record("burst", store=tmp_path / "own", tracer_provider=provider) as run:
        for number in range(1, 2001):
            tool(number)
    provider.shutdown()
    with open_store(tmp_path / "own") as store:
        own = store.recording(run.id)
    assert [envelope.seq for envelope in own.envelopes] == list(range(1, 2001))
    assert own.complete
    with open_store(tmp_path / "collected") as store:
        (listed,) = store.runs()
        found = store.recording(run.id)
    there = {envelope.seq for envelope in found.envelopes}
    missing = sorted(set(range(1, 2001)) - there)
    assert missing, "the burst did not outrun the queue"
    assert list(found.gaps) == missing
    assert listed.state == "incomplete"
    said = f"{len(missing)} of 2000 crossings are missing: {missing[0]}-"
    assert said in as_tree(found)
    with pytest.raises(IncompleteRecording, match=f"{len(missing)} of 2000 crossings are missing"):
        replay(run.id, store=tmp_path / "collected")


# OT-05 -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [128, 32])
def test_ot_05_attributes_of_other_libraries_evict_nothing_of_ours(tmp_path: Path, count: int) -> None:
    exporter, provider = memory(SpanLimits(max_span_attributes=count))
    tracer = provider.get_tracer("other library")
    messages = [{"role": "user", "content": f"message {number} {'x' * 400}"} for number in range(100)]

    @boundary("chat", kind="model")
    def chat(messages: list[Any]) -> str:
        from opentelemetry import trace

        current = trace.get_current_span()
        for number in range(200):  # flattened messages, on our span, as some instrumentations do
            current.set_attribute(f"llm.input_messages.{number}.content", "x")
        with tracer.start_as_current_span("theirs"):
            return "ok"

    with record("long", store=tmp_path, tracer_provider=provider, strict=True):
        chat(messages)
    found = read_back(exporter.get_finished_spans())
    (envelope,) = found.envelopes
    assert envelope.grade == "exact"
    assert envelope.request.tree() == {"messages": messages}
    assert found.complete
    ours = [s for s in exporter.get_finished_spans() if "otel_replay.address" in (s.attributes or {})]
    mine = [key for key in (ours[0].attributes or {}) if key.startswith("otel_replay.")]
    assert len(mine) <= 20, "few attributes"


def evicted_file(folder: Path) -> Path:
    """Return a file in which 200 flattened attributes were cut to 128, the oldest gone: the shared one or our own."""
    shared = SHARED / "ot05_first_72_attributes_evicted.otlp.json"
    if shared.exists():
        return shared
    attributes = [
        {"key": f"llm.input_messages.{number}.message.{part}", "value": {"stringValue": f"{part} {number}"}}
        for number in range(36, 100)
        for part in ("role", "content")
    ]
    return _otlp(folder / "ot05.otlp.json", attributes, droppedAttributesCount=72)


def _otlp(path: Path, attributes: list[Any], **more: Any) -> Path:
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "chat m", "kind": 3,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": "openinference.span.kind", "value": {"stringValue": "LLM"}}, *attributes], **more,
    }  # fmt: skip
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}))
    return path


def test_ot_05_an_evicted_conversation_is_not_replayable_and_its_gaps_are_named(tmp_path: Path) -> None:
    found = load(evicted_file(tmp_path))
    (envelope,) = found.envelopes
    assert envelope.grade == "insufficient"
    assert not found.complete
    (reason,) = found.damaged.values()
    assert "72 attributes were dropped" in reason
    assert "messages 0-35 are missing" in reason
    with pytest.raises(IncompleteRecording, match="messages 0-35 are missing"):
        replay(found)


# OT-06 -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limit", [64, 128, 2048])
def test_ot_06_a_length_limit_cuts_no_envelope_and_is_said_once(
    tmp_path: Path, limit: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_said", set())
    exporter, provider = memory(SpanLimits(max_span_attribute_length=limit, max_attribute_length=limit))
    value = {"text": 'a "quoted" text ' * 500, "surrogate": "\ud83d", "deep": [[["é" * 300]]]}
    with record("cut", store=tmp_path, tracer_provider=provider, strict=True):
        assert tool(value) == {"value": value}
    assert sum(f"cuts attribute values at {limit} characters" in line for line in caplog.messages) == 1, "said once"
    with record("again", store=tmp_path, tracer_provider=provider, strict=True):
        tool(1)
    assert sum("cuts attribute values" in line for line in caplog.messages) == 1
    for span in exporter.get_finished_spans():
        for item in (span.attributes or {}).values():
            assert not isinstance(item, str) or len(item) <= limit
    spans = [to_neutral(span) for span in exporter.get_finished_spans()]
    found = next(run for run in recordings(spans) if run.run.name == "cut")
    assert [envelope.grade for envelope in found.envelopes] == ["exact"]
    with replay(found):
        assert tool(value) == {"value": value}


def test_ot_06_a_cut_that_came_later_is_seen_by_length_and_digest(tmp_path: Path) -> None:
    exporter, provider = memory()
    with record("cut", store=tmp_path, tracer_provider=provider):
        tool("x" * 5000)
    spans = [to_neutral(span) for span in exporter.get_finished_spans()]

    def cut(item: Any) -> Any:
        if isinstance(item, str):
            return item[:1028]
        return tuple(cut(part) for part in item) if isinstance(item, (list, tuple)) else item

    from dataclasses import replace as changed

    platform = [changed(span, attributes=tuple((key, cut(value)) for key, value in span.attributes)) for span in spans]
    (found,) = recordings(platform)
    assert not found.complete
    assert found.damaged
    with pytest.raises(IncompleteRecording):
        replay(found)


def test_ot_06_an_importer_never_reads_a_prefix_as_the_whole(tmp_path: Path) -> None:
    shared = SHARED / "ot06_value_cut_at_1028.otlp.json"
    whole = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 3000}]})
    own = [{"key": "input.value", "value": {"stringValue": whole[:1028]}},
           {"key": "input.mime_type", "value": {"stringValue": "application/json"}}]  # fmt: skip
    for path in [_otlp(tmp_path / "own.otlp.json", own)] + ([shared] if shared.exists() else []):
        found = load(path)
        (envelope,) = found.envelopes
        assert envelope.grade == "insufficient"
        assert "input.value was cut at 1,028 characters" in envelope.outcome.lost_reason
        assert envelope.request.lost


# OT-10 -------------------------------------------------------------------------------------------------------------
def test_ot_10_our_layers_and_the_sdks_own_span_are_one_envelope(lab: Lab, spans: InMemorySpanExporter) -> None:
    instrument("all")

    @boundary("chain", kind="custom")
    def chain(url: str) -> str:
        client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        answers = [client.messages.create(model="m", max_tokens=9, messages=ASK) for _ in range(2)]
        return str([block.type for answer in answers for block in answer.content])

    with ModelServer([reply.text("blue"), reply.text("blue")]) as server:
        recorded = lab.record(lambda: chain(server.root_url))
    addresses = [envelope.address for envelope in lab.envelopes()]
    assert addresses == ["chain[1]", "chain[1]/anthropic.messages[1]", "chain[1]/anthropic.messages[2]"]
    found = read_back(spans.get_finished_spans())
    assert [envelope.address for envelope in found.envelopes] == addresses, "the SDK's own spans are no further calls"
    assert found.complete
    assert lab.replay(lambda: chain(server.root_url)) == recorded


# OT-12 -------------------------------------------------------------------------------------------------------------
def test_ot_12_seeded_runs_are_two_traces_and_the_numbers_are_the_programs(tmp_path: Path) -> None:
    exporter, provider = memory()

    def agent() -> list[float]:
        random.seed(42)
        return [random.random() for _ in range(3) if tool(1)] + [random.random()]

    without = agent()
    runs = []
    for _ in range(2):
        with record("seeded", store=tmp_path, tracer_provider=provider) as run:
            assert agent() == without
        runs.append(run)
    assert len({run.trace_id for run in runs}) == 2
    assert len({span.context.span_id for span in exporter.get_finished_spans() if span.context}) == 8
    assert len(recordings([to_neutral(span) for span in exporter.get_finished_spans()])) == 2


def test_ot_12_foreign_runs_that_share_their_ids_are_kept_apart(tmp_path: Path) -> None:
    """Two seeded runs of a program whose ids come from `random`: same ids, other times."""

    class Seeded(ParquetSpanExporter):
        pass

    for _ in range(2):
        random.seed(42)  # the SDK's own generator draws from the program's numbers
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Seeded(tmp_path)))
        with provider.get_tracer("app").start_as_current_span("request"):
            time.sleep(0.01)
        provider.shutdown()
    with open_store(tmp_path) as store:
        rows = store.sql("SELECT trace_id, span_id, start_time FROM spans ORDER BY start_time").fetchall()
    assert len(rows) == 2, "neither overwrites the other"
    assert rows[0][:2] == rows[1][:2]


# OT-14 -------------------------------------------------------------------------------------------------------------
def test_ot_14_a_clock_frozen_inside_a_call_is_not_in_its_span(tmp_path: Path) -> None:
    exporter, provider = memory()

    @boundary("freezes", kind="tool")
    def freezes() -> None:
        traveller = time_machine.travel("2020-01-01T00:00:00Z", tick=False)
        traveller.start()
        STARTED.append(traveller)

    before = time.time_ns()
    with record("frozen", store=tmp_path, tracer_provider=provider):
        freezes()
        tool(1)
        tool(2)
    STARTED.pop().stop()
    after = time.time_ns()
    ours = [span for span in exporter.get_finished_spans() if "otel_replay.address" in (span.attributes or {})]
    assert [(span.attributes or {})["otel_replay.seq"] for span in ours] == [1, 2, 3], "ordered by number"
    for span in ours:
        assert span.start_time is not None
        assert span.end_time is not None
        assert before <= span.start_time < span.end_time <= after


STARTED: list[Any] = []


def test_ot_14_an_end_before_the_start_is_taken_flagged_and_keeps_its_place(tmp_path: Path) -> None:
    exporter, provider = memory()
    with record("odd", store=tmp_path, tracer_provider=provider):
        for number in (1, 2, 3):
            tool(number)
    from dataclasses import replace as changed

    odd = [
        changed(span, end_ns=span.start_ns - 218_241_074_000_000_000) if "tool" in span.name else span
        for span in map(to_neutral, exporter.get_finished_spans())
    ]
    (found,) = recordings(odd)
    assert [envelope.seq for envelope in found.envelopes] == [1, 2, 3]
    assert [envelope.request.tree() for envelope in found.envelopes] == [{"value": n} for n in (1, 2, 3)]


@pytest.mark.parametrize("back", [1, 218_241_074_000_000_000])
def test_ot_14_an_imported_span_that_ends_before_its_start_is_named_and_replayable(tmp_path: Path, back: int) -> None:
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "quote", "gen_ai.tool.call.result": "1"}
    root = foreign("agent")
    calls = [
        foreign("execute_tool", {**given, "gen_ai.tool.call.arguments": json.dumps({"n": n})}, under=root, start=n)
        for n in (1, 2, 3)
    ]
    calls[1] = dataclasses.replace(calls[1], end_ns=calls[1].start_ns - back)
    file = tmp_path / "odd.otlp.jsonl"
    file.write_bytes(json_line([root, *calls]))
    with open_store(tmp_path / "store", create=True) as store:
        imported = import_source(str(file), store)
    assert "1 span(s) end before they start; their times are kept as given" in imported.account.notes
    found = load("agent", store=tmp_path / "store")
    assert found.complete
    assert [(one.request.tree(), one.end_seq) for one in found.envelopes] == [({"n": n}, n) for n in (1, 2, 3)]
    assert found.envelopes[1].end_ns < found.envelopes[1].start_ns, "as given"
    assert ["it ends before it starts" in str(one.notes) for one in found.envelopes] == [False, True, False]
    assert as_tree(found).count("it ends before it starts") == 1

    @boundary("quote", kind="tool")
    def quote(n: int) -> Any:
        raise AssertionError("ran")

    with replay(found) as session:
        assert [quote(n) for n in (1, 2, 3)] == ["1", "1", "1"]
    assert session.report.count("served") == 3


# OT-16 -------------------------------------------------------------------------------------------------------------
CUT = "cut emoji: \ud83d end"


def cut_texts() -> list[Any]:
    path = SHARED / "ot16_lone_surrogate.json"
    return [CUT, {CUT: CUT, "\udfff": [CUT]}, (CUT,)] + ([json.loads(path.read_text())] if path.exists() else [])


@pytest.mark.parametrize("value", cut_texts(), ids=repr)
def test_ot_16_half_an_emoji_travels_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture, value: Any) -> None:
    exporter, provider = memory()

    @boundary(f"tool {CUT}", kind="tool")
    def named(value: Any) -> Any:
        return value

    @boundary("model", kind="model")
    def model(messages: list[Any]) -> Any:
        return {"model": CUT, "choices": [{"message": {"role": "assistant", "content": CUT}}]}

    @boundary("fails", kind="tool")
    def fails(text: str) -> None:
        raise ValueError(text)

    def agent() -> list[Any]:
        found = [named(value), model([{"role": "user", "content": CUT}])]
        try:
            fails(CUT)
        except ValueError as fault:
            found.append(str(fault))
        return found

    with caplog.at_level(logging.WARNING):
        with record(f"run {CUT}", store=tmp_path, tracer_provider=provider, strict=True) as run:
            recorded = agent()
            run.answer(recorded)
        spans = exporter.get_finished_spans()
        sent = encode_spans(spans).SerializeToString()
    assert not caplog.records, "the export drops no attribute"
    assert sent.count(b"otel_replay.envelope.sha256") == 4, "three crossings and the run"
    assert recorded[0] is value
    with replay(read_back(spans)):
        assert repr(agent()) == repr(recorded)
    with replay(run.id, store=tmp_path), open_store(tmp_path) as store:
        assert repr(agent()) == repr(recorded)
        texts = store.sql("SELECT json_valid(request), json_valid(result) FROM crossings").fetchall()
        assert store.sql("SELECT count(*) FROM messages").fetchall() is not None
    assert texts == [(True, True)] * 3
