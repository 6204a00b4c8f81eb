"""Every block of the README runs, in the order in which a reader meets it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env.pop("OTEL_REPLAY_MODE", None)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run all blocks once; return what each printed, by its first line."""
    folder = tmp_path_factory.mktemp("reader")
    found: dict[str, str] = {}
    for language, text in BLOCKS:
        first = text.splitlines()[0]
        if language == "python":
            name = re.fullmatch(r"# (\w+\.py)", first)
            path = folder / (name[1] if name else "block.py")
            path.write_text(text)
            if path.name.startswith("test_"):
                found[first] = run([sys.executable, "-m", "pytest", "-q", str(path)], folder)
            else:
                found[first] = run([sys.executable, str(path)], folder)
        elif language == "sh":
            for line in text.splitlines():
                command = line.partition("#")[0].strip()
                if command.startswith("make "):
                    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
                elif command:
                    found[command] = run(["sh", "-c", command], folder)
    shutil.rmtree(folder)
    return found


def test_every_block_ran(outputs: dict[str, str]) -> None:
    assert len([language for language, _text in BLOCKS if language in ("python", "sh")]) == len(BLOCKS)
    assert len(outputs) == 15


def test_the_blocks_say_what_they_promise(outputs: dict[str, str]) -> None:
    assert "trade-notional" in outputs["otel-replay runs"]
    assert "place_order[1]" in outputs["otel-replay show trade-notional"]
    assert '{"symbol":"ACME","qty":5000}' in next(text for line, text in outputs.items() if " sql " in line)
    assert "live      place_order[1]" in next(text for line, text in outputs.items() if "--dry-run" in line)
    assert "PASSED" in outputs["# replay it in code"]
    assert "1 passed" in outputs["# test_trade.py"]
    assert "trade-notional" in outputs["# a relation or an Arrow table"]


def test_every_attribute_is_in_the_table() -> None:
    from otel_replay import semconv

    table = README[README.index("| attribute | what |") :]
    for constant, name in vars(semconv).items():
        if constant.isupper() and isinstance(name, str) and name.startswith("otel_replay."):
            short = name.removeprefix("otel_replay")
            stem = short[short.rindex(".") :]
            assert name in table or f"`{short}`" in table or f"`{stem}`" in table, f"{name} is not in the table"


def test_every_command_is_documented() -> None:
    from otel_replay.cli import _COMMANDS

    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    for command in _COMMANDS:
        assert f"`{command}`" in architecture or f"otel-replay {command}" in README, command
