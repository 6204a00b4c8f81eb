"""Drift has a cause: each cell of the table, and its neighbour that must not trigger.

| | not free | free |
| input drifted | raises, nothing is served, nothing shifts | fail, live, serve |
| one more than recorded | raises | fail, live, serve (there is nothing to serve: raises) |
| one fewer | raises at the end | not reached, no fault |
| order swapped | raises | reported |
"""

from __future__ import annotations

from typing import Any

import pytest

from otel_replay.replay.plan import OnDrift

from .conftest import Lab
from .drift_scenes import (
    FEWER,
    FEWER_INSIDE,
    INPUT,
    MORE,
    MORE_OF_ANOTHER_NAME,
    RECORDED,
    SWAPPED,
    Agent,
    Seen,
    each_on_drift,
    free,
    live_start,
    not_free,
)

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
