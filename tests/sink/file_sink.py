"""The smallest SpanSink that keeps its promise: OTLP JSON lines, one synced file a write, whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from otel_replay.errors import StoreError
from otel_replay.span import Span
from otel_replay.wire.json import json_line, loads, spans_from_json


class FileSink:
    """Keeps spans in `folder`; refuses with StoreError while a file named `down` lies in it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, spans: Iterable[Span], /) -> None:
        if (self.folder / "down").exists():
            raise StoreError("the store is down, as the test asked")
        if (self.folder / "broken").exists():
            raise ZeroDivisionError("a bug in the store, as the test asked")
        name = f"{time.time_ns()}-{os.getpid()}"
        with open(self.folder / f"{name}.tmp", "xb") as file:
            file.write(json_line(spans))
            file.flush()
            os.fsync(file.fileno())
        os.rename(self.folder / f"{name}.tmp", self.folder / f"{name}.jsonl")

    def close(self) -> None:
        """Nothing is open between writes."""


def make(folder: str) -> FileSink:
    """The factory that the sink is handed, by name."""
    return FileSink(folder)


def kept(folder: Path) -> list[Span]:
    """All spans that were written, in order of writing."""
    found: list[Span] = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            found += spans_from_json(loads(line), lenient=False)
    return found


def wait_for(count: int, folder: Path, seconds: float = 20.0) -> list[Span]:
    """Wait until `count` spans are kept, and return them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = kept(folder)
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{len(kept(folder))} of {count} spans were kept after {seconds} s")
