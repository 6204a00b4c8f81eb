"""Trouble on the road agent -> real Collector -> sink while an agent records: nothing acknowledged is lost or twice."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from otel_replay.sink import Sink, Tls
from tests.sink.conftest import config as sink_config
from tests.sink.file_sink import kept, wait_for
from tests.sink.processes import running
from tests.sink.proxy import Proxy
from tests.sink.test_tls import pki  # noqa: F401  # a fixture
from tests.sink.test_trouble import fill, is_whole_and_once, recorded_through, small_disk
from tests.wire.strategies import exact

from .conftest import Collector
from .test_collector import FULL, send, span


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "behind"


def _into(store: Path) -> tuple[str, str]:
    return 'span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{store}"]'


def _record(folder: Path, protocol: str, port: int) -> str:
    """Run the agent in a process of its own, so that what this one starts meanwhile is no part of its run."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(recorded_through, folder, protocol, f"127.0.0.1:{port}").result(120)


@contextmanager
def _meanwhile(do: Callable[[], Any], own: Path) -> Iterator[None]:
    """Call `do` in another thread once the agent that records below `own` is at it."""

    def wait_and_do() -> None:
        while not list(own.glob("**/*.journal")):
            time.sleep(0.01)
        time.sleep(0.3)
        do()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(wait_and_do)
        yield
        done.result(60)


@pytest.mark.parametrize("mode", ["cut", "swallow"])
def test_the_network_to_the_sink_is_cut(
    collector: Callable[..., Collector], store: Path, tmp_path: Path, mode: Any
) -> None:
    with running(tmp_path, *_into(store)) as sink, Proxy(sink.grpc_address) as proxy:
        port = collector("forward-everything.yaml", SINK_ENDPOINT=proxy.address).grpc_port
        with _meanwhile(lambda: proxy.set(mode), tmp_path / "own"):
            run_id = _record(tmp_path / "own", "grpc", port)
        proxy.set("pass")
        assert proxy.cut_connections > 0
        is_whole_and_once(store, run_id)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("dies", ["collector", "sink"])
def test_a_part_is_killed_and_comes_back(
    collector: Callable[..., Collector], store: Path, tmp_path: Path, dies: str, protocol: str
) -> None:
    with ExitStack() as stack:
        sink = stack.enter_context(running(tmp_path, *_into(store)))
        started = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address)
        ports = {"grpc": started.grpc_port, "http": started.http_port}

        def trouble() -> None:
            if dies == "collector":
                started.kill()
                collector(
                    "forward-everything.yaml",
                    SINK_ENDPOINT=sink.grpc_address,
                    OTLP_GRPC_ADDRESS=f"127.0.0.1:{ports['grpc']}",
                    OTLP_HTTP_ADDRESS=f"127.0.0.1:{ports['http']}",
                )
            else:
                sink.kill(group=True)
                stack.enter_context(running(tmp_path, *_into(store), f'grpc_address="{sink.grpc_address}"'))

        with _meanwhile(trouble, tmp_path / "own"):
            run_id = _record(tmp_path / "own", protocol, ports[protocol])
        is_whole_and_once(store, run_id)


def test_the_disk_of_the_sink_is_full_for_a_while(
    collector: Callable[..., Collector], store: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        changes = [*_into(store), "disk_free_bytes_min=0"]
        if disk is not None:
            changes.append(f'wal_folder="{disk / "wal"}"')
        # Who may not mount has a limit on each file instead.
        with running(tmp_path, *changes, file_bytes_max=0 if disk else 60_000) as sink:
            filler = fill(disk) if disk else None
            port = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address).grpc_port
            run_id = _record(tmp_path / "own", "grpc", port)
            if filler is not None:
                filler.unlink()
            is_whole_and_once(store, run_id)


def test_a_sink_that_asks_for_a_certificate_and_a_token(
    collector: Callable[..., Collector],
    tmp_path: Path,
    pki: Path,  # noqa: F811
) -> None:
    tls = Tls(str(pki / "server.pem"), str(pki / "server.key"), str(pki / "ca.pem"))
    with Sink(sink_config(tmp_path, tls=tls, tokens=("the token",))) as sink:
        ours = {
            "SINK_ENDPOINT": sink.grpc_address,
            "SINK_CA_FILE": str(pki / "ca.pem"),
            "SINK_CERT_FILE": str(pki / "client.pem"),
            "SINK_KEY_FILE": str(pki / "client.key"),
        }
        wrong = collector("secured.yaml", **ours, SINK_TOKEN="another", QUEUE_FOLDER=str(tmp_path / "wrong"))
        send(wrong.grpc_port, [span(99)])
        right = collector("secured.yaml", **ours, SINK_TOKEN="the token")
        send(right.grpc_port, [FULL, span(1)])
        assert exact(wait_for(2, tmp_path / "out")) == exact([FULL, span(1)])
        assert "span 99" not in {found.name for found in kept(tmp_path / "out")}
