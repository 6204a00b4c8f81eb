"""Several runs: at once in one process, one inside another, and a recording in the code that is replayed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_replay import Diverged, boundary, open_store, record, replay
from otel_replay.envelope import Recording
from otel_replay.errors import ScopeClosed
from otel_replay.session import active_sessions

RAN: list[object] = []


@boundary("step", kind="tool")
def step(run: str, number: int) -> str:
    RAN.append((run, number))
    return f"{run}-{number}"


@boundary("astep", kind="tool")
async def astep(run: str, number: int) -> str:
    RAN.append((run, number))
    await asyncio.sleep(0)
    return f"{run}-{number}"


def recording(store: Path, run_id: str) -> Recording:
    with open_store(store) as opened:
        return opened.recording(run_id)


def asked(found: Recording) -> list[object]:
    return [(envelope.address, envelope.request.tree()) for envelope in found.envelopes]


@pytest.mark.parametrize("provider", [None, TracerProvider()], ids=["no SDK", "SDK"])
def test_two_runs_at_once_in_threads_do_not_mix(tmp_path: Path, provider: TracerProvider | None) -> None:
    together = threading.Barrier(2)

    def agent(name: str) -> None:
        for number in range(20):
            together.wait()
            step(name, number)

    def one(name: str) -> str:
        with record(name, store=tmp_path, tracer_provider=provider) as run:
            agent(name)
        return run.id

    with ThreadPoolExecutor(2) as pool:
        ids = list(pool.map(one, ["a", "b"]))
    traces = set()
    for name, run_id in zip("ab", ids, strict=True):
        found = recording(tmp_path, run_id)
        assert asked(found) == [(f"step[{n + 1}]", {"run": name, "number": n}) for n in range(20)]
        assert found.complete
        assert found.run.name == name
        assert not found.run.notes
        traces.add(found.run.trace_id)
    assert len(traces) == 2
    RAN.clear()

    def again(name: str) -> str:
        with replay(name, store=tmp_path) as session:
            agent(name)
        return session.report.verdict

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(again, ["a", "b"])) == ["passed", "passed"]
    assert not RAN


def test_two_runs_at_once_in_tasks_do_not_mix(tmp_path: Path) -> None:
    async def one(name: str) -> str:
        async with record(name, store=tmp_path) as run:
            for number in range(10):
                assert await astep(name, number) == f"{name}-{number}"
                await asyncio.create_task(astep(name, number + 100))
        return run.id

    async def both() -> list[str]:
        return list(await asyncio.gather(one("a"), one("b")))

    for name, run_id in zip("ab", asyncio.run(both()), strict=True):
        found = recording(tmp_path, run_id)
        assert [envelope.request.tree()["run"] for envelope in found.envelopes] == [name] * 20  # type: ignore[index]
        assert found.complete
    assert not active_sessions()


@pytest.mark.parametrize("provider", [None, TracerProvider()], ids=["no SDK", "SDK"])
def test_a_run_inside_a_run_takes_its_crossings_and_the_outer_one_says_so(
    tmp_path: Path, provider: TracerProvider | None
) -> None:
    def agent() -> tuple[str, str]:
        with record("outer", store=tmp_path, tracer_provider=provider) as outer:
            step("outer", 1)
            current = trace.get_current_span()
            with record("inner", store=tmp_path, tracer_provider=provider) as inner:
                step("inner", 1)
            assert trace.get_current_span() is current
            step("outer", 2)
        return outer.id, inner.id

    outer, inner = agent()
    assert asked(recording(tmp_path, inner)) == [("step[1]", {"run": "inner", "number": 1})]
    found = recording(tmp_path, outer)
    assert [envelope.request.tree()["run"] for envelope in found.envelopes] == ["outer", "outer"]  # type: ignore[index]
    assert found.complete
    (note,) = found.run.notes
    assert note == f"a run of its own was recorded inside this one, which lacks its crossings: inner ({inner[:8]})"
    with replay(inner, store=tmp_path) as session:
        step("inner", 1)
    assert session.report.verdict == "passed"
    RAN.clear()
    with pytest.raises(Diverged), replay(outer, store=tmp_path) as session:
        agent()
    assert not RAN, "nothing that the outer run lacks is run live"
    assert note in session.report.notes


def test_a_recording_in_the_code_that_is_replayed_records_nothing_and_runs_nothing(tmp_path: Path) -> None:
    def program(answer: str = "") -> str:
        with record("trade", store=tmp_path) as run:
            found = [step("t", 1), asyncio.run(astep("t", 2))]
            run.answer(answer or found)
            run.verdict("passed")
        return run.id

    program()
    RAN.clear()
    with replay("trade", store=tmp_path) as session:
        program()
    assert session.report.verdict == "passed"
    assert not RAN
    with open_store(tmp_path) as store:
        assert len(store.runs()) == 1, "the replay did not record itself as the newest run of that name"
    with pytest.raises(Diverged, match="final answer differs"), replay("trade", store=tmp_path):
        program("another answer")


PROGRAM = """
from otel_replay import boundary, record

