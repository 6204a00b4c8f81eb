"""Trouble while an agent records through the real OTLP exporters: nothing acknowledged is lost or there twice."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider

from otel_replay import boundary, open_store, record, replay
from otel_replay.otel.processor import RecordingSpanProcessor
from otel_replay.sink import Sink

from .processes import SinkProcess, running
from .proxy import Proxy
from .recorded import arrived, provider

CALLS = 40


@boundary("quote", kind="tool")
def quote(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * 2_000}


def agent(pause: float = 0.0) -> int:
    """Ask for CALLS quotes; the answer is their sum."""
    total = 0
    for number in range(CALLS):
        total += quote(number)["number"]
        time.sleep(pause)
    return total


def recorded_through(folder: Path, protocol: str, address: str) -> str:
    """Run the agent with the SDK's batch processor and a real exporter to `address`; returns the run's id."""
    with provider(protocol, address) as made, record("run", store=folder, tracer_provider=made, strict=True) as run:
        run.answer(agent(0.05))
    return run.id


def is_whole_and_once(store: Path, run_id: str) -> None:
    """The run is there whole, each crossing once, and replays."""
    recording = arrived(store, run_id, CALLS)
    assert recording.complete
    with open_store(store) as opened:
        rows = opened.arrow("SELECT seq, count(*) AS n FROM crossings GROUP BY seq ORDER BY seq").to_pylist()
    assert [(row["seq"], row["n"]) for row in rows] == [(seq, 1) for seq in range(1, CALLS + 1)]
    with replay(run_id, store=store) as session:
        session.answer(agent())
    assert session.report.count("served") == CALLS


@pytest.fixture
def behind(start: Callable[..., Sink], tmp_path: Path) -> tuple[Sink, Path]:
    """A sink before a real store."""
    return start(span_sink="otel_replay.api:open_sink", span_sink_args=(str(tmp_path / "behind"),)), tmp_path / "behind"


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("mode", ["cut", "swallow"])
def test_a_network_that_is_cut(behind: tuple[Sink, Path], tmp_path: Path, protocol: str, mode: Any) -> None:
    """`cut`: the spans wait for the road. `swallow`: they are sent twice, and stand once."""
    sink, store = behind
    with Proxy(sink.grpc_address if protocol == "grpc" else sink.http_address) as proxy:
        stop = threading.Event()

        def trouble() -> None:
            for _ in range(3):
                before = proxy.cut_connections
                if stop.wait(0.3):
                    break
                proxy.set(mode)
                while proxy.cut_connections == before and not stop.wait(0.05):
                    pass
                stop.wait(0.2)
                proxy.set("pass")

        thread = threading.Thread(target=trouble)
        thread.start()
        try:
            run_id = recorded_through(tmp_path / "embedded", protocol, proxy.address)
        finally:
            stop.set()
            thread.join()
            proxy.set("pass")
        assert proxy.cut_connections > 0
        assert bool(proxy.swallowed) is (mode == "swallow")
        is_whole_and_once(store, run_id)
        if mode == "swallow":
            assert sink.metrics.total("accepted_total") > CALLS + 2, "something came twice"


# A full disk -------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """Mount a disk of that size at `folder`; None where this user may not mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write until the disk is full, and return the file that fills it."""
    path = disk / "filler"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    return path


class Answers(HttpExporter):
    """The real exporter, that notes each status it is given."""

    def __init__(self, address: str) -> None:
        session = requests.Session()
        super().__init__(endpoint=f"http://{address}/v1/traces", timeout=60, session=session)
        self.statuses: Counter[int] = Counter()
        session.hooks["response"].append(self._note)

    def _note(self, response: requests.Response, **_: Any) -> None:
        self.statuses[response.status_code] += 1


def _record(exporter: HttpExporter, folder: Path) -> str:
    made = TracerProvider()
    made.add_span_processor(RecordingSpanProcessor(exporter))
    with record("run", store=folder, tracer_provider=made, strict=True) as run:
        run.answer(agent(0.05))
    made.shutdown()
    return run.id


def test_a_full_disk_under_the_log(tmp_path: Path) -> None:
    """The log's disk is full while the agent records: 503 until there is room again, then all of it, once."""
    with small_disk(tmp_path / "disk", 4) as disk:
        store = tmp_path / "behind"
        changes = ['span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{store}"]', "disk_free_bytes_min=0"]
        if disk is not None:
            changes.append(f'wal_folder="{disk / "wal"}"')
        # Who may not mount has a limit on each file instead: the write fails as truly, and a fresh file goes on.
        with running(tmp_path, *changes, file_bytes_max=0 if disk else 60_000) as sink:
            filler = fill(disk) if disk else None
            room = threading.Timer(2.0, filler.unlink if filler else lambda: None)
            room.start()
            exporter = Answers(sink.http_address)
            run_id = _record(exporter, tmp_path / "embedded")
            room.join()
            assert exporter.statuses[503] >= 1
            assert set(exporter.statuses) == {200, 503}
            is_whole_and_once(store, run_id)


def test_a_full_disk_under_the_store(tmp_path: Path) -> None:
    """The store's disk is full: what is acknowledged waits in the log, and is stored when there is room, once."""
    with small_disk(tmp_path / "disk", 4) as disk:
        store = (disk or tmp_path) / "store"
        changes = ['span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{store}"]']
        if disk is None:
            store.write_text("a file stands where the store should")
        filler = fill(disk) if disk is not None else store
        with running(tmp_path, *changes) as sink:
            exporter = Answers(sink.http_address)
            run_id = _record(exporter, tmp_path / "embedded")
            assert set(exporter.statuses) == {200}
            _trouble_is_told(sink)
            filler.unlink()
            is_whole_and_once(store, run_id)


def _trouble_is_told(sink: SinkProcess) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        shown = requests.get(f"http://{sink.http_address}/metrics").text
        if "otel_replay_sink_conversion_troubles_total 0" not in shown:
            return
        time.sleep(0.05)
    raise AssertionError("a store that cannot be written is not told of")
