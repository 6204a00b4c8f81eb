"""A project with an agent in it, and the command line as a user runs it: a real process each time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

AGENT = """
import json, os, sys, time
from otel_replay import boundary

@boundary("plan", kind="router")
def plan(goal):
    return {"steps": [look(n) for n in range(2)], "goal": goal}

@boundary("look", kind="tool")
def look(n):
    return {"n": n, "found": [1, 2.5, None]}

@boundary("ask", kind="model")
def ask(text):
    if os.environ.get("CHANGE") == "quiet":
        text = "hush"
    return {"model": "m-1", "choices": [{"message": {"role": "assistant", "content": text.upper()}}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7}}

@boundary("order", kind="tool", side_effects=True)
def order(quantity):
    with open("orders.txt", "a") as file:
        file.write(f"{quantity}\\n")
    if quantity > 100:
        raise PermissionError("too many")
    return ("ordered", quantity)

def main():
    change = os.environ.get("CHANGE", "")
    plan("buy" if change != "goal" else "sell")
    ask("hello")
    if change == "extra":
        look(9)
    if change != "fewer":
        try:
            print(order(int(os.environ.get("QUANTITY", "5"))))
        except PermissionError as fault:
            print("refused:", fault)
    if change == "crash":
        raise ValueError("the agent is broken")
    if change == "nothing":
        os._exit(0)
    sys.exit(int(os.environ.get("CODE", "0")))

if __name__ == "__main__":
    if os.environ.get("CHANGE") != "none":
        main()
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    raw: bytes


class Project:
    """A folder with `agent.py` and a pyproject.toml; `run` is the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTEST_"))}
        return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}

    def run(self, *words: str, stdin: bytes = b"", **more: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "otel_replay", *words],
            cwd=self.folder,
            env=self.environment(**more),
            input=stdin,
            capture_output=True,
            timeout=120,
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert "Traceback" not in err or "agent.py" in err, err  # errors of ours are one line
        return Done(done.returncode, out, err, done.stdout)

    def record(self, name: str = "trade", *options: str, **more: str) -> Done:
        return self.run("record", name, *options, "--", "python", "agent.py", stdin=b"", **more)

    def replay(self, name: str = "trade", *options: str, **more: str) -> Done:
        return self.run("replay", name, *options, "--", "python", "agent.py", stdin=b"", **more)

    @property
    def orders(self) -> list[str]:
        path = self.folder / "orders.txt"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1"\n')
    return Project(tmp_path)
