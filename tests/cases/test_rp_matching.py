"""Which recorded call answers which: misses, equal calls, parallel order, volatile fields, new ids, edited prompts."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from otel_replay import Diverged, ReplayPlan, boundary, instrument, record, replay
from otel_replay.errors import UnknownBoundary
from otel_replay.replay.report import EXIT_DIVERGED, EXIT_OK, EXIT_PASSED_ON_DRIFT
from otel_replay.testing import ModelServer, Request, reply
from otel_replay.testing.reply import Reply

from .clients import SHARED, openai_of
from .conftest import Lab

calls: list[Any] = []
answers: list[Any] = []
OWN = Path(__file__).parents[1] / "fingerprint" / "cases"
folders = pytest.mark.parametrize("folder", [f for f in (OWN, SHARED) if f.is_dir()], ids=lambda f: f.parent.name)


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()
    answers.clear()


@boundary("chat", kind="model")
def chat(prompt: object) -> Any:
    calls.append(prompt)
    return answers.pop(0)


@boundary("pop_ticket", kind="tool")
def pop_ticket(queue: str) -> str:
    calls.append(queue)
    return str(answers.pop(0))


# RP-01 ---------------------------------------------------------------------------------------------------------
def test_rp_01_a_miss_is_answered_with_nothing(lab: Lab) -> None:
    answers[:] = ["1", "2"]
    lab.record(lambda: [chat("A"), chat("B")])
    calls.clear()
    got: list[object] = []

    def changed() -> None:
        for prompt in ("A2", "B"):
            try:
                got.append(chat(prompt))
            except Diverged as fault:
                got.append(fault)

    with pytest.raises(Diverged) as caught, replay("run", store=lab.store) as session:
        changed()
    assert got == [caught.value, caught.value], "nothing is served after it either"
    assert "args.prompt recorded 'A', now 'A2'" in str(caught.value)
    assert (caught.value.details.nearest, caught.value.address) == ("chat[1]", "chat[1]")  # type: ignore[attr-defined]
    assert calls == []
    assert (session.report.verdict, session.report.exit_code()) == ("diverged", EXIT_DIVERGED)


def test_rp_01_loose_modes_are_asked_for_and_counted(lab: Lab) -> None:
    answers[:] = ["1", "2"]
    lab.record(lambda: [chat("A"), chat("B")])
    answers[:] = ["now"]
    with replay("run", ReplayPlan(hybrid=True), store=lab.store) as session:
        assert [chat("A2"), chat("B")] == ["now", "2"], "the second is not shifted"
    assert session.report.counts()["extra"] == 1
    with replay("run", ReplayPlan(on_drift="serve").changed("chat", 1), store=lab.store) as session:
        assert [chat("A2"), chat("B")] == ["1", "2"]
    assert session.report.counts()["drifted"] == 1
    assert session.report.verdict == "passed on drift"


# RP-02 ---------------------------------------------------------------------------------------------------------
def test_rp_02_equal_calls_have_their_own_answers(lab: Lab) -> None:
    answers[:] = ["A", "B", "C"]
    lab.record(lambda: [pop_ticket("q") for _at in range(3)])
    assert lab.replay(lambda: [pop_ticket("q") for _at in range(3)]) == ["A", "B", "C"]
    got: list[str] = []
    with pytest.raises(Diverged, match=r"pop_ticket\[4\].*recorded 3 time\(s\)"), replay("run", store=lab.store):
        got.extend(pop_ticket("q") for _at in range(4))
    assert got == ["A", "B", "C"], "never C again"
    with pytest.raises(Diverged, match=r"1 recorded call\(s\) not used: pop_ticket\[3\]"):
        with replay("run", store=lab.store) as session:
            assert [pop_ticket("q"), pop_ticket("q")] == ["A", "B"]
    assert session.report.counts() == {"served": 2, "unused": 1}
    answers[:] = ["D"]
    with replay("run", ReplayPlan().new("pop_ticket"), store=lab.store) as session:
        assert [pop_ticket("q") for _at in range(4)] == ["A", "B", "C", "D"], "a repeat may run where that is said"
    assert session.report.counts() == {"served": 3, "new": 1}


def test_rp_02_a_poll_may_be_asked_more_often_where_that_is_said(lab: Lab) -> None:
    answers[:] = ["A", "B", "C"]
    lab.record(lambda: [pop_ticket("q") for _at in range(3)])
    with pytest.raises(Diverged, match=r'--repeat "pop_ticket"'), replay("run", store=lab.store):
        _ = [pop_ticket("q") for _at in range(4)]
    with replay("run", ReplayPlan().repeat("pop_ticket"), store=lab.store) as session:
        assert [pop_ticket("q") for _at in range(5)] == ["A", "B", "C", "C", "C"]
    assert session.report.counts() == {"served": 3, "repeated": 2}
    assert "pop_ticket[3]" in session.report.text()
    with pytest.raises(Diverged, match="queue"), replay("run", ReplayPlan().repeat("pop_ticket"), store=lab.store):
        pop_ticket("r")  # another input is no repetition
    with pytest.raises(UnknownBoundary, match="did you mean 'pop_ticket'"):
        replay("run", ReplayPlan().repeat("pop_tickets"), store=lab.store)


def test_rp_02_a_repetition_shifts_nothing_that_comes_after(lab: Lab) -> None:
    answers[:] = ["A", "B", "C"]
    lab.record(lambda: [pop_ticket("q"), pop_ticket("r"), pop_ticket("q")])
    with replay("run", ReplayPlan().repeat("pop_ticket"), store=lab.store) as session:
        got = [pop_ticket(queue) for queue in ("q", "r", "r", "q", "q")]
    assert got == ["A", "B", "B", "C", "C"]
    assert session.report.counts() == {"served": 3, "repeated": 2}
    answers[:] = ["new A"]
    with replay("run", ReplayPlan().live("pop_ticket", 1).repeat("pop_ticket"), store=lab.store) as session:
        assert [pop_ticket(queue) for queue in ("q", "r", "q", "q")] == ["new A", "B", "C", "C"]
    assert session.report.counts() == {"live": 1, "served": 2, "repeated": 1}


# RP-03 ---------------------------------------------------------------------------------------------------------
order_of_ends: list[str] = []


@boundary("search", kind="tool")
async def search(what: str, number: int) -> str:
    await asyncio.sleep(0.01 * number)
    return f"{what} {number}"


def searching(wishes: list[tuple[str, int]]) -> Callable[[], list[str]]:
    async def one(what: str, number: int) -> str:
        found = await search(what, number)
        order_of_ends.append(found)
        return found

    async def main() -> list[str]:
        return list(await asyncio.gather(*[one(*wish) for wish in wishes]))

    return lambda: asyncio.run(main())


def test_rp_03_parallel_calls_are_matched_by_content_and_end_as_recorded(lab: Lab) -> None:
    wishes = [("flights", 2), ("hotels", 1), ("flights", 3)]
    order_of_ends.clear()
    lab.record(searching(wishes))
    assert order_of_ends == ["hotels 1", "flights 2", "flights 3"]
    for turned in (wishes, wishes[::-1], [wishes[1], wishes[2], wishes[0]]):
        order_of_ends.clear()
        assert lab.replay(searching(turned)) == [f"{what} {number}" for what, number in turned]
        assert order_of_ends == ["hotels 1", "flights 2", "flights 3"]


def test_rp_03_equal_parallel_calls_by_their_occurrence(lab: Lab) -> None:
    answers[:] = ["one", "two", "three"]

    def agent() -> list[Any]:
        with ThreadPoolExecutor(1) as pool:
            return list(pool.map(pop_ticket, ["flights", "hotels", "flights"]))

    recorded = lab.record(agent)
    for _at in range(5):
        assert lab.replay(agent) == recorded


def test_rp_03_another_order_of_ends_finds_the_race(lab: Lab) -> None:
    wishes = [("flights", 3), ("hotels", 1), ("cars", 2)]
    order_of_ends.clear()
    lab.record(searching(wishes))
    recorded = list(order_of_ends)
    assert recorded == ["hotels 1", "cars 2", "flights 3"]
    seen = set()
    for seed in range(12):
        order_of_ends.clear()
        with replay("run", ReplayPlan(shuffle=seed), store=lab.store) as session:
            assert searching(wishes)() == ["flights 3", "hotels 1", "cars 2"], "each gets its own answer"
        seen.add(tuple(order_of_ends))
        assert any(note.startswith(f"shuffled by {seed}") for note in session.report.notes)
    assert len(seen) > 3
    order_of_ends.clear()
    lab.replay(searching(wishes))
    assert order_of_ends == recorded

    async def first_come(racy: bool) -> str:
        tasks = [asyncio.ensure_future(search(*wish)) for wish in wishes]
        first = await next(iter(asyncio.as_completed(tasks)))
        found = await asyncio.gather(*tasks)
        return first if racy else min(found)

    for racy in (True, False):
        with record("run", store=lab.store) as run:
            run.answer(asyncio.run(first_come(racy)))
        verdicts = set()
        for seed in range(8):
            try:
                with replay("run", ReplayPlan(shuffle=seed), store=lab.store) as session:
                    session.answer(asyncio.run(first_come(racy)))
            except Diverged as fault:
                verdicts.add(fault.cause)
            verdicts.add(session.report.verdict)
        assert verdicts == ({"passed", "diverged", "final answer differs"} if racy else {"passed"})


def test_rp_03_a_changed_order_of_calls_in_sequence_is_reported(lab: Lab) -> None:
    answers[:] = ["1", "2"]
    lab.record(lambda: [chat("A"), chat("B")])
    with pytest.raises(Diverged) as caught:
        lab.replay(lambda: [chat("B"), chat("A")])
    assert caught.value.cause == "order swapped"


# RP-04 ---------------------------------------------------------------------------------------------------------
@folders
@pytest.mark.parametrize("at", range(5))
def test_rp_04_volatile_fields(lab: Lab, folder: Path, at: int) -> None:
    case = json.loads((folder / "rp04_volatile_pairs.json").read_text())[at]

    def sending(**request: object) -> str:
        return "sent"

    names = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in case["recorded"]]
    sending.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    send = boundary("send", kind="tool")(sending)
    lab.record(lambda: send(**case["recorded"]))
    rules = "".join(f"{name} = {json.dumps(value)}\n" for name, value in case["policy"].items())
    Path("pyproject.toml").write_text(f"[tool.otel_replay.match]\n{rules}")
    if case["match"]:
        assert lab.replay(lambda: send(**case["now"])) == "sent", case["name"]
        return
    with pytest.raises(Diverged) as caught:
        lab.replay(lambda: send(**case["now"]))
    (field,) = caught.value.details.fields  # type: ignore[attr-defined]
    assert field.path in ("$.request_id", "$.order")
    assert "(1 of " in str(caught.value)


def test_rp_04_a_miss_suggests_the_rule_to_paste_and_the_rule_works(lab: Lab) -> None:
    answers[:] = ["ok"]
    one, two = ({"id": f"3f0c7f0e-8f0a-4f3b-9d4e-00000000000{n}", "q": "x"} for n in (1, 2))
    lab.record(lambda: chat(one))
    with pytest.raises(Diverged, match="looks like a uuid") as caught:
        lab.replay(lambda: chat(two))
    (rule,) = [step for step in caught.value.details.next_steps if "ignore" in step]  # type: ignore[attr-defined]
    pasted = rule.partition("[tool.otel_replay.match] ")[2]
    Path("pyproject.toml").write_text(f"[tool.otel_replay.match]\n{pasted}\n")
    assert lab.replay(lambda: chat(two)) == "ok"
    with pytest.raises(Diverged, match="args.prompt.q"):
        lab.replay(lambda: chat({**two, "q": "y"}))


# RP-05 ---------------------------------------------------------------------------------------------------------
@folders
@pytest.mark.parametrize(("now", "matches"), [("renamed_same_shape", True), ("results_swapped", False)])
def test_rp_05_the_history_after_a_live_call_holds_new_ids(lab: Lab, folder: Path, now: str, matches: bool) -> None:
    case = json.loads((folder / "rp05_tool_ids.json").read_text())

    @boundary("model", kind="model")
    def model(messages: list[Any]) -> Any:
        calls.append(len(messages))
        return answers.pop(0)

    def agent(history: list[Any]) -> Any:
        first = model([])
        return model([first, *history[1:]])

    answers[:] = [case["recorded"][0], {"text": "see call_aa2"}]
    lab.record(lambda: agent(case["recorded"]))
    answers[:] = [case[now][0]]
    plan = ReplayPlan().live("model", 1)
    if matches:
        assert lab.replay(lambda: agent(case[now]), plan) == {"text": "see call_zz8"}, "with the ids of this run"
        return
    with pytest.raises(Diverged) as caught:
        lab.replay(lambda: agent(case[now]), plan)
    assert caught.value.cause == "input drifted"


# RP-07 ---------------------------------------------------------------------------------------------------------
@folders
@pytest.mark.parametrize("at", range(9))
def test_rp_07_equal_requests_in_another_spelling(lab: Lab, folder: Path, at: int) -> None:
    name, one, two, expected = json.loads((folder / "rp07_canonical_pairs.json").read_text())[at]
    Path("pyproject.toml").write_text('[tool.otel_replay.match]\njson_fields = ["$.prompt.arguments"]\n')
    answers[:] = ["ok"]
    lab.record(lambda: chat(json.loads(one)))
    if expected.startswith("match") and name != "int or float":
        assert lab.replay(lambda: chat(json.loads(two))) == "ok", name
        return
    with pytest.raises(Diverged) as caught:
        lab.replay(lambda: chat(json.loads(two)))
    said = {"float noise": "numeric noise", "unicode form": "U+00E9", "int or float": "int and float"}.get(name, "")
    assert said in str(caught.value)


# RP-09 ---------------------------------------------------------------------------------------------------------
SYSTEM = "You book trips. Be brief. Never book without a price."


def booking(url: str, system: str) -> Callable[[], list[str]]:
    """Six model calls, each with the whole conversation."""

    def agent() -> list[str]:
        llm = openai_of(url)
        messages: list[Any] = [{"role": "system", "content": system}]
        for wish in ("flights", "hotels", "cars", "trains", "ferries", "bikes"):
            messages.append({"role": "user", "content": wish})
            answer = llm.chat.completions.create(model="m", messages=messages).choices[0].message.content
            messages.append({"role": "assistant", "content": answer})
        return [message["content"] for message in messages if message["role"] == "assistant"]

    return agent


def playing(tone: str) -> Callable[[Request], Reply]:
    return lambda request: reply.text(f"{tone} {request.messages[-1]['content']}")


EDITED = SYSTEM.replace("Be brief.", "Be kind.")
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def booked(lab: Lab) -> Lab:
    instrument("openai")
    with ModelServer(playing("fine")) as server:
        lab.record(booking(server.url.removesuffix("/v1"), SYSTEM))
    return lab


def test_rp_09_strict_stops_at_the_first_call_with_a_small_diff(booked: Lab) -> None:
    with pytest.raises(Diverged) as caught, replay("run", store=booked.store) as session:
        booking(NOBODY, EDITED)()
    assert caught.value.address == "openai.chat.completions[1]"
    (field,) = caught.value.details.fields  # type: ignore[attr-defined]
    assert (field.path, field.recorded, field.now) == ("$.messages[0].content", SYSTEM, EDITED)
    assert session.report.counts() == {"unused": 6}


def test_rp_09_structural_goes_on_with_the_recorded_answers_and_reports_the_prompt(booked: Lab) -> None:
    plan = ReplayPlan(on_drift="serve").changed(kind="model")
    with replay("run", plan, store=booked.store) as session:
        answers_now = booking(NOBODY, EDITED)()
    assert answers_now[-1] == "fine bikes"
    report = session.report
    assert report.counts() == {"served": 6, "drifted": 6}
    assert report.verdict == "passed on drift"
    assert (report.exit_code(), report.exit_code(strict=True)) == (EXIT_OK, EXIT_PASSED_ON_DRIFT)
    drifted = [line for line in report.lines if line.section == "drifted"]
    assert {change.path for line in drifted for change in line.fields} == {"$.messages[0].content"}
    assert not any(line.now for line in report.lines), "the input changed, the behaviour did not"


def test_rp_09_structural_still_refuses_another_shape(booked: Lab) -> None:
    def one_more() -> None:
        booking(NOBODY, EDITED)()
        openai_of(NOBODY).chat.completions.create(model="m", messages=[{"role": "user", "content": "more"}])

    with (
        pytest.raises(Diverged) as caught,
        replay("run", ReplayPlan(on_drift="serve").changed(kind="model"), store=booked.store),
    ):
        one_more()
    assert caught.value.cause == "one more than recorded"


def test_rp_09_only_what_was_said_to_be_changed_may_drift(booked: Lab) -> None:
    plan = ReplayPlan(on_drift="serve").changed("openai.chat.completions", 1)
    with pytest.raises(Diverged) as caught, replay("run", plan, store=booked.store):
        booking(NOBODY, EDITED)()
    assert caught.value.address == "openai.chat.completions[2]"
    with (
        pytest.raises(Diverged, match="on_drift is 'fail'"),
        replay("run", ReplayPlan().changed(kind="model"), store=booked.store),
    ):
        booking(NOBODY, EDITED)()


def test_rp_09_live_from_the_cut_tells_new_behaviour_from_new_input(booked: Lab) -> None:
    with ModelServer(playing("kind")) as server:
        with replay("run", ReplayPlan().live(kind="model"), store=booked.store) as session:
            got = booking(server.url.removesuffix("/v1"), EDITED)()
    assert got[0] == "kind flights"
    assert session.report.counts() == {"live": 6, "drifted": 6}
    live = [line for line in session.report.lines if line.section == "live"]
    path = "$.body.choices[0].message.content"
    assert (live[0].recorded, live[0].now) == (f"{{'{path}': 'fine flights'}}", f"{{'{path}': 'kind flights'}}")
    assert all("fine" in line.recorded and "kind" in line.now for line in live), "the behaviour changed"
