"""Date and time follow the record (RP-19); our own spans do not (OT-14)."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace as with_
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import ReplayPlan, boundary, open_store, record, replay
from otel_replay.envelope import Recording
from otel_replay.errors import Diverged, UsageError

from .conftest import Lab

DAY_NS = 86_400 * 10**9


@boundary("tool", kind="tool")
def tool(x: int) -> int:
    return x + 1


def token(until: float) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, {"sub": "agent", "exp": until})]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), "c2lnbmF0dXJl" * 4])


def claims(text: str) -> Any:
    middle = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


@boundary("login", kind="tool")
def login() -> str:
    return token(int(time.time()) + 2 * 86_400)


def agent() -> str:
    if claims(login())["exp"] < time.time():
        raise PermissionError("token expired")
    return f"done {tool(1)}"


def days_ago(recording: Recording, days: int) -> Recording:
    """Return the recording as it was, had it been made that many days ago."""
    back = days * DAY_NS

    def aged(text: str) -> str:
        for part in text.split('"'):
            if part.startswith("eyJ"):
                return text.replace(part, token(claims(part)["exp"] - days * 86_400))
        return text

    envelopes = []
    for envelope in recording.envelopes:
        value = with_(envelope.outcome.value, text=aged(envelope.outcome.value.text))
        outcome = with_(envelope.outcome, value=value)
        envelopes.append(
            with_(envelope, start_ns=envelope.start_ns - back, end_ns=envelope.end_ns - back, outcome=outcome)
        )
    run = with_(recording.run, start_ns=recording.run.start_ns - back, end_ns=recording.run.end_ns - back)
    return with_(recording, run=run, envelopes=tuple(envelopes))


def recorded(lab: Lab, run: Any, days: int = 3) -> Recording:
    lab.record(run)
    with open_store(lab.store) as store:
        return days_ago(store.recording(store.find_run("run").run_id), days)


@pytest.fixture(autouse=True)
def the_clock_is_given_back() -> Iterator[None]:
    yield
    assert not time_machine.escape_hatch.is_travelling()
    assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 1


# RP-19 --------------------------------------------------------------------------------------------------------
def test_RP_19_a_recorded_token_still_holds(lab: Lab) -> None:
    old = recorded(lab, agent)
    with replay(old) as session:
        session.answer(agent())
    assert session.report.verdict == "passed"


def test_RP_19_with_a_live_clock_the_failure_is_explained(lab: Lab) -> None:
    old = recorded(lab, agent)
    with pytest.raises(PermissionError), replay(old, clock="live") as session:
        agent()
    report = session.report
    assert report.cause == "recorded token expired"
    assert any("login[1] gave a token that held until" in note for note in report.notes)
    assert any("--clock recorded" in step for step in report.next_steps)
    assert "recorded token expired" in report.text()
    assert "recorded token expired" in report.junit()


def test_a_failure_with_another_cause_keeps_it(lab: Lab) -> None:
    old = recorded(lab, lambda: (login(), tool(1)), days=0)

    def drifts() -> None:
        login()
        tool(2)

    with pytest.raises(Diverged), replay(old, clock="live") as session:
        drifts()
    assert session.report.cause == "input drifted"
    old = days_ago(old, 3)
    with pytest.raises(Diverged), replay(old) as session:
        drifts()
    assert session.report.cause == "input drifted"


def test_a_clock_is_recorded_or_live(lab: Lab) -> None:
    lab.record(lambda: tool(1))
    with pytest.raises(UsageError, match="clock is recorded or live"):
        lab.session(clock="frozen")


# What follows the record --------------------------------------------------------------------------------------
def readings() -> dict[str, float]:
    from time import time as by_name

    return {
        "time": time.time(),
        "by name": by_name(),
        "time_ns": time.time_ns() / 1e9,
        "clock_gettime": time.clock_gettime(time.CLOCK_REALTIME),
        "now": datetime.now().timestamp(),
        "now utc": datetime.now(UTC).timestamp(),
        "utcnow": datetime.utcnow().replace(tzinfo=UTC).timestamp(),
        "today": datetime.today().timestamp(),
        "gmtime": float(__import__("calendar").timegm(time.gmtime())),
        "localtime": time.mktime(time.localtime()),
    }


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")
def test_every_reading_follows_the_record(lab: Lab) -> None:
    old = recorded(lab, lambda: tool(1), days=30)
    end = old.envelopes[0].end_ns / 1e9
    with replay(old):
        before = time.time()
        tool(1)
        found = readings()
        day = date.today()
    assert abs(before - old.run.start_ns / 1e9) < 2
    assert {name for name, reading in found.items() if not -1.1 < reading - end < 2} == set()
    assert day in (datetime.fromtimestamp(end).date(), (datetime.fromtimestamp(end) + timedelta(seconds=2)).date())


def test_the_clock_moves_with_each_served_crossing_and_ticks_between(lab: Lab) -> None:
    old = recorded(lab, lambda: (tool(1), tool(2)))
    first, second = old.envelopes
    later = with_(second, start_ns=second.start_ns + 3600 * 10**9, end_ns=second.end_ns + 3600 * 10**9)
    with replay(with_(old, envelopes=(first, later))):
        tool(1)
        one = time.time()
        time.sleep(0.02)
        two = time.time()
        tool(2)
        three = time.time()
    assert two - one >= 0.02
    assert 3500 < three - two < 3700


def test_what_measures_time_is_undisturbed(lab: Lab) -> None:
    async def waits() -> float:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 0.02)
        return time.monotonic() - began

    def run() -> int:
        assert 0.03 <= asyncio.run(waits()) < 5
        began = time.perf_counter()
        assert not threading.Event().wait(0.02)
        assert threading.Lock().acquire(timeout=0)
        assert time.perf_counter() - began < 5
        uuid.uuid1()
        return tool(1)

    old = recorded(lab, run)
    with replay(old):
        run()


def test_two_replays_have_two_clocks_and_other_code_has_none(lab: Lab) -> None:
    old = recorded(lab, lambda: tool(1), days=10)
    older = days_ago(old, 10)
    barrier = threading.Barrier(3)
    seen: dict[str, float] = {}

    def one(name: str, recording: Recording) -> None:
        with replay(recording):
            tool(1)
            barrier.wait(5)
            seen[name] = time.time()
            barrier.wait(5)

    threads = [threading.Thread(target=one, args=pair) for pair in (("old", old), ("older", older))]
    for thread in threads:
        thread.start()
    barrier.wait(5)
    now = time.time()
    barrier.wait(5)
    for thread in threads:
        thread.join()
    assert 9.9 < (now - seen["old"]) / 86_400 < 10.1
    assert 19.9 < (now - seen["older"]) / 86_400 < 20.1


def test_a_clock_that_the_program_froze_is_left(lab: Lab) -> None:
    old = recorded(lab, lambda: tool(1))
    with time_machine.travel("2030-05-06T00:00:00Z", tick=False), replay(old) as session:
        tool(1)
        assert datetime.now(UTC).year == 2030
    assert "had frozen its clock" in session.report.text()


def test_code_in_a_replay_may_travel_itself(lab: Lab) -> None:
    old = recorded(lab, lambda: tool(1))
    with replay(old):
        with time_machine.travel("2030-05-06T00:00:00Z", tick=False):
            assert datetime.now(UTC).year == 2030
        tool(1)
        assert abs(time.time() - old.envelopes[0].end_ns / 1e9) < 5


def test_libraries_under_a_live_crossing_read_the_time_of_today(lab: Lab) -> None:
    signing: dict[str, Any] = {}
    code = compile("def sign():\n    import time\n    return time.time()", "/x/site-packages/signer.py", "exec")
    exec(code, signing)  # stands for a library
    live = boundary("live")(lambda: [signing["sign"](), time.time()])
    old = recorded(lab, lambda: (live(), tool(1)))
    with replay(old, ReplayPlan().live("live")):
        by_library, by_project = live()
        outside = signing["sign"]()
        tool(1)
    assert abs(by_library - time.time()) < 5
    assert abs(by_project - old.envelopes[0].end_ns / 1e9) < 5
    assert abs(outside - old.envelopes[0].end_ns / 1e9) < 5


# OT-14 --------------------------------------------------------------------------------------------------------
def test_OT_14_a_frozen_clock_does_not_reach_our_spans(lab: Lab) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    before = time.time_ns()
    with record("frozen", store=lab.store, tracer_provider=provider):
        with time_machine.travel("2020-01-01T00:00:00Z", tick=False):
            tool(1)
        with time_machine.travel("2010-01-01T00:00:00Z", tick=False):
            tool(2)
    after = time.time_ns()
    spans = memory.get_finished_spans()
    assert len(spans) == 3
    for span in spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert before <= span.start_time < span.end_time <= after
    with open_store(lab.store) as store:
        one, two = store.recording(store.find_run("frozen").run_id).envelopes
    assert before <= one.start_ns <= one.end_ns <= two.start_ns <= two.end_ns <= after


def test_OT_14_in_a_replay_spans_stand_in_today(lab: Lab) -> None:
    old = recorded(lab, lambda: tool(1))
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    before = time.time_ns()
    with replay(old, tracer_provider=provider), provider.get_tracer("app").start_as_current_span("mine"):
        tool(1)
    after = time.time_ns()
    spans = memory.get_finished_spans()
    assert {span.name for span in spans} >= {"mine"}
    assert len(spans) == 3
    for span in spans:
        assert before <= (span.start_time or 0) <= (span.end_time or 0) <= after, span.name


def test_the_command_line_chooses_the_clock(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import time\nfrom otel_replay import boundary\n"
        "@boundary('tool')\ndef tool():\n    return 1\n"
        "began = time.time()\ntool()\nprint(time.time() - began)\n"
        "open('seen', 'w').write(str(time.time()))\n"
    )

    def command(*words: str) -> None:
        run = [sys.executable, "-m", "otel_replay", *words, "--store", str(lab.store), "--", "python", str(program)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    command("record", "cli")
    then = float((tmp_path / "seen").read_text())
    time.sleep(1.0)
    command("replay", "cli", "--clock", "recorded")
    assert float((tmp_path / "seen").read_text()) - then < 0.9
    command("replay", "cli", "--clock", "live")
    assert float((tmp_path / "seen").read_text()) - then > 1.0
