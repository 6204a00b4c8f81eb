"""Responses and streams of httpx and httpx2, made from records. The two libraries are one code base under two names."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

from otel_replay.instruments._served_body import Portions, ServedBody
from otel_replay.instruments._stream import Tap, WholeTap
from otel_replay.wire import exchange as _exchange
from otel_replay.wire.packing import packing_of

LIBRARIES = ("httpx2", "httpx")


def library_of(thing: object) -> str:
    """Return "httpx" or "httpx2", whichever `thing`'s class comes from or extends; httpx2 first where it is neither."""
    for base in type(thing).__mro__:
        top = base.__module__.partition(".")[0]
        if top in LIBRARIES:
            return top
    return next((name for name in LIBRARIES if name in sys.modules), "httpx")


@functools.cache
def _classes(library: str) -> tuple[type, type]:
    module = import_module(library)

    class Sync(module.SyncByteStream):  # type: ignore[name-defined,misc]
        """A body that is recorded or served while it is read."""

        def __init__(self, portions: Iterator[bytes], close: Any, inner: Any = None) -> None:
            self._portions, self._close, self._inner = portions, close, inner

        def __getattr__(self, name: str) -> Any:
            return _asked_of(self, name)

        def __iter__(self) -> Iterator[bytes]:
            return self._portions

        def close(self) -> None:
            self._close()

    class Async(module.AsyncByteStream):  # type: ignore[name-defined,misc]
        """A body that is recorded or served while it is read."""

        def __init__(self, portions: AsyncIterator[bytes], close: Any, inner: Any = None) -> None:
            self._portions, self._close, self._inner = portions, close, inner

        def __getattr__(self, name: str) -> Any:
            return _asked_of(self, name)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._portions

        async def aclose(self) -> None:
            done = self._close()
            if done is not None:
                await done

    return Sync, Async


def _asked_of(stream: Any, name: str) -> Any:
    """Return what the stream behind ours has by that name: httpx2's tells how long the exchange took."""
    inner = vars(stream).get("_inner")
    if inner is None or name.startswith("__"):
        raise AttributeError(name)
    return getattr(inner, name)


def headers_of(response: Any) -> list[tuple[str, str]]:
    """Return the header pairs as they stood on the wire."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]


def facts_of(response: Any) -> dict[str, Any]:
    """Return what a status line tells beyond the status, where it is not the usual."""
    usual = module_of(response).codes.get_reason_phrase(response.status_code)
    return {
        "reason": response.reason_phrase if response.reason_phrase != usual else "",
        "http_version": response.http_version if response.http_version != "HTTP/1.1" else "",
    }


def module_of(thing: object) -> Any:
    """Return the library that `thing` comes from."""
    return import_module(library_of(thing))


def _extensions(module: Any, status: int, head: Any) -> dict[str, Any]:
    """Return what a transport says of a recorded status line."""
    version, reason = head.get("http_version") or "HTTP/1.1", head.get("reason")
    reason = reason if isinstance(reason, str) else module.codes.get_reason_phrase(status)
    return {"http_version": str(version).encode("ascii", "replace"), "reason_phrase": reason.encode("ascii", "replace")}


def _raw(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return header pairs as they stood on the wire: `headers_of` back."""
    return [(_on_wire(name), _on_wire(value)) for name, value in headers]


def _on_wire(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:  # not from us: an imported answer
        return text.encode("utf-8", "replace")


def identity(response: Any) -> None:
    """Make `response` take its body as unpacked already."""
    module = sys.modules[f"{library_of(response)}._decoders"]
    response._decoder = module.IdentityDecoder()


def _unpacking(decoder: Any, inner: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the unpacked portions of a packed body."""
    for part in inner:
        yield _joined(decoder.decode(part))
    yield _joined(decoder.flush())


async def _aunpacking(decoder: Any, inner: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in inner:
        yield _joined(decoder.decode(part))
    yield _joined(decoder.flush())


def _joined(found: Any) -> bytes:
    return found if isinstance(found, bytes) else b"".join(found)


def tap(response: Any, recorder: Tap | WholeTap, *, is_async: bool) -> None:
    """Let `recorder` see the body of a response not read yet: events unpacked, other bodies as they come."""
    inner = response.stream
    sync_class, async_class = _classes(library_of(response))
    is_packed = isinstance(recorder, Tap) and bool(packing_of(headers_of(response)))
    decoder = response._get_content_decoder() if is_packed else None
    if is_async:
        source = inner.__aiter__()
        portions = recorder.aiterate(_aunpacking(decoder, source) if is_packed else source)

        async def aclose() -> None:
            try:
                await inner.aclose()
            finally:
                recorder.closed()

        response.stream = async_class(portions, aclose, inner)
    else:
        plain = iter(inner)
        read = recorder.iterate(_unpacking(decoder, plain) if is_packed else plain)

        def close() -> None:
            try:
                inner.close()
            finally:
                recorder.closed()

        response.stream = sync_class(read, close, inner)
    if is_packed:
        identity(response)


def whole(library: str, value: Any, request: Any, extensions: dict[str, Any] | None = None) -> Any:
    """Return the response of a whole recorded answer, read. Raises Unservable."""
    status, headers = _exchange.head_from(value)
    module = import_module(library)
    content = _exchange.body_from(value.get("form"), value.get("body"))
    given = {**_extensions(module, status, value), **(extensions or {})}
    response = module.Response(status, headers=_raw(headers), request=request, extensions=given)
    identity(response)
    response._content = content
    response.is_closed = response.is_stream_consumed = True
    response.stream = module.ByteStream(content)
    response._num_bytes_downloaded = len(content)
    return response


def reads_packed(response: Any) -> bool:
    """True where the body of `response` is not unpacked for its reader, as with `iter_raw`.

    Its decoder is made when somebody asks for unpacked bytes, and is none for a coding that httpx does not know.
    """
    decoder = vars(response).get("_decoder")
    return decoder is None or type(decoder).__name__ == "IdentityDecoder"


def streaming(
    library: str,
    head: Any,
    body: ServedBody | Portions,
    request: Any,
    *,
    is_async: bool,
    took_ns: int,
    packed: bool = False,
) -> Any:
    """Return the response of a recorded body, not read yet: unpacked already, or `packed` as its headers say.

    Closed, it says that it took as long as when it was recorded. Raises Unservable.
    """
    status, headers = _exchange.head_from(head)
    module = import_module(library)
    sync_class, async_class = _classes(library)

    def close() -> None:
        body.close()
        response.elapsed = timedelta(microseconds=took_ns // 1000)

    stream = async_class(body.aiterate(), close) if is_async else sync_class(body.iterate(), close)
    told = _extensions(module, status, head)
    response = module.Response(status, headers=_raw(headers), request=request, stream=stream, extensions=told)
    if not packed:
        identity(response)
    return response
