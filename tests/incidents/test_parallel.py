"""Parallel agents on the real client: full replay of unchanged code is the recording, thirty times of thirty."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import openai
import pytest

from bench.incidents._common import client, function, opening
from otel_replay import Diverged, boundary, record, replay
from otel_replay.testing import ModelServer, Request, reply
from otel_replay.testing.reply import Reply

TIMES = 30
NOBODY = "http://127.0.0.1:9/v1"
SEARCH = [function("search", "Search", query="string")]
DELAYS_S = {"slow": 0.06, "middle": 0.03, "fast": 0.0}


def model(request: Request) -> Reply:
    """Ask for a search of what the user wants; later for those who are called slow."""
    words = request.messages[-1]["content"]
    return reply.after(DELAYS_S.get(words.split()[0], 0), reply.tool_call("search", {"query": words}))


@boundary("search", kind="tool")
async def search(query: str) -> str:
    await asyncio.sleep(0)
    return f"found {query}"


@boundary("search", kind="tool")
def search_sync(query: str) -> str:
    return f"found {query}"


def asks(llm: openai.AsyncOpenAI) -> Callable[[str], Any]:
    @boundary("agent", kind="model")
    async def agent(messages: list[Any]) -> Any:
        return await llm.chat.completions.create(model="demo-1", messages=messages, tools=SEARCH)

    async def sub_agent(wish: str) -> str:
        answer = await agent(opening("You search.", wish))
        call = answer.choices[0].message.tool_calls[0]
        return await search(**json.loads(call.function.arguments))

    return sub_agent


async def gathered(url: str) -> list[str]:
    """Two sub-agents of two steps each, the second faster."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as llm:
        sub_agent = asks(llm)
        return list(await asyncio.gather(sub_agent("slow flights"), sub_agent("fast hotels")))


async def grouped(url: str) -> list[str]:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as llm, asyncio.TaskGroup() as group:
        sub_agent = asks(llm)
        tasks = [group.create_task(sub_agent(wish)) for wish in ("slow a", "fast b", "middle c", "fast b")]
    return [task.result() for task in tasks]


async def in_order_of_arrival(url: str) -> list[str]:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as llm:
        sub_agent = asks(llm)
        tasks = [asyncio.ensure_future(sub_agent(wish)) for wish in ("slow a", "middle b", "fast c")]
        return [await arrived for arrived in asyncio.as_completed(tasks)]


async def one_after_the_other(url: str) -> list[str]:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as llm:
        sub_agent = asks(llm)
        return [await sub_agent("slow flights"), await sub_agent("fast hotels")]


def of_threads(url: str) -> Callable[[str], str]:
    llm = client(url)

    @boundary("agent", kind="model")
    def agent(messages: list[Any]) -> Any:
        return llm.chat.completions.create(model="demo-1", messages=messages, tools=SEARCH)

    def job(wish: str) -> str:
        call = agent(opening("You search.", wish)).choices[0].message.tool_calls[0]
        return search_sync(**json.loads(call.function.arguments))

    return job


WISHES = ["slow 1", "fast 2", "middle 3", "fast 4", "slow 5", "fast 6"]


def pool_of_two(url: str) -> list[str]:
    """Six jobs on two threads, their answers in the order of the jobs."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(of_threads(url), WISHES))


def pool_in_order_of_arrival(url: str) -> list[str]:
    job = of_threads(url)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(job, wish) for wish in ("slow a", "middle b", "fast c")]
        return [future.result() for future in as_completed(futures)]


def two_threads(url: str) -> list[str]:
    job = of_threads(url)
    found: dict[str, str] = {}
    threads = [threading.Thread(target=lambda w=wish: found.update({w: job(w)})) for wish in ("slow a", "fast b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found["slow a"], found["fast b"]]


def run_async(agent: Callable[[str], Any]) -> Callable[[str], list[str]]:
    def run(url: str) -> list[str]:
        return list(asyncio.run(agent(url)))

    return run


AGENTS: dict[str, Callable[[str], list[str]]] = {
    "gather": run_async(gathered),
    "task group": run_async(grouped),
    "as_completed": run_async(in_order_of_arrival),
    "pool": pool_of_two,
    "pool as_completed": pool_in_order_of_arrival,
    "threads": two_threads,
}


@pytest.mark.parametrize("name", AGENTS)
def test_full_replay_is_the_recording_thirty_times(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # out of this repository: a commit beside the test would be another pin
    run = AGENTS[name]
    with ModelServer(model) as server, record("parallel", store=tmp_path) as recording:
        answer = run(server.url)
        recording.answer(answer)
    if "as_completed" in name:
        assert [words.split()[1] for words in answer] == ["fast", "middle", "slow"]
    reports = set()
    began = time.monotonic()
    for _ in range(TIMES):
        with replay("parallel", store=tmp_path) as session:
            again = run(NOBODY)
            session.answer(again)
        assert again == answer
        reports.add(session.report.json())
    assert len(reports) == 1
    assert session.report.counts() == {"served": server.count * 2}
    assert time.monotonic() - began < TIMES, "a served crossing waits for nobody"


def test_what_was_parallel_may_be_awaited_one_after_the_other_but_not_the_other_way_round(tmp_path: Path) -> None:
    with ModelServer(model) as server:
        for name, run in (("side by side", gathered), ("in turn", one_after_the_other)):
            with record(name, store=tmp_path):
                asyncio.run(run(server.url))
    with replay("side by side", store=tmp_path) as session:
        assert asyncio.run(one_after_the_other(NOBODY)) == ["found slow flights", "found fast hotels"]
    assert session.report.verdict == "passed"
    with pytest.raises(Diverged, match="parallel"), replay("in turn", store=tmp_path):
        asyncio.run(gathered(NOBODY))
