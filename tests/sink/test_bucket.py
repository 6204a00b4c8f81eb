"""A sink whose store is in a bucket: through cuts of the network and kill -9, every acknowledged span is there once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_replay import open_store, replay
from otel_replay.store import lease
from tests.store.bucket import Bucket, environment, s3_server

from .processes import Load, SinkProcess, running
from .proxy import Proxy
from .recorded import SIZES, agent, recorded


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as (endpoint, _):
        yield endpoint


@pytest.fixture
def road(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The way to the bucket, for every process of the test."""
    with Proxy(server.removeprefix("http://")) as proxy:
        for name, value in environment(f"http://{proxy.address}", tmp_path).items():
            monkeypatch.setenv(name, value)
        yield proxy


def _numbers(url: str, wanted: set[int], seconds: float = 120.0) -> list[int]:
    deadline = time.monotonic() + seconds
    with open_store(url, create=True) as store:
        while True:
            table = store.arrow("SELECT attr(attributes, 'n')::BIGINT AS n FROM stored")
            found: list[int] = table.column("n").to_pylist()
            if wanted <= set(found) or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


def test_a_run_through_the_sink_replays_from_the_bucket(server: str, road: Proxy, tmp_path: Path) -> None:
    Bucket(server, "through-the-sink")
    url = "s3://through-the-sink/a"
    with running(tmp_path, 'span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{url}"]') as sink:
        embedded = recorded(agent, tmp_path / "embedded", "grpc", sink.grpc_address)
        assert sink.end() == 0
    with open_store(url) as store:
        through = store.recording(embedded.run.run_id)
    assert through.envelopes == embedded.envelopes
    with replay(url, run="run") as session:
        session.answer(agent())
    assert session.report.count("served") == len(SIZES)


def test_the_bucket_is_out_of_reach_for_a_while(server: str, road: Proxy, tmp_path: Path) -> None:
    Bucket(server, "out-of-reach")
    url = "s3://out-of-reach"
    options = ('span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{url}"]', "seal_seconds=1")
    load = Load()
    with running(tmp_path, *options) as sink:
        load.address = sink.http_address
        with load:
            for mode in ("cut", "swallow"):
                time.sleep(0.5)
                before = road.cut_connections
                road.set(mode)
                deadline = time.monotonic() + 60
                while road.cut_connections == before and time.monotonic() < deadline:
                    time.sleep(0.05)
                road.set("pass")
        assert road.swallowed > 0
        assert len(load.acknowledged) > 0
        numbers = _numbers(url, set(load.acknowledged))
    assert set(load.acknowledged) <= set(numbers)
    assert len(numbers) == len(set(numbers))


def test_kill_9_of_the_sink_and_its_converter(server: str, road: Proxy, tmp_path: Path) -> None:
    Bucket(server, "killed")
    url = "s3://killed/x"
    options = ('span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{url}"]', "seal_seconds=1")
    load = Load()
    sink = SinkProcess(tmp_path, *options).ready()
    load.address = sink.http_address
    with load:
        time.sleep(2.0)
        sink.kill(group=True)  # perhaps in the middle of an upload, perhaps with the lock in hand
        sink = SinkProcess(tmp_path, *options).ready()
        load.address = sink.http_address
        time.sleep(0.5)
    numbers = _numbers(url, set(load.acknowledged), 3 * lease.LEASE_SECONDS)
    assert sink.end() == 0
    assert set(load.acknowledged) <= set(numbers)
    assert len(numbers) == len(set(numbers))
