"""A clock and ids that count, for tests that compare whole spans and reports with a literal."""

from __future__ import annotations

import itertools
import threading


class StepClock:
    """A clock whose every reading is `step_ns` later than the one before; begins at `start_ns`.

    `StepClock()` reads 2026-01-01T00:00:00Z, then a millisecond later, and so on, in Unix nanoseconds.
    """

    def __init__(self, start_ns: int = 1_767_225_600_000_000_000, step_ns: int = 1_000_000) -> None:
        self._next_ns = start_ns
        self._step_ns = step_ns
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            now_ns = self._next_ns
            self._next_ns += self._step_ns
        return now_ns


class CountingIds:
    """Ids that count from 1: `trace_id()` and `span_id()` as OpenTelemetry's integers, `hex(n)` as n bytes of hex."""

    def __init__(self) -> None:
        self._counts = {name: itertools.count(1) for name in ("trace", "span", "hex")}

    def trace_id(self) -> int:
        return next(self._counts["trace"])

    def span_id(self) -> int:
        return next(self._counts["span"])

    def hex(self, byte_count: int) -> str:
        return f"{next(self._counts['hex']):0{2 * byte_count}x}"
