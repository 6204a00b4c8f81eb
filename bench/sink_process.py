"""A sink in a process of its own that tells what it used.

`python -m bench.sink_process FOLDER {acknowledge,store} {sync,no-sync}` prints its HTTP address as
JSON; each line on its standard input is answered with its CPU seconds so far. `acknowledge` has no
converter.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from otel_replay.sink import Sink, SinkConfig, wal

_NEVER = 1e9


class SinkProcess:
    """A running sink, and what it and its converter used."""

    def __init__(self, folder: Path, what: str, *, sync: bool = True) -> None:
        self.folder = folder
        words = [sys.executable, "-m", "bench.sink_process", str(folder), what, "sync" if sync else "no-sync"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address: str = self._answer()["address"]

    def used(self) -> dict[str, Any]:
        """Return `cpu_s`, `rss_mb` (the most so far) and `converted` spans of the sink's own process."""
        assert self._process.stdin is not None
        print("tell", file=self._process.stdin, flush=True)
        return self._answer()

    def stop(self) -> dict[str, Any]:
        """Drain it, and return `cpu_s` and `rss_mb` of its converter."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found = self._answer()
        self._process.wait(60)
        return found

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


def main() -> None:
    folder, what, sync = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if sync == "no-sync":
        vars(wal)["fdatasync"] = lambda _fd: None
    more: dict[str, Any] = {}
    if what == "acknowledge":
        more = {"segment_bytes": 1 << 50, "seal_seconds": _NEVER, "wal_bytes_max": 1 << 50}
    config = SinkConfig(
        span_sink="otel_replay.api:open_sink",
        span_sink_args=(str(folder / "store"),),
        wal_folder=str(folder / "wal"),
        grpc_address="",
        http_address="127.0.0.1:0",
        log_format="none",
        **more,
    )
    sink = Sink(config)
    if what == "acknowledge":
        sink._converter.start = lambda: None  # type: ignore[method-assign]  # it would convert all of it at the end
    sink.start()
    print(json.dumps({"address": sink.http_address}), flush=True)
    for _ in sys.stdin:
        converted = sink.metrics.total("converted_spans_total")
        facts = {"cpu_s": time.process_time(), "rss_mb": _peak(resource.RUSAGE_SELF), "converted": converted}
        print(json.dumps(facts), flush=True)
    sink.stop()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = {"cpu_s": children.ru_utime + children.ru_stime, "rss_mb": _peak(resource.RUSAGE_CHILDREN)}
    print(json.dumps(used), flush=True)


def _peak(who: int) -> float:
    return round(resource.getrusage(who).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    main()
