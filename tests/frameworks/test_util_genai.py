"""The completion hook, found by OpenTelemetry's own loader in a program that knows nothing of us."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import open_store

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("opentelemetry.util") is not None and importlib.util.find_spec("opentelemetry.util.genai"):
    from opentelemetry.util.genai.completion_hook import load_completion_hook
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart

SEEN: list[Any] = []


class Other:
    """A hook that was there before."""

    def on_completion(self, **given: Any) -> None:
        SEEN.append(given["outputs"])
        raise RuntimeError("the other hook fails")


class Point:
    """An entry point as `importlib.metadata` gives it."""

    def load(self) -> Any:
        return Other


def test_content_reaches_the_store_and_not_the_programs_own_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK", "otel_replay")
    monkeypatch.setenv("OTEL_REPLAY_COMPLETION_HOOK", "other")
    monkeypatch.setenv("OTEL_REPLAY_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("otel_replay.otel.completion_hook.entry_points", lambda **_asked: [Point()])
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    hook = load_completion_hook()
    handler = TelemetryHandler(completion_hook=hook)
    with handler.inference("acme", request_model="m-1") as call:
        call.input_messages = [InputMessage("user", [TextPart("hi \ud83d")])]
        call.output_messages = [OutputMessage("assistant", [TextPart("hello")], "stop")]
    assert provider.force_flush()
    provider.shutdown()

    (theirs,) = exporter.get_finished_spans()
    assert "gen_ai.output.messages" not in (theirs.attributes or {})
    (seen,) = SEEN
    assert seen == call.output_messages
    with open_store(tmp_path / "store") as store:
        rows = store.sql("select name, span_id, request, response from spans").fetchall()
    ((name, span_id, request, response),) = rows
    assert (name, span_id) == (theirs.name, f"{theirs.context.span_id:016x}")
    assert json.loads(request) == [{"role": "user", "parts": [{"content": "hi \ud83d", "type": "text"}], "name": None}]
    assert json.loads(response)[0]["parts"] == [{"content": "hello", "type": "text"}]
