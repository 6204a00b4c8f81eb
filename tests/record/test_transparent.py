"""Results, raises and what `inspect` says are the same without a recorder, recording, and replaying."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import traceback
import types
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_replay import boundary, record

from .worlds import WORLDS, Worlds


# Results and exceptions ------------------------------------------------------------------------------------------
@boundary("same", kind="tool")
def same(value: Any) -> Any:
    return value


@boundary("asame", kind="tool")
async def asame(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@boundary("fails", kind="tool")
def fails(how: Any) -> Any:
    inner(how)


def inner(how: Any) -> None:
    try:
        raise KeyError("first")
    except KeyError as first:
        if isinstance(how, BaseException):
            raise how from first
        raise ValueError(how) from first


@boundary("afails", kind="tool")
async def afails(how: Any) -> Any:
    await asyncio.sleep(0)
    inner(how)


@pytest.mark.parametrize("world", ["off", "recorded", "recorded with spans"])
def test_the_object_that_was_returned_is_the_object_that_arrives(worlds: Worlds, world: str) -> None:
    things: list[Any] = [object(), [1], {"a": {1, 2}}, None, lambda: 1]

    def agent() -> bool:
        found = [same(thing) for thing in things] + [asyncio.run(asame(thing)) for thing in things]
        return all(one is other for one, other in zip(found, things * 2, strict=True))

    provider = TracerProvider() if world == "recorded with spans" else None
    if world == "off":
        assert agent()
        return
    with record("loose", store=worlds.store, tracer_provider=provider):  # some of them cannot be kept
        assert agent()


def call_failing(how: Any, is_async: bool) -> None:
    if is_async:
        asyncio.run(afails(how))
    fails(how)


def users_frames(fault: BaseException) -> list[tuple[str, str, int | None]]:
    return [
        (frame.filename, frame.name, frame.lineno)
        for frame in traceback.extract_tb(fault.__traceback__)
        if frame.filename == __file__
    ]


@pytest.mark.parametrize("world", ["recorded", "recorded with spans"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_raise_is_the_same_object_with_the_same_frames_and_chain(worlds: Worlds, world: str, is_async: bool) -> None:
    given = OSError(5, "disk")
    given.add_note("noted")

    def agent() -> tuple[Any, ...]:
        try:
            call_failing(given, is_async)
        except OSError as fault:
            text = [line for line in traceback.format_exception(fault) if "otel_replay" not in line]
            return fault is given, users_frames(fault), type(fault.__cause__), fault.__context__, fault.__notes__, text
        raise AssertionError("nothing was raised")

    without = worlds.run("off", agent)
    given.__traceback__ = None
    now = worlds.run(world, agent)
    assert now[0] is True
    assert now[1] == without[1]
    assert [name for _file, name, _line in now[1]][-1] == "inner"
    assert (now[2], type(now[3]), now[4]) == (KeyError, KeyError, ["noted"])
    assert now[5][-2:] == without[5][-2:]


@pytest.mark.parametrize("world", ["off", *WORLDS])
def test_except_clauses_catch_what_they_caught(worlds: Worlds, world: str) -> None:
    def agent() -> list[str]:
        found = []
        for how, is_async in (("x", False), ("y", True)):
            try:
                call_failing(how, is_async)
            except (TypeError, ValueError) as fault:
                found.append(f"{type(fault).__name__} {fault} {type(fault.__cause__).__name__}")
        return found

    assert worlds.run(world, agent) == ["ValueError x KeyError", "ValueError y KeyError"]


class Held:
    """Something whose end the program watches: a connection, a temporary file."""


@pytest.mark.parametrize("world", ["off", "recorded", "recorded with spans"])
def test_what_the_program_lets_go_ends_at_once(worlds: Worlds, world: str) -> None:
    seen: list[weakref.ref[Held]] = []

    @boundary("raises")
    def raises(argument: list[int]) -> None:
        mine = Held()
        seen.append(weakref.ref(mine))
        raise ValueError(len(argument))

    @boundary("araises")
    async def araises(argument: list[int]) -> None:
        mine = Held()
        seen.append(weakref.ref(mine))
        raise ValueError(len(argument))

    def agent() -> list[bool]:
        for _ in range(2):
            try:
                raises([1])
            except ValueError:
                pass
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(araises([1]))
        except ValueError:
            pass
        loop.close()
        return [reference() is None for reference in seen]

    gc.disable()
    try:
        assert worlds.run(world, agent)[:2] == [True, True]
        assert all(reference() is None for reference in seen[:2])
    finally:
        gc.enable()


# What inspect says -----------------------------------------------------------------------------------------------
def plain(a: int, /, b: str = "x", *args: int, c: float = 1.0, **more: int) -> str:
    """Say something."""
    return b


async def coroutine(a: int, b: str = "x") -> str:
    return b


def generator(count: int) -> Iterator[int]:
    yield from range(count)


async def async_generator(count: int) -> AsyncGenerator[int, None]:
    for number in range(count):
        yield number


class Tool:
    def method(self, value: int) -> int:
        return value

    async def amethod(self, value: int) -> int:
        return value

    @classmethod
    def of_class(cls, value: int) -> int:
        return value

    @staticmethod
    def static(value: int) -> int:
        return value

    def __call__(self, value: int) -> int:
        return value


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "signature": inspect.signature,
    "coroutine function": inspect.iscoroutinefunction,
    "asyncio's coroutine function": asyncio.iscoroutinefunction,
    "generator function": inspect.isgeneratorfunction,
    "async generator function": inspect.isasyncgenfunction,
    "routine": inspect.isroutine,
    "name": lambda fn: fn.__name__,
    "qualified name": lambda fn: fn.__qualname__,
    "module": lambda fn: fn.__module__,
    "doc": inspect.getdoc,
    "source": inspect.getsource,
    "annotations": lambda fn: fn.__annotations__,
    "full argument spec": inspect.getfullargspec,
    "callable": callable,
}


@pytest.mark.parametrize("fn", [plain, coroutine, generator, async_generator, Tool.method, Tool.amethod, Tool.static])
def test_inspect_gives_the_same_answers(fn: Any) -> None:
    marked = boundary("marked")(fn)
    assert {what: ask(marked) for what, ask in QUESTIONS.items()} == {what: ask(fn) for what, ask in QUESTIONS.items()}


def test_methods_of_every_kind_stay_methods(worlds: Worlds) -> None:
    class Marked(Tool):
        method = boundary("method")(Tool.method)
        amethod = boundary("amethod")(Tool.amethod)
        of_class = classmethod(boundary("of_class")(Tool.of_class.__func__))  # type: ignore[attr-defined]
        static = staticmethod(boundary("static")(Tool.static))

    tool = Marked()
    assert inspect.ismethod(tool.method)
    assert inspect.iscoroutinefunction(tool.amethod)
    assert str(inspect.signature(tool.method)) == str(inspect.signature(Tool().method))

    def agent() -> list[int]:
        return [tool.method(1), asyncio.run(tool.amethod(2)), Marked.of_class(3), tool.static(4), Marked.static(5)]

    for world in ["off", *WORLDS]:
        assert worlds.run(world, agent) == [1, 2, 3, 4, 5]


@types.coroutine
def by_hand(value: int) -> Generator[Any, Any, int]:
    yield
    return value


def returns_a_generator_to_await(value: int) -> Awaitable[int]:
    return by_hand(value)


def returns_a_coroutine(value: int) -> Awaitable[int]:
    return asame(value)


def returns_a_future(value: int) -> Awaitable[int]:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, value)
    return future


def returns_a_task(value: int) -> Awaitable[int]:
    return asyncio.ensure_future(asame(value))


AWAITABLES = [by_hand, returns_a_generator_to_await, returns_a_coroutine, returns_a_future, returns_a_task]


@pytest.mark.parametrize("world", ["off", *WORLDS])
@pytest.mark.parametrize("fn", AWAITABLES)
def test_whatever_can_be_awaited_still_can(worlds: Worlds, world: str, fn: Callable[[int], Awaitable[int]]) -> None:
    marked = boundary("marked", kind="tool")(fn)

    async def agent() -> tuple[int, bool]:
        given = marked(7)
        return await given, asyncio.isfuture(given)

    assert worlds.run(world, lambda: asyncio.run(agent())) == (7, fn in (returns_a_future, returns_a_task))


@pytest.mark.parametrize("world", ["off", *WORLDS])
def test_a_future_that_fails_or_is_cancelled_does_so(worlds: Worlds, world: str) -> None:
    @boundary("later", kind="tool")
    def later(how: str) -> Awaitable[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if how == "fail":
            future.set_exception(PermissionError("no"))
        else:
            asyncio.get_running_loop().call_soon(future.cancel)
        return future

    async def agent() -> list[str]:
        found = []
        try:
            await later("fail")
        except PermissionError as fault:
            found.append(str(fault))
        if world != "replayed":  # nobody cancels it there: it would wait to be cancelled, and then be refused
            try:
                await later("cancel")
            except asyncio.CancelledError:
                found.append("cancelled")
        return found

    if world == "replayed":
        assert worlds.run(world, lambda: asyncio.run(agent())) == ["no"]
    else:
        assert worlds.run(world, lambda: asyncio.run(agent())) == ["no", "cancelled"]


def test_a_partial_of_a_coroutine_function_is_one(worlds: Worlds) -> None:
    marked: Any = boundary("marked")(functools.partial(coroutine, b="y"))
    assert inspect.iscoroutinefunction(marked)
    for world in ["off", *WORLDS]:
        assert worlds.run(world, lambda: asyncio.run(marked(1))) == "y"
