"""aiohttp's client: one crossing a call of `ClientSession._request`, redirects and reconnections inside.

Bodies are kept as the session hands them out: unpacked, where it unpacks. Where a server's chunks ended is told to a
reader who asks (`iter_chunks`) as far as it was known when the data came, which may be sooner or later than it was.
Websockets cannot be kept: they are `lost` in a record, and refused in a replay.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import Unservable
from otel_replay.instruments import _http
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._served_body import Arrived, Portions, ServedBody
from otel_replay.instruments._stream import PassingTap, Tap, WholeTap
from otel_replay.payload import register
from otel_replay.wire import exchange as _exchange
from otel_replay.wire.packing import packing_of


def install() -> Patches:
    """Replace the library's methods. Returns what undoes it."""
    patches = Patches()
    module = import_module("aiohttp.client")
    _register()
    patches.replace(module.ClientSession, "_request", lambda original: _request(original, patches))
    return patches


def _register() -> None:
    """Let addresses and headers be kept: aiohttp's exceptions hold them."""
    yarl, multidict = import_module("yarl"), import_module("multidict")
    register(yarl.URL, to_state=str, from_state=yarl.URL)
    register(multidict.istr, to_state=str, from_state=multidict.istr)
    for cls in (multidict.CIMultiDict, multidict.MultiDict):
        register(cls, to_state=_pairs, from_state=cls)
    proxy = multidict.CIMultiDictProxy
    register(proxy, to_state=_pairs, from_state=lambda pairs: proxy(multidict.CIMultiDict(pairs)))


def _pairs(headers: Any) -> list[list[str]]:
    return [[str(name), str(value)] for name, value in headers.items()]


