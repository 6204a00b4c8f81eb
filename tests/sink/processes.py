"""Sinks in processes of their own, that are killed, and senders that note what was acknowledged."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from otel_replay.wire.protobuf import request_from_spans

from .conftest import PROTOBUF, a_span, request

RUNNER = Path(__file__).with_name("run_sink.py")


class SinkProcess:
    """A sink in a process group of its own, so that it can be killed with or without its converter."""

    def __init__(self, folder: Path, *changes: str, file_bytes_max: int = 0) -> None:
        def limit() -> None:
            if file_bytes_max:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

        self.process = subprocess.Popen(
            [sys.executable, str(RUNNER), str(folder), *changes],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=limit,
        )
        self.http_address = self.grpc_address = ""

    def ready(self) -> SinkProcess:
        """Wait until it listens."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1].decode()
        self.http_address, self.grpc_address = json.loads(line)
        return self

    def kill(self, *, group: bool) -> None:
        """Kill -9 the sink; with `group` its converter too."""
        if group:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.communicate()

    def end(self) -> int:
        """SIGTERM, and wait."""
        self.process.terminate()
        self.process.communicate(timeout=40)
        return self.process.returncode


@contextmanager
def running(folder: Path, *changes: str, **options: Any) -> Iterator[SinkProcess]:
    sink = SinkProcess(folder, *changes, **options)
    try:
        yield sink.ready()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(sink.process.pid, signal.SIGKILL)
        sink.process.communicate()


class Load:
    """Senders that post numbered spans as fast as they can, and note which were acknowledged."""

    def __init__(self) -> None:
        self.address = ""
        self.acknowledged: list[int] = []
        self._next = iter(range(10**9))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(3)]

    def _send(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                numbers = [next(self._next) for _ in range(5)]
            try:
                answer = request(self.address, request_from_spans(map(a_span, numbers)), Content_Type=PROTOBUF)
            except OSError:
                time.sleep(0.02)
                continue
            except Exception:  # http.client's faults of a connection that was cut
                continue
            if answer.status == 200:
                with self._lock:
                    self.acknowledged += numbers

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
