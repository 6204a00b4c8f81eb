"""Agents -> the real Collector -> the real Jaeger, and back through its query API: envelopes come out intact."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_replay.sink import Sink
from otel_replay.span import Span
from otel_replay.wire.json import loads, spans_from_json
from tests.sink.conftest import config as sink_config
from tests.sink.file_sink import wait_for

from .conftest import Collector, binary, free_port, wait_until_up
from .test_collector import ENVELOPE, RUN, send, span

CONFIG = Path(__file__).with_name("jaeger.yaml")


@contextmanager
def jaeger(folder: Path, storage: str) -> Iterator[tuple[int, str]]:
    """A running Jaeger: (port of OTLP/gRPC, address of the query API)."""
    port, health, query, query_grpc = (free_port() for _ in range(4))
    with open(folder / "jaeger.log", "wb") as log:
        process = subprocess.Popen(
            [binary("jaeger"), "--config", str(CONFIG)],
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "STORAGE": storage,
                "BADGER_FOLDER": str(folder / "badger"),
                "OTLP_GRPC_ADDRESS": f"127.0.0.1:{port}",
                "HEALTH_ADDRESS": f"127.0.0.1:{health}",
                "QUERY_ADDRESS": f"127.0.0.1:{query}",
                "QUERY_GRPC_ADDRESS": f"127.0.0.1:{query_grpc}",
            },
        )
        try:
            wait_until_up(f"http://127.0.0.1:{health}/status", process)
            yield port, f"http://127.0.0.1:{query}"
        finally:
            process.kill()
            process.wait()


def trace(address: str, trace_id: str, count: int, seconds: float = 20) -> list[Span]:
    """The spans of a trace as Jaeger exports them, once there are `count`."""
    deadline = time.monotonic() + seconds
    found: list[Span] = []
    while len(found) < count and time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(f"{address}/api/v3/traces/{trace_id}?raw_traces=true") as answer:
                found = spans_from_json(loads(answer.read()), lenient=False)
        except urllib.error.HTTPError as fault:
            if fault.code != 404:  # not there yet
                raise
    return found


@pytest.mark.parametrize("storage", ["memory", "badger"])
def test_envelopes_pass_through_jaeger_beside_the_sink(
    collector: Callable[..., Collector], tmp_path: Path, storage: str
) -> None:
    # Badger makes each attribute a key of its index: one beyond 65,000 bytes is refused, and its batch with it.
    large = ("otel_replay.envelope", ("x" * 1900,) * (550 if storage == "memory" else 30))
    spans = [span(n, RUN, large if n else ENVELOPE, trace_id="ab" * 16) for n in range(6)]
    with Sink(sink_config(tmp_path)) as sink, jaeger(tmp_path, storage) as (port, address):
        started = collector(
            "beside-backend.yaml", SINK_ENDPOINT=sink.grpc_address, BACKEND_ENDPOINT=f"127.0.0.1:{port}"
        )
        send(started.grpc_port, spans)  # 5 MB in one request; Jaeger takes 4 MiB at a time
        from_jaeger = sorted(trace(address, "ab" * 16, len(spans)), key=lambda found: found.start_ns)
        from_sink = wait_for(len(spans), tmp_path / "out")
    assert from_sink == spans
    assert [found.name for found in from_jaeger] == [sent.name for sent in spans]
    for sent, found in zip(spans, from_jaeger, strict=True):
        assert (found.span_id, found.get("otel_replay.run.id")) == (sent.span_id, RUN[1])
        carried = found.get("otel_replay.envelope")
        if storage == "badger":  # a list becomes its JSON text there
            carried = tuple(loads(carried)) if isinstance(carried, str) else carried  # type: ignore[arg-type]
        assert carried == sent.get("otel_replay.envelope")