def _described(session: Any, method: str, url: Any, given: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    full = session._build_url(url)
    if given.get("params"):
        full = full.update_query(given["params"])
    headers = session._prepare_headers(given.get("headers"))
    pairs = [(str(name), str(value)) for name, value in headers.items()]
    body: bytes | None = b""
    fields: object = None
    if given.get("json") is not None:
        spelt = session._json_serialize(given["json"])
        body = spelt if isinstance(spelt, bytes) else spelt.encode()
    elif given.get("data") is not None:
        data = given["data"]
        if isinstance(data, (bytes, bytearray)):
            body = bytes(data)
        elif isinstance(data, str):
            body = data.encode()
        else:
            body, fields = None, data if isinstance(data, (dict, list, tuple)) else None
    spec, request = _http.described(method, str(full), pairs, body)
    if fields is not None:
        request["form"], request["fields"] = "fields", fields
    return spec, request


def _request(original: Any, patches: Patches) -> Any:
    async def request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        if not patches.covers(self):
            return await original(self, method, str_or_url, **kwargs)
        crossing = _http.enter(lambda: _described(self, method, str_or_url, kwargs), "aiohttp")
        if crossing is None:
            return await original(self, method, str_or_url, **kwargs)
        checks = kwargs.pop("raise_for_status", None)
        checks = self._raise_for_status if checks is None else checks
        if crossing.served is not None:
            response = await _served(self, crossing, method, str_or_url, kwargs)
        else:
            token = crossing.open()
            try:
                response = await original(self, method, str_or_url, raise_for_status=False, **kwargs)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            _see(crossing, self, response, kwargs)
        if callable(checks):
            await checks(response)
        elif checks:
            response.raise_for_status()
        return response

    return request


@functools.cache
def _reader_class() -> Any:
    streams = import_module("aiohttp.streams")
    protocol = import_module("aiohttp.base_protocol").BaseProtocol

    class Reader(streams.StreamReader):  # type: ignore[name-defined,misc]
        """A body that is recorded or served while it is read: asked for the next portion when it has none left."""

        def __init__(self, portions: AsyncIterator[bytes], close: Any, *, chunked: bool, limit: int = 2**16) -> None:
            loop = asyncio.get_running_loop()
            super().__init__(protocol(loop), limit, loop=loop)
            self._portions_left, self._leave, self._in_chunks = portions, close, chunked

        async def _wait(self, func_name: str) -> None:
            try:
                portion = await anext(self._portions_left)
            except StopAsyncIteration:
                if self._in_chunks:
                    self.begin_http_chunk_receiving()
                    self.end_http_chunk_receiving()  # aiohttp tells of the last, empty chunk too
                self.feed_eof()
                return
            if not self._in_chunks:
                self.feed_data(portion)
                return
            self.begin_http_chunk_receiving()
            at = 0
            for end in getattr(portion, "ends", (len(portion),)):
                self.feed_data(portion[at:end])
                self.end_http_chunk_receiving()
                at = end
            self.feed_data(portion[at:])

        def set_exception(self, *args: Any, **kwargs: Any) -> None:
            super().set_exception(*args, **kwargs)
            self._leave()

    return Reader


async def _inner(content: Any, chunked: bool, sizes: list[int]) -> AsyncIterator[bytes]:
    """Yield a body as it comes. The sizes of the server's chunks are added to `sizes`, where it sent chunks."""
    while not chunked:
        part = await content.readany()
        if not part:
            return
        yield part
    begun = 0
    while True:
        parts: list[bytes] = []
        ends: list[int] = []
        while not parts or content._buffer:
            part, ended = await content.readchunk()
            if not part and not ended:
                break
            parts.append(part)
            begun += len(part)
            if ended and begun:
                sizes.append(begun)
                ends.append(sum(map(len, parts)))
                begun = 0
        if not parts:
            return
        arrived = Arrived(b"".join(parts))
        arrived.ends = tuple(ends)
        if arrived or ends:
            yield arrived


def _see(crossing: Crossing, session: Any, response: Any, given: Mapping[str, Any]) -> None:
    if response.status == 101:
        crossing.abandon("a websocket cannot be kept")
        return
    with crossing.session.faults.contained("instrument"):
        headers = [(str(name), value) for name, value in response.headers.items()]
        given_url = str(response.real_url)
        more = _facts_of(response, headers)
        more["url"] = given_url if response.history else ""
        more["history"] = [_head_of(one) for one in response.history]
        unpacks = given.get("auto_decompress")
        unpacks = session._auto_decompress if unpacks is None else unpacks
        head = _exchange.head_to(response.status, headers, **more)

        sizes: list[int] = []

        def whole(parts: list[bytes], **_end: Any) -> dict[str, Any]:
            packing = packing_of(headers) if unpacks else ""
            portions = _http.portions_of(parts)
            told = {"encoded": packing, "portions": portions, "chunks": sizes if sizes != portions else [], **more}
            return _exchange.answer_to(response.status, headers, b"".join(parts), **told)

        recorder: Tap | WholeTap
        recorder = PassingTap(crossing, head) if _http.is_events(headers) else WholeTap(crossing, head, whole)
        if response.content.at_eof():
            recorder.exhausted()
            return
        inner = response.content
        chunked = getattr(inner, "_http_chunk_splits", None) is not None
        portions = recorder.aiterate(_inner(inner, chunked, sizes))
        limit = inner.get_read_buffer_limits()[0]
        response.content = _reader_class()(portions, recorder.closed, chunked=chunked, limit=limit)
        return
    crossing.abandon("the recorder failed to keep the answer")


def _facts_of(response: Any, headers: list[tuple[str, str]]) -> dict[str, object]:
    """Return what a response tells beyond status and headers: as the server spelt it, where aiohttp does not."""
    names = [name.decode("latin-1") for name, _ in response.raw_headers]
    spelt = names if names != [name for name, _ in headers] and len(names) == len(headers) else []
    version = response.version
    usual = version is None or tuple(version) == (1, 1)
    return {
        "reason": response.reason,
        "names": spelt,
        "http_version": "" if usual else f"HTTP/{version.major}.{version.minor}",
    }


def _head_of(response: Any) -> dict[str, Any]:
    headers = [(str(name), value) for name, value in response.headers.items()]
    url = str(response.real_url)
    return _exchange.head_to(response.status, headers, url=url, **_facts_of(response, headers))


async def _served(session: Any, crossing: Crossing, method: str, url: Any, given: Mapping[str, Any]) -> Any:
    """Return the recorded answer as the session would have made it."""
    served = crossing.served
    assert served is not None
    body: ServedBody | Portions
    if served.outcome.kind == "streamed":
        body = ServedBody(crossing)
        value: Any = body.head
    else:
        await served.wait_async()
        value = served.give()
        if not _exchange.is_answer(value):
            raise Unservable(f"{crossing.address}: the record holds no HTTP answer where one was expected")
        content = _exchange.body_from(value.get("form"), value.get("body"))
        body = Portions(_arrived(_exchange.cut(content, value.get("portions")), value.get("chunks")))
    response = _response(session, method, url, given, value)
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    response.content = _reader_class()(body.aiterate(), body.close, chunked=chunked)
    response.content.on_eof(response._response_eof)  # read to its end, a response is closed
    before = value.get("history")
    passed = [_response(session, method, url, given, one) for one in before] if isinstance(before, list) else []
    for one in passed:
        one.content, one._closed = import_module("aiohttp.streams").EmptyStreamReader(), True
    response._history = tuple(passed)
    return response


def _arrived(portions: list[bytes], sizes: object) -> list[bytes]:
    """Return `portions` with where chunks of these sizes end in them; as they are where no sizes are known."""
    if not isinstance(sizes, list) or not sizes or not all(type(size) is int and size > 0 for size in sizes):
        return portions
    stops, found, at = set(itertools.accumulate(sizes)), [], 0
    for portion in portions:
        arrived = Arrived(portion)
        arrived.ends = tuple(stop - at for stop in sorted(stops) if at < stop <= at + len(portion))
        found.append(arrived)
        at += len(portion)
    return list(found)


def _response(session: Any, method: str, url: Any, given: Mapping[str, Any], value: Any) -> Any:
    """Return a response as the session would have made it, its body aside; its cookies are in the session's jar."""
    status, headers = _exchange.head_from(value)
    reqrep, yarl, multidict = import_module("aiohttp.client_reqrep"), import_module("yarl"), import_module("multidict")
    full = session._build_url(url)
    if given.get("params"):
        full = full.update_query(given["params"])
    full = yarl.URL(value["url"]) if value.get("url") else full
    sent = multidict.CIMultiDictProxy(session._prepare_headers(given.get("headers")))
    info = reqrep.RequestInfo(full, method, sent, full)
    kind = session._response_class
    written = {"stream_writer": _NothingWritten()} if "stream_writer" in _parameters(kind) else {}
    response = kind(
        method, full, writer=None, continue100=None, timer=None, request_info=info, traces=[],
        loop=asyncio.get_running_loop(), session=session, **written,
    )  # fmt: skip
    response._closed = False
    response.version = import_module("aiohttp.http_writer").HttpVersion(*_version(value.get("http_version")))
    response.status, response.reason = status, value.get("reason")
    response._headers = multidict.CIMultiDictProxy(multidict.CIMultiDict(headers))
    names = value.get("names")
    names = names if isinstance(names, list) and len(names) == len(headers) else [name for name, _ in headers]
    response._raw_headers = tuple(
        (str(name).encode("latin-1", "replace"), item.encode("utf-8", "surrogateescape"))
        for name, (_, item) in zip(names, headers, strict=True)
    )
    cookies = response.headers.getall("Set-Cookie", ())
    if cookies:
        response._raw_cookie_headers = tuple(cookies)
        if hasattr(session._cookie_jar, "update_cookies_from_headers"):
            session._cookie_jar.update_cookies_from_headers(cookies, full)
    return response


def _version(text: object) -> tuple[int, int]:
    """Return (major, minor) of `HTTP/1.0`; that of HTTP/1.1 for anything else."""
    return (1, 0) if text == "HTTP/1.0" else (1, 1)


class _NothingWritten:
    output_size = 0


@functools.cache
def _parameters(kind: type) -> frozenset[str]:
    return frozenset(
        name for base in kind.__mro__ if "__init__" in vars(base) for name in inspect.signature(base).parameters
    )
