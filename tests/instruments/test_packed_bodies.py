"""Bodies under a content encoding, through each transport: what a client reads in a replay is what it read then."""

from __future__ import annotations

import asyncio
import functools
import gzip
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import brotli  # type: ignore[import-untyped]
import httpx
import httpx2
import pytest
import requests
import urllib3
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from otel_replay import instrument
from otel_replay.errors import Unservable
from otel_replay.wire import packing

from .conftest import Lab

PLAIN = b'{"name": "\xc3\xa9", "n": [1, 2.50]}' + b"\nline two \xe2\x82\xac\r\nline three" * 40


def _deflate_raw(content: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(content) + engine.flush()


def _in_two(content: bytes) -> bytes:
    """Return what a server that flushes sends: no recipe makes it again."""
    engine = zlib.compressobj(6, wbits=31)
    return (
        engine.compress(content[:99]) + engine.flush(zlib.Z_SYNC_FLUSH) + engine.compress(content[99:]) + engine.flush()
    )


PACKED: dict[str, tuple[str, bytes]] = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "gzip-fast": ("GZip", gzip.compress(PLAIN, 1)),
    "gzip-flushed": ("gzip", _in_two(PLAIN)),
    "x-gzip": ("x-gzip", gzip.compress(PLAIN)),
    "members": ("gzip", gzip.compress(PLAIN[:50]) + gzip.compress(PLAIN[50:])),
    "deflate": ("deflate", zlib.compress(PLAIN)),
    "deflate-raw": ("deflate", _deflate_raw(PLAIN)),
    "br": ("br", brotli.compress(PLAIN)),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress(PLAIN)),
    "both": ("gzip, br", brotli.compress(gzip.compress(PLAIN))),
    "identity": ("identity", PLAIN),
    "identity-gzip": ("identity, gzip", gzip.compress(PLAIN)),
    "unknown": ("snappy", PLAIN),
    "empty": ("gzip", b""),
    "binary": ("br", brotli.compress(bytes(range(256)))),
    "cut": ("gzip", gzip.compress(PLAIN)[:60]),
    "not-packed": ("gzip", PLAIN),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.count += 1  # type: ignore[attr-defined]
        _, way, name = self.path.split("/")
        coding, body = PACKED[name]
        self.send_response(int(way) if way.isdigit() else 200)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-encoding", coding)
        if way == "chunked":
            self.send_header("transfer-encoding", "chunked")
            self.send_header("trailer", "x-sum")
            self.end_headers()
            if self.command == "HEAD":
                return
            for part in (body[:20], body[20:33], body[33:]):
                if part:
                    self.wfile.write(b"%x;a=b\r\n%b\r\n" % (len(part), part))
            self.wfile.write(b"0\r\nx-sum: 1\r\n\r\n")
            return
        if way not in ("204", "304"):
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and way not in ("204", "304"):
            self.wfile.write(body)

    do_HEAD = do_GET


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as played:
        played.count = 0  # type: ignore[attr-defined]
        played.daemon_threads = True
        played.url = f"http://127.0.0.1:{played.server_address[1]}"  # type: ignore[attr-defined]
        threading.Thread(target=played.serve_forever, args=(0.02,), daemon=True).start()
        yield played
        played.shutdown()


