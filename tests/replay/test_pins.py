"""Pins are compared, and differences shown: never a fault, and nothing in the report where nothing differs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import openai
import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, record, replay, uninstrument
from otel_replay.envelope import Recording
from otel_replay.testing import ModelServer, reply

from .conftest import Lab

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}


@boundary("tool", kind="tool")
def tool(x: int) -> int:
    return x + 1


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    instrument("openai")
    yield
    uninstrument()


def asking(url: str, times: int = 1) -> list[str | None]:
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    answers = [client.chat.completions.create(model="m", messages=ASK, tools=[TOOL]) for _at in range(times)]  # type: ignore[list-item]
    return [answer.choices[0].message.content for answer in answers]


def recorded_by(lab: Lab, run_pins: Mapping[str, object], crossing_pins: Mapping[str, object], times: int) -> Recording:
    """Return a recording of `times` model calls as another machine would have made it."""
    with ModelServer([reply.text("red")] * times) as server:
        lab.record(lambda: asking(server.url, times))
    with open_store(lab.store) as store:
        found: Recording = store.recording(store.find_run("run").run_id)
    run = dataclasses.replace(found.run, pins={**found.run.pins, **run_pins})
    envelopes = tuple(dataclasses.replace(e, pins={**e.pins, **crossing_pins}) for e in found.envelopes)
    return dataclasses.replace(found, run=run, envelopes=envelopes)


def replayed(lab: Lab, recording: Recording, times: int = 1) -> Any:
    with replay(recording, store=lab.store) as session:
        asking("http://127.0.0.1:9", times)
    return session.report


def test_what_is_as_recorded_is_not_mentioned(lab: Lab) -> None:
    report = replayed(lab, recorded_by(lab, {}, {}, 2), 2)
    assert report.pins == ()
    assert "pin " not in report.text()
    assert json.loads(report.json())["pins"] == []


def test_another_sdk_is_shown_and_no_fault(lab: Lab) -> None:
    recording = recorded_by(lab, {"python": "3.10.1", "openai": "1.0.0"}, {"sdk": "openai 1.0.0"}, 5)
    report = replayed(lab, recording, 5)
    assert report.verdict == "passed"
    assert report.exit_code(strict=True) == 0
    now = openai.__version__
    assert f"  pin openai: recorded 1.0.0, now {now}\n" in report.text()
    assert "  pin python: recorded 3.10.1, now 3." in report.text()
    where = "(at openai.chat.completions[1], openai.chat.completions[2], openai.chat.completions[3] and 2 more)"
    assert f"  pin sdk: recorded openai 1.0.0, now openai {now} {where}\n" in report.text()
    (sdk,) = (pin for pin in json.loads(report.json())["pins"] if pin["pin"] == "sdk")
    assert sdk["at"] == [f"openai.chat.completions[{at}]" for at in range(1, 6)]
    again = replayed(lab, recording, 5)
    assert (again.text(), again.json()) == (report.text(), report.json())


def test_another_digest_of_the_tools_is_shown(lab: Lab) -> None:
    report = replayed(lab, recorded_by(lab, {}, {"tools_sha256": "0" * 64}, 1))
    (change,) = report.pins
    assert (change.name, change.recorded, change.at) == ("tools_sha256", "0" * 64, ("openai.chat.completions[1]",))
    assert len(change.now) == 64


def test_what_was_served_answered_nothing_today(lab: Lab) -> None:
    assert replayed(lab, recorded_by(lab, {}, {"model_answered": "m-2024", "new_pin": 1}, 1)).pins == ()


def test_another_model_answers_a_live_call(lab: Lab) -> None:
    recording = recorded_by(lab, {}, {"model_answered": "m-2024-01-01"}, 1)
    with ModelServer([reply.text("red")]) as server:
        with replay(recording, ReplayPlan().live("openai.chat.completions", 1), store=lab.store) as session:
            asking(server.url)
    (change,) = session.report.pins
    assert str(change) == "model_answered: recorded m-2024-01-01, now m (at openai.chat.completions[1])"
    assert session.report.verdict == "passed"


def test_an_importers_words_for_the_same_facts_are_the_same_pins(lab: Lab) -> None:
    found = recorded_by(lab, {}, {}, 1)
    imported = {"model.asked": "m", "import": {"convention": "x"}, "usage": {"input": 1}}
    recording = dataclasses.replace(
        found, envelopes=tuple(dataclasses.replace(e, pins=imported) for e in found.envelopes)
    )
    assert replayed(lab, recording).pins == ()
    older = dataclasses.replace(
        found, envelopes=tuple(dataclasses.replace(e, pins={"model.asked": "m-old"}) for e in found.envelopes)
    )
    assert [str(change) for change in replayed(lab, older).pins] == [
        "model: recorded m-old, now m (at openai.chat.completions[1])"
    ]


def test_another_commit_is_shown(lab: Lab, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        options = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *options, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    first = git("rev-parse", "HEAD")
    lab.record(lambda: tool(1))
    assert lab.replay(lambda: tool(1))[1].report.pins == ()
    git("commit", "-q", "--allow-empty", "-m", "two")
    (change,) = lab.replay(lambda: tool(1))[1].report.pins
    assert str(change) == f"git: recorded {first}, now {git('rev-parse', 'HEAD')}"


def test_ones_own_pins_are_compared_where_they_are_given_again(lab: Lab) -> None:
    with record("run", store=lab.store, pins={"prompt": "v1", "flags": ("a", 1), "only": "then"}):
        tool(1)
    for pins, shown in (
        ({"prompt": "v1", "flags": ("a", 1)}, []),
        (
            {"prompt": "v2", "flags": ("a", 2)},
            ["flags: recorded ['a', 1], now ['a', 2]", "prompt: recorded v1, now v2"],
        ),
        ({"other": object()}, []),
    ):
        with lab.session(pins=pins) as session:
            tool(1)
        assert [str(change) for change in session.report.pins] == shown
        assert json.loads(session.report.json())["verdict"] == "passed"


def test_a_pin_of_today_is_shown_redacted(lab: Lab) -> None:
    secret = "sk-proj-Zx8Kq2mVb7Wn4Rt6Yp1Lc3Hd5Jf9Gs0AaBbCcDdEeFf"
    with record("run", store=lab.store, pins={"key": "none"}):
        tool(1)
    with lab.session(pins={"key": secret}) as session:
        tool(1)
    assert secret not in session.report.text() + session.report.json()
    assert session.report.text().count("pin key: recorded none, now [redacted:") == 1
