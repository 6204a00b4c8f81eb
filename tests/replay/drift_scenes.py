"""One small agent, what can change in it, and the plans under which the change has a cause or has none."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from otel_replay import Diverged, ReplayPlan, boundary, open_store, record, replay
from otel_replay.envelope import Recording
from otel_replay.errors import OtelReplayError
from otel_replay.replay.plan import OnDrift
from otel_replay.replay.report import EXIT_DIVERGED, EXIT_OK, EXIT_PASSED_ON_DRIFT, Report, exit_code_of

from .conftest import Lab
from .scenes import calls

Agent: TypeAlias = Callable[[], Any]
ON_DRIFT: tuple[OnDrift, ...] = ("fail", "live", "serve")
version = 1


@boundary("start", kind="model")
def start(question: str) -> dict[str, Any]:
    calls.append("start")
    return {"id": f"chatcmpl-{len(calls)}00000{version}", "content": f"answer {version}"}


@boundary("step", kind="tool")
def step(word: str) -> str:
    calls.append(f"step {word}")
    return word.upper()


@boundary("last", kind="tool")
def last(word: str) -> str:
    calls.append(f"last {word}")
    return word.upper()


@boundary("pay", kind="tool", side_effects=True)
def pay(amount: int) -> str:
    calls.append(f"pay {amount}")
    return f"paid {amount}"


def walk(*steps: Callable[[], Any]) -> Agent:
    """Return an agent that starts and then takes `steps`, whatever they raise: the fault must show all the same."""

    def agent() -> list[Any]:
        found: list[Any] = []
        for one in (lambda: start("?")["content"], *steps):
            try:
                found.append(one())
            except OtelReplayError as fault:
                found.append(fault)
        return found

    return agent


def a() -> str:
    return step("a")


def b() -> str:
    return step("b")


def c() -> str:
    return step("c")


def z() -> str:
    return last("z")


RECORDED = walk(a, b, z)
INPUT = walk(a, lambda: step("b2"), z)
MORE = walk(a, b, lambda: step("x"), z)
MORE_OF_ANOTHER_NAME = walk(a, lambda: last("y"), b, z)
FEWER = walk(a, b)
FEWER_INSIDE = walk(b, z)
SWAPPED = walk(b, a, z)


def stub_all(on_drift: OnDrift) -> ReplayPlan:
    return ReplayPlan(on_drift=on_drift)


def live_start(on_drift: OnDrift) -> ReplayPlan:
    return ReplayPlan(on_drift=on_drift).live("start", 1)


def other_start(on_drift: OnDrift) -> ReplayPlan:
    return ReplayPlan(on_drift=on_drift).override("start", 1, {"id": "chatcmpl-9", "content": "answer 9"})


def same_start(on_drift: OnDrift) -> ReplayPlan:
    return ReplayPlan(on_drift=on_drift).override("start", 1, {"id": "chatcmpl-9", "content": "answer 1"})


NOT_FREE = [
    pytest.param(stub_all, 1, id="all served"),
    pytest.param(stub_all, 2, id="all served, though the code would differ"),
    pytest.param(live_start, 1, id="live, the same words under a new id"),
    pytest.param(same_start, 1, id="overridden with the same words"),
]
FREE = [
    pytest.param(live_start, 2, id="follows a live difference"),
    pytest.param(other_start, 1, id="follows an override"),
]
not_free = pytest.mark.parametrize(("plan", "now"), NOT_FREE)
free = pytest.mark.parametrize(("plan", "now"), FREE)
each_on_drift = pytest.mark.parametrize("on_drift", ON_DRIFT)


@functools.cache
def recording_of(agent: Agent) -> Recording:
    """Return the recording of `agent`, made once: each cell begins from the same one."""
    with tempfile.TemporaryDirectory() as store:
        with record("run", store=store, strict=True) as run:
            agent()
        with open_store(store) as opened:
            return opened.recording(run.id)


class Seen:
    """What a replay came to: what the agent got, the fault that left the `with`, the report, what really ran."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Agent, plan: ReplayPlan, now: int) -> None:
        recording = recording_of(RECORDED)
        calls.clear()
        monkeypatch.setitem(globals(), "version", now)
        self.fault: OtelReplayError | None = None
        self.got: list[Any] = []
        session = replay(recording, plan, store=lab.store)
        try:
            with session:
                self.got = agent()
        except OtelReplayError as fault:
            self.fault = fault
        self.report: Report = session.report
        self.ran = [call for call in calls if call != "start"]

    def section(self, name: str) -> list[str]:
        return [line.address for line in self.report.lines if line.section == name]

    def must_diverge(self, cause: str, *, at: int) -> None:
        """The fault is named and latched: from crossing `at` on everything raised it, and nothing ran."""
        assert isinstance(self.fault, Diverged)
        assert self.fault.cause == self.report.cause == cause
        assert all(got is self.fault for got in self.got[at:])
        assert not any(isinstance(got, Exception) for got in self.got[:at])
        assert self.ran == []
        assert self.report.verdict == "diverged"
        assert self.report.error == str(self.fault)
        assert self.report.exit_code() == exit_code_of(self.fault) == EXIT_DIVERGED
        assert "Next: " in str(self.fault)
        assert self.report.next_steps

    def must_pass(self, verdict: str = "passed") -> None:
        assert self.fault is None
        assert self.report.verdict == verdict
        drifted = verdict == "passed on drift"
        assert self.report.exit_code() == EXIT_OK
        assert self.report.exit_code(strict=True) == (EXIT_PASSED_ON_DRIFT if drifted else EXIT_OK)
        assert f": {verdict.upper()}\n" in self.report.text()
        assert f'"verdict": "{verdict}"' in self.report.json()
        assert ('value="passed on drift"' in self.report.junit()) is drifted
        assert 'failures="0"' in self.report.junit()
