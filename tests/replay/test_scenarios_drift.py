"""What follows a difference, and what no difference excuses: drift, inserted calls, equal calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan, boundary

from .conftest import Lab
from .scenes import agent_turn, audit, calls, lookup, model, model_blocking, start

# 6. New words inside the live parent ---------------------------------------------------------------------------

wording = "old words"


@boundary("plan", kind="router")
def plan_step(task: str) -> str:
    return model_blocking(f"{wording}: {task}")


@pytest.mark.parametrize(
    ("on_drift", "answer", "verdict"),
    [("live", "NEW WORDS: X", "passed"), ("serve", "OLD WORDS: X", "passed on drift")],
)
def test_06_a_reworded_prompt_inside_a_live_parent_is_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, on_drift: Any, answer: str, verdict: str
) -> None:
    lab.record(lambda: plan_step("x"))
    monkeypatch.setitem(globals(), "wording", "new words")
    with lab.session(ReplayPlan(on_drift=on_drift).live("plan", 1)) as session:
        assert plan_step("x") == answer
    assert session.report.verdict == verdict


def test_06_by_default_the_drift_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record(lambda: plan_step("x"))
    monkeypatch.setitem(globals(), "wording", "new words")
    with pytest.raises(Diverged, match="old words.*new words"), lab.session(ReplayPlan().live("plan", 1)):
        plan_step("x")


# 7. Harmless difference, real bug ------------------------------------------------------------------------------

answers = 0


@boundary("model", kind="model")
def answering(prompt: str) -> dict[str, Any]:
    global answers
    answers += 1
    return {
        "id": f"chatcmpl-{answers}",
        "created": answers,
        "content": "look up 42",
        "usage": {"prompt_tokens": answers},
    }


def test_07_a_new_id_excuses_no_wrong_argument(lab: Lab) -> None:
    def agent(number: int) -> Any:
        return answering("who?")["content"], lookup(number)

    lab.record(lambda: agent(42))
    calls.clear()
    plan = ReplayPlan(on_drift="serve").live("model", 1).stub("lookup")
    with lab.session(plan):
        agent(42)
    with pytest.raises(Diverged, match="recorded 42, now 43") as caught, lab.session(plan):
        agent(43)
    assert caught.value.cause == "input drifted"
    assert calls == []


# 9. Hybrid insert ----------------------------------------------------------------------------------------------


def test_09_hybrid_runs_an_inserted_call_and_shifts_nothing(lab: Lab) -> None:
    lab.record(lambda: [lookup(1), audit(2)])
    calls.clear()
    with lab.session(ReplayPlan(hybrid=True)) as session:
        assert [lookup(1), lookup(9), audit(2)] == ["customer 1", "customer 9", "audited 2"]
    assert calls == ["lookup 9"]
    assert session.report.count("served") == 2


# 10. Swallowed -------------------------------------------------------------------------------------------------


def test_10_a_swallowed_divergence_is_still_reported(lab: Lab) -> None:
    def agent(number: int) -> Any:
        try:
            found = lookup(number)
        except Exception as fault:
            found = f"the tool failed: {fault}"
        try:
            return agent_turn([found])
        except Exception:
            return "went on"

    lab.record(lambda: agent(1))
    with pytest.raises(Diverged, match=r"lookup\[1\] diverged"), lab.session():
        assert agent(2) == "went on"
    assert calls == ["lookup 1", "agent"]


# 13. Equal calls -----------------------------------------------------------------------------------------------

tickets = iter(())


@boundary("poll", kind="tool")
def poll() -> str:
    return next(tickets)


def polling(times: int) -> Callable[[], Any]:
    return lambda: [poll() for _ in range(times)]


def test_13_equal_calls_are_served_in_order_and_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "tickets", iter("ABC"))
    lab.record(polling(3))
    assert lab.replay(polling(3))[0] == ["A", "B", "C"]
    with pytest.raises(Diverged, match=r"poll\[4\].*recorded 3 time"), lab.session():
        polling(4)()
    with pytest.raises(Diverged, match=r"1 recorded call\(s\) not used: poll\[3\]"), lab.session():
        assert polling(2)() == ["A", "B"]


# 15. Nested under drift ----------------------------------------------------------------------------------------


@boundary("outer", kind="router")
def outer(text: str, tail: str) -> str:
    return f"{text} {tail} {model_blocking(f'{text} {tail}')}"


tail = "old"


def test_15_what_follows_a_live_difference_is_free(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def agent() -> Any:
        first = outer("one", tail)
        return outer("two", first)

    lab.record(agent)
    monkeypatch.setitem(globals(), "tail", "new")
    plan = ReplayPlan(on_drift="live").live("outer", 1).live("outer", 2)
    with lab.session(plan) as session:
        assert agent().startswith("two one new")
    assert session.report.verdict == "passed"


def test_15_a_strand_begun_before_the_difference_is_not_free(lab: Lab) -> None:
    version = ["old"]

    def agent() -> Any:
        async def early(gate: asyncio.Event) -> Any:
            await model("early 1")
            await gate.wait()
            return await model(f"early {version[0]}")

        async def main() -> Any:
            gate = asyncio.Event()
            task = asyncio.create_task(early(gate))
            await asyncio.sleep(0.01)
            start(2 if version[0] == "new" else 1)
            gate.set()
            return await task

        return asyncio.run(main())

    lab.record(agent)
    version[0] = "new"
    plan = ReplayPlan(on_drift="live").live("start", 1)
    with pytest.raises(Diverged, match="early old.*early new"), lab.session(plan):
        agent()
