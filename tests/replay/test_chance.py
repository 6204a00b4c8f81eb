"""Recorded random values are bound to call site and occurrence (RP-25); our own work never shows in them."""

from __future__ import annotations

import os
import random
import secrets
import uuid
from random import random as by_name
from typing import Any

import numpy as np
import pytest

from otel_replay import Diverged, boundary, open_store, record

from .conftest import Lab


@boundary("tool", kind="tool")
def tool(id: object) -> object:
    return id


def v1() -> object:
    run_id = uuid.uuid4()
    return tool(run_id)


def v2() -> object:
    jitter = random.random()
    run_id = uuid.uuid4()
    assert 0 <= jitter < 1
    return tool(run_id)


# The next version of the same function.
v2.__code__ = v2.__code__.replace(co_name="v1", co_qualname="v1")


def test_RP_25_one_more_random_number_shifts_nothing(lab: Lab) -> None:
    with record("run", store=lab.store, chance=True):
        then = v1()
    assert lab.replay(v1)[0] == then
    now, session = lab.replay(v2)
    assert now == then
    assert session.report.verdict == "passed"
    (note,) = session.report.notes
    assert note.endswith("random.random:jitter = random.random() is not in the record: live")


def test_without_a_tape_a_drawn_id_diverges(lab: Lab) -> None:
    lab.record(v1)
    with pytest.raises(Diverged), lab.session():
        v1()


def draws() -> list[Any]:
    kept = [object(), object(), object()]
    order = list(range(8))
    random.shuffle(order)
    numbers = [random.randint(1, 10**9) for _at in range(5)]
    picked = kept.index(random.choice(kept))
    some = random.sample("abcdefghij", 4)
    drawn = [by_name(), secrets.token_hex(8), os.urandom(6), str(uuid.uuid1()), float(np.random.rand())]
    return [order, numbers, picked, some, random.choices(range(99), k=3), *drawn, tool("x")]


def test_every_source_comes_back(lab: Lab) -> None:
    with record("run", store=lab.store, chance=True):
        then = draws()
    assert lab.replay(draws)[0] == then
    assert draws() != then
    assert by_name.__module__ != "otel_replay.chance"


def test_what_the_program_draws_is_the_same_with_and_without(lab: Lab) -> None:
    def seeded() -> list[Any]:
        random.seed(7)
        found = [random.random(), random.choice("abc"), random.sample(range(50), 5), random.choices("xyz", k=2)]
        order = [3, 1, 2]
        random.shuffle(order)
        return [*found, order, random.random(), tool(1), random.getstate()]

    alone = seeded()
    with record("run", store=lab.store, chance=True):
        assert seeded() == alone
    assert lab.replay(seeded)[0] == alone


def test_many_numbers_make_no_crossings(lab: Lab) -> None:
    with record("run", store=lab.store, chance=True):
        then = [random.random() for _at in range(10_000)]
        tool(1)
    with open_store(lab.store) as store:
        recording = store.recording(store.find_run("run").run_id)
    assert len(recording.envelopes) == 1
    tape: Any = recording.run.pins["chance"]
    assert sum(len(values) for values in tape.values()) == len(then)
