"""Drift has a cause: each cell of the table, and its neighbour that must not trigger.

| | not free | free |
| input drifted | raises, nothing is served, nothing shifts | fail, live, serve |
| one more than recorded | raises | fail, live, serve (there is nothing to serve: raises) |
| one fewer | raises at the end | not reached, no fault |
| order swapped | raises | reported |
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from otel_replay import Diverged, ReplayPlan, boundary, open_store, record, replay
from otel_replay.envelope import Recording
from otel_replay.errors import OtelReplayError, SideEffectBlocked
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


# Input drifted -------------------------------------------------------------------------------------------------


@not_free
@each_on_drift
def test_input_drifted_not_free_raises(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, INPUT, plan(on_drift), now)
    seen.must_diverge("input drifted", at=2)
    assert "args.word recorded 'b', now 'b2'" in str(seen.fault)
    assert seen.got[1] == "A"
    assert set(seen.section("unused")) == {"step[2]", "last[1]"}, "nothing shifted"


@not_free
@each_on_drift
def test_equal_input_not_free_is_served(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, RECORDED, plan(on_drift), now)
    seen.must_pass()
    assert seen.got[1:] == ["A", "B", "Z"]
    assert seen.ran == seen.section("drifted") == []


@free
def test_input_drifted_free_fails_by_default(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int) -> None:
    seen = Seen(lab, monkeypatch, INPUT, plan("fail"), now)
    seen.must_diverge("input drifted", at=2)
    assert "on_drift is 'fail'" in str(seen.fault)


@free
def test_input_drifted_free_runs_live(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int) -> None:
    seen = Seen(lab, monkeypatch, INPUT, plan("live"), now)
    seen.must_pass()
    assert seen.got[1:] == ["A", "B2", "Z"]
    assert seen.ran == ["step b2"]
    assert "step[2]" in seen.section("live")
    assert seen.section("drifted") == ["step[2]"]


@free
def test_input_drifted_free_is_served_and_said(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int) -> None:
    seen = Seen(lab, monkeypatch, INPUT, plan("serve"), now)
    seen.must_pass("passed on drift")
    assert seen.got[1:] == ["A", "B", "Z"]
    assert seen.ran == []
    assert seen.section("drifted") == ["step[2]"]
    (line,) = (line for line in seen.report.lines if line.section == "drifted")
    assert [(change.path, change.recorded, change.now) for change in line.fields] == [("$.word", "b", "b2")]


@free
@pytest.mark.parametrize(("named", "served"), [(("step", 2), True), (("step[2]", None), True), (("step", None), False)])
def test_a_crossing_stubbed_by_its_own_address_is_served(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, named: tuple[str, int | None], served: bool
) -> None:
    seen = Seen(lab, monkeypatch, INPUT, plan("fail").stub(*named), now)
    if served:
        seen.must_pass("passed on drift")
    else:
        seen.must_diverge("input drifted", at=2)


@not_free
def test_its_own_address_excuses_nothing_where_it_is_not_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int
) -> None:
    Seen(lab, monkeypatch, INPUT, plan("serve").stub("step", 2), now).must_diverge("input drifted", at=2)


# One more than recorded ----------------------------------------------------------------------------------------


@not_free
@each_on_drift
def test_one_more_not_free_raises(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, MORE, plan(on_drift), now)
    seen.must_diverge("one more than recorded", at=3)
    assert "'step' was recorded 2 time(s) and is crossed once more" in str(seen.fault)


@free
@pytest.mark.parametrize("on_drift", ["fail", "serve"])
def test_one_more_free_raises_where_it_may_not_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    Seen(lab, monkeypatch, MORE, plan(on_drift), now).must_diverge("one more than recorded", at=3)


@free
@pytest.mark.parametrize(
    ("agent", "extra", "ran"), [(MORE, "step[3]", "step x"), (MORE_OF_ANOTHER_NAME, "last[1]", "last y")]
)
def test_one_more_free_runs_live_and_shifts_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, agent: Agent, extra: str, ran: str
) -> None:
    seen = Seen(lab, monkeypatch, agent, plan("live"), now)
    seen.must_pass()
    assert seen.ran == [ran]
    assert seen.section("extra") == [extra]
    assert seen.got[-1] == "Z"
    assert seen.section("unused") == seen.section("not reached") == []


def test_as_many_as_recorded_is_no_extra(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(lab, monkeypatch, RECORDED, live_start("live"), 2)
    seen.must_pass()
    assert seen.ran == seen.section("extra") == []


# One fewer -----------------------------------------------------------------------------------------------------


@not_free
@each_on_drift
def test_one_fewer_not_free_raises_at_the_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, FEWER, plan(on_drift), now)
    seen.must_diverge("one fewer than recorded", at=3)
    assert seen.got[1:] == ["A", "B"], "only the end can tell"
    assert seen.section("unused") == ["last[1]"]


@not_free
def test_one_fewer_inside_not_free_raises_where_the_next_one_comes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int
) -> None:
    Seen(lab, monkeypatch, FEWER_INSIDE, plan("fail"), now).must_diverge("order swapped", at=1)


@free
@each_on_drift
@pytest.mark.parametrize(("agent", "left"), [(FEWER, ["last[1]"]), (FEWER_INSIDE, ["step[1]"])])
def test_one_fewer_free_is_not_reached(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    plan: Any,
    now: int,
    on_drift: OnDrift,
    agent: Agent,
    left: list[str],
) -> None:
    seen = Seen(lab, monkeypatch, agent, plan(on_drift), now)
    seen.must_pass()
    assert seen.section("not reached") == left
    assert seen.section("unused") == seen.ran == []


# Order swapped -------------------------------------------------------------------------------------------------


@not_free
@each_on_drift
def test_order_swapped_not_free_raises(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, SWAPPED, plan(on_drift), now)
    seen.must_diverge("order swapped", at=1)
    assert "step[2]" in str(seen.fault)


@free
@each_on_drift
def test_order_swapped_free_is_reported(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int, on_drift: OnDrift
) -> None:
    seen = Seen(lab, monkeypatch, SWAPPED, plan(on_drift), now)
    seen.must_pass()
    assert seen.got[1:] == ["B", "A", "Z"]
    assert seen.ran == []
    assert seen.section("reordered"), "said, though no fault"
    assert seen.section("not reached") == seen.section("unused") == []


@free
def test_the_recorded_order_reports_no_swap(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: Any, now: int) -> None:
    seen = Seen(lab, monkeypatch, RECORDED, plan("fail"), now)
    seen.must_pass()
    assert seen.section("reordered") == []


# Hybrid --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "got", "ran"),
    [
        (INPUT, ["A", "B2", "Z"], ["step b2"]),
        (MORE, ["A", "B", "X", "Z"], ["step x"]),
        (FEWER, ["A", "B"], []),
        (FEWER_INSIDE, ["B", "Z"], []),
    ],
)
def test_hybrid_runs_what_the_record_lacks(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Agent, got: list[str], ran: list[str]
) -> None:
    seen = Seen(lab, monkeypatch, agent, ReplayPlan(hybrid=True), 1)
    seen.must_pass()
    assert seen.got[1:] == got
    assert seen.ran == ran


# Side effects --------------------------------------------------------------------------------------------------

PAYING = walk(a, b, lambda: pay(5), z)


@pytest.mark.parametrize("plan", [live_start("live"), ReplayPlan(hybrid=True)], ids=["on_drift live", "hybrid"])
def test_drift_never_falls_live_into_side_effects(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: ReplayPlan) -> None:
    seen = Seen(lab, monkeypatch, PAYING, plan, 2)
    assert isinstance(seen.fault, SideEffectBlocked)
    assert all(got is seen.fault for got in seen.got[3:])
    assert seen.ran == []
    assert (seen.report.verdict, seen.report.exit_code()) == ("diverged", EXIT_DIVERGED)
    assert '--live "pay[1]"' in str(seen.fault)


@pytest.mark.parametrize("plan", [live_start("live"), ReplayPlan(hybrid=True)], ids=["on_drift live", "hybrid"])
def test_named_as_new_it_runs(lab: Lab, monkeypatch: pytest.MonkeyPatch, plan: ReplayPlan) -> None:
    seen = Seen(lab, monkeypatch, PAYING, plan.new("pay"), 2)
    seen.must_pass()
    assert seen.ran == ["pay 5"]
    assert seen.section("new") == ["pay[1]"]


@each_on_drift
def test_recorded_side_effects_are_served_on_drift_or_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, on_drift: OnDrift
) -> None:
    monkeypatch.setitem(globals(), "RECORDED", PAYING)
    seen = Seen(lab, monkeypatch, walk(a, b, lambda: pay(6), z), live_start(on_drift), 2)
    assert seen.ran == []
    if on_drift == "serve":
        seen.must_pass("passed on drift")
        assert seen.got[3] == "paid 5"
    else:
        assert isinstance(seen.fault, SideEffectBlocked if on_drift == "live" else Diverged)
