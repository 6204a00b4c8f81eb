"""Each source of chance: the same numbers without us, recording and replaying; and back from the tape, exactly."""

from __future__ import annotations

import inspect
import os
import random
import secrets
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import time_machine

from otel_replay import boundary, open_store, record
from otel_replay.errors import UsageError

from .conftest import Lab


@boundary("tool", kind="tool")
def tool(x: object) -> object:
    return x


def kept(lab: Lab, run: Callable[[], Any], **options: Any) -> Any:
    with record("run", store=lab.store, strict=True, **{"chance": True, **options}):
        found = run()
        tool(1)
    return found


def given(lab: Lab, run: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    def and_tool() -> Any:
        found = run()
        tool(1)
        return found

    with lab.session(**options) as session:
        found = and_tool()
    return found, session


class Loaded(random.Random):
    def random(self) -> float:
        return super().random() / 2


def from_random(seed: int | None) -> list[Any]:
    own, loaded, system = random.Random(seed), Loaded(seed), random.SystemRandom()
    if seed is not None:
        random.seed(seed)
    deck = list(range(9))
    own.shuffle(deck)
    line: Any = deque("abcdefg")
    random.shuffle(line)
    found: list[Any] = [deck, list(line), own.random(), own.getrandbits(200), own.choice("xyz"), own.gauss(0, 1)]
    found += [own.sample(range(50), 5), own.choices("abc", [5, 1, 1], k=6), own.randbytes(5), own.uniform(1, 2)]
    found += [loaded.random(), loaded.uniform(0, 9), loaded.choice([1, 2, 3, 4]), own.triangular(), own.randint(1, 99)]
    found += [random.random(), random.randrange(10**12), random.choice(np.arange(9)), random.sample(["a", "b"], 2)]
    found += [random.sample([1, 2, 3], 4, counts=[2, 2, 2]), random.expovariate(2.0), random.getrandbits(3)]
    if seed is None:
        found += [system.random(), system.choice("abcdef"), system.getrandbits(70), system.randbytes(4)]
        found += [secrets.choice("abcdef"), secrets.randbits(60), secrets.randbelow(10**9), secrets.token_bytes(5)]
        found += [uuid.uuid1(), uuid.uuid4(), os.urandom(3)]
    else:
        found += [own.getstate(), random.getstate()]
    return found


def faults(seed: int) -> list[str]:
    own = random.Random(seed)
    unordered: Any = {"a": 1}
    calls: list[Callable[[], Any]] = [
        lambda: own.choice([]),
        lambda: own.sample([1], 2),
        lambda: own.sample(unordered, 1),
        lambda: own.choices([], k=1),
        lambda: own.choice(unordered),
        lambda: own.shuffle((1, 2)),  # type: ignore[arg-type]
        lambda: own.randint(2, 1),
        lambda: random.randrange(0),
        lambda: random.choice(),  # type: ignore[call-arg]
        lambda: own.choice([1], 2),  # type: ignore[call-arg]
        lambda: own.sample(k=1),  # type: ignore[call-arg]
        lambda: own.choice(seq=[4, 5, 6]),
        lambda: own.sample(population=[4, 5, 6], k=2),
        lambda: own.shuffle([1], [2]),  # type: ignore[call-arg]
        lambda: secrets.randbelow(0),
        lambda: own.getrandbits(-1),
        lambda: own.random(1),  # type: ignore[call-arg]
    ]
    found = []
    for call in calls:
        try:
            found.append(repr(call()))
        except Exception as fault:
            found.append(f"{type(fault).__name__}: {fault}")
    return [*found, repr(own.random()), repr(random.Random(seed).random())]


@pytest.mark.parametrize("chance", [True, False])
def test_seeded_numbers_states_and_errors_are_the_same_with_and_without(lab: Lab, chance: bool) -> None:
    alone = from_random(7), faults(7)
    assert kept(lab, lambda: (from_random(7), faults(7)), chance=chance) == alone
    now, session = given(lab, lambda: (from_random(7), faults(7)))
    assert now == alone
    assert session.report.notes == ()
    assert (from_random(7), faults(7)) == alone


def test_unseeded_numbers_come_back(lab: Lab) -> None:
    then = kept(lab, lambda: from_random(None))
    now, session = given(lab, lambda: from_random(None))
    assert now == then
    assert [type(value) for value in now] == [type(value) for value in then]
    assert session.report.notes == ()
    assert from_random(None) != then


def test_functions_keep_their_identity_and_signature(lab: Lab) -> None:
    before: list[Callable[..., Any]] = [random.choice, uuid.uuid4, secrets.token_hex, random.Random.choice]
    signatures = [inspect.signature(function) for function in before]
    codes = [uuid.uuid4.__code__, random.Random.random, os.urandom, random.random, np.random.rand, np.random.Generator]

    def run() -> bool:
        now: list[Callable[..., Any]] = [random.choice, uuid.uuid4, secrets.token_hex, random.Random.choice]
        return now == before and [inspect.signature(function) for function in now] == signatures

    assert kept(lab, run)
    after = [uuid.uuid4.__code__, random.Random.random, os.urandom, random.random, np.random.rand, np.random.Generator]
    assert all(one is other for one, other in zip(codes, after, strict=True))


def test_a_population_that_shrank_is_drawn_from_anew(lab: Lab) -> None:
    sizes = [100]

    def run() -> int:
        return random.choice(range(sizes[0]))

    while kept(lab, run) < 2:
        pass
    sizes[0] = 2
    now, session = given(lab, run)
    assert now in (0, 1)
    (note,) = session.report.notes
    assert note.endswith("does not fit what is drawn from now: live")


# numpy ----------------------------------------------------------------------------------------------------------
def from_numpy(seed: int | None) -> list[Any]:
    rng, old = np.random.default_rng(seed), np.random.RandomState(seed)
    direct = np.random.Generator(np.random.PCG64(seed))
    if seed is not None:
        np.random.seed(seed)
    row, rows = list("abcdef"), np.arange(12).reshape(4, 3)
    rng.shuffle(row)
    rng.shuffle(rows)
    legacy = list(range(7))
    np.random.shuffle(legacy)
    filled = np.zeros(3)
    rng.random(out=filled)
    found = [rng.random(), rng.integers(0, 99, 4), rng.normal(size=(2, 2)), rng.choice(["x", "y"]), rng.permutation(5)]
    found += [row, rows, legacy, filled, direct.standard_normal(), old.rand(2), old.randint(5), np.random.rand()]
    return [*found, np.random.choice(9, 3), np.random.normal(), np.random.randint(0, 9, 2), rng.bytes(3)]


def alike(one: list[Any], other: list[Any]) -> bool:
    return all(type(a) is type(b) and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_numpy_is_the_same_with_and_without(lab: Lab) -> None:
    alone = from_numpy(3)
    assert alike(kept(lab, lambda: from_numpy(3)), alone)
    now, session = given(lab, lambda: from_numpy(3))
    assert alike(now, alone)
    assert session.report.notes == ()


def test_numpy_comes_back(lab: Lab) -> None:
    then = kept(lab, lambda: from_numpy(None))
    now, session = given(lab, lambda: from_numpy(None))
    assert alike(now, then)
    assert session.report.notes == ()


def test_a_generator_of_a_run_is_one_of_numpys(lab: Lab) -> None:
    plain = np.random.default_rng(1)

    def run() -> list[object]:
        made = np.random.default_rng(1)
        own = type("Own", (np.random.Generator,), {})
        return [
            isinstance(made, np.random.Generator) and isinstance(plain, np.random.Generator),
            isinstance(made, own),
            repr(made).partition(" ")[0],
            np.random.default_rng(made) is made,
        ]

    assert kept(lab, run) == [True, False, "Generator(PCG64)", True]
    with open_store(lab.store) as store:
        notes = store.recording(store.find_run("run").run_id).run.notes
    assert any("numpy generators were made before" in note for note in notes)
    assert plain.random() == np.random.default_rng(1).random()


def test_numpy_that_is_imported_later_is_on_the_tape(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "from otel_replay import boundary\n@boundary('tool')\ndef tool(x):\n    return x\n"
        "import numpy as np\n"
        "rng = np.random.default_rng()\ntool([float(rng.random()), float(np.random.rand())])\n"
    )
    for words in (("record", "cli", "--chance"), ("replay", "cli")):
        run = [sys.executable, "-m", "otel_replay", *words, "--store", str(lab.store), "--", "python", str(program)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


# The clock -------------------------------------------------------------------------------------------------------
def readings() -> list[Any]:
    from time import monotonic as by_name

    stamps: list[Any] = [time.time(), time.time_ns(), datetime.now(UTC), datetime.now(), date.today()]
    stamps += [time.monotonic(), time.monotonic_ns(), time.perf_counter(), by_name(), time.gmtime()]
    return stamps


def test_every_reading_comes_back_as_it_was(lab: Lab) -> None:
    then = kept(lab, readings, chance=False, clock="tape")
    now, session = given(lab, readings)
    assert now == then
    assert session.report.notes == ()
    live, _session = given(lab, readings, clock="live")
    assert all(one != other for one, other in zip(live[:4], then[:4], strict=True))
    given(lab, readings, clock="tape")


def test_the_clock_of_a_recording_is_the_true_one(lab: Lab) -> None:
    before = time.time_ns()
    found = kept(lab, lambda: [time.time_ns(), datetime.now(UTC).timestamp(), time.monotonic()], clock="tape")
    after = time.time_ns()
    assert before <= found[0] <= after
    assert before / 1e9 - 1e-3 <= found[1] <= after / 1e9 + 1e-3
    assert found[2] <= time.monotonic()
    assert not time_machine.escape_hatch.is_travelling()
    assert type(time.monotonic).__name__ == "builtin_function_or_method"


def test_one_reading_more_is_named_and_goes_on_from_the_last(lab: Lab) -> None:
    def v1() -> list[float]:
        return [time.time(), time.monotonic()]

    def v2() -> list[float]:
        began = [time.time(), time.monotonic()]
        return [*began, time.time() - began[0], time.monotonic() - began[1]]

    v2.__code__ = v2.__code__.replace(co_name="v1", co_qualname=v1.__code__.co_qualname)
    then = kept(lab, v1, clock="tape")
    now, session = given(lab, v2)
    assert now[:2] != then  # another line: another site
    assert all(0 <= elapsed < 60 for elapsed in now[2:])
    notes = session.report.notes
    assert notes != ()
    assert all(note.startswith("clock: ") and note.endswith("is not in the record: live") for note in notes)


def test_a_loop_until_a_deadline_turns_as_often(lab: Lab) -> None:
    def run() -> int:
        end, turns = time.monotonic() + 0.02, 0
        while time.monotonic() < end:
            turns += 1
            time.sleep(0.001)
        return turns

    then = kept(lab, run, clock="tape")
    now, session = given(lab, run)
    assert now == then
    assert session.report.notes == ()


def test_a_clock_tape_must_be_there_where_it_is_asked_for(lab: Lab) -> None:
    kept(lab, readings)
    with pytest.raises(UsageError, match="recorded without a tape of its clock"):
        lab.session(clock="tape")
    with pytest.raises(UsageError, match="live or tape"):
        record("x", clock="recorded")  # type: ignore[arg-type]


def test_a_frozen_clock_is_left_and_said(lab: Lab) -> None:
    with time_machine.travel("2030-05-06T00:00:00Z", tick=False):
        assert kept(lab, lambda: datetime.now(UTC).year, clock="tape") == 2030
    with open_store(lab.store) as store:
        notes = store.recording(store.find_run("run").run_id).run.notes
    assert any("had frozen its clock: there is no tape of it" in note for note in notes)


def test_our_own_work_is_on_no_tape(lab: Lab) -> None:
    def run() -> object:
        return [tool({"a": [1.5, "x"] * 20}) for _at in range(20)]

    kept(lab, run, clock="tape")
    with open_store(lab.store) as store:
        recording = store.recording(store.find_run("run").run_id)
    assert {"chance", "clock"} & {*recording.run.pins, *(k for e in recording.envelopes for k in e.pins)} == set()


def test_the_command_line_keeps_both(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import random, time, uuid\nfrom datetime import datetime\nfrom otel_replay import boundary\n"
        "@boundary('tool')\ndef tool(*x):\n    return 1\n"
        "rng = random.Random()\n"
        "tool(str(uuid.uuid4()), rng.random(), time.time(), datetime.now().isoformat(), time.monotonic())\n"
    )

    def command(*words: str) -> int:
        run = [sys.executable, "-m", "otel_replay", *words, "--store", str(lab.store), "--", "python", str(program)]
        return subprocess.run(run, capture_output=True, text=True, check=False).returncode

    assert command("record", "cli", "--chance", "--clock", "tape") == 0
    assert command("replay", "cli") == 0
    assert command("replay", "cli", "--clock", "tape") == 0
    assert command("replay", "cli", "--clock", "live") == 3
