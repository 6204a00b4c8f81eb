"""A run as a file: OTLP JSON Lines (the form of committed fixtures), OTLP protobuf, Jaeger or Zipkin."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from otel_replay import carrying, codec, sources
from otel_replay import settings as _settings
from otel_replay.envelope import Recording
from otel_replay.errors import NeverRecorded, UsageError
from otel_replay.span import Resource, Span


def spans_of(run: str, *, store: str | os.PathLike[str] | None = None) -> list[Span]:
    """Return all spans of a run, in a stable order: the run's own first, then by lane and sequence."""
    from otel_replay.store import open_store

    settings = _settings.load()
    if "://" not in run and not Path(run).exists() and sources.find_fixture(run, settings) is None:
        with open_store(store or settings.store) as opened:
            return stable(opened.spans(opened.find_run(run).run_id))
    return stable(spans_of_recording(sources.load(run, store=store)))


def spans_of_recording(recording: Recording) -> list[Span]:
    """Return a recording as spans."""
    return [codec.run_to_span(recording.run), *(codec.to_span(envelope) for envelope in recording.envelopes)]


def _place(span: Span) -> tuple[int, str, int, int, str]:
    from otel_replay import semconv

    seq = span.get(semconv.SEQ)
    return (
        0 if codec.is_run(span) else 1,
        str(span.get(semconv.RUN_LANE) or ""),
        seq if isinstance(seq, int) else 1 << 62,
        span.start_ns,
        span.span_id,
    )


def stable(spans: Iterable[Span]) -> list[Span]:
    """Return spans in an order that does not depend on when they arrived, so that diffs of fixtures are small."""
    return sorted(spans, key=_place)


def export_bytes(spans: Sequence[Span], form: str) -> bytes:
    """Return `spans` as otlp-json (one line a span), otlp-proto, jaeger or zipkin. Raises UsageError, NeverRecorded."""
    if not spans:
        raise NeverRecorded("there is nothing to export: the run has no spans")
    if form == "otlp-json":
        from otel_replay.wire.json import json_line

        return b"".join(json_line([span]) for span in spans)
    if form == "otlp-proto":
        from otel_replay.wire.protobuf import request_from_spans

        return request_from_spans(spans)
    if form == "jaeger":
        from otel_replay.importers.shapes.jaeger import to_jaeger

        return orjson.dumps(to_jaeger(spans), option=orjson.OPT_INDENT_2) + b"\n"
    if form == "zipkin":
        from otel_replay.importers.shapes.zipkin import to_zipkin

        return orjson.dumps(to_zipkin(spans), option=orjson.OPT_INDENT_2) + b"\n"
    raise UsageError(f"unknown format {form!r}; known: otlp-json, otlp-proto, jaeger, zipkin")


def write_fixture(path: Path, spans: Sequence[Span]) -> None:
    """Write a committed fixture: OTLP JSON Lines in a stable order, without this machine's resource. Whole or not.

    A large string stands in it once, however many crossings hold it.
    """
    neutral = stable(carrying.split(replace(span, resource=Resource()) for span in stable(spans)))
    data = export_bytes(neutral, "otlp-json")
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(data)
    scratch.replace(path)
