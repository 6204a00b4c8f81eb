"""`replay` and `rerecord` as a build calls them: what is served, what is said, and each exit code."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from otel_replay.store import open_store
from tests.cli.conftest import Project


@pytest.fixture
def recorded(project: Project) -> Project:
    project.record()
    (project.folder / "orders.txt").unlink()
    return project


def test_full_replay_serves_everything(recorded: Project) -> None:
    done = recorded.replay()
    assert done.code == 0
    assert done.out == "('ordered', 5)\n"
    assert done.err.startswith("replay of trade: PASSED\n  5 recorded: 3 served, 2 covered\n")
    assert recorded.orders == []
    assert recorded.replay().err == done.err


def test_a_live_step_runs_and_the_report_says_so_in_every_form(recorded: Project) -> None:
    wanted = ("--json", "report.json", "--junit", "report.xml", "--html", "report.html")
    done = recorded.replay("trade", "--live", "order,1", *wanted)
    assert done.code == 0
    assert recorded.orders == ["5"]
    report = json.loads((recorded.folder / "report.json").read_text())
    assert report["verdict"] == "passed"
    assert [line["address"] for line in report["crossings"]["live"]] == ["order[1]"]
    suite = ElementTree.parse(recorded.folder / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    page = (recorded.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<code>order[1]</code>" in page


def test_dry_run_runs_nothing(recorded: Project) -> None:
    done = recorded.replay("trade", "--live", "order", "--dry-run")
    assert done.code == 0
    assert "  live      order[1] {'quantity': 5} (HAS SIDE EFFECTS, and the plan names it)\n" in done.out
    assert "  served    ask[1]" in done.out
    assert recorded.orders == []
    unknown = recorded.replay("trade", "--live", "ordre", "--dry-run")
    assert unknown.code == 2
    assert "order" in unknown.err


CODES = [
    pytest.param((), {"CHANGE": "crash"}, 1, id="1 the program failed"),
    pytest.param((), {"CODE": "9"}, 1, id="1 the program's own exit code"),
    pytest.param(("--live", "ordre"), {}, 2, id="2 a boundary that is not there"),
    pytest.param((), {"CHANGE": "goal"}, 3, id="3 another input"),
    pytest.param((), {"CHANGE": "extra"}, 3, id="3 one crossing more"),
    pytest.param((), {"CHANGE": "fewer"}, 3, id="3 one crossing fewer"),
    pytest.param((), {"CHANGE": "none"}, 6, id="6 nothing compared"),
    pytest.param((), {"CHANGE": "nothing"}, 6, id="6 ended behind our back"),
]


@pytest.mark.parametrize(("options", "environment", "code"), CODES)
def test_each_way_to_fail_has_its_exit_code(
    recorded: Project, options: tuple[str, ...], environment: dict[str, str], code: int
) -> None:
    done = recorded.replay("trade", *options, **environment)
    assert done.code == code, done.err
    assert recorded.orders == []


def test_a_run_that_was_never_recorded_is_4(recorded: Project) -> None:
    done = recorded.replay("trader")
    assert (done.code, done.err) == (4, "otel-replay: no run is called 'trader'; did you mean 'trade'?\n")


def test_an_incomplete_recording_is_5(project: Project) -> None:
    project.record(CHANGE="nothing")
    refused = project.replay(CHANGE="nothing")
    assert refused.code == 5
    assert "it was interrupted" in refused.err
    assert "--allow-incomplete" in refused.err
    allowed = project.replay("trade", "--allow-incomplete")
    assert allowed.code == 0, allowed.err


def test_passed_on_drift_is_7_under_strict_and_0_without(recorded: Project) -> None:
    options = ("--live", "ask", "--stub", "order,1", "--on-drift", "serve")
    loose = recorded.replay("trade", *options, CHANGE="quiet", QUANTITY="6")
    strict = recorded.replay("trade", *options, "--strict", CHANGE="quiet", QUANTITY="6")
    assert "PASSED ON DRIFT" in loose.err, loose.err
    assert (loose.code, strict.code) == (0, 7)


def test_a_failed_report_is_a_failure_in_junit_too(recorded: Project) -> None:
    done = recorded.replay("trade", "--junit", "report.xml", CHANGE="goal")
    suite = ElementTree.parse(recorded.folder / "report.xml").getroot()
    assert done.code == 3
    assert suite.get("failures") == "1"


def test_override_gives_a_step_another_outcome(recorded: Project) -> None:
    done = recorded.replay("trade", "--override", 'order,1=["stopped", 0]')
    assert done.code == 0
    assert "stopped" in done.out
    bad = recorded.replay("trade", "--override", "order,1=nonsense")
    assert (bad.code, "is not JSON" in bad.err) == (2, True)


class TestRp27:
    """The check of a build that was pointed at nothing is never green."""

    def test_an_empty_folder(self, recorded: Project) -> None:
        (recorded.folder / "empty").mkdir()
        done = recorded.replay("empty/")
        assert done.code == 4, done.err
        assert "holds no files" in done.err

    def test_a_folder_of_nothing_that_is_a_run(self, recorded: Project) -> None:
        (recorded.folder / "notes").mkdir()
        (recorded.folder / "notes" / "readme.json").write_text('{"hello": 1}')
        done = recorded.replay("notes/")
        assert done.code == 4, done.err

    def test_a_folder_without_read_rights(self, recorded: Project) -> None:
        folder = recorded.folder / "shut"
        folder.mkdir()
        if os.geteuid() == 0:  # root reads everything: what it cannot read is a folder that is none
            (folder / "trace.json").symlink_to(folder / "trace.json")
        else:
            folder.chmod(0)
        try:
            done = recorded.replay("shut/")
        finally:
            folder.chmod(0o700)
        assert done.code == 4, done.err
        assert done.err.startswith("otel-replay: ")

    @pytest.mark.parametrize("text", ["{", "", "not a trace", '{"resourceSpans": [{"scopeSpans"', "\0" * 100])
    def test_a_broken_file(self, recorded: Project, text: str) -> None:
        (recorded.folder / "broken.jsonl").write_text(text)
        done = recorded.replay("broken.jsonl")
        assert done.code == 4, done.err
        assert "broken.jsonl" in done.err

    def test_an_empty_store(self, recorded: Project) -> None:
        shutil.rmtree(recorded.folder / ".otel-replay")
        (recorded.folder / ".otel-replay" / "spans").mkdir(parents=True)
        assert recorded.replay().code == 4
        assert recorded.replay(".otel-replay/").code in (2, 4)

    def test_a_damaged_store(self, recorded: Project) -> None:
        for path in (recorded.folder / ".otel-replay" / "spans").rglob("*.parquet"):
            path.write_bytes(path.read_bytes()[:-50])
        assert recorded.replay().code == 4


def test_a_kept_replay_is_listed_and_does_not_take_the_recordings_name(recorded: Project) -> None:
    recorded.replay("trade", "--keep")
    rows = json.loads(recorded.run("runs", "--format", "json").out)
    assert [row["mode"] for row in rows] == ["replay", "record"]
    assert rows[0]["replay_of"] == rows[1]["run"]
    assert rows[1]["run"] in recorded.run("show", "trade").out
    assert recorded.replay().code == 0


def test_rerecord_keeps_the_new_run_under_the_name_and_shows_what_changed(recorded: Project) -> None:
    done = recorded.run("rerecord", "trade", "--", "python", "agent.py", QUANTITY="6")
    assert done.code == 0, done.err
    assert "    request.quantity: 5 | 6\n" in done.out
    assert recorded.replay("trade", QUANTITY="6").code == 0
    with open_store(recorded.folder / ".otel-replay") as store:
        assert [(run.name, run.verdict) for run in store.runs()] == [("trade", "passed"), ("trade", "passed")]


def test_rerecord_writes_a_fixture_anew_unless_the_program_now_fails(recorded: Project) -> None:
    fixture = recorded.folder / "tests" / "incidents" / "trade.otlp.jsonl"
    fixture.parent.mkdir(parents=True)
    recorded.run("export", "trade", "-o", str(fixture))
    before = fixture.read_bytes()
    failed = recorded.run("rerecord", "trade", "--", "python", "agent.py", CODE="3")
    assert (failed.code, fixture.read_bytes()) == (3, before)
    assert "stays as it was" in failed.err
    done = recorded.run("rerecord", "trade", "--", "python", "agent.py", QUANTITY="6")
    assert done.code == 0
    assert fixture.read_bytes() != before
    assert recorded.replay("trade", QUANTITY="6").code == 0
    none = recorded.run("rerecord", "trade", "--", "true")
    assert none.code == 4


def test_the_program_may_change_its_folder(recorded: Project, tmp_path: Path) -> None:
    agent = recorded.folder / "agent.py"
    agent.write_text(agent.read_text().replace("def main():", "def main():\n    os.chdir('/')", 1))
    (recorded.folder / "traces").mkdir()
    recorded.run("export", "trade", "-o", "traces/trade.otlp.jsonl")
    assert recorded.replay("traces/trade.otlp.jsonl").code == 0
    assert recorded.replay("traces/").code == 0
