"""Transports: httpx, httpx2, urllib3, requests, aiohttp and the standard library, against a local server."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from otel_replay import Diverged, instrument, payload

from .conftest import Lab

SHARED = Path(__file__).parents[3] / "shared" / "cases"
EVENTS = [b"data: one\n\n", b'data: {"n":2}\n\n', b"event: x\ndata: three\n\n", b"data: [DONE]\n\n"]
BODIES: dict[str, tuple[dict[str, str], bytes]] = {
    "/json": ({"content-type": "application/json"}, b'{"a":[1,2.50,"\xc3\xa9"]}'),
    "/spaced": ({"content-type": "application/json"}, b'{"a": 1, "b": null}'),
    "/text": ({"content-type": "text/plain"}, b"48656c6c6f"),
    "/binary": ({"content-type": "application/octet-stream"}, bytes(range(256))),
    "/empty": ({}, b""),
    "/gzip": ({"content-type": "application/json", "content-encoding": "gzip"}, gzip.compress(b'{"z": 1}')),
    "/gzip-file": ({"content-type": "application/x-gzip"}, gzip.compress(b"a file")),
    "/plain": ({"x-mine": "a"}, b"ok"),
}
for number, case in enumerate(json.loads((SHARED / "rp16_bodies.json").read_text()) if SHARED.is_dir() else []):
    if case["method"] != "HEAD":
        BODIES[f"/case{number}"] = (case["headers"], (SHARED / case["file"]).read_bytes())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.server.count += 1  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        length = int(self.headers.get("content-length", 0))
        sent = self.rfile.read(length)
        if path == "/events":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            whole = b"".join(EVENTS)
            for part in (whole[:5], whole[5:17], whole[17:]):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
            return
        if path == "/echo":
            headers, body = {"content-type": "application/octet-stream"}, sent
        elif path == "/missing":
            headers, body = {}, b"nothing here"
        else:
            headers, body = BODIES[path]
        self.send_response(404 if path == "/missing" else 200)
        for name, value in headers.items():
            if name != "content-length":
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as played:
        played.count = 0  # type: ignore[attr-defined]
        played.daemon_threads = True
        played.url = f"http://127.0.0.1:{played.server_address[1]}"  # type: ignore[attr-defined]
        threading.Thread(target=played.serve_forever, args=(0.02,), daemon=True).start()
        yield played
        played.shutdown()


Answer = tuple[int, list[tuple[str, str]], bytes]


def _by_httpx(library: Any) -> Callable[..., Answer]:
    def ask(method: str, url: str, body: bytes | None = None) -> Answer:
        with library.Client() as client:
            found = client.request(method, url, content=body)
        return found.status_code, [(n.decode(), v.decode()) for n, v in found.headers.raw], found.content

    return ask


def _by_async_httpx(library: Any) -> Callable[..., Answer]:
    def ask(method: str, url: str, body: bytes | None = None) -> Answer:
        async def go() -> Any:
            async with library.AsyncClient() as client:
                return await client.request(method, url, content=body)

        found = asyncio.run(go())
        return found.status_code, [(n.decode(), v.decode()) for n, v in found.headers.raw], found.content

    return ask


def _by_requests(method: str, url: str, body: bytes | None = None) -> Answer:
    found = requests.request(method, url, data=body, timeout=5)
    return found.status_code, list(found.raw.headers.items()), found.content


def _by_urllib3(method: str, url: str, body: bytes | None = None) -> Answer:
    with urllib3.PoolManager() as pool:
        found = pool.request(method, url, body=body)
    return found.status, list(found.headers.items()), found.data


def _by_urllib(method: str, url: str, body: bytes | None = None) -> Answer:
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request) as found:
            return found.status, found.getheaders(), found.read()
    except urllib.error.HTTPError as error:
        return error.code, list(error.headers.items()), error.read()


def _by_aiohttp(method: str, url: str, body: bytes | None = None) -> Answer:
    async def go() -> Answer:
        async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as found:
            return found.status, list(found.headers.items()), await found.read()

    return asyncio.run(go())


CLIENTS: dict[str, Callable[..., Answer]] = {
    "httpx": _by_httpx(httpx),
    "httpx2": _by_httpx(httpx2),
    "httpx-async": _by_async_httpx(httpx),
    "httpx2-async": _by_async_httpx(httpx2),
    "requests": _by_requests,
    "urllib3": _by_urllib3,
    "urllib": _by_urllib,
    "aiohttp": _by_aiohttp,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_bodies_come_back_byte_for_byte_with_their_headers(lab: Lab, server: Any, client: str) -> None:
    instrument(client.partition("-")[0])
    ask = CLIENTS[client]

    def agent() -> list[Answer]:
        found = [ask("GET", server.url + path) for path in BODIES]
        found += [ask("HEAD", server.url + "/gzip"), ask("POST", server.url + "/echo", b"\x00\xff{")]
        return [*found, ask("GET", server.url + "/missing?q=1")]

    recorded = lab.record(agent)
    count = server.count
    assert lab.replay(agent) == recorded
    assert server.count == count == len(BODIES) + 3
    envelopes = lab.envelopes()
    assert len(envelopes) == count
    assert envelopes[0].boundary == "http GET 127.0.0.1"
    values: list[Any] = [envelope.outcome.value.tree() for envelope in envelopes]
    assert values[0]["body"] in ({"a": [1, 2.5, "é"]}, '{"a":[1,2.50,"é"]}')
    by_path = dict(zip(BODIES, values, strict=False))
    assert by_path["/spaced"]["body"] == {"a": 1, "b": None}
    assert (by_path["/text"]["form"], by_path["/text"]["body"]) == ("text", "48656c6c6f")
    assert by_path["/binary"]["form"] == by_path["/gzip-file"]["form"] == "base64"
    assert (by_path["/gzip"]["encoded"], by_path["/gzip"]["body"]) == ("gzip", {"z": 1})
    if client == "urllib":  # whose reader gets the packed bytes
        assert by_path["/gzip"]["recipe"]


def _events_by_httpx(library: Any) -> Callable[[str, int], list[str]]:
    def read(url: str, most: int) -> list[str]:
        found = []
        with library.Client() as client, client.stream("GET", url) as response:
            for line in response.iter_lines():
                found.append(line)
                if len(found) == most:
                    break
        return found

    return read


def _events_by_requests(url: str, most: int) -> list[str]:
    found = []
    with requests.get(url, stream=True, timeout=5) as response:
        for line in response.iter_lines(chunk_size=1):
            found.append(line.decode())
            if len(found) == most:
                break
    return found


def _events_by_urllib3(url: str, most: int) -> list[str]:
    response = urllib3.PoolManager().request("GET", url, preload_content=False)
    found = b"".join(response.stream(16)).decode().split("\n") if most > 9 else [response.read(4).decode()]
    response.close()
    return found


def _events_by_urllib(url: str, most: int) -> list[str]:
    found = []
    with urllib.request.urlopen(url) as response:
        for line in response:
            found.append(line.decode())
            if len(found) == most:
                break
    return found


def _events_by_aiohttp(url: str, most: int) -> list[str]:
    async def go() -> list[str]:
        found = []
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            async for line in response.content:
                found.append(line.decode())
                if len(found) == most:
                    break
        return found

    return asyncio.run(go())


STREAMS: dict[str, Callable[[str, int], list[str]]] = {
    "httpx": _events_by_httpx(httpx),
    "httpx2": _events_by_httpx(httpx2),
    "requests": _events_by_requests,
    "urllib3": _events_by_urllib3,
    "urllib": _events_by_urllib,
    "aiohttp": _events_by_aiohttp,
}


@pytest.mark.parametrize("client", STREAMS)
@pytest.mark.parametrize("most", [1, 99])
def test_event_streams_come_back_portion_by_portion(lab: Lab, server: Any, client: str, most: int) -> None:
    instrument(client)

    def agent() -> list[str]:
        return STREAMS[client](server.url + "/events", most)

    recorded = lab.record(agent)
    assert recorded
    assert lab.replay(agent) == recorded
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "streamed"
    if most == 99:
        assert envelope.outcome.end == "exhausted"
        assert len(envelope.outcome.chunks) == 5
    else:
        assert envelope.outcome.end in ("closed", "exhausted")


def _failure(ask: Callable[..., Answer], url: str) -> tuple[type, str]:
    try:
        ask("GET", url)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("client", CLIENTS)
def test_refused_connections_raise_the_same(lab: Lab, client: str) -> None:
    instrument(client.partition("-")[0])

    def agent() -> tuple[type, str]:
        kind, words = _failure(CLIENTS[client], "http://127.0.0.1:9/")
        return kind, words.partition("0x")[0]

    recorded = lab.record(agent)
    assert lab.replay(agent) == recorded


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("in_thread", [False, True])
def test_what_was_not_recorded_never_reaches_the_network(lab: Lab, server: Any, client: str, in_thread: bool) -> None:
    instrument("all")
    lab.record(lambda: None)
    seen: list[BaseException] = []

    def agent() -> None:
        try:
            CLIENTS[client]("GET", server.url + "/json")
        except BaseException as fault:
            seen.append(fault)

    def run() -> None:
        if not in_thread:
            agent()
            return
        thread = threading.Thread(target=agent)
        thread.start()
        thread.join()

    with pytest.raises(Diverged, match="http GET"):
        lab.replay(run)
    assert server.count == 0
    assert isinstance(seen[0], Diverged)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("broken", ["described", "answer", "recorder_of", "_exchange.body_to", "_exchange.answer_to"])
def test_a_fault_inside_the_instrument_does_not_reach_the_agent(
    lab: Lab, server: Any, monkeypatch: pytest.MonkeyPatch, client: str, broken: str
) -> None:
    from otel_replay.instruments import _http

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setenv("OTEL_REPLAY_STRICT", "")
    monkeypatch.setattr(f"{_http.__name__}.{broken}", fails)
    instrument(client.partition("-")[0])

    def agent() -> Any:
        ask, read = CLIENTS[client], STREAMS[client.partition("-")[0]]
        return ask("GET", server.url + "/gzip")[2], read(server.url + "/events", 99)

    body, lines = lab.record(agent, strict=False)
    assert b'"z"' in body or body[:2] == b"\x1f\x8b"
    assert "data: one" in "".join(lines)


def test_requests_own_retries_are_attempts_of_one_crossing(lab: Lab) -> None:
    from otel_replay.testing import ModelServer, reply

    instrument("requests")
    script: list[reply.Reply | str] = [reply.error(503), reply.error(502), reply.json_body(b"{}")]
    with ModelServer(script) as played:

        def agent() -> Any:
            with requests.Session() as session:
                retry = urllib3.Retry(total=3, status_forcelist=[502, 503], backoff_factor=0)
                session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
                return session.get(played.root_url, timeout=5).json()

        recorded = lab.record(agent)
    assert lab.replay(agent) == recorded == {}
    (envelope,) = lab.envelopes()
    assert [attempt.status for attempt in envelope.attempts] == ["503", "502"]


def _elapsed(response: Any) -> Any:
    """Return what a response says it took, or why it says nothing yet."""
    try:
        return response.elapsed.total_seconds()
    except RuntimeError as fault:
        return str(fault)


async def _async_times(library: Any, url: str) -> list[Any]:
    async with library.AsyncClient() as client:
        whole = await client.get(f"{url}/json")
        async with client.stream("GET", f"{url}/events") as streamed:
            early = _elapsed(streamed)
            await streamed.aread()
        return [_elapsed(whole), early, _elapsed(streamed)]


def _times(library: Any, url: str) -> list[Any]:
    with library.Client() as client:
        whole = client.get(f"{url}/json")
        with client.stream("GET", f"{url}/events") as streamed:
            early = _elapsed(streamed)
            streamed.read()
        return [_elapsed(whole), early, _elapsed(streamed)]


@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
@pytest.mark.parametrize("ask", [_times, lambda *asked: asyncio.run(_async_times(*asked))], ids=["sync", "async"])
def test_a_response_tells_how_long_it_took(lab: Lab, server: Any, library: Any, ask: Callable[..., Any]) -> None:
    without = ask(library, server.url)
    assert [type(item) for item in without] == [float, str, float]
    instrument(library.__name__)
    recorded = lab.record(lambda: ask(library, server.url))
    assert [type(item) for item in recorded] == [float, str, float], "as without us"
    assert recorded[1] == without[1]
    whole, streamed = [(e.end_ns - e.start_ns) // 1000 / 1e6 for e in lab.envelopes()]
    assert lab.replay(lambda: ask(library, server.url)) == [whole, without[1], streamed]


@pytest.mark.parametrize("when", ["recorded", "replayed"])
def test_an_aiohttp_response_is_closed_once_it_was_read(lab: Lab, server: Any, when: str) -> None:
    async def agent() -> list[Any]:
        async with aiohttp.ClientSession() as session:
            whole = await session.get(f"{server.url}/json")
            found: list[Any] = [await whole.json(), whole.closed]
            streamed = await session.get(f"{server.url}/events")
            found += [streamed.closed, [line async for line in streamed.content], streamed.closed]
            left = await session.get(f"{server.url}/text")
            left.release()
            return [*found, left.closed]

    expected = asyncio.run(agent())
    assert expected[1:3] == [True, False]
    instrument("aiohttp")
    assert lab.record(lambda: asyncio.run(agent())) == expected
    if when == "replayed":
        assert lab.replay(lambda: asyncio.run(agent())) == expected


@pytest.mark.parametrize("library", [httpx, httpx2, requests], ids=lambda library: library.__name__)
@pytest.mark.parametrize("instrumented", [False, True])
def test_a_response_that_was_kept_tells_how_long_it_took(
    lab: Lab, server: Any, library: Any, instrumented: bool
) -> None:
    if instrumented:
        instrument(library.__name__)
    found = lab.record(lambda: library.get(f"{server.url}/json"))
    kept = payload.decode(payload.encode(found))
    assert type(kept) is type(found)
    assert kept.elapsed == found.elapsed
