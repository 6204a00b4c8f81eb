"""What the sink says on standard error: a progress line for a person, JSON lines for a machine."""

from __future__ import annotations

import sys
import threading
from typing import Final, Literal

import orjson

from ..originals import monotonic, now_ns
from .metrics import Metrics

_LINE_SECONDS: Final = 1.0
_SUMMARY_SECONDS: Final = 30.0


class Voice:
    """Says events as they come, and how it goes: every second to a person, every half minute to a machine."""

    def __init__(self, log_format: Literal["auto", "text", "json", "none"], metrics: Metrics) -> None:
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._format = log_format if log_format != "auto" else ("text" if terminal else "json")
        self._live = self._format == "text" and terminal
        self._metrics = metrics
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._shown = ""
        self._accepted = 0.0
        self._thread = threading.Thread(target=self._run, name="otel-replay-voice", daemon=True)

    def start(self) -> None:
        """Begin to tell how it goes."""
        if self._format != "none":
            self._thread.start()

    def stop(self) -> None:
        """Say no more."""
        self._ended.set()

    def say(self, level: str, message: str, **facts: object) -> None:
        """Say one event; `level` is info, warning or error."""
        if self._format == "json":
            line = {"time_ns": now_ns(), "level": level, "message": message, **facts}
            self._write(orjson.dumps(line, default=str).decode() + "\n")
        elif self._format == "text":
            shown = " ".join(f"{name}={value}" for name, value in facts.items() if value not in ("", None))
            self._write(f"{'' if level == 'info' else level + ': '}{message}{' ' if shown else ''}{shown}\n")

    def _write(self, text: str) -> None:
        with self._lock:
            clear = "\r\x1b[K" if self._shown else ""
            try:
                sys.stderr.write(clear + text + self._shown)
                sys.stderr.flush()
            except (OSError, ValueError):
                self._ended.set()

    def _figures(self) -> dict[str, int]:
        total = self._metrics.total
        return {
            "accepted": int(total("accepted_total")),
            "refused": int(total("refused_total")),
            "stored": int(total("converted_spans_total")),
            "waiting_bytes": int(total("wal_backlog_bytes")),
            "troubles": int(total("conversion_troubles_total")),
        }

    def _run(self) -> None:
        last = monotonic()
        while not self._ended.wait(_LINE_SECONDS if self._live else _SUMMARY_SECONDS):
            figures = self._figures()
            now = monotonic()
            rate = (figures["accepted"] - self._accepted) / max(now - last, 0.001)
            last, self._accepted = now, figures["accepted"]
            if not self._live:
                self.say("info", "progress", **figures, per_second=round(rate, 1))
                continue
            shown = (
                f"{figures['accepted']:,} spans accepted ({rate:,.0f}/s), {figures['stored']:,} stored, "
                f"{figures['waiting_bytes'] / 1e6:,.1f} MB waiting"
            )
            if figures["refused"]:
                shown += f", {figures['refused']:,} refused"
            if figures["troubles"]:
                shown += f", {figures['troubles']:,} failed writes"
            with self._lock:
                self._shown = shown
            self._write("")
