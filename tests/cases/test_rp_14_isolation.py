"""RP-14: replays side by side in one pytest, in workers, threads and event loops: each is served its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from otel_replay import boundary, open_store, record

from .conftest import Lab

ROOT = Path(__file__).parents[2]

SUITE = """
import asyncio, threading
import pytest
from otel_replay import boundary, replay
from otel_replay.errors import Diverged, ScopeClosed

@boundary("ask", kind="model")
def ask(who, number):
    raise AssertionError("ran live")

def run(who):
    return [ask(who, number) for number in range(3)]

def wanted(who):
    return [f"{who} {number}" for number in range(3)]

WHO = [f"run{at}" for at in range(8)]

@pytest.mark.parametrize("who", [pytest.param(who, marks=pytest.mark.replay(who)) for who in WHO])
def test_marked(who, replay_session):
    assert run(who) == wanted(who)
    assert len(replay_session.call_log) == 3

@pytest.mark.parametrize("at", range(6))
def test_two_threads(at):
    pair, seen, meet = (WHO[at], WHO[at + 2]), {}, threading.Barrier(2)
    def one(who):
        with replay(who):
            meet.wait(20)
            seen[who] = run(who)
            meet.wait(20)
    threads = [threading.Thread(target=one, args=(who,)) for who in pair]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert seen == {who: wanted(who) for who in pair}

@pytest.mark.parametrize("at", range(6))
def test_two_in_one_loop(at):
    async def one(who):
        got = []
        with replay(who):
            for number in range(3):
                got.append(ask(who, number))
                await asyncio.sleep(0)
        return got
    async def both():
        return await asyncio.gather(*[one(who) for who in (WHO[at], WHO[at + 1])])
    assert asyncio.run(both()) == [wanted(WHO[at]), wanted(WHO[at + 1])]

go = threading.Event()
late = []

@pytest.mark.replay("run0")
def test_a_thread_outlives_its_test():
    def work():
        go.wait(20)
        try:
            late.append(ask("run1", 0))
        except BaseException as fault:
            late.append(fault)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    late.append(thread)
    run("run0")

@pytest.mark.replay("run1")
def test_and_takes_nothing_of_the_next_one():
    if late:  # the same worker ran both
        go.set()
        late[0].join()
        assert isinstance(late[1], ScopeClosed) and "'run0' had ended" in str(late[1])
    assert run("run1") == wanted("run1")

@pytest.mark.replay("run2")
@pytest.mark.xfail(raises=pytest.fail.Exception, strict=True)
def test_of_another_run_is_served_nothing():
    with pytest.raises(Diverged):
        run("run3")
"""


@boundary("ask", kind="model")
def ask(who: str, number: int) -> str:
    return f"{who} {number}"


def test_rp_14_four_workers_on_one_corpus_are_served_their_own(lab: Lab, tmp_path: Path) -> None:
    for at in range(8):
        with record(f"run{at}", store=lab.store):
            for number in range(3):
                ask(f"run{at}", number)
    (tmp_path / "pyproject.toml").write_text('[tool.otel_replay]\nstore = "store"\n')
    (tmp_path / "test_suite.py").write_text(SUITE)
    with open_store(lab.store) as store:  # the first reader seals the journals
        assert len(store.runs()) == 8
    before = _files(tmp_path)
    command = [sys.executable, "-m", "pytest", "-n", "4", "-q", "-p", "no:cacheprovider", "--junit-xml=../junit.xml"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "OTEL_"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    suite = ElementTree.parse(tmp_path.parent / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("23", "0", "0")
    assert _files(tmp_path) == before, "a replay writes nothing that another worker could write too"
    with open_store(lab.store) as store:
        assert len(store.runs()) == 8


def _files(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith((".lock", ".pyc"))
    }
