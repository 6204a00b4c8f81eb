"""`promote`: a fixture and a test that passes at once, and fails where the program changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from otel_replay.store import open_store
from tests.cli.conftest import Project


def _pytest(project: Project, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=project.folder, env=project.environment(**environment), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_generated_test_passes_at_once_and_fails_when_the_agent_changes(project: Project) -> None:
    project.record()
    done = project.run("promote", "trade")
    assert (done.code, done.err) == (0, "")
    assert done.out == "wrote tests/incidents/trade.otlp.jsonl\nwrote tests/incidents/test_trade.py\n"
    assert "1 passed" in _pytest(project, "tests").stdout
    changed = _pytest(project, "tests", CHANGE="goal").stdout
    assert "1 failed" in changed
    assert "args.goal recorded 'buy', now 'sell'" in changed
    assert "1 failed" in _pytest(project, "tests", CHANGE="none").stdout
    assert project.replay("trade").code == 0  # the fixture is found by its name, and comes first
    assert project.orders == ["5"]


def test_two_promotions_write_the_same_bytes_and_nothing_of_this_machine(project: Project) -> None:
    project.record()
    project.run("promote", "trade", "--to", "one")
    project.run("promote", "trade", "--to", "two")
    first = (project.folder / "one" / "trade.otlp.jsonl").read_bytes()
    assert first == (project.folder / "two" / "trade.otlp.jsonl").read_bytes()
    assert str(project.folder).encode() not in first
    assert str(project.folder) not in (project.folder / "one" / "test_trade.py").read_text()


@pytest.mark.parametrize("environment", [{"CHANGE": "crash"}, {"CODE": "3"}])
def test_a_run_that_failed_makes_a_test_that_passes_while_it_still_fails(
    project: Project, environment: dict[str, str]
) -> None:
    project.record(**environment)
    project.run("promote", "trade")
    assert "the recorded program failed" in (project.folder / "tests" / "incidents" / "test_trade.py").read_text()
    assert "1 passed" in _pytest(project, "tests", **environment).stdout


def test_a_program_in_a_folder_below_the_project(project: Project) -> None:
    below = project.folder / "app"
    below.mkdir()
    (project.folder / "agent.py").rename(below / "agent.py")
    inner = Project(below)
    inner.record("trade", "--store", "../.otel-replay")
    assert project.run("promote", "trade").code == 0
    assert "1 passed" in _pytest(project, "tests").stdout


def test_a_run_recorded_in_code_gets_a_test_that_says_where_the_agent_goes(project: Project) -> None:
    text = "from otel_replay import record\nfrom agent import *\nwith record('inner'):\n    look(3)\n"
    (project.folder / "own.py").write_text(text)
    subprocess.run(
        [sys.executable, "own.py"], cwd=project.folder, env=project.environment(CHANGE="none"), check=True, timeout=60
    )
    done = project.run("promote", "inner", "--name", "inner-case")
    assert done.code == 0, done.err
    assert "how the agent is called was not recorded" in done.out
    assert "1 passed, 1 skipped" in _pytest(project, "tests").stdout
    path = project.folder / "tests" / "incidents" / "test_inner_case.py"
    lines = path.read_text().splitlines()
    kept = [line.removeprefix("# ").split("  #")[0] if "pytest.mark.replay" in line else line for line in lines]
    kept = [line for line in kept if "mark.skip" not in line]
    path.write_text("\n".join(kept).replace("...  # run_agent()", "from agent import look\n    look(3)") + "\n")
    done_ = _pytest(project, "tests", CHANGE="none", PYTHONPATH=_with(project))
    assert "2 passed" in done_.stdout, done_.stdout


def _with(project: Project) -> str:
    return f"{project.environment()['PYTHONPATH']}:{project.folder}"


def test_where_promotes_all_that_meet_a_condition(project: Project) -> None:
    project.record(CODE="1")
    project.record(CODE="1")
    project.record("fine")
    done = project.run("promote", "--where", "verdict = 'failed'")
    assert done.code == 0, done.err
    folder = project.folder / "tests" / "incidents"
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["trade-2.otlp.jsonl", "trade.otlp.jsonl"]
    assert project.run("promote", "--where", "verdict = 'unknown'").code == 4
    bad = project.run("promote", "--where", "verdict =")
    assert (bad.code, bad.err.startswith("otel-replay: --where: Parser Error")) == (2, True)


def test_nothing_is_written_over_unless_asked(project: Project) -> None:
    project.record()
    project.run("promote", "trade")
    fixture = project.folder / "tests" / "incidents" / "trade.otlp.jsonl"
    before = fixture.read_bytes()
    project.record(QUANTITY="6")
    newest = project.run("sql", "SELECT run_id FROM runs ORDER BY start_ns DESC LIMIT 1", "--format", "csv")
    run_id = newest.out.split()[1].strip('"')
    done = project.run("promote", run_id)
    assert (done.code, "is there already" in done.err, fixture.read_bytes()) == (2, True, before)
    assert project.run("promote", run_id, "--force").code == 0
    assert fixture.read_bytes() != before
    assert "1 passed" in _pytest(project, "tests", QUANTITY="6").stdout


def test_an_interrupted_run_and_a_bad_name_are_refused(project: Project) -> None:
    project.record(CHANGE="nothing")
    assert project.run("promote", "trade").code == 5
    project.record("good")
    for name in ("../up", "a/b", ".hidden", 'x"""y', ""):
        done = project.run("promote", "good", "--name", name)
        assert done.code == (0 if name == "" else 2), name


def test_what_a_recording_says_never_becomes_code(project: Project) -> None:
    hostile = 'x"""\nraise SystemExit("owned")\n"""'
    text = f"from otel_replay import boundary, record\n@boundary({hostile!r}, kind='tool')\ndef f(): return 1\n"
    (project.folder / "own.py").write_text(f"{text}with record({hostile!r}):\n    f()\n")
    subprocess.run([sys.executable, "own.py"], cwd=project.folder, env=project.environment(), check=True, timeout=60)
    with open_store(project.folder / ".otel-replay") as store:
        run_id = store.runs()[0].run_id
    assert project.run("promote", run_id).code == 0
    tests = list((project.folder / "tests" / "incidents").glob("test_*.py"))
    assert len(tests) == 1
    assert "1 passed, 1 skipped" in _pytest(project, "tests").stdout


def test_secrets_of_an_older_recording_are_redacted_by_todays_rules(project: Project) -> None:
    project.record()
    rules = '[tool.otel_replay.redaction.patterns]\nshout = "HELL[A-Z]"\n'
    (project.folder / "pyproject.toml").write_text(f'[project]\nname = "shop"\nversion = "1"\n{rules}')
    assert project.run("promote", "trade").code == 0
    text = (project.folder / "tests" / "incidents" / "trade.otlp.jsonl").read_text()
    assert "HELLO" not in text
    assert "[redacted:shout#1]" in text
    assert project.replay("trade").code == 0


def test_the_fixtures_folder_of_the_project_is_used(project: Project) -> None:
    (project.folder / "pyproject.toml").write_text('[tool.otel_replay]\nfixtures = ["cases"]\n')
    project.record()
    assert project.run("promote", "trade").out.splitlines()[0] == "wrote cases/trade.otlp.jsonl"
    assert Path(project.folder / "cases" / "test_trade.py").is_file()