def _or_fault(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as fault:
        return type(fault), str(fault)


def _all(response: Any, read: str) -> list[Any]:
    return list(getattr(response, read)())


def _httpx(library: Any, url: str) -> list[Any]:
    found: list[Any] = []
    with library.Client() as client:
        for read in ("iter_raw", "iter_bytes", "iter_text", "iter_lines"):
            with client.stream("GET", url) as response:
                parts = _or_fault(functools.partial(_all, response, read))
                found.append((read, response.status_code, response.headers.raw, parts))
        found.append(_or_fault(lambda: (client.get(url).content, client.head(url).content)))
        with client.stream("GET", url) as response:
            found.append(_or_fault(lambda: list(response.iter_bytes(7))))
    return found


def _httpx_async(library: Any, url: str) -> list[Any]:
    async def go() -> list[Any]:
        found: list[Any] = []
        async with library.AsyncClient() as client:
            for read in ("aiter_raw", "aiter_bytes", "aiter_lines"):
                async with client.stream("GET", url) as response:
                    try:
                        parts: Any = [part async for part in getattr(response, read)()]
                    except library.DecodingError as fault:
                        parts = str(fault)
                    found.append((read, response.status_code, response.headers.raw, parts))
        return found

    return asyncio.run(go())


def _requests(url: str) -> list[Any]:
    def read(ask: Callable[[Any], Any]) -> Any:
        with requests.get(url, stream=True, timeout=5) as response:
            return response.status_code, list(response.headers.items()), _or_fault(lambda: ask(response))

    return [
        read(lambda response: (response.content, response.text, response.encoding, response.ok)),
        read(lambda response: list(response.iter_content(None))),
        read(lambda response: list(response.iter_content(11))) if _has_a_recipe(url) else None,
        read(lambda response: list(response.iter_lines())),
        read(lambda response: response.raw.read()) if _has_a_recipe(url) else None,
        requests.head(url, timeout=5).content,
    ]


def _has_a_recipe(url: str) -> bool:
    """Whoever reads raw beneath requests gets the packed bytes exactly where these can be made again."""
    return url.rpartition("/")[2] not in ("gzip-flushed", "deflate-raw", "br", "zstd", "binary", "both")


def _urllib3(url: str) -> list[Any]:
    with urllib3.PoolManager() as pool:
        found = [
            _or_fault(lambda: pool.request("GET", url).data),
            _or_fault(lambda: pool.request("GET", url, decode_content=False).data),
            _or_fault(lambda: list(pool.request("GET", url, preload_content=False).stream(None, True))),
            _or_fault(lambda: pool.request("GET", url, preload_content=False).read(decode_content=False))
            if _has_a_recipe(url)
            else b"",
            list(pool.request("HEAD", url).headers.items()),
        ]
    return [(item[0], item[1].partition("0x")[0]) if isinstance(item, tuple) else item for item in found]


def _urllib(url: str) -> list[Any]:
    with urllib.request.urlopen(url) as response:
        return [response.status, response.getheaders(), response.read()]


def _aiohttp(url: str) -> list[Any]:
    async def go() -> list[Any]:
        found: list[Any] = []
        for unpack in (True, False):
            async with aiohttp.ClientSession(auto_decompress=unpack) as session:
                for read in ("read", "text", "iter_any"):
                    try:
                        async with session.get(url) as response:
                            if read == "iter_any":
                                parts: Any = [part async for part in response.content.iter_any()]
                                whole = b"".join(parts)
                            else:
                                whole = await getattr(response, read)(
                                    **({"errors": "replace"} if read == "text" else {})
                                )
                            raw = [(name.lower(), item) for name, item in response.raw_headers]
                            found.append((response.status, list(response.headers.items()), raw, whole))
                    except (aiohttp.ClientError, ValueError) as fault:
                        found.append((type(fault), str(fault).partition("0x")[0]))
        return found

    return asyncio.run(go())


CLIENTS: dict[str, Callable[[str], list[Any]]] = {
    "httpx": lambda url: _httpx(httpx, url),
    "httpx2": lambda url: _httpx(httpx2, url),
    "httpx-async": lambda url: _httpx_async(httpx, url),
    "httpx2-async": lambda url: _httpx_async(httpx2, url),
    "requests": _requests,
    "urllib3": _urllib3,
    "urllib": _urllib,
    "aiohttp": _aiohttp,
}


@pytest.mark.parametrize("way", ["sized", "chunked"])
@pytest.mark.parametrize("client", CLIENTS)
def test_every_reader_of_a_packed_body_reads_in_a_replay_what_it_read_then(
    lab: Lab, server: Any, client: str, way: str
) -> None:
    instrument(client.partition("-")[0])

    def agent() -> dict[str, list[Any]]:
        return {name: CLIENTS[client](f"{server.url}/{way}/{name}") for name in PACKED}

    recorded = lab.record(agent)
    count = server.count
    replayed = lab.replay(agent)
    for name, then in recorded.items():
        for was, now in zip(then, replayed[name], strict=True):
            assert now == was, name
    assert server.count == count > 0


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", ["204", "304"])
def test_answers_without_a_body_under_a_content_encoding(lab: Lab, server: Any, client: str, status: str) -> None:
    instrument(client.partition("-")[0])

    def agent() -> Any:
        return _or_fault(lambda: CLIENTS[client](f"{server.url}/{status}/gzip"))

    recorded = lab.record(agent)
    assert lab.replay(agent) == recorded


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "deflate", "both"])
def test_a_packed_body_is_readable_in_the_record(lab: Lab, server: Any, name: str) -> None:
    instrument("httpx")
    lab.record(lambda: httpx.get(f"{server.url}/sized/{name}"))
    (envelope,) = lab.envelopes()
    value: Any = envelope.outcome.value.tree()
    assert (value["encoded"], value["form"], value["body"]) == (PACKED[name][0], "text", PLAIN.decode())


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=6), st.sampled_from([*packing.CODINGS, "gzip, br"]))
def test_packing_and_unpacking_are_inverse_part_by_part(parts: list[bytes], coding: str) -> None:
    packed = packing.packed(parts, coding)
    assert len(packed) == len(parts)
    found, kept = packing.unpacked_parts(packed, coding)
    assert kept == coding
    assert b"".join(found) == b"".join(parts)
    if "," not in coding and coding != "zstd":
        assert list(found) == parts


@given(st.binary(max_size=5000), st.integers(1, 9))
def test_a_recipe_gives_the_same_bytes_or_there_is_none(plain: bytes, level: int) -> None:
    made = gzip.compress(plain, level)
    recipe = packing.recipe_of(made, plain, "gzip")
    assert recipe or level not in (1, 6, 9)
    assert not recipe or packing.packed([plain], "gzip", recipe) == [made]


@pytest.mark.parametrize(("coding", "recipe"), [("gzip", "zz"), ("gzip", "1f8b"), ("br", "00"), ("snappy", "")])
def test_odd_recipes_and_codings_of_a_file_are_refused(coding: str, recipe: str) -> None:
    with pytest.raises(Unservable):
        packing.packed([b"x"], coding, recipe)
