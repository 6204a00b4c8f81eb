"""Run a sink as a process of its own: `python run_sink.py FOLDER [KEY=JSON ...]`; prints its addresses as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from otel_replay.sink import Sink, SinkConfig, server  # noqa: E402  # the path comes first


def main() -> None:
    folder = Path(sys.argv[1])
    changes = {name: json.loads(text) for name, text in (item.split("=", 1) for item in sys.argv[2:])}
    facts: dict[str, Any] = {
        "span_sink": "tests.sink.file_sink:make",
        "span_sink_args": (str(folder / "out"),),
        "wal_folder": str(folder / "wal"),
        "grpc_address": "127.0.0.1:0",
        "http_address": "127.0.0.1:0",
        "seal_seconds": 0.1,
        "log_format": "json",
    }
    original = Sink.start

    def start(self: Sink) -> Sink:
        original(self)
        print(json.dumps([self.http_address, self.grpc_address]), flush=True)
        return self

    Sink.start = start  # type: ignore[method-assign]
    sys.exit(0 if server.serve(SinkConfig(**(facts | changes))) else 3)


if __name__ == "__main__":
    main()
