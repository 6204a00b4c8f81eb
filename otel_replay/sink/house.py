"""Keeping house beside the receivers: a pass over the store every so often, in a process of its own.

Its memory is given back after each pass, and whatever befalls it, spans are taken and stored meanwhile. The pass may
be killed at any point, and those of several sinks may meet: the store's changes are each one rename.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any, Final

import orjson

from ..errors import OtelReplayError
from ..originals import monotonic, random_hex
from .config import SinkConfig, by_name, importable_name
from .metrics import Metrics
from .voice import Voice

_STOP_SECONDS: Final = 2.0


class Housekeeper:
    """Runs `config.housekeeper` every so often, a quarter more or less, so that several sinks drift apart."""

    def __init__(self, config: SinkConfig, metrics: Metrics, voice: Voice) -> None:
        self._orders = {"call": importable_name(config.housekeeper), "args": list(config.housekeeper_args)}
        self._seconds = config.housekeeping_seconds
        self._metrics = metrics
        self._voice = voice
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="otel-replay-house", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it, in the middle of a pass too: what it began, the next one finds as it was."""
        self._ended.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds * (0.75 + int(random_hex(2), 16) / 0x1FFFF)):
            started = monotonic()
            facts = self._pass()
            if self._ended.is_set():
                return
            if "fault" in facts:
                self._metrics.add("housekeeping_failures_total")
                self._voice.say("warning", "the store could not be kept in order; the next pass tries again", **facts)
                continue
            self._metrics.add("housekeeping_passes_total")
            self._metrics.add("pruned_runs_total", int(facts.get("runs_removed", 0)))
            self._voice.say("info", "house was kept", **facts, seconds=round(monotonic() - started, 3))

    def _pass(self) -> dict[str, Any]:
        command = [sys.executable, "-P", "-m", "otel_replay.sink.house"]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        try:
            with self._lock:
                if self._ended.is_set():
                    return {}
                self._process = subprocess.Popen(  # noqa: S603  # our own module, by our own interpreter
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
            out, _ = self._process.communicate(orjson.dumps(self._orders))
            facts = orjson.loads(out.splitlines()[-1])
        except (OSError, ValueError, IndexError) as fault:
            return {"fault": f"its process ended without a word ({type(fault).__name__})"}
        return facts if isinstance(facts, dict) else {"fault": "its process said nothing that is understood"}


def main() -> None:
    """Do the pass that standard input describes, and say in one JSON line what was done."""
    orders = orjson.loads(sys.stdin.buffer.read())
    try:
        facts = by_name(orders["call"])(*orders["args"])
    except (OtelReplayError, OSError) as fault:
        facts = {"fault": str(fault)}
    sys.stdout.buffer.write(orjson.dumps(facts, default=str) + b"\n")


if __name__ == "__main__":
    main()
