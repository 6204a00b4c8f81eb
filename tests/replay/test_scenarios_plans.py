"""What a plan runs live and what it must not: guards, added calls, opened parents, secrets, side effects."""

from __future__ import annotations

from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan, boundary
from otel_replay.errors import NotCaptured, PlaceholderReachedLive, SideEffectBlocked, UnknownBoundary

from . import scenes
from .conftest import Lab
from .scenes import agent_turn, audit, calls, email, order

# 3. The guard that stops ---------------------------------------------------------------------------------------


def ordering() -> Any:
    history: list[Any] = []
    history.append(agent_turn(list(history)))
    history.append(order(5))
    history.append(agent_turn(list(history)))
    if history[-1] == "stop":
        return history
    history.append(email("done"))
    history.append(agent_turn(list(history)))
    return history


def test_03_a_guard_that_ends_the_run_early_is_green(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record(ordering)
    monkeypatch.setattr(scenes, "guarded", True)
    plan = ReplayPlan().live("order", 1).live("agent", 2)
    with lab.session(plan) as session:
        assert ordering()[-1] == "stop"
        assert session.captured_result("order", 1) == {"blocked": True}
    assert session.report.verdict == "passed"
    assert [line.address for line in session.report.lines if line.section == "not reached"] == ["email[1]", "agent[3]"]


# 4. The fix adds a call ----------------------------------------------------------------------------------------


@boundary("check_limit", kind="tool")
def check_limit(quantity: int) -> bool:
    calls.append("check_limit")
    return quantity < 3


@boundary("order", kind="tool", side_effects=True)
def checked_order(quantity: int) -> dict[str, Any]:
    calls.append("order")
    return {"blocked": not check_limit(quantity)}


def checked_ordering() -> Any:
    return [agent_turn([]), checked_order(5)]


def plain_ordering() -> Any:
    return [agent_turn([]), order(5)]


def test_04_an_added_call_is_named_or_let_in(lab: Lab) -> None:
    lab.record(plain_ordering)
    plan = ReplayPlan().live("order", 1)
    with pytest.raises(Diverged, match="check_limit") as caught, lab.session(plan):
        checked_ordering()
    assert caught.value.cause == "one more than recorded"
    with lab.session(plan.new("check_limit")) as session:
        assert checked_ordering()[1] == {"blocked": True}
        assert session.captured_result("check_limit", 1) is False
    assert session.report.count("new") == 1


@pytest.mark.parametrize("plan", [ReplayPlan().live("ordr"), ReplayPlan().live("order", 1).live("agnet", 1)])
def test_04_a_misspelt_name_is_answered_with_the_nearest(lab: Lab, plan: ReplayPlan) -> None:
    lab.record(plain_ordering)
    with pytest.raises(UnknownBoundary, match=r"did you mean '(order|agent)'"), lab.session(plan):
        plain_ordering()


def test_04_a_misspelt_new_is_answered_with_the_nearest(lab: Lab) -> None:
    lab.record(plain_ordering)
    with pytest.raises((UnknownBoundary, Diverged), match="did you mean 'chek_limit'"):
        with lab.session(ReplayPlan().live("order", 1).new("chek_limit")):
            checked_ordering()
    with pytest.raises(UnknownBoundary, match="did you mean 'order'"):
        with lab.session(ReplayPlan().live("order", 1).new("ordr")):
            plain_ordering()


# 5. Live child, stubbed parent ---------------------------------------------------------------------------------


@boundary("tools", kind="router")
def tools_node(quantity: int) -> Any:
    calls.append("tools")
    return [audit(quantity), order(quantity)]


def test_05_a_live_child_opens_its_parent(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record(lambda: tools_node(5))
    calls.clear()
    monkeypatch.setattr(scenes, "guarded", True)
    with lab.session(ReplayPlan().live("order", 1)) as session:
        assert tools_node(5) == ["audited 5", {"blocked": True}]
        assert session.captured_result("tools[1]/order[1]") == {"blocked": True}
        with pytest.raises(NotCaptured, match="email"):
            session.captured_result("email", 1)
    assert calls == ["tools", "order"]
    assert session.report.count("opened") == 1


# 12. Redacted argument -----------------------------------------------------------------------------------------


@boundary("login", kind="tool")
def login(user: str) -> dict[str, str]:
    return {"access_token": "sk-proj-Zx8Kq2mVb7Wn4Rt6Yp1Lc3Hd5Jf9Gs0AaBbCcDdEeFf"}


@boundary("spend", kind="tool")
def spend(token: str) -> str:
    calls.append("spend")
    return "spent"


def test_12_a_placeholder_never_reaches_a_live_call(lab: Lab) -> None:
    def agent() -> Any:
        return spend(login("ann")["access_token"])

    lab.record(agent)
    assert lab.replay(agent)[0] == "spent"
    calls.clear()
    with pytest.raises(PlaceholderReachedLive, match=r"token.*Ways out"), lab.session(ReplayPlan().live("spend", 1)):
        agent()
    assert calls == []


# 16. Side effect behind a door ---------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [ReplayPlan(hybrid=True), ReplayPlan(on_drift="live").live("agent", 1)])
def test_16_side_effects_run_only_where_the_plan_names_them(lab: Lab, plan: ReplayPlan) -> None:
    def agent(quantity: int) -> Any:
        return agent_turn([quantity]), order(quantity)

    lab.record(lambda: agent(1))
    calls.clear()
    with pytest.raises((SideEffectBlocked, Diverged), match="order"), lab.session(plan):
        agent(2)
    assert "order" not in calls


def test_16_named_it_runs(lab: Lab) -> None:
    lab.record(lambda: order(1))
    calls.clear()
    with lab.session(ReplayPlan().live("order", 1)):
        order(2)
    assert calls == ["order"]
