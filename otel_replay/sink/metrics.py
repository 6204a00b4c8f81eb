"""Figures of the sink itself: counted in one place, shown as Prometheus text and through an OpenTelemetry meter.

Source: Prometheus text exposition format 0.0.4; OpenTelemetry metrics API (asynchronous instruments).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

_PREFIX: Final = "otel_replay_sink_"
_HELP: Final = {
    "requests_total": "Export requests, by transport, signal and answer.",
    "accepted_total": "Spans and log records that were acknowledged.",
    "refused_total": "Spans and log records that were refused alone, within requests that were accepted.",
    "received_bytes_total": "Bytes of acknowledged requests, decompressed.",
    "converted_spans_total": "Spans that the span sink has taken.",
    "converted_segments_total": "Segments that were converted and removed.",
    "conversion_troubles_total": "Failed tries to hand spans to the span sink.",
    "quarantined_total": "Segments and requests that were set aside.",
    "converter_restarts_total": "Times that the converter ended unasked and was started again.",
    "housekeeping_passes_total": "Passes of compaction and retention over the store.",
    "housekeeping_failures_total": "Passes that could not be done.",
    "pruned_runs_total": "Runs that retention removed.",
    "wal_commits_total": "Groups of requests that were written and synced.",
    "wal_commit_seconds_total": "Time spent in writing and syncing groups.",
    "wal_failures_total": "Failed writes of the write-ahead log.",
    "wal_backlog_bytes": "Bytes that wait for conversion.",
    "memory_bytes": "Bytes of request bodies held now.",
    "ready": "1 where the sink takes requests.",
}
_GAUGES: Final = {"wal_backlog_bytes", "memory_bytes", "ready"}
Labels = tuple[tuple[str, str], ...]


def _named(name: str) -> tuple[str, str]:
    """Return (name without unit and kind, unit): OpenTelemetry says both beside the name."""
    stem = name.removesuffix("_total")
    for ending, unit in (("_bytes", "By"), ("_seconds", "s")):
        if stem.endswith(ending):
            return stem.removesuffix(ending), unit
    return stem, "1"


class Metrics:
    """Counters by name and labels, and gauges that are asked when shown. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[tuple[str, Labels], float] = defaultdict(float)
        self._asked: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add `amount` to a counter of `_HELP`."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += amount

    def ask(self, name: str, source: Callable[[], float]) -> None:
        """Take the value of `name` from `source` whenever it is shown."""
        self._asked[name] = source

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of `name` over all label sets that hold `labels`."""
        if name in self._asked:
            return self._asked[name]()
        wanted = set(labels.items())
        with self._lock:
            return sum(value for (known, have), value in self._counts.items() if known == name and wanted <= set(have))

    def values(self, name: str) -> list[tuple[Labels, float]]:
        """Return the figures of `name`: one for each set of labels, or a single one without."""
        if name in self._asked:
            return [((), self._asked[name]())]
        with self._lock:
            return sorted((labels, value) for (known, labels), value in self._counts.items() if known == name)

    def observe(self, meter: Any) -> None:
        """Show every figure through an OpenTelemetry meter, each time that its reader asks."""
        from opentelemetry.metrics import Observation  # the API alone; who asks for it has the SDK

        def reader(name: str) -> Callable[[object], list[Observation]]:
            return lambda _options: [Observation(value, dict(labels)) for labels, value in self.values(name)]

        for name, help_text in _HELP.items():
            stem, unit = _named(name)
            make = meter.create_observable_gauge if name in _GAUGES else meter.create_observable_counter
            make(f"otel_replay.sink.{stem}", callbacks=[reader(name)], unit=unit, description=help_text)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        lines = []
        for name, help_text in _HELP.items():
            kind = "gauge" if name in _GAUGES else "counter"
            lines += [f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} {kind}"]
            for labels, value in self.values(name) or [((), 0.0)]:
                shown = ",".join(f'{key}="{text}"' for key, text in labels)
                lines.append(f"{_PREFIX}{name}{{{shown}}} {value:.17g}" if shown else f"{_PREFIX}{name} {value:.17g}")
        return ("\n".join(lines) + "\n").encode()
