"""The real Collector as a process. Built by build.sh; deselect with `-m "not collector"`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

CONFIGS = Path(__file__).parents[2] / "collector-config"
CACHE = Path(
    os.environ.get("OTEL_REPLAY_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-replay"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "collector: needs the binaries that tests/collector/build.sh builds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.collector)


def binary(name: str) -> str:
    """The path of a built binary; a missing one is a failure, never a skip."""
    path = CACHE / "bin" / name
    assert path.exists(), f"{path} is missing: run tests/collector/build.sh {name}"
    return str(path)


def free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until_up(url: str, process: subprocess.Popen[bytes], seconds: float = 30.0) -> None:
    """Wait until `url` answers 200; fail with the process's last words where it ends or does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise AssertionError(f"{url} did not come up: {process.communicate()[1][-4000:].decode()}")


class Collector:
    """A real Collector with one of the files in collector-config/."""

    def __init__(self, config: str, folder: Path, environment: dict[str, str], name: str = "otelcol") -> None:
        self.grpc_port, self.http_port, health = free_port(), free_port(), free_port()
        self._log = open(folder / "collector.log", "ab")  # noqa: SIM115  # open as long as the process
        self.process = subprocess.Popen(
            [binary(name), "--config", str(CONFIGS / config)],
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            env={
                **os.environ,
                "OTLP_GRPC_ADDRESS": f"127.0.0.1:{self.grpc_port}",
                "OTLP_HTTP_ADDRESS": f"127.0.0.1:{self.http_port}",
                "HEALTH_ADDRESS": f"127.0.0.1:{health}",
                "QUEUE_FOLDER": str(folder / "queue"),
                **environment,
            },
        )
        try:
            wait_until_up(f"http://127.0.0.1:{health}", self.process)
        except BaseException:
            print((folder / "collector.log").read_text()[-4000:])
            raise

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    """Start Collectors: `collector("forward-everything.yaml", SINK_ENDPOINT=...)`."""
    with ExitStack() as stack:

        def begin(config: str, **environment: str) -> Collector:
            name = "otelcol-kafka" if config.startswith("kafka") else "otelcol"
            started = Collector(config, tmp_path, environment, name)
            stack.callback(started.stop)
            return started

        yield begin
