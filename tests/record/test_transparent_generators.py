"""Generators keep their protocol: `send`, `throw`, `close`, left early, abandoned, never started."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from otel_replay import boundary

from .worlds import WORLDS, Worlds


@boundary("talk", kind="tool")
def talk(tag: str) -> Generator[Any, Any, str]:
    heard: list[Any] = []
    try:
        while len(heard) < 4:
            try:
                heard.append((yield (tag, len(heard))))
            except LookupError as fault:
                heard.append(str(fault))
    finally:
        ENDED.append(tag)
    return f"heard {heard}"


@boundary("atalk", kind="tool")
async def atalk(tag: str) -> AsyncGenerator[Any, Any]:
    heard: list[Any] = []
    try:
        while len(heard) < 4:
            try:
                heard.append((yield (tag, len(heard))))
            except LookupError as fault:
                heard.append(str(fault))
    finally:
        ENDED.append(tag)


ENDED: list[str] = []
SCRIPTS: dict[str, list[Any]] = {
    "to the end": ["next"] * 6,
    "sent": ["next", ("send", "a"), ("send", {"b": 1}), "next", ("send", None), "next"],
    "thrown in": ["next", ("throw", LookupError("one")), ("throw", IndexError("two")), "next"],
    "thrown out": ["next", ("throw", PermissionError("stop")), "next"],
    "closed": ["next", "next", "close", "next"],
    "closed twice": ["next", "close", "close"],
    "never started, closed": ["close", "next"],
    "sent before it began": [("send", 1), "next"],
    "abandoned": ["next", "next"],
    "never started": [],
}


def step_of(generator: Any, step: Any) -> Any:
    try:
        if step == "next":
            return next(generator)
        if step == "close":
            return generator.close()
        return getattr(generator, step[0])(step[1])
    except StopIteration as stop:
        return "over", stop.value
    except Exception as fault:  # the transcript is what is compared
        return type(fault).__name__, str(fault)


async def astep_of(generator: Any, step: Any) -> Any:
    try:
        if step == "next":
            return await anext(generator)
        if step == "close":
            return await generator.aclose()
        return await getattr(generator, "a" + step[0])(step[1])
    except StopAsyncIteration:
        return "over"
    except Exception as fault:
        return type(fault).__name__, str(fault)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_generators_protocol_is_the_same(worlds: Worlds, world: str, script: str, is_async: bool) -> None:
    def fresh(step: Any) -> Any:
        return (step[0], type(step[1])(*step[1].args)) if step[0] == "throw" else step

    def agent() -> list[Any]:
        generator = talk("t")
        return [step_of(generator, fresh(step)) for step in SCRIPTS[script]]

    async def aagent() -> list[Any]:
        generator = atalk("t")
        found = [await astep_of(generator, fresh(step)) for step in SCRIPTS[script]]
        del generator
        gc.collect()
        await asyncio.sleep(0)
        return found

    run: Callable[[], Any] = (lambda: asyncio.run(aagent())) if is_async else agent
    off, ended_off = worlds.run("off", run), list(ENDED)
    ENDED.clear()
    if world == "replayed" and not script.startswith("never") and script != "sent before it began":
        assert worlds.run(world, run) == off
    elif world != "replayed":
        assert worlds.run(world, run) == off
        assert ended_off == ENDED, "the program's own clean-up ran as often as without us"
    ENDED.clear()


@pytest.mark.parametrize("world", ["off", *WORLDS])
def test_yield_from_passes_everything_through(worlds: Worlds, world: str) -> None:
    def around() -> Generator[Any, Any, str]:
        answer = yield from talk("t")
        return f"<{answer}>"

    def agent() -> list[Any]:
        generator = around()
        steps = ["next", ("send", 1), ("throw", LookupError("x")), "next", "next"]
        return [step_of(generator, step) for step in steps]

    found = worlds.run(world, agent)
    assert found == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("over", "<heard [1, 'x', None, None]>")]
