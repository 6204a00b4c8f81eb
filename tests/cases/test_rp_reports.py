"""What a replay says: proofs of equality without a clock, what is live after a cut, what it cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, replay
from otel_replay.envelope import Recording
from otel_replay.errors import SideEffectBlocked
from otel_replay.testing import ModelServer, reply

from .clients import openai_of
from .conftest import Lab

answers: dict[str, str] = {}
ran: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    answers.clear()
    ran.clear()


@boundary("ask", kind="tool")
def ask(word: str) -> str:
    ran.append(word)
    return answers.get(word, word.upper())


def recording(lab: Lab) -> Recording:
    with open_store(lab.store) as store:
        found: Recording = store.recording(lab.run_id)
        return found


# RP-12 ---------------------------------------------------------------------------------------------------------
def words(*asked: str) -> Callable[[], list[str]]:
    return lambda: [ask(word) for word in asked]


def test_rp_12_the_digest_of_a_run_holds_no_clock_and_no_id(lab: Lab) -> None:
    def digest(agent: Callable[[], Any]) -> str:
        lab.record(agent)
        return recording(lab).run.digest

    first = digest(words("a", "b", "c"))
    assert digest(words("a", "b", "c")) == first
    assert first.partition(":")[0] == "2", "its recipe has a version"
    answers["b"] = "another"
    assert digest(words("a", "b", "c")) != first
    answers.clear()
    assert digest(words("b", "a", "c")) != first
    assert digest(words("a", "c")) != first


def test_rp_12_two_replays_of_one_recording_say_the_same(lab: Lab) -> None:
    lab.record(words("a", "b", "c"))
    said = set()
    for _at in range(3):
        with replay("run", store=lab.store) as session:
            words("a", "b", "c")()
        said.add(tuple(session.report.forms().items()))
    assert len(said) == 1


# RP-21 ---------------------------------------------------------------------------------------------------------
@boundary("send_mail", kind="tool", side_effects=True)
def send_mail(text: str) -> str:
    ran.append("send_mail")
    return "sent"


def planned(url: str) -> Callable[[], str | None]:
    llm = openai_of(url)

    def model(text: str) -> str | None:
        messages: list[Any] = [{"role": "user", "content": text}]
        return llm.chat.completions.create(model="m", messages=messages).choices[0].message.content

    def agent() -> str | None:
        model("plan")
        return model(f"summarise {send_mail('hello')}")

    return agent


def test_rp_21_the_plan_is_printed_before_anything_runs_and_live_calls_are_listed_with_their_cost(lab: Lab) -> None:
    instrument("openai")
    with ModelServer([reply.text("ok")] * 3) as server:
        url = server.url.removesuffix("/v1")
        lab.record(planned(url))
        ran.clear()
        held = recording(lab)
        before_summary = ReplayPlan().live("openai.chat.completions", 2)
        rows = before_summary.explain(held).splitlines()
        assert [row.split()[:2] for row in rows[1:4]] == [
            ["served", "openai.chat.completions[1]"],
            ["served", "send_mail[1]"],
            ["live", "openai.chat.completions[2]"],
        ]
        assert "cost when recorded" in rows[3]
        assert ran == []
        assert server.count == 2
        with replay(held, before_summary) as session:
            planned(url)()
        assert ran == [], "the mail was served"
        (live,) = (line for line in session.report.lines if line.section == "live")
        assert live.note.startswith("cost: ")
        assert live.note in session.report.text()

        before_mail = ReplayPlan().live(kind="tool").live("openai.chat.completions", 2)
        assert "BLOCKED   send_mail[1]" in before_mail.explain(held)
        with pytest.raises(SideEffectBlocked, match=r"send_mail\[1\]"), replay(held, before_mail):
            planned(url)()
        assert ran == []
        assert server.count == 3, "nothing after it ran either"
        named = ReplayPlan().live("send_mail", 1)
        assert "HAS SIDE EFFECTS" in named.explain(held)
        with replay(held, named) as session:
            planned(url)()
        assert ran == ["send_mail"]
        assert session.report.counts() == {"served": 2, "live": 1}
