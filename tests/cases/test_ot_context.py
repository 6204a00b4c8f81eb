"""OT-01, OT-03: contexts that end elsewhere, threads and executors of every kind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import Diverged, boundary, record

from .conftest import Lab, ours

RAN: list[Any] = []


@boundary("tool", kind="tool")
def tool(value: Any) -> str:
    RAN.append(value)
    return f"<{value}>"


@boundary("atool", kind="tool")
async def atool(value: Any) -> str:
    RAN.append(value)
    await asyncio.sleep(0)
    return f"<{value}>"


@boundary("turn", kind="custom")
async def turn() -> AsyncGenerator[str, None]:
    for number in range(3):
        yield await atool(number)


# OT-01 -------------------------------------------------------------------------------------------------------------
async def closed_in_another_task() -> None:
    generator = turn()
    await anext(generator)
    await asyncio.create_task(generator.aclose())


async def stepped_in_other_tasks() -> None:
    generator = turn()
    for _ in range(3):
        await asyncio.create_task(anext(generator))
    await asyncio.create_task(generator.aclose())


async def stepped_in_other_contexts() -> None:
    generator = turn()
    for _ in range(3):
        await asyncio.get_running_loop().create_task(anext(generator), context=contextvars.Context())


async def broken_off() -> None:
    async for _ in turn():
        break
    gc.collect()
    await asyncio.sleep(0)


async def cancelled_response() -> None:
    async def respond() -> None:
        async for _ in turn():
            await asyncio.sleep(30)

    task = asyncio.create_task(respond())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def thrown_in_elsewhere() -> None:
    generator = turn()
    await anext(generator)
    with pytest.raises(LookupError):
        await asyncio.create_task(generator.athrow(LookupError("x")))


async def run_held_over_a_yield() -> None:
    async def held() -> AsyncGenerator[str, None]:
        with record("inside", store=Path("inside")):
            for number in range(3):
                yield await atool(number)

    generator = held()
    await anext(generator)
    await asyncio.create_task(generator.aclose())


WAYS = [
    closed_in_another_task, stepped_in_other_tasks, stepped_in_other_contexts, broken_off, cancelled_response,
    thrown_in_elsewhere, run_held_over_a_yield,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_ot_01_nothing_is_logged_and_the_span_ends_once_under_its_parent(
    lab: Lab, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, way: Callable[[], Any]
) -> None:
    with caplog.at_level(logging.WARNING):
        lab.record(lambda: asyncio.run(way()))
    assert not [entry.getMessage() for entry in caplog.records]
    if way is run_held_over_a_yield:
        return
    found = ours(spans)
    (run,) = [span for span in spans.get_finished_spans() if span.name == "run"]
    assert found["turn[1]"].parent.span_id == run.context.span_id
    assert {found[name].parent.span_id for name in found if "/" in name} == {found["turn[1]"].context.span_id}
    assert found["turn[1]"].end_time >= max(span.end_time for span in found.values())
    with caplog.at_level(logging.WARNING):
        lab.replay(lambda: asyncio.run(way()))
    assert not [entry.getMessage() for entry in caplog.records]


# OT-03 -------------------------------------------------------------------------------------------------------------
def by_map() -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(tool, ["a", "b", "c"]))


def by_submit() -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(tool, value) for value in "abc"]]


BEFORE = ThreadPoolExecutor(2)
POOL_BEFORE = ThreadPool(2)


def by_a_pool_made_before_the_run() -> list[str]:
    return [future.result() for future in [BEFORE.submit(tool, value) for value in "abc"]]


def by_run_in_executor() -> list[str]:
    async def go() -> list[str]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, tool, value) for value in "abc"))

    return asyncio.run(go())


def by_to_thread() -> list[str]:
    async def go() -> list[str]:
        return await asyncio.gather(*(asyncio.to_thread(tool, value) for value in "abc"))

    return asyncio.run(go())


def by_threads() -> list[str]:
    found: dict[str, str] = {}
    threads = [threading.Thread(target=lambda value=value: found.update({value: tool(value)})) for value in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[value] for value in "abc"]


def by_a_subclass_of_thread() -> list[str]:
    class Worker(threading.Thread):
        def __init__(self, value: str) -> None:
            super().__init__(daemon=True)
            self.value, self.found = value, ""

        def run(self) -> None:
            self.found = tool(self.value)

    workers = [Worker(value) for value in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [worker.found for worker in workers]


def by_timers() -> list[str]:
    found: dict[str, str] = {}
    timers = [threading.Timer(0.01, lambda value=value: found.update({value: tool(value)})) for value in "abc"]
    for timer in timers:
        timer.start()
    for timer in timers:
        timer.join()
    return [found[value] for value in "abc"]


def by_a_loop_in_a_thread() -> list[str]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    futures = [asyncio.run_coroutine_threadsafe(atool(value), loop) for value in "abc"]
    found = [future.result() for future in futures]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    return found


def by_a_thread_in_a_thread() -> list[str]:
    def outer() -> list[str]:
        return by_threads()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(outer).result()


def by_pool_map() -> list[str]:
    with ThreadPool(2) as pool:
        return pool.map(tool, "abc")


def by_pool_imap() -> list[str]:
    with ThreadPool(2) as pool:
        return sorted(pool.imap_unordered(tool, "abc")) + list(pool.imap(tool, "de"))


def by_pool_apply_async() -> list[str]:
    return [found.get() for found in [POOL_BEFORE.apply_async(tool, (value,)) for value in "abc"]]


def by_pool_starmap() -> list[str]:
    return POOL_BEFORE.starmap(tool, [("a",), ("b",)])


def by_copied_contexts() -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return [pool.submit(contextvars.copy_context().run, tool, value).result() for value in "abc"]


EXECUTORS = [
    by_map, by_submit, by_a_pool_made_before_the_run, by_run_in_executor, by_to_thread, by_threads,
    by_a_subclass_of_thread, by_timers, by_a_loop_in_a_thread, by_a_thread_in_a_thread, by_pool_map, by_pool_imap,
    by_pool_apply_async, by_pool_starmap, by_copied_contexts,
]  # fmt: skip


@pytest.mark.parametrize("way", EXECUTORS)
@pytest.mark.parametrize("under", ["run", "crossing"])
def test_ot_03_tools_in_workers_have_their_run_and_parent(
    lab: Lab, spans: InMemorySpanExporter, way: Callable[[], list[str]], under: str
) -> None:
    @boundary("plan", kind="custom")
    def plan() -> list[str]:
        return way()

    agent = plan if under == "crossing" else way
    without = agent()
    with record("beside", store=lab.store):  # a second run in the process: nobody can guess the parent
        context = contextvars.Context()
        recorded = context.run(lab.record, agent)
    assert recorded == without
    found = lab.envelopes()
    prefix = "plan[1]/" if under == "crossing" else ""
    tools = [envelope for envelope in found if envelope.boundary != "plan"]
    assert len(tools) == len(without)
    assert all(envelope.address.startswith(f"{prefix}{envelope.boundary}[") for envelope in tools)
    assert not [note for envelope in tools for note in envelope.notes if note.startswith("context lost")]
    by_id = {str((s.attributes or {}).get("otel_replay.run.id")) for s in spans.get_finished_spans() if s.name == "run"}
    assert by_id == {lab.run_id}
    parents = {span.parent.span_id for name, span in ours(spans).items() if "tool[" in name}
    (run,) = [span for span in spans.get_finished_spans() if span.name == "run"]
    parent = ours(spans)["plan[1]"] if under == "crossing" else run
    assert parents == {parent.context.span_id}
    RAN.clear()
    assert lab.replay(agent) == recorded
    assert not RAN, "no live call from a worker"


def test_ot_03_a_worker_in_a_replay_is_refused_what_was_not_recorded(lab: Lab) -> None:
    for way in (by_pool_map, by_threads):
        lab.record(way)
        RAN.clear()
        with pytest.raises(Diverged):
            lab.replay(lambda: POOL_BEFORE.map(tool, "xyz"))
        assert not RAN


def test_ot_03_a_worker_of_the_programs_own_is_lent_to_the_only_run_and_free_again(lab: Lab) -> None:
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def serve() -> None:
        for value in iter(jobs.get, None):
            try:
                answers.put(tool(value))
            except Exception as fault:
                answers.put(fault)

    worker = threading.Thread(target=serve, daemon=True)
    worker.start()

    def agent() -> Any:
        jobs.put("a")
        return answers.get()

    assert lab.record(agent) == "<a>"
    (envelope,) = lab.envelopes()
    assert envelope.notes == ("context lost: attached to the only active run",)
    RAN.clear()
    assert lab.replay(agent) == "<a>"
    assert not RAN
    assert agent() == "<a>", "with nothing active it is a plain call again"
    assert lab.record(agent) == "<a>"
    assert len(lab.envelopes()) == 1, "and belongs to the next run"
    jobs.put(None)
    worker.join()
