"""The command line as a whole: help, speed, light imports, errors of one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Project

COMMANDS = ["record", "replay", "rerecord", "runs", "show", "sql", "diff", "export"]
COMMANDS += ["import", "promote", "verdict", "store", "sink", "doctor"]
HEAVY = ("duckdb", "pyarrow", "google.protobuf", "grpc", "opentelemetry.sdk", "rich", "openai", "httpx")


def test_help_lists_every_command(project: Project) -> None:
    done = project.run("--help")
    listed = [line.split()[0] for line in done.out.partition("Commands:")[2].splitlines() if line.startswith("  ")]
    assert done.code == 0
    assert [name for name in listed if name in COMMANDS] == COMMANDS


@pytest.mark.parametrize(
    "words", [*([name] for name in COMMANDS), *(["store", n] for n in ("info", "verify", "compact", "prune"))]
)
def test_each_command_has_help_with_an_example(words: list[str]) -> None:
    # In this process: twenty interpreters would say the same.
    from click.testing import CliRunner

    from otel_replay.cli import cli

    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0
    assert "Usage:" in done.output
    assert f"Example: otel-replay {' '.join(words)}" in " ".join(done.output.split()) or words == ["store"]
    assert "Example: otel-replay" in done.output


def test_version(project: Project) -> None:
    assert project.run("--version").out.startswith("otel-replay, version ")


def test_importing_the_package_and_asking_for_help_load_nothing_heavy() -> None:
    text = f"""
import sys
import otel_replay
print([name for name in {HEAVY!r} if name in sys.modules])
from otel_replay.cli import cli
from click.testing import CliRunner
assert CliRunner().invoke(cli, ["--help"]).exit_code == 0
print([name for name in {HEAVY!r} if name in sys.modules])
import otel_replay.pytest_plugin
print([name for name in {HEAVY[:5]!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[:3] == ["[]", "[]", "[]"], done.stdout + done.stderr


ERRORS = [
    (["show", "nix"], 4, "there is no store at"),
    (["runs"], 8, "there is no store at"),
    (["sql", "SELECT 1"], 8, "there is no store at"),
    (["verdict", "nix", "passed"], 8, "there is no store at"),
    (["replay", "nix.jsonl", "--", "python", "agent.py"], 4, "there is no file 'nix.jsonl'"),
    (["record", "x"], 2, "no program given"),
    (["record", "x", "--", "--store", "y", "python"], 2, "options stand before --"),
    (["record", "x", "--", "no-such-program-anywhere"], 2, "cannot be run: No such file"),
    (["record", "x", "--", "./agent.py"], 2, "cannot be run: Permission denied"),
    (["import", "--header", "novalue", "agent.py"], 2, "--header takes KEY=VALUE"),
    (["promote"], 2, "name a run"),
    (["store", "prune"], 2, "say what goes"),
    (["sink", "--tls-cert", "agent.py"], 2, "go together"),
    (["sink", "--grpc", "nowhere", "--http", "off"], 2, "is not host:port"),
    (["sink", "--grpc", "off", "--http", "off"], 2, "both receivers are switched off"),
    (["doctor", "nix.jsonl"], 4, "there is no file 'nix.jsonl'"),
]


@pytest.mark.parametrize(
    ("words", "code", "text"), ERRORS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_an_error_is_one_clear_line_with_its_exit_code(
    project: Project, words: list[str], code: int, text: str
) -> None:
    done = project.run(*words)
    lines = done.err.splitlines()
    assert done.code == code, done.err
    assert [line for line in lines if text in line and line.startswith("otel-replay: ")], done.err
    assert len(lines) == 1, done.err
    assert done.out == ""


def test_an_output_that_cannot_be_written_is_said(project: Project) -> None:
    project.record()
    done = project.run("export", "trade", "-o", str(project.folder / "no" / "such" / "folder.jsonl"))
    assert done.code == 8
    assert done.err.startswith("otel-replay: ")
    assert "No such file or directory" in done.err


def test_a_reader_that_goes_away_is_no_error(project: Project) -> None:
    project.record()
    text = f"{sys.executable} -m otel_replay sql 'SELECT range FROM range(200000)' --format csv | head -1"
    done = subprocess.run(
        ["bash", "-c", text], cwd=project.folder, env=project.environment(), capture_output=True, timeout=60
    )
    assert done.stdout == b'"range"\n'
    assert done.stderr == b""


def test_the_console_script_and_the_module_are_one_program(project: Project) -> None:
    script = Path(sys.executable).with_name("otel-replay")
    assert (ROOT / "pyproject.toml").read_text().count('otel-replay = "otel_replay.cli:main"') == 1
    if script.exists():
        done = subprocess.run([script, "--help"], env=project.environment(), capture_output=True, text=True, timeout=60)
        assert done.stdout == project.run("--help").out
