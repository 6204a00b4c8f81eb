"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Project


@pytest.fixture
def recorded(project: Project) -> Project:
    project.record()
    (project.folder / "orders.txt").unlink()
    return project


def _pytest(project: Project, text: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (project.folder / "test_it.py").write_text(f"import pytest\nimport agent\n{text}")
    path = f"{project.environment()['PYTHONPATH']}:{project.folder}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *words,
    ]
    return subprocess.run(
        command, cwd=project.folder, env=project.environment(PYTHONPATH=path, **environment), capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


RUN = """
def run():
    agent.plan("buy")
    agent.ask("hello")
    return agent.order(quantity)

quantity = 5
"""


def test_a_marked_test_runs_inside_the_replay_and_the_fixture_hands_out_the_session(recorded: Project) -> None:
    done = _pytest(recorded, RUN + """
@pytest.mark.replay("trade")
def test_without_the_fixture():
    assert run() == ("ordered", 5)

@pytest.mark.replay("trade", live=["order,1"])
def test_with_it(replay_session):
    run()
    assert replay_session.captured_result("order", 1) == ("ordered", 5)
    assert [call.action for call in replay_session.call_log if call.address == "order[1]"] == ["live"]

def test_unmarked():
    assert agent.look(1) == {"n": 1, "found": [1, 2.5, None]}
""")  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout
    assert recorded.orders == ["5"]  # the live one


def test_a_divergence_fails_the_test_with_the_report_even_where_it_was_swallowed(recorded: Project) -> None:
    done = _pytest(recorded, RUN + """
@pytest.mark.replay("trade")
def test_changed():
    global quantity
    quantity = 6
    try:
        run()
    except Exception:
        pass
""")  # fmt: skip
    assert "1 failed" in done.stdout
    assert "replay of trade: DIVERGED" in done.stdout
    assert "recorded 5, now 6" in done.stdout
    assert "Traceback" not in done.stdout
    assert recorded.orders == []


def test_a_failed_assertion_is_a_failure_with_the_report_beside_it(recorded: Project) -> None:
    done = _pytest(recorded, RUN + """
@pytest.mark.replay("trade")
def test_wrong(replay_session):
    assert run() == "something else"
""")  # fmt: skip
    assert "1 failed" in done.stdout
    assert "AssertionError" in done.stdout
    assert "otel_replay" in done.stdout
    assert "replay of trade: " in done.stdout


def test_nothing_compared_fails(recorded: Project) -> None:
    done = _pytest(recorded, '@pytest.mark.replay("trade")\ndef test_nothing():\n    pass\n')
    assert "1 failed" in done.stdout, done.stdout


STRICT = (
    RUN
    + """
@pytest.mark.replay("trade", live=["ask"], stub=["order,1"], on_drift="serve"{strict})
def test_drifting():
    global quantity
    quantity = 6
    run()
"""
)


def test_strict_fails_what_passed_on_drift(recorded: Project) -> None:
    loose = _pytest(recorded, STRICT.replace("{strict}", ""), CHANGE="quiet")
    strict = _pytest(recorded, STRICT.replace("{strict}", ", strict=True"), CHANGE="quiet")
    assert "1 passed" in loose.stdout, loose.stdout
    assert "1 failed" in strict.stdout
    assert "passed on drift, and the test is strict" in strict.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('@pytest.mark.replay("trader")\ndef test_x():\n    pass\n', "did you mean 'trade'?"),
        ("@pytest.mark.replay()\ndef test_x():\n    pass\n", "takes one source"),
        ('@pytest.mark.replay("trade", lives=["x"])\ndef test_x():\n    pass\n', "unknown ['lives']"),
        ('@pytest.mark.replay("trade", live=["ordre"])\ndef test_x():\n    pass\n', "ordre"),
        ("def test_x(replay_session):\n    pass\n", "needs @pytest.mark.replay"),
    ],
)
def test_what_is_asked_wrongly_is_said(recorded: Project, text: str, said: str) -> None:
    done = _pytest(recorded, text)
    assert "1 passed" not in done.stdout
    assert said in done.stdout, done.stdout


def test_a_fixture_file_beside_the_test_and_a_mark_on_a_class(recorded: Project) -> None:
    recorded.run("export", "trade", "-o", "beside.otlp.jsonl")
    done = _pytest(recorded, RUN + """
@pytest.mark.replay("beside.otlp.jsonl")
class TestClass:
    def test_in_a_class(self, replay_session):
        assert run() == ("ordered", 5)
        assert replay_session.captured_input("order", 1)
""")  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


def test_nothing_is_loaded_until_a_test_carries_the_mark(recorded: Project) -> None:
    text = """
import sys

def test_unmarked():
    loaded = [name for name in ("duckdb", "pyarrow", "google.protobuf", "opentelemetry.sdk", "otel_replay.api")
              if name in sys.modules]
    assert loaded == []
"""
    (recorded.folder / "agent.py").write_text("")
    done = _pytest(recorded, text, "-p", "no:hypothesispytest", "-p", "no:anyio")
    assert "1 passed" in done.stdout, done.stdout
