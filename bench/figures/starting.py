"""I1: what `import otel_replay` and the command line cost over the bare interpreter, fresh processes in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from bench.measure import Figure

COMMANDS = {
    "bare": ["-c", "pass"],
    "import": ["-c", "import otel_replay"],
    "boundary": ["-c", "from otel_replay import boundary"],
    "record": ["-c", "from otel_replay import record"],
    "help": ["-m", "otel_replay", "--help"],
}


def measured() -> list[Figure]:
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(9):
        for name, words in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            took[name].append((time.perf_counter() - start) * 1000)
    # The quickest of the rounds: a process's start is only ever made slower by what else the machine does.
    over = {name: min(times) - min(took["bare"]) for name, times in took.items()}
    medians = {name: statistics.median(times) for name, times in took.items()}
    return [
        Figure("I1", "import otel_replay, over the interpreter", over["import"], " ms", 30, medians),
        Figure("I1", "from otel_replay import boundary", over["boundary"], " ms"),
        Figure("I1", "from otel_replay import record", over["record"], " ms"),
        Figure("I1", "otel-replay --help, over the interpreter", over["help"], " ms", 150),
    ]
