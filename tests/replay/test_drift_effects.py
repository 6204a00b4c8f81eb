"""Drift beside a hybrid plan, and boundaries with side effects: what never runs because something drifted."""

from __future__ import annotations

import pytest

from otel_replay import Diverged, ReplayPlan
from otel_replay.errors import SideEffectBlocked
from otel_replay.replay.plan import OnDrift
from otel_replay.replay.report import EXIT_DIVERGED

from . import drift_scenes
from .conftest import Lab
from .drift_scenes import FEWER, FEWER_INSIDE, INPUT, MORE, Agent, Seen, a, b, each_on_drift, live_start, pay, walk, z

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
    monkeypatch.setattr(drift_scenes, "RECORDED", PAYING)
    seen = Seen(lab, monkeypatch, walk(a, b, lambda: pay(6), z), live_start(on_drift), 2)
    assert seen.ran == []
    if on_drift == "serve":
        seen.must_pass("passed on drift")
        assert seen.got[3] == "paid 5"
    else:
        assert isinstance(seen.fault, SideEffectBlocked if on_drift == "live" else Diverged)
