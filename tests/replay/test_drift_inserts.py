"""One more call of a name that is recorded is no drifted one: what was recorded is served when it is asked for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import ReplayPlan, boundary, record, replay

from .conftest import Lab
from .scenes import calls, model_blocking

Words: TypeAlias = "tuple[str, ...]"
version = 1


@boundary("start", kind="tool")
def start() -> int:
    return version


@boundary("step", kind="tool")
def step(word: str) -> str:
    calls.append(word)
    return word.upper()


@boundary("step", kind="tool")
async def astep(word: str) -> str:
    calls.append(word)
    return word.upper()


@boundary("round", kind="router")
def around(word: str) -> str:
    calls.append(word)
    return model_blocking(word[0])


def in_line(words: Words) -> list[str]:
    start()
    return [step(word) for word in words]


def in_a_task(words: Words) -> list[str]:
    async def other() -> list[str]:
        return [await astep(word) for word in words]

    async def main() -> list[str]:
        start()
        return await asyncio.create_task(other())

    return asyncio.run(main())


def in_a_thread(words: Words) -> list[str]:
    start()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: [step(word) for word in words]).result()


PLANS = [
    pytest.param(ReplayPlan(on_drift="live").live("start", 1), id="on_drift live"),
    pytest.param(ReplayPlan(hybrid=True), id="hybrid"),
    pytest.param(ReplayPlan(hybrid=True).live("start", 1), id="hybrid after a live difference"),
]
plans = pytest.mark.parametrize("plan", PLANS)
agents = pytest.mark.parametrize("agent", [in_line, in_a_task, in_a_thread])
INSERTS: list[tuple[Words, Words]] = [
    (("a", "a"), ("a", "x", "a")),
    (("a", "b"), ("a", "x", "b")),
    (("a", "b"), ("a", "x", "y", "b")),
    (("a", "b", "c"), ("a", "x", "b", "y", "c")),
    (("a", "b", "c"), ("a", "b", "x", "y", "z", "c", "w")),
]  # fmt: skip


def sections(report: Any, name: str) -> list[str]:
    return [line.address for line in report.lines if line.section == name]


@plans
@agents
@pytest.mark.parametrize(("recorded", "now"), INSERTS, ids="".join)
def test_09_an_inserted_call_of_the_same_name_is_extra_and_shifts_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Any, plan: ReplayPlan, recorded: Words, now: Words
) -> None:
    lab.record(lambda: agent(recorded))
    calls.clear()
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(plan) as session:
        assert agent(now) == [word.upper() for word in now]
    inserted = [word for word in now if word not in recorded]
    assert calls == inserted
    report = session.report
    assert report.count("served") == len(recorded) + (report.count("live") == len(inserted))
    assert (len(sections(report, "extra")), sections(report, "drifted")) == (len(inserted), [])
    assert not sections(report, "unused") + sections(report, "not reached")
    assert report.verdict == "passed"


@agents
@pytest.mark.parametrize(
    ("now", "drifted", "extra"),
    [(("a", "x", "c"), 1, 0), (("x", "y", "c"), 2, 0), (("a", "b", "x"), 1, 0), (("x", "b", "y", "z"), 2, 1)],
)
def test_what_takes_the_place_of_a_recorded_call_for_good_is_drifted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, agent: Any, now: Words, drifted: int, extra: int
) -> None:
    lab.record(lambda: agent(("a", "b", "c")))
    calls.clear()
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(ReplayPlan(on_drift="live").live("start", 1)) as session:
        assert agent(now) == [word.upper() for word in now]
    report = session.report
    assert (len(sections(report, "drifted")), len(sections(report, "extra"))) == (drifted, extra)
    assert report.count("served") == len({"a", "b", "c"} & set(now))
    assert not sections(report, "unused") + sections(report, "not reached")


def test_what_lies_under_a_drifted_call_is_still_served(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def agent(words: Words) -> list[str]:
        start()
        return [around(word) for word in words]

    lab.record(lambda: agent(("a1", "b1")))
    calls.clear()
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(ReplayPlan(on_drift="live").live("start", 1)) as session:
        assert agent(("a2", "b1")) == ["A", "B"]
    assert calls == ["a2"]
    assert session.report.count("served") == 2


def test_another_strand_does_not_wait_for_what_drifted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(word: str) -> list[str]:
        start()

        async def other() -> str:
            await asyncio.sleep(0.05)
            return await astep("beside")

        return list(await asyncio.gather(astep(word), other()))

    lab.record(lambda: asyncio.run(main("a")))
    monkeypatch.setitem(globals(), "version", 2)
    with lab.session(ReplayPlan(on_drift="live").live("start", 1)):
        assert asyncio.run(main("x")) == ["X", "BESIDE"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=6), st.data())
def test_whatever_is_inserted_all_that_was_recorded_is_served(
    tmp_path_factory: pytest.TempPathFactory, recorded: list[str], data: st.DataObject
) -> None:
    now: list[str] = []
    for word in [*recorded, ""]:
        now += data.draw(st.lists(st.sampled_from("xyz"), max_size=2)) + ([word] if word else [])
    store = tmp_path_factory.mktemp("store")
    global version
    version = 1
    with record("run", store=store, strict=True):
        in_line(tuple(recorded))
    calls.clear()
    version = 2
    try:
        with replay("run", ReplayPlan(on_drift="live").live("start", 1), store=store) as session:
            in_line(tuple(now))
    finally:
        version = 1
    assert calls == [word for word in now if word in "xyz"]
    assert session.report.count("served") == len(recorded)
    assert len(sections(session.report, "extra")) == len(now) - len(recorded)
