"""What tells a right matcher from a plausible one: each scenario with coroutines, and with threads where it applies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan, boundary
from otel_replay.errors import NotCaptured, PlaceholderReachedLive, SideEffectBlocked, UnknownBoundary

from .conftest import Lab

calls: list[str] = []


@boundary("model", kind="model")
async def model(prompt: str, delay: float = 0.0) -> str:
    calls.append(f"model {prompt}")
    await asyncio.sleep(delay)
    return prompt.upper()


@boundary("search", kind="tool")
async def search(query: str, delay: float = 0.0) -> list[str]:
    calls.append(f"search {query}")
    await asyncio.sleep(delay)
    return [query, query[::-1]]


@boundary("search", kind="tool")
def search_blocking(query: str, delay: float = 0.0) -> list[str]:
    calls.append(f"search {query}")
    time.sleep(delay)
    return [query, query[::-1]]


@boundary("model", kind="model")
def model_blocking(prompt: str, delay: float = 0.0) -> str:
    calls.append(f"model {prompt}")
    time.sleep(delay)
    return prompt.upper()


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


# 1. Two sub-agents ---------------------------------------------------------------------------------------------


def two_sub_agents() -> Any:
    async def sub_agent(name: str, delay: float) -> list[str]:
        answer = await model(f"{name} plan", delay)
        return await search(answer, delay)

    async def main() -> Any:
        return await asyncio.gather(sub_agent("a", 0.02), sub_agent("b", 0.001))

    return asyncio.run(main())


def two_sub_agents_in_threads() -> Any:
    def sub_agent(name: str, delay: float) -> list[str]:
        return search_blocking(model_blocking(f"{name} plan", delay), delay)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(sub_agent, ["a", "b"], [0.02, 0.001]))


@pytest.mark.parametrize("agent", [two_sub_agents, two_sub_agents_in_threads])
def test_01_two_sub_agents_are_served_whoever_was_faster(lab: Lab, agent: Callable[[], Any]) -> None:
    recorded = lab.record(agent)
    calls.clear()
    for _ in range(30):
        answer, session = lab.replay(agent)
        assert answer == recorded
        assert session.report.count("served") == 4
    assert calls == []


# 2. Order of arrival -------------------------------------------------------------------------------------------


def ranked_by_arrival() -> Any:
    async def main() -> Any:
        tasks = [asyncio.create_task(search("slow", 0.03)), asyncio.create_task(search("fast", 0.001))]
        return [(await first)[0] for first in asyncio.as_completed(tasks)]

    return asyncio.run(main())


def ranked_in_threads() -> Any:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(search_blocking, "slow", 0.05), pool.submit(search_blocking, "fast", 0.001)]
        return [job.result()[0] for job in as_completed(jobs)]


@pytest.mark.parametrize("agent", [ranked_by_arrival, ranked_in_threads])
def test_02_answers_arrive_in_recorded_order(lab: Lab, agent: Callable[[], Any]) -> None:
    assert lab.record(agent) == ["fast", "slow"]
    for _ in range(30):
        assert lab.replay(agent)[0] == ["fast", "slow"]


def test_02_a_cancelled_loser_stays_suspended_until_the_agent_cancels_it(lab: Lab) -> None:
    def agent() -> Any:
        async def main() -> Any:
            tasks = {asyncio.create_task(search("slow", 5.0)), asyncio.create_task(search("fast", 0.001))}
            done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in losers:
                task.cancel()
            await asyncio.gather(*losers, return_exceptions=True)
            return [task.result()[0] for task in done], [task.cancelled() for task in losers]

        return asyncio.run(main())

    assert lab.record(agent) == (["fast"], [True])
    for _ in range(10):
        assert lab.replay(agent)[0] == (["fast"], [True])


# 3. The guard that stops ---------------------------------------------------------------------------------------

guarded = False


@boundary("agent", kind="model")
def agent_turn(history: list[Any]) -> str:
    calls.append("agent")
    if history and "'blocked': True" in str(history[-1]):
        return "stop"
    return f"turn {len(history)}"


@boundary("order", kind="tool", side_effects=True)
def order(quantity: int) -> dict[str, Any]:
    calls.append("order")
    if guarded:
        return {"blocked": True}
    return {"blocked": False, "quantity": quantity}


@boundary("email", kind="tool", side_effects=True)
def email(text: str) -> str:
    calls.append("email")
    return f"sent {text}"


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
    monkeypatch.setitem(globals(), "guarded", True)
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


@boundary("audit", kind="tool")
def audit(quantity: int) -> str:
    calls.append("audit")
    return f"audited {quantity}"


@boundary("tools", kind="router")
def tools_node(quantity: int) -> Any:
    calls.append("tools")
    return [audit(quantity), order(quantity)]


def test_05_a_live_child_opens_its_parent(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record(lambda: tools_node(5))
    calls.clear()
    monkeypatch.setitem(globals(), "guarded", True)
    with lab.session(ReplayPlan().live("order", 1)) as session:
        assert tools_node(5) == ["audited 5", {"blocked": True}]
        assert session.captured_result("tools[1]/order[1]") == {"blocked": True}
        with pytest.raises(NotCaptured, match="email"):
            session.captured_result("email", 1)
    assert calls == ["tools", "order"]
    assert session.report.count("opened") == 1


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


@boundary("lookup", kind="tool")
def lookup(number: int) -> str:
    calls.append(f"lookup {number}")
    return f"customer {number}"


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


# 8. Parallel drift ---------------------------------------------------------------------------------------------


@boundary("start", kind="tool")
def start(version: int) -> int:
    return version


def booking(first: str, second: str, version: int) -> Callable[[], Any]:
    def agent() -> Any:
        async def main() -> Any:
            start(version)
            return await asyncio.gather(search(first), search(second))

        return asyncio.run(main())

    return agent


def booking_in_threads(first: str, second: str, version: int) -> Callable[[], Any]:
    def agent() -> Any:
        start(version)
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(search_blocking, [first, second]))

    return agent


@pytest.mark.parametrize("make", [booking, booking_in_threads])
def test_08_in_parallel_a_drift_is_served_only_where_one_strand_is_left(lab: Lab, make: Any) -> None:
    lab.record(make("flights", "hotels", 1))
    monkey = ReplayPlan(on_drift="serve").override("start", 1, 2)
    with lab.session(monkey) as session:
        assert make("hotels in Rome", "flights", 1)() == [["hotels", "sletoh"], ["flights", "sthgilf"]]
    assert session.report.verdict == "passed on drift"
    with pytest.raises(Diverged, match="would be a guess"), lab.session(monkey):
        make("hotels in Rome", "flights at dawn", 1)()


def test_08_without_a_cause_parallel_drift_raises(lab: Lab) -> None:
    lab.record(booking("flights", "hotels", 1))
    with pytest.raises(Diverged, match="hotels"), lab.session(ReplayPlan(on_drift="serve")):
        booking("flights", "hotels in Rome", 1)()


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


# 14. Sequential after parallel ---------------------------------------------------------------------------------


def in_parallel() -> Any:
    async def main() -> Any:
        return await asyncio.gather(search("flights", 0.002), search("hotels"))

    return asyncio.run(main())


def in_sequence() -> Any:
    async def main() -> Any:
        return [await search("flights", 0.002), await search("hotels")]

    return asyncio.run(main())


def threads_in_parallel() -> Any:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(search_blocking, ["flights", "hotels"], [0.002, 0.0]))


def threads_in_sequence() -> Any:
    return [search_blocking("flights", 0.002), search_blocking("hotels", 0.0)]


@pytest.mark.parametrize(
    ("parallel", "sequence"), [(in_parallel, in_sequence), (threads_in_parallel, threads_in_sequence)]
)
def test_14_what_ran_side_by_side_may_be_awaited_in_turn_but_not_the_other_way_round(
    lab: Lab, parallel: Callable[[], Any], sequence: Callable[[], Any]
) -> None:
    recorded = lab.record(parallel, "parallel")
    assert lab.replay(sequence, name="parallel")[0] == recorded
    lab.record(sequence, "sequence")
    for _ in range(5):
        with pytest.raises(Diverged, match="recorded one after the other"), lab.session(name="sequence"):
            parallel()


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
