"""What a server does wrong, and how it cuts what it sends, is the same to a client in a record's replay.

Each way of reading is tried against each answer: bodies shorter than they say, connections that break, broken framing
and packing, portions that split lines, characters and events; the classes and words of what is raised.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from otel_replay import instrument

from .conftest import Lab
from .wire_server import ANSWERS, serving

Way: TypeAlias = Callable[[str], Any]
WAIT_S = 0.4
WAYS: dict[str, Way] = {}


def raised(error: BaseException) -> list[tuple[str, str, str]]:
    """Return class, words and arguments of an error and of all that it came from, without addresses in memory."""
    found, seen = [], set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        words = [re.sub(r"0x[0-9a-f]+|scope [0-9a-f]+", "...", text) for text in (str(at), repr(at.args))]
        found.append((f"{type(at).__module__}.{type(at).__qualname__}", words[0], words[1]))
        at = at.__cause__ or at.__context__
    return found


def read(parts: Any, facts: Any) -> Any:
    """Return the facts of an answer, its parts, and what broke them off."""
    found: list[Any] = []
    try:
        found.extend(parts)
    except Exception as error:
        return facts(), found, raised(error)
    return facts(), found


def until_empty(step: Callable[[], Any]) -> Iterator[Any]:
    while part := step():
        yield part


def _requests(name: str, parts: Callable[[Any], Any]) -> None:
    def way(url: str) -> Any:
        answer = requests.get(url, timeout=WAIT_S, stream=True)
        shown = answer.status_code, answer.reason, dict(answer.headers), answer.encoding, answer.raw.version
        return read(parts(answer), lambda: shown)

    WAYS[f"urllib3: requests {name}"] = way


_requests("content", lambda answer: [answer.content])
_requests("lines", lambda answer: answer.iter_lines())
_requests("chunks", lambda answer: answer.iter_content(None))
_requests("sevens", lambda answer: answer.iter_content(7))
_requests("raw", lambda answer: until_empty(lambda: answer.raw.read(4)))


def _urllib3(name: str, parts: Callable[[Any], Any]) -> None:
    def way(url: str) -> Any:
        answer = urllib3.PoolManager(retries=False).request("GET", url, timeout=WAIT_S, preload_content=False)
        shown = answer.status, answer.reason, list(answer.headers.items()), answer.version
        return read(parts(answer), lambda: shown)

    WAYS[f"urllib3: {name}"] = way


_urllib3("stream", lambda answer: answer.stream(5))
_urllib3("lines", iter)
_urllib3("read1", lambda answer: until_empty(lambda: answer.read1(1000)))


def _urllib(name: str, parts: Callable[[Any], Any]) -> None:
    def way(url: str) -> Any:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:  # the loopback
            shown = answer.status, answer.reason, answer.getheaders(), answer.version
            return read(parts(answer), lambda: shown)

    WAYS[f"http_client: urllib {name}"] = way


_urllib("read", lambda answer: [answer.read()])
_urllib("lines", iter)
_urllib("fours", lambda answer: until_empty(lambda: answer.read(4)))
_urllib("read1", lambda answer: until_empty(lambda: answer.read1(50)))


def _httpx(module: Any, name: str) -> None:
    def facts(answer: Any) -> Any:
        line = answer.status_code, answer.reason_phrase, answer.http_version, answer.extensions["reason_phrase"]
        return *line, answer.headers.raw, answer.is_closed, answer.is_stream_consumed, answer.num_bytes_downloaded

    def sync(url: str) -> Any:
        with module.Client(timeout=WAIT_S) as client, client.stream("GET", url) as answer:
            return read(getattr(answer, f"iter_{name}")(), lambda: facts(answer))

    async def anew(url: str) -> Any:
        async with module.AsyncClient(timeout=WAIT_S) as client, client.stream("GET", url) as answer:
            found: list[Any] = []
            try:
                async for part in getattr(answer, f"aiter_{name}")():
                    found.append(part)
            except Exception as error:
                return facts(answer), found, raised(error)
            return facts(answer), found

    WAYS[f"{module.__name__}: {name}"] = sync
    WAYS[f"{module.__name__}: async {name}"] = lambda url: asyncio.run(anew(url))


for _module in (httpx, httpx2):
    for _name in ("bytes", "raw", "lines"):
        _httpx(_module, _name)


def _aiohttp(name: str, parts: Callable[[Any], Any]) -> None:
    async def go(url: str) -> Any:
        patience = aiohttp.ClientTimeout(total=WAIT_S * 2, sock_read=WAIT_S)
        async with aiohttp.ClientSession(timeout=patience) as session, session.get(url) as answer:
            shown = answer.status, answer.reason, list(answer.headers.items()), answer.raw_headers, answer.version
            found: list[Any] = []
            try:
                async for part in parts(answer):
                    found.append(part)
            except Exception as error:
                return shown, found, raised(error)
            return shown, found

    WAYS[f"aiohttp: {name}"] = lambda url: asyncio.run(go(url))


async def _whole(answer: Any) -> Any:
    yield await answer.read()


async def _threes(answer: Any) -> Any:
    while part := await answer.content.read(3):
        yield part


_aiohttp("read", _whole)
_aiohttp("threes", _threes)
_aiohttp("any", lambda answer: answer.content.iter_any())
_aiohttp("lines", lambda answer: answer.content)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def asked(way: Way, url: str) -> Any:
    try:
        return "answered", way(url)
    except (OSError, http.client.HTTPException, urllib3.exceptions.HTTPError, httpx.HTTPError, httpx2.HTTPError,
            aiohttp.ClientError) as error:  # fmt: skip
        return "raised", raised(error)


@pytest.mark.parametrize("path", ANSWERS)
@pytest.mark.parametrize("name", WAYS)
def test_a_replay_gives_what_was_read_and_raises_what_was_raised(lab: Lab, url: str, name: str, path: str) -> None:
    instrument(name.partition(":")[0])
    recorded = lab.record(lambda: asked(WAYS[name], url + path))
    assert lab.replay(lambda: asked(WAYS[name], url + path)) == recorded


@pytest.mark.parametrize("path", ["/events", "/parts", "/short", "/chunk-cut", "/spelling"])
@pytest.mark.parametrize("name", [name for name in WAYS if not name.endswith(": any")])
def test_recording_changes_nothing_that_is_read(lab: Lab, url: str, name: str, path: str) -> None:
    plain = asked(WAYS[name], url + path)
    instrument(name.partition(":")[0])
    assert lab.record(lambda: asked(WAYS[name], url + path)) == plain
