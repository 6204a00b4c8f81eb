"""A store for each test, instruments that are taken out again, and the spans that a program's own provider sees."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.instruments.conftest import Lab, lab

__all__ = ["Lab", "lab", "spans"]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The global provider of this test writes into this exporter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def ours(spans: InMemorySpanExporter) -> dict[str, Any]:
    """Return our spans by their address; each has ended once."""
    found = [s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.address")]
    by_address: dict[str, Any] = {str((span.attributes or {})["otel_replay.address"]): span for span in found}
    assert len(by_address) == len(found)
    return by_address
