"""Tapes of chance and clock: by crossing, strand and process, after a kill, without secrets, within bounds."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as with_
from pathlib import Path
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, open_store, record, replay, tapes
from otel_replay.envelope import Recording

from .conftest import Lab


@boundary("tool", kind="tool")
def tool(x: object) -> object:
    return x


def kept(lab: Lab, run: Callable[[], Any], **options: Any) -> Any:
    with record("run", store=lab.store, **{"chance": True, **options}):
        return run()


def recording_of(lab: Lab) -> Recording:
    with open_store(lab.store) as store:
        return store.recording(store.find_run("run").run_id)


def on_disk(lab: Lab) -> bytes:
    return b"".join(path.read_bytes() for path in lab.store.rglob("*") if path.is_file())


# By crossing and strand ---------------------------------------------------------------------------------------
@boundary("plan", kind="router")
def plan(count: int) -> list[object]:
    return [tool(uuid.uuid4().hex) for _at in range(count)]


def test_what_a_crossing_draws_is_on_its_own_envelope(lab: Lab) -> None:
    kept(lab, lambda: (random.random(), plan(2)))
    first = recording_of(lab)
    by_address: dict[str, Any] = {envelope.address: envelope.pins.get("chance", {}) for envelope in first.envelopes}
    assert [len(values) for values in by_address["plan[1]"].values()] == [2]
    assert by_address["plan[1]/tool[1]"] == {}
    at_run: Any = first.run.pins["chance"]
    assert [len(values) for values in at_run.values()] == [1]


def test_a_live_crossing_draws_what_it_drew(lab: Lab) -> None:
    then = kept(lab, lambda: (plan(2), plan(1)))
    now, session = lab.replay(lambda: (plan(2), plan(1)), ReplayPlan().live("plan"))
    assert now == then
    assert session.report.verdict == "passed"
    assert session.report.notes == ()


def test_one_crossing_more_shifts_nothing_in_the_others(lab: Lab) -> None:
    @boundary("audit")
    def audit() -> float:
        return random.random()

    then = kept(lab, lambda: (plan(1), plan(1)))
    now, session = lab.replay(
        lambda: (plan(1), audit(), plan(1))[::2], ReplayPlan().live("plan").new("audit"), on_drift="live"
    )
    assert now == then
    (note,) = session.report.notes
    assert note.startswith("chance: ")
    assert "return random.random() is not in the record: live" in note


def in_threads() -> list[object]:
    found: dict[int, object] = {}

    def work(at: int) -> None:
        time.sleep(0.001 * (5 - at) if at else 0)
        found[at] = tool([at, uuid.uuid4().hex, random.random()])

    threads = [threading.Thread(target=work, args=(at,)) for at in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[at] for at in range(5)]


def in_a_pool() -> list[object]:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda at: tool([at, secrets.token_hex(8), random.gauss(0, 1)]), range(6)))


def in_tasks() -> list[object]:
    async def work(at: int) -> object:
        drawn = uuid.uuid4()
        await asyncio.sleep(0.002 * (4 - at))
        return tool([at, drawn.hex, random.randrange(10**9)])

    async def all_of_them() -> list[object]:
        return list(await asyncio.gather(*(work(at) for at in range(4))))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("strands", [in_threads, in_a_pool, in_tasks])
def test_parallel_strands_get_their_own(lab: Lab, strands: Callable[[], list[object]]) -> None:
    then = kept(lab, strands)
    now, session = lab.replay(strands)
    assert now == then
    assert session.report.notes == ()


def test_strands_begun_in_a_crossing_are_counted_there(lab: Lab) -> None:
    @boundary("fan")
    def fan() -> list[object]:
        return in_threads()

    then = kept(lab, lambda: (in_threads(), fan(), fan()))
    now, session = lab.replay(lambda: (in_threads(), fan(), fan()), ReplayPlan().live("fan"))
    assert now == then
    assert session.report.notes == ()


# Processes ----------------------------------------------------------------------------------------------------
def drawing(path: str) -> None:
    Path(path).write_text(f"{uuid.uuid4()} {tool(random.random())} {secrets.token_hex(4)}")


def in_processes() -> list[str]:
    found = [f"{os.getcwd()}/child{at}" for at in range(2)]
    children = [multiprocessing.get_context("fork").Process(target=drawing, args=(path,)) for path in found]
    for child in children:
        child.start()
    for child in children:
        child.join()
    pid = os.fork()
    if not pid:  # ends without any unwinding
        drawing("by-fork")
        os._exit(0)
    os.waitpid(pid, 0)
    by_fork, _after_its_last_crossing = Path("by-fork").read_text().rsplit(" ", 1)
    return [uuid.uuid4().hex, *(Path(path).read_text() for path in found), by_fork]


def test_forked_children_have_tapes_of_their_own(lab: Lab) -> None:
    then = kept(lab, in_processes)
    now, session = lab.replay(in_processes, allow_incomplete=True)
    assert now == then
    # One child ended, by os._exit, before a next crossing would have written what it drew last.
    (note,) = [note for note in session.report.notes if "chance" in note]
    assert note.startswith("in the process ~3: chance: ")
    assert "secrets.token_hex" in note


def test_a_started_program_has_a_tape_of_its_own(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import random, subprocess, sys, uuid\nfrom otel_replay import boundary\n"
        "@boundary('tool')\ndef tool(x):\n    return x\n"
        "tool(uuid.uuid4())\n"
        "if len(sys.argv) < 2:\n    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
        "open('out', 'a').write(f'{uuid.uuid4()} {random.random()}\\n')\n"
    )

    def command(*words: str) -> str:
        (tmp_path / "out").unlink(missing_ok=True)
        run = [sys.executable, "-m", "otel_replay", *words, "--store", str(lab.store), "--", "python", str(program)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "out").read_text()

    then = command("record", "cli", "--chance")
    assert len(then.splitlines()) == 2
    assert command("replay", "cli") == then


# A kill -------------------------------------------------------------------------------------------------------
def killed() -> tuple[str, float]:
    run_id, jitter = uuid.uuid4().hex, random.random()
    tool([run_id, jitter])
    Path("seen").write_text(repr((run_id, jitter)))
    if os.environ.get("KILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    return run_id, jitter


def test_what_a_killed_run_drew_before_its_crossings_is_there(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; from tests.replay.test_tapes import killed; from otel_replay import record\n"
        "with record('run', store=sys.argv[1], chance=True): killed()"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "KILL": "1", "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", script, str(lab.store)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    now, session = lab.replay(killed, allow_incomplete=True)
    assert repr(now) == Path("seen").read_text()
    assert not any("chance" in note for note in session.report.notes)


def test_what_an_unfinished_crossing_drew_is_there_too(lab: Lab) -> None:
    script = (
        "import os, random, signal, sys; from otel_replay import boundary, record\n"
        "@boundary('inner')\ndef inner(x): return x\n"
        "@boundary('outer')\ndef outer():\n    inner(random.random()); os.kill(os.getpid(), signal.SIGKILL)\n"
        "with record('run', store=sys.argv[1], chance=True): outer()"
    )
    subprocess.run([sys.executable, "-c", script, str(lab.store)], check=False)
    found = recording_of(lab)
    drawn: Any = found.run.pins["chance"]
    ((key, values),) = drawn.items()
    assert key.startswith("outer[1]|")
    assert found.envelopes[0].request.tree() == {"x": values[0]}


# Secrets ------------------------------------------------------------------------------------------------------
def with_secrets() -> dict[str, object]:
    password = secrets.token_urlsafe(24)
    made = {"api_key": secrets.token_hex(24), "id": secrets.token_hex(6)}
    later = secrets.token_hex(20)
    login(user="a", password=later)
    tool([later, made["id"]])
    code = "".join(secrets.choice("abcdefghijklmnop") for _at in range(12))
    tool(f"code {code}")
    return {"password": password, "api_key": made["api_key"], "id": made["id"], "later": later, "code": code}


@boundary("login", kind="tool")
def login(user: str, password: str) -> str:
    return user


def test_a_secret_is_on_no_tape_and_drawn_anew(lab: Lab) -> None:
    then = kept(lab, with_secrets)
    written = on_disk(lab)
    recording = recording_of(lab)
    everything = repr(recording) + written.decode("latin-1")
    for name in ("password", "api_key", "later"):
        assert str(then[name]) not in everything, name
    now, session = lab.replay(with_secrets)
    assert (now["id"], now["code"]) == (then["id"], then["code"])
    assert all(now[name] != then[name] for name in ("password", "api_key", "later"))
    assert session.report.verdict == "passed"
    notes = [note for note in session.report.notes if "was a secret" in note]
    assert len(notes) == 3
    assert all(note.endswith("of which the record holds a placeholder: live") for note in notes)


def test_a_secret_in_the_line_itself_is_not_written(lab: Lab) -> None:
    def run() -> object:
        return tool([random.random(), len("sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")])

    then = kept(lab, run)
    assert b"sk-proj-abcdefghij" not in on_disk(lab)
    now, session = lab.replay(run)
    assert now == then
    assert session.report.notes == ()


# Bounds -------------------------------------------------------------------------------------------------------
def test_a_full_tape_says_so_and_what_is_beyond_it_is_live(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "TAPE_VALUES_MAX", 10)

    def run() -> list[object]:
        numbers = [random.random() for _at in range(15)]
        return [numbers, tool(1)]

    then = kept(lab, run)
    first = recording_of(lab)
    assert [note.partition("random():")[0] for note in first.run.notes if "were not kept" in note] != []
    assert any("5 values were not kept" in note for note in first.run.notes)
    now, session = lab.replay(run)
    assert now[0][:10] == then[0][:10]
    assert now[0][10:] != then[0][10:]
    (note,) = session.report.notes
    assert "5 more were not kept" in note


def test_large_values_are_bounded_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "TAPE_BYTES_MAX", 1000)
    kept(lab, lambda: [tool(1), os.urandom(5000)])
    assert any("1 values were not kept" in note for note in recording_of(lab).run.notes)


@pytest.mark.parametrize(
    "values", [None, 7, {"a": 1}, [{"$": "lost", "reason": "x"}], [{"$": "what"}], ["[redacted:x#1]"], [[1]], [None]]
)
def test_a_damaged_tape_gives_nothing_and_says_so(lab: Lab, values: object) -> None:
    def run() -> tuple[object, str]:
        return tool(1), random.choice("abc")

    kept(lab, run)
    first = recording_of(lab)
    tape: Any = first.run.pins["chance"]
    key = next(iter(tape))
    damaged = with_(first, run=with_(first.run, pins={"chance": {key: values, "": [1]}, "clock": 5}))
    with replay(damaged) as session:
        answer = run()
    assert answer[1] in ("a", "b", "c")
    (note,) = session.report.notes
    assert note.endswith(": live")


# However the program holds it ---------------------------------------------------------------------------------
@dataclass
class Message:
    text: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    at: str = field(default_factory=lambda: secrets.token_hex(3))


def early(draw: Callable[[], uuid.UUID] = uuid.uuid4) -> uuid.UUID:
    return draw()


def test_functions_that_were_taken_before_are_on_the_tape(lab: Lab) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        id: uuid.UUID = pydantic.Field(default_factory=uuid.uuid4)

    def run() -> list[object]:
        letters = list(map(random.Random().choice, ["ab"] * 20))
        return [Message("a"), Message("b"), early(), Model().id, letters, tool(1)]

    then = kept(lab, run)
    now, session = lab.replay(run)
    assert now == then
    assert session.report.notes == ()
    assert run() != then
