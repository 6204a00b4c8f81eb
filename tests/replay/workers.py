"""What the processes of tests/replay/test_lanes.py run; importable by a spawned child."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from otel_replay import boundary


@boundary("search", kind="tool")
def search(query: str) -> list[str]:
    mark = os.environ.get("SEARCHED")
    if mark:
        with open(mark, "a") as file:
            file.write(f"{query}\n")
    return [query, query.upper()]


@boundary("plan", kind="router")
def plan(words: list[str], method: str) -> int:
    return run_workers(words, method)


def work(query: str, out: str) -> None:
    Path(out).write_text(repr(search(query)))


def run_workers(words: list[str], method: str) -> int:
    """Run one process a word; return how many failed."""
    folder = Path(os.environ["OUT"])
    if method in ("fork", "spawn"):
        context: Any = multiprocessing.get_context(method)
        children = [context.Process(target=work, args=(word, str(folder / word))) for word in words]
        for child in children:
            child.start()
        for child in children:
            child.join()
        return sum(child.exitcode != 0 for child in children)
    if method == "os.fork":
        pids = []
        for word in words:
            pid = os.fork()
            if not pid:
                code = 1
                try:
                    work(word, str(folder / word))
                    code = 0
                finally:
                    os._exit(code)
            pids.append(pid)
        return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
    script = "import sys; from tests.replay.workers import work; work(sys.argv[1], sys.argv[2])"
    running = [subprocess.Popen([sys.executable, "-c", script, word, str(folder / word)]) for word in words]
    return sum(child.wait() != 0 for child in running)


def answers(words: list[str]) -> list[str]:
    folder = Path(os.environ["OUT"])
    found = [(folder / word).read_text() for word in words if (folder / word).exists()]
    for word in words:
        (folder / word).unlink(missing_ok=True)
    return found
