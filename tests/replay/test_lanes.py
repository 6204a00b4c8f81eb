"""Processes that a run begins: each a lane of its own, recorded apart and served apart (scenario 11)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from otel_replay import Diverged, ReplayPlan, open_store
from otel_replay.errors import IncompleteRecording

from . import workers
from .conftest import Lab

METHODS = ["fork", "os.fork", "spawn", "subprocess"]


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUT", str(tmp_path))
    monkeypatch.setenv("SEARCHED", str(tmp_path / "searched"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return tmp_path / "searched"


def agent(words: list[str], method: str) -> list[str]:
    workers.search("first")
    failed = workers.run_workers(words, method)
    assert not failed, f"{failed} process(es) failed"
    return workers.answers(words)


@pytest.mark.parametrize("method", METHODS)
def test_11_two_workers_are_two_lanes(lab: Lab, searched: Path, method: str) -> None:
    recorded = lab.record(lambda: agent(["a", "b"], method))
    assert recorded == ["['a', 'A']", "['b', 'B']"]
    with open_store(lab.store) as store:
        recording = store.recording(store.find_run("run").run_id)
    assert [envelope.address for envelope in recording.envelopes] == ["search[1]", "~1/search[1]", "~2/search[1]"]
    assert [envelope.lane for envelope in recording.envelopes] == ["", "~1", "~2"]
    assert recording.run.lanes == ("~1", "~2")
    assert recording.run.crossings == 1
    searched.unlink()
    if method == "os.fork":  # its children end by os._exit: nothing is lost, but nothing says that it was all
        with pytest.raises(IncompleteRecording, match="lane ~1 never closed"):
            lab.session()
    answer, session = lab.replay(lambda: agent(["a", "b"], method), allow_incomplete=method == "os.fork")
    assert answer == recorded
    assert not searched.exists()
    assert session.report.verdict == "passed"


@pytest.mark.parametrize("method", METHODS)
def test_a_drift_in_a_worker_is_named_by_its_lane(lab: Lab, searched: Path, method: str) -> None:
    lab.record(lambda: agent(["a", "b"], method))
    with pytest.raises(Diverged, match=r"~2.*recorded 'b', now 'x'"), lab.session(allow_incomplete=True):
        agent(["a", "x"], method)


def test_a_worker_that_never_begins_is_missed(lab: Lab, searched: Path) -> None:
    lab.record(lambda: agent(["a", "b"], "fork"))
    with pytest.raises(Diverged, match=r"not used: ~2/search\[1\]"), lab.session():
        agent(["a"], "fork")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_crossing_that_begins_processes_covers_them_when_served(lab: Lab, searched: Path, method: str) -> None:
    lab.record(lambda: workers.plan(["a", "b"], method))
    with open_store(lab.store) as store:
        recording = store.recording(store.find_run("run").run_id)
    assert [envelope.address for envelope in recording.envelopes] == [
        "plan[1]",
        "plan[1]~1/search[1]",
        "plan[1]~2/search[1]",
    ]
    searched.unlink()
    assert lab.replay(lambda: workers.plan(["a", "b"], method))[0] == 0
    assert not searched.exists()
    with lab.session(ReplayPlan().live("plan", 1)) as session:
        assert workers.plan(["a", "b"], method) == 0
    assert not searched.exists(), "what lies in the lanes stays stubbed"
    assert session.report.verdict == "passed"


def test_a_program_that_knows_nothing_of_us_is_no_lane(lab: Lab, searched: Path) -> None:
    lab.record(lambda: subprocess.run(["true"], check=True).returncode)
    with open_store(lab.store) as store:
        recording = store.recording(store.find_run("run").run_id)
    assert recording.run.lanes == ()
    assert recording.complete
