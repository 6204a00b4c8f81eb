"""The sink's own figures as OpenTelemetry metrics: the real SDK and exporter, asked for by the usual variables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from otel_replay.wire.protobuf import request_from_spans

from .conftest import PROTOBUF, a_span, request


class Received:
    """An OTLP/HTTP receiver of metrics; `latest` is what the last export said."""

    def __init__(self) -> None:
        self.latest: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.units: dict[str, str] = {}
        self.service = ""
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received._take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _take(self, body: bytes) -> None:
        (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
        named = {item.key: item.value.string_value for item in resource.resource.attributes}
        self.service = named["service.name"]
        for metric in resource.scope_metrics[0].metrics:
            self.units[metric.name] = metric.unit
            for point in metric.sum.data_points or metric.gauge.data_points:
                labels = tuple(sorted((item.key, item.value.string_value) for item in point.attributes))
                self.latest[metric.name, labels] = point.as_double or point.as_int


@contextmanager
def sink_with(folder: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "otel_replay", "sink", "--store", str(folder / "store"), "--grpc", "off"]
    command += ["--http", "127.0.0.1:0", "--log", "json"]
    process = subprocess.Popen(command, env={**os.environ, **more}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process, json.loads(process.stderr.readline())["http"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("named", "service"), [({}, "otel-replay-sink"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")])
def test_the_figures_are_those_of_prometheus(tmp_path: Path, named: dict[str, str], service: str) -> None:
    received = Received()
    more = {
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{received.server.server_port}",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        **named,
    }
    accepted = ("otel_replay.sink.accepted", (("signal", "traces"),))
    with sink_with(tmp_path, **more) as (process, address):
        body = request_from_spans([a_span(n) for n in range(3)])
        assert request(address, body, Content_Type=PROTOBUF).status == 200
        _wait(lambda: received.latest.get(accepted) == 3)
        shown = request(address, None, "/metrics", "GET").text
        assert request(address, body, Content_Type=PROTOBUF).status == 200
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert process.returncode == 0
    assert received.latest[accepted] == 6, "the last figures are sent at the end"
    assert received.service == service
    stems = {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE")}
    for stem in ("accepted", "requests", "ready", "wal_backlog", "memory", "wal_commits"):
        assert f"otel_replay.sink.{stem}" in received.units
        assert any(name.startswith(f"otel_replay_sink_{stem}") for name in stems)
    assert received.units["otel_replay.sink.wal_backlog"] == "By"
    assert received.units["otel_replay.sink.wal_commit"] == "s"
    labels = (("answer", "ok"), ("signal", "traces"), ("transport", "http"))
    assert received.latest["otel_replay.sink.requests", labels] == 2
    received.server.shutdown()


@pytest.mark.parametrize(
    "more",
    [{}, {"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}],
    ids=["unasked", "none", "disabled"],
)
def test_nothing_is_sent_that_was_not_asked_for(tmp_path: Path, more: dict[str, str]) -> None:
    received = Received()
    endpoint = f"http://127.0.0.1:{received.server.server_port}"
    more = {**more, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "50"}
    with sink_with(tmp_path, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", **more) as (process, _):
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert received.latest == {}
    received.server.shutdown()


def test_an_exporter_that_is_not_there_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "otel_replay", "sink", "--store", str(tmp_path / "s")]
    environment = {**os.environ, "OTEL_METRICS_EXPORTER": "carrier-pigeon"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "'carrier-pigeon' is installed" in done.stderr) == (2, True), done.stderr


def _wait(until: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)
