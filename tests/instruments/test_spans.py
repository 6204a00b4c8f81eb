"""One span a request: beside OpenTelemetry's own instrumentation of httpx, in either order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import instrument
from otel_replay.testing import ModelServer, reply

from .conftest import Lab


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    HTTPXClientInstrumentor().instrument(tracer_provider=provider)
    yield exporter
    HTTPXClientInstrumentor().uninstrument()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_has_one_span_with_envelope_and_http_attributes(
    lab: Lab, spans: InMemorySpanExporter, is_async: bool
) -> None:
    instrument("httpx")

    def agent(url: str) -> int:
        if not is_async:
            return httpx.get(url).status_code

        async def ask() -> int:
            async with httpx.AsyncClient() as client:
                return (await client.get(url)).status_code

        return asyncio.run(ask())

    with ModelServer([reply.text("x")]) as server:
        assert lab.record(lambda: agent(server.root_url + "/a?b=1")) == 404
        (request,) = server.requests
    of_requests: list[Any] = [span for span in spans.get_finished_spans() if span.kind is trace.SpanKind.CLIENT]
    (span,) = of_requests
    assert span.attributes["otel_replay.address"] == "http GET 127.0.0.1[1]"
    assert span.attributes["http.request.method"] == "GET"
    assert span.attributes["http.response.status_code"] == 404
    assert span.attributes["server.address"] == "127.0.0.1"
    assert request.headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


def test_outside_a_run_their_span_is_as_ever(lab: Lab, spans: InMemorySpanExporter) -> None:
    instrument("httpx")
    with ModelServer([reply.text("x")]) as server:
        httpx.get(server.root_url)
    (span,) = spans.get_finished_spans()
    assert span.name == "GET"