@boundary("tool", kind="tool", side_effects=True)
def tool(x):
    print("LIVE", x, flush=True)
    return x

with record("inner") as run:
    tool(1)
    run.answer(tool(2))
"""


@pytest.mark.parametrize("by", ["command", "environment"])
def test_so_does_one_in_a_program_that_is_replayed_from_outside(tmp_path: Path, by: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words, "program.py"]
        return subprocess.run(command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True)

    assert run().stdout == "LIVE 1\nLIVE 2\n"
    if by == "command":
        replayed = run("-m", "otel_replay", "replay", "inner", "--", sys.executable)
    else:
        replayed = run(OTEL_REPLAY_MODE="replay", OTEL_REPLAY_SOURCE="inner")
    assert (replayed.stdout, replayed.returncode) == ("", 0), replayed.stderr
    assert "PASSED" in replayed.stderr
    assert "2 served" in replayed.stderr
    with open_store(tmp_path / ".otel-replay") as store:
        assert [found.name for found in store.runs()] == ["inner"]


class Outsider:
    """A thread that was begun before any run, and crosses when it is told to."""

    def __init__(self) -> None:
        self.told, self.done = threading.Event(), threading.Event()
        self.raised: BaseException | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self.told.wait(10)
        try:
            step("outside", 0)
        except Exception as fault:
            self.raised = fault
        self.done.set()

    def crosses(self) -> None:
        self.told.set()
        assert self.done.wait(10)


def test_what_belongs_to_none_of_two_recordings_is_named_on_both(tmp_path: Path) -> None:
    outsider = Outsider()
    with record("a", store=tmp_path) as a, record("b", store=tmp_path) as b:
        step("b", 1)
        outsider.crosses()
    assert outsider.raised is None
    for run in (a, b):
        notes = recording(tmp_path, run.id).run.notes
        assert any(note.startswith("step was crossed 1 time(s) by code that belongs to none") for note in notes), notes
    assert asked(recording(tmp_path, b.id)) == [("step[1]", {"run": "b", "number": 1})]


def test_what_belongs_to_none_of_two_replays_is_refused_and_both_say_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with record(name, store=tmp_path):
            step(name, 1)
    RAN.clear()
    outsider = Outsider()
    together = threading.Barrier(2)

    def again(name: str) -> str:
        session = replay(name, store=tmp_path)
        with pytest.raises(ScopeClosed, match="belongs to none of the runs that are active"), session:  # noqa: PT012
            together.wait(10)
            step(name, 1)
            together.wait(10)
            if name == "a":
                outsider.crosses()
            together.wait(10)
        return session.report.verdict

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(again, ["a", "b"])) == ["diverged", "diverged"]
    assert isinstance(outsider.raised, ScopeClosed)
    assert not RAN, "nothing ran live"
