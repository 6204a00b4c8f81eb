"""What a consumer does last to a generator decides what it gives back: it is compared like all that came before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any

import pytest

from otel_replay import Diverged, boundary, open_store, replay
from otel_replay.replay.driver import ReplayDriver

from .conftest import Lab

SECRET = "sk-proj-" + "a1B2" * 8
End = tuple[str, Any]


@boundary("gen", kind="tool")
def gen() -> Any:
    try:
        return ("sent", (yield 1))
    except ValueError as fault:
        return ("caught", str(fault))


@boundary("agen", kind="tool")
async def agen() -> Any:
    try:
        found = yield 1
    except ValueError as fault:
        raise LookupError(str(fault)) from None
    if found == "more":
        yield 2


def end_of(how: End) -> Any:
    stream = gen()
    next(stream)
    try:
        stream.throw(how[1]) if how[0] == "throw" else stream.send(how[1])
    except StopIteration as stop:
        return stop.value


def async_end_of(how: End) -> Any:
    async def go() -> Any:
        stream = agen()
        await anext(stream)
        try:
            await (stream.athrow(how[1]) if how[0] == "throw" else stream.asend(how[1]))
        except (StopAsyncIteration, LookupError) as fault:
            return repr(fault)

    return asyncio.run(go())


ENDS: list[End] = [
    ("send", None), ("send", 1), ("send", {"a": 1, "b": [2]}), ("send", f"my key is {SECRET}"),
    ("throw", ValueError("a")), ("throw", ValueError("b")),
]  # fmt: skip


@pytest.mark.parametrize("agent", [end_of, async_end_of])
@pytest.mark.parametrize("then", ENDS, ids=str)
@pytest.mark.parametrize("now", ENDS, ids=str)
def test_only_what_was_done_last_gives_what_it_gave(lab: Lab, agent: Callable[[End], Any], then: End, now: End) -> None:
    lab.record(lambda: agent(then))
    if str(then) == str(now):
        lab.replay(lambda: agent(now))
        return
    with pytest.raises(Diverged, match="diverged at its end: the consumer") as caught, lab.session():
        agent(now)
    assert caught.value.cause == "input drifted"
    assert SECRET not in str(caught.value)


def test_what_was_sent_is_compared_as_requests_are(lab: Lab) -> None:
    lab.record(lambda: end_of(("send", {"a": 1, "b": f"key {SECRET}"})))
    lab.replay(lambda: end_of(("send", {"b": f"key {SECRET}", "a": 1})))
    with pytest.raises(Diverged, match=r"\[redacted:openai-key#1\]"), lab.session():
        end_of(("send", {"a": 1, "b": f"another key {SECRET}"}))


def test_an_older_record_that_does_not_tell_what_ended_it_is_served_as_ever(lab: Lab) -> None:
    lab.record(lambda: end_of(("send", 5)))
    with open_store(lab.store) as store:
        (run,) = store.runs(limit=1)
        recording = store.recording(run.run_id)
    (envelope,) = recording.envelopes
    assert envelope.outcome.ended_by is not None
    older = changed(envelope, outcome=changed(envelope.outcome, ended_by=None))
    with replay(changed(recording, envelopes=(older,)), store=lab.store):
        assert end_of(("send", 5)) == ("sent", 5)


# What raises in a replay ------------------------------------------------------------------------------------------
@boundary("fail", kind="tool")
def fail(number: int) -> None:
    try:
        [][number]
    except IndexError:
        raise KeyError(number)  # noqa: B904 (the context is what is tested)


def chain(fault: BaseException | None) -> list[str]:
    return [] if fault is None else [type(fault).__name__, *chain(fault.__context__)]


def test_what_was_raised_keeps_what_it_was_raised_from_wherever_it_is_raised_again(lab: Lab) -> None:
    def agent() -> list[str]:
        try:
            raise OSError("being handled")
        except OSError:
            try:
                fail(1)
            except KeyError as fault:
                return chain(fault)
        return []

    assert lab.record(agent)[:2] == ["KeyError", "IndexError"]
    assert lab.replay(agent)[0][:2] == ["KeyError", "IndexError"]


def test_a_latched_fault_does_not_grow_with_each_raise(lab: Lab) -> None:
    def agent(number: int, times: int) -> list[int]:
        lengths = []
        for _ in range(times):
            try:
                fail(number)
            except Exception as fault:
                trace, length = fault.__traceback__, 0
                while trace is not None:
                    trace, length = trace.tb_next, length + 1
                lengths.append(length)
        return lengths

    lab.record(lambda: agent(1, 1))
    found: list[int] = []
    with pytest.raises(Diverged) as caught, lab.session():
        found = agent(2, 50)
    assert len(found) == 50
    assert max(found) < 2 * found[0] + 5
    names = [entry.name for entry in caught.traceback]
    assert ReplayDriver.enter.__name__ in names, "where it came about is still shown"


def test_a_returned_object_is_asked_for_nothing(lab: Lab) -> None:
    asked: list[str] = []

    class Remote:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

    @boundary("connect", kind="custom")
    def connect() -> Remote:
        return Remote()

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OTEL_REPLAY_STRICT")
        from otel_replay import record

        with record("remote", store=lab.store):
            assert isinstance(connect(), Remote)
    assert asked == []
