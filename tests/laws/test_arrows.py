"""The way of the data: each arrow forth and back is the identity, or says what is lost."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import carrying, codec, jsonform, protoform
from otel_replay.envelope import Envelope, Run
from otel_replay.journal import MAGIC, JournalWriter, read_journal
from otel_replay.otel.convert import to_neutral
from otel_replay.wire.json import json_line, loads, spans_from_json
from otel_replay.wire.protobuf import request_from_spans, spans_from_request

from .strategies import ENVELOPES, RUNS, text_is_as_orjson_writes

IDS: dict[str, Any] = {"trace_id": "ab" * 16, "span_id": "cd" * 8}
ENCODINGS = st.sampled_from(["json", "hex", "zstd"])


@given(ENVELOPES)
def test_envelope_and_protobuf(envelope: Envelope) -> None:
    assert protoform.envelope_from_message(protoform.envelope_to_message(envelope)) == envelope


@given(ENVELOPES)
def test_envelope_and_json(envelope: Envelope) -> None:
    assert text_is_as_orjson_writes(envelope.request)
    back = jsonform.envelope_from_json(
        jsonform.envelope_to_json(envelope), **IDS, parent_span_id=envelope.parent_span_id
    )
    assert back == envelope


@given(RUNS)
def test_run_in_each_form(run: Run) -> None:
    assert protoform.run_from_message(protoform.run_to_message(run)) == run
    assert jsonform.run_from_json(jsonform.run_to_json(run), **IDS, parent_span_id=run.parent_span_id) == run
    assert codec.run_from_span(codec.run_to_span(run)) == run


@given(ENVELOPES, ENCODINGS, st.integers(1, 2_000))
def test_envelope_and_span(envelope: Envelope, encoding: Any, part_bytes: int) -> None:
    span = codec.to_span(envelope, encoding=encoding, part_bytes=part_bytes)
    reading = codec.from_span(span)
    assert (reading.integrity, reading.envelope) == ("intact", envelope)


@given(ENVELOPES, ENCODINGS)
def test_envelope_and_both_wires(envelope: Envelope, encoding: Any) -> None:
    span = codec.to_span(envelope, encoding=encoding)
    (by_protobuf,) = spans_from_request(request_from_spans([span]))
    (by_json,) = spans_from_json(loads(json_line([span])))
    assert codec.from_span(by_protobuf).envelope == envelope
    assert codec.from_span(by_json).envelope == envelope


@settings(max_examples=60)
@given(ENVELOPES, st.integers(1, 3_000) | st.none(), st.integers(5, 128))
def test_envelope_under_the_limits_of_the_sdk(envelope: Envelope, length: int | None, count: int) -> None:
    """A limit on lengths is kept to; a limit on the number takes the oldest, and ours are set last."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=length, max_span_attributes=count))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = provider.get_tracer("law").start_span("x", start_time=envelope.start_ns)
    attributes = codec.to_attributes(envelope, part_bytes=carrying.part_size(length))
    span.set_attributes(dict(attributes))
    span.end()
    (exported,) = exporter.get_finished_spans()
    carried = replace(to_neutral(exported), **IDS, parent_span_id=envelope.parent_span_id)
    reading = codec.from_span(carried)
    assert reading.envelope == envelope or (reading.envelope is None and reading.reason)
    needed = sum(1 for key, _value in attributes if key.startswith("otel_replay.envelope"))
    if count >= needed:
        assert reading.envelope == envelope


@settings(max_examples=60)
@given(ENVELOPES, st.data())
def test_whatever_is_changed_on_the_way_is_noticed(envelope: Envelope, data: st.DataObject) -> None:
    span = codec.to_span(envelope, part_bytes=50)
    parts = span.get("otel_replay.envelope")
    assert isinstance(parts, tuple)
    at = data.draw(st.integers(0, len(parts) - 1))
    part = str(parts[at])
    changed = data.draw(st.sampled_from([part[:-1], part + "x", part[::-1], ""]).filter(lambda text: text != part))
    damaged = tuple(
        (key, (*parts[:at], changed, *parts[at + 1 :]) if key == "otel_replay.envelope" else value)
        for key, value in span.attributes
    )
    reading = codec.from_span(replace(span, attributes=damaged))
    assert reading.envelope is None
    assert reading.integrity in ("truncated", "scrubbed")
    assert reading.reason


@settings(max_examples=30, deadline=None)
@given(st.lists(ENVELOPES, min_size=1, max_size=4, unique_by=lambda e: e.seq), RUNS, st.data())
def test_a_journal_cut_at_any_byte_gives_back_what_was_whole(
    envelopes: list[Envelope], run: Run, data: st.DataObject
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "run.journal"
        writer = JournalWriter(path)
        writer.run_start(run)
        ends, marked = [path.stat().st_size], []
        for envelope in envelopes:
            writer.mark(envelope.address, envelope.boundary, envelope.kind, envelope.seq)
            marked.append(path.stat().st_size)
            writer.crossing(envelope)
            ends.append(path.stat().st_size)
        writer.run_end(run)
        writer.close()
        whole = read_journal(path)
        assert (whole.envelopes, whole.run, whole.closed, whole.torn_bytes) == (tuple(envelopes), run, True, 0)
        assert whole.unfinished == ()
        cut = data.draw(st.integers(len(MAGIC), path.stat().st_size - 1))
        path.write_bytes(path.read_bytes()[:cut])
        torn = read_journal(path)
        assert torn.envelopes == tuple(e for e, end in zip(envelopes, ends[1:], strict=True) if end <= cut)
        assert not torn.closed
        in_flight = [e.seq for e, begun, end in zip(envelopes, marked, ends[1:], strict=True) if begun <= cut < end]
        assert [mark.seq for mark in torn.unfinished] == in_flight
    finally:
        shutil.rmtree(folder)


def test_a_damaged_frame_is_named_and_ends_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    writer = JournalWriter(path)
    writer.run_start(Run("r" * 32))
    size = path.stat().st_size
    writer.run_end(Run("r" * 32, crossings=1))
    writer.close()
    data = bytearray(path.read_bytes())
    data[size + 12] ^= 0xFF
    path.write_bytes(data)
    found = read_journal(path)
    assert not found.closed
    assert "damaged" in found.problem


@pytest.mark.parametrize("size", [59_999, 60_000, 60_001, 959_999, 960_001, 2_000_000])
def test_an_exact_form_of_any_size_is_assembled_again(size: int) -> None:
    from otel_replay import payload
    from otel_replay.envelope import Outcome

    text = payload.encode("x" * size)
    envelope = Envelope("r" * 32, "a[1]", "a", "tool", text, Outcome("returned"), 1, 1, **IDS)
    attributes = codec.to_attributes(envelope)
    parts = carrying.part_spans(attributes)
    crossing = replace(codec.to_span(envelope, content=False), attributes=tuple(attributes))
    carriers = [
        replace(crossing, span_id=f"{number:016x}", attributes=tuple(part)) for number, part in enumerate(parts)
    ]
    assert bool(parts) == (size > 959_000)
    (whole,) = carrying.assemble([*reversed(carriers), crossing])
    assert codec.from_span(whole).envelope == envelope
    if parts:
        (lacking,) = carrying.assemble([*carriers[1:], crossing])
        assert codec.from_span(lacking).integrity == "missing"
