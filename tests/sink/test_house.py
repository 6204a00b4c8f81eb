"""Compaction and retention beside the receivers: two sinks on one store under load, nothing lost or there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_replay import open_store
from otel_replay.housekeeping import keep
from otel_replay.sink import Sink
from otel_replay.wire.protobuf import request_from_spans
from tests.store.making import START, make_run, run_spans

from .conftest import PROTOBUF, a_span, request
from .processes import Load, running


def _wait(until: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _files(store: Path) -> list[Path]:
    return sorted((store / "spans").rglob("*.parquet"))


def test_two_sinks_that_keep_house_on_one_store_under_load(tmp_path: Path) -> None:
    store = tmp_path / "store"
    options = (
        'span_sink="otel_replay.api:open_sink"',
        f'span_sink_args=["{store}"]',
        'housekeeper="otel_replay.housekeeping:keep"',
        f'housekeeper_args=["{store}"]',
        "housekeeping_seconds=0.3",
    )
    with running(tmp_path, *options) as one, running(tmp_path, *options) as two:
        load = Load()
        load.address = one.http_address
        with load:
            for _ in range(6):
                time.sleep(0.5)
                load.address = two.http_address if load.address == one.http_address else one.http_address
        _wait(lambda: _passes(one.http_address) >= 2 and _passes(two.http_address) >= 2)
        assert one.end() == two.end() == 0
    with open_store(store) as opened:
        table = opened.arrow("SELECT attr(attributes, 'n')::BIGINT AS n FROM stored")
        numbers = table.column("n").to_pylist()
        assert opened.verify().problems == ()
        days = {path.parent for path in _files(store)}
        standing = opened.folder.listing().files
    assert sorted(numbers) == sorted(set(numbers))
    assert set(load.acknowledged) <= set(numbers)
    assert len(standing) < 16 * len(days), "they were taken together"


def _passes(address: str) -> int:
    shown = request(address, None, "/metrics", "GET").text.splitlines()
    name = "otel_replay_sink_housekeeping_passes_total "
    return int(next(line.removeprefix(name) for line in shown if line.startswith(name)))


def test_old_runs_go_and_failing_ones_stay(tmp_path: Path, start: Callable[..., Sink]) -> None:
    store = tmp_path / "store"
    with open_store(store, create=True) as opened:
        for number, name in enumerate(("old", "broken", "kept"), 1):
            opened.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000, name=name)))
        opened.write(run_spans(*make_run(4, start_ns=time.time_ns(), name="fresh")))
        opened.set_verdict(opened.find_run("broken").run_id, "failed")
        opened.pin(opened.find_run("kept").run_id)
    sink = start(
        span_sink="otel_replay.api:open_sink",
        span_sink_args=(str(store),),
        housekeeper=keep,
        housekeeper_args=(str(store), "86400", ""),
        housekeeping_seconds=0.2,
    )
    _wait(lambda: sink.metrics.total("pruned_runs_total"))
    assert sink.metrics.total("pruned_runs_total") == 1
    with open_store(store) as opened:
        assert sorted(run.name for run in opened.runs()) == ["broken", "fresh", "kept"]


def test_a_pass_that_fails_or_is_killed_holds_up_nothing(tmp_path: Path, start: Callable[..., Sink]) -> None:
    sink = start(housekeeper=keep, housekeeper_args=(str(tmp_path / "nowhere"),), housekeeping_seconds=0.05)
    _wait(lambda: sink.metrics.total("housekeeping_failures_total") >= 2)
    answer = request(sink.http_address, request_from_spans([a_span(1)]), Content_Type=PROTOBUF)
    assert answer.status == 200
    assert sink._house is not None
    assert sink._house._process is not None
    sink._house._process.kill()
    before = sink.metrics.total("housekeeping_failures_total")
    _wait(lambda: sink.metrics.total("housekeeping_failures_total") > before)


@pytest.mark.parametrize(
    ("words", "text"), [(["--compact-every", "0s"], "a second at least"), (["--retain", "soon"], "is no age")]
)
def test_wrong_times_are_said(tmp_path: Path, words: list[str], text: str) -> None:
    command = [sys.executable, "-m", "otel_replay", "sink", "--store", str(tmp_path / "s"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_the_command_keeps_house(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with open_store(store, create=True) as opened:
        for number in (1, 2):
            opened.write(run_spans(*make_run(number, start_ns=START + number * 10_000_000)))
    command = [sys.executable, "-m", "otel_replay", "sink", "--store", str(store), "--grpc", "off"]
    command += ["--http", "127.0.0.1:0", "--compact-every", "1s", "--retain", "100000w", "--log", "json"]
    sink = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert sink.stderr is not None
    said = next(facts for line in sink.stderr if (facts := json.loads(line))["message"] == "house was kept")
    sink.send_signal(signal.SIGTERM)
    sink.communicate(timeout=60)
    assert (said["files_before"], said["files_after"], said["runs_removed"]) == (2, 1, 0)
    assert sink.returncode == 0
