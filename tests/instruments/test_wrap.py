"""`wrap`: one client object is recorded, and no other of its library."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from typing import Any

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import pytest
import requests
import urllib3

from otel_replay import instrument, uninstrument, wrap
from otel_replay.errors import UsageError
from otel_replay.instruments import active
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply

from .conftest import Lab

ASK: list[Any] = [{"role": "user", "content": "hi"}]


def _openai(root: str) -> Any:
    return openai.OpenAI(base_url=root + "/v1", api_key="none", max_retries=0)


def _anthropic(root: str) -> Any:
    return anthropic.Anthropic(base_url=root, api_key="none", max_retries=0)


def _connection(root: str) -> Any:
    return http.client.HTTPConnection(root.removeprefix("http://"))


def _ask_connection(client: Any, root: str) -> Any:
    client.request("GET", "/x")
    return client.getresponse().read()


def _pool(root: str) -> Any:
    return urllib3.HTTPConnectionPool(root.removeprefix("http://").partition(":")[0], int(root.rpartition(":")[2]))


def _used(root: str) -> Any:
    manager = urllib3.PoolManager()
    manager.request("GET", root + "/before")
    return manager


Make = Callable[[str], Any]
Ask = Callable[[Any, str], Any]
CASES: list[tuple[Make, Ask]] = [
    (_openai, lambda client, _: client.chat.completions.create(model="m", messages=ASK)),
    (_anthropic, lambda client, _: client.messages.create(model="m", max_tokens=9, messages=ASK)),
    (lambda _: httpx.Client(), lambda client, root: client.get(root + "/x").content),
    (lambda _: httpx2.Client(), lambda client, root: client.get(root + "/x").content),
    (lambda _: requests.Session(), lambda client, root: client.get(root + "/x").content),
    (lambda _: urllib3.PoolManager(), lambda client, root: client.request("GET", root + "/x").data),
    (_used, lambda client, root: client.request("GET", root + "/x").data),
    (_pool, lambda client, _: client.request("GET", "/x").data),
    (_connection, _ask_connection),
]
IDS = ["openai", "anthropic", "httpx", "httpx2", "requests", "urllib3", "urllib3-used", "pool", "http.client"]


@pytest.mark.parametrize(("make", "ask"), CASES, ids=IDS)
def test_the_wrapped_client_is_recorded_and_its_twin_is_not(lab: Lab, make: Make, ask: Ask) -> None:
    with ModelServer(lambda request: reply.text("blue") if request.api else reply.json_body(b"{}")) as server:
        ours, other = make(server.root_url), make(server.root_url)
        assert wrap(ours) is ours
        assert wrap(ours) is ours
        recorded = lab.record(lambda: [ask(ours, server.root_url), ask(other, server.root_url)][0])
        assert len(lab.envelopes()) == 1
        root = server.root_url
    assert lab.replay(lambda: ask(ours, root)) == recorded
    assert active() == {}
    uninstrument()
    with ModelServer(lambda request: reply.text("blue") if request.api else reply.json_body(b"{}")) as server:
        again = make(server.root_url)
        lab.record(lambda: ask(again, server.root_url))
    assert lab.envelopes() == ()


def test_one_session_of_aiohttp(lab: Lab) -> None:
    async def agent(root: str, twin: bool) -> Any:
        async with aiohttp.ClientSession() as ours, aiohttp.ClientSession() as other:
            wrap(ours)
            if twin:
                await (await other.get(root + "/x")).read()
            return await (await ours.get(root + "/x")).read()

    with ModelServer(lambda request: reply.json_body(b"{}")) as server:
        recorded = lab.record(lambda: asyncio.run(agent(server.root_url, twin=True)))
        root = server.root_url
    assert len(lab.envelopes()) == 1
    assert lab.replay(lambda: asyncio.run(agent(root, twin=False))) == recorded


def test_copies_are_covered_and_only_those_of_the_wrapped(lab: Lab) -> None:
    with ModelServer(lambda request: reply.text("blue")) as server:
        ours, other = wrap(_openai(server.root_url)), _openai(server.root_url)

        def agent() -> None:
            for client in (ours.with_options(timeout=5), ours.copy(max_retries=1).with_options(timeout=4)):
                client.chat.completions.create(model="m", messages=ASK)
            other.with_options(timeout=5).chat.completions.create(model="m", messages=ASK)

        lab.record(agent)
    assert len(lab.envelopes()) == 2


def test_instrument_covers_all_and_a_dry_call_leaves_the_wrapped_as_they_were(lab: Lab) -> None:
    with ModelServer(lambda request: reply.text("blue")) as server:
        ours, other = wrap(_openai(server.root_url)), _openai(server.root_url)

        def agent() -> None:
            for client in (ours, other):
                client.chat.completions.create(model="m", messages=ASK)

        assert {found.name: found.problem for found in dry_calls()}["openai"] == ""
        lab.record(agent)
        assert len(lab.envelopes()) == 1
        assert instrument("openai") == ("openai",)
        lab.record(agent)
        assert len(lab.envelopes()) == 2


@pytest.mark.parametrize("thing", [object(), "text", openai])
def test_what_is_no_client_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match="no instrument knows how to wrap"):
        wrap(thing)
    assert active() == {}
