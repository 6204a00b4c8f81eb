"""What a sink is told, what it says, and what it does not load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from otel_replay.errors import UsageError
from otel_replay.sink import Sink
from otel_replay.sink.config import importable_name, is_loopback, split_address
from otel_replay.sink.metrics import Metrics

from .file_sink import make
from .processes import running


def test_addresses() -> None:
    assert split_address("127.0.0.1:4317") == ("127.0.0.1", 4317)
    assert split_address("[::1]:0") == ("::1", 0)
    assert split_address(":4317") == ("0.0.0.0", 4317)
    assert [is_loopback(a) for a in ("127.0.0.9:1", "[::1]:1", "localhost:1", "10.0.0.1:1", ":1", "host:1")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    for bad in ("4317", "host:", "host:99999", "host:x"):
        with pytest.raises(UsageError, match="is not host:port"):
            split_address(bad)


def test_a_span_sink_must_have_a_name() -> None:
    assert importable_name(make) == "tests.sink.file_sink:make"
    assert importable_name("a.b:c") == "a.b:c"
    for bad in (lambda: None, "a.b"):
        with pytest.raises(UsageError):
            importable_name(bad)


def test_an_address_in_use_is_said_so(start: Callable[..., Sink]) -> None:
    sink = start()
    for name, address in (("http_address", sink.http_address), ("grpc_address", sink.grpc_address)):
        with pytest.raises(UsageError, match="cannot listen on"):
            start(**{"http_address": "", "grpc_address": "", name: address})
    with pytest.raises(UsageError, match="switched off"):
        start(http_address="", grpc_address="")


def test_ipv6_where_this_machine_has_it(start: Callable[..., Sink]) -> None:
    assert start(http_address="[::1]:0", grpc_address="").http_address.startswith("[::1]:")


def test_a_machine_reads_json_lines_and_is_warned_of_open_doors(tmp_path: Path) -> None:
    with running(tmp_path, 'http_address="0.0.0.0:0"') as sink:
        sink.process.terminate()
        said = [json.loads(line) for line in sink.process.communicate(timeout=30)[1].splitlines()]
    assert [line["message"].split(" ")[0] for line in said] == ["listening", "0.0.0.0:0", "stopped"]
    assert said[1]["level"] == "warning"
    assert said[2]["drained"] is True


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    metrics.add("accepted_total", 3, signal="traces")
    metrics.add("accepted_total", 4, signal="logs")
    metrics.ask("ready", lambda: 1.0)
    lines = metrics.text().decode().splitlines()
    assert 'otel_replay_sink_accepted_total{signal="logs"} 4' in lines
    assert "# TYPE otel_replay_sink_ready gauge" in lines
    assert "otel_replay_sink_quarantined_total 0" in lines
    assert (metrics.total("accepted_total"), metrics.total("accepted_total", signal="logs")) == (7, 4)


def test_the_name_of_the_package_loads_no_server() -> None:
    heavy = ("grpc", "http.server", "duckdb", "pyarrow")
    loaded = f"import sys, otel_replay.sink; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    converter = loaded.replace("otel_replay.sink", "otel_replay.sink.convert")
    assert (
        subprocess.run([sys.executable, "-c", converter], capture_output=True, text=True, check=True).stdout == "[]\n"
    )
