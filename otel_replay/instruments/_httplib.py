"""Answers of the standard library's `http.client`, on which urllib, urllib3 and requests stand: seen, and made again.

Recording puts a file between the response and its connection that sees the body as it is read; the framing of chunked
bodies is taken off. In replay the response is a real `http.client.HTTPResponse` that reads the recorded wire bytes.
"""

from __future__ import annotations

import contextlib
import http.client
import io
from collections.abc import Iterator, Sequence
from typing import Any

from otel_replay.crossing import Crossing
from otel_replay.errors import Unservable
from otel_replay.instruments import _http
from otel_replay.instruments._served_body import ServedBody, WireEnd, wire_end_of
from otel_replay.instruments._stream import PassingTap, Tap, WholeTap
from otel_replay.wire import exchange as _exchange

BROKEN = "_otel_replay_broken"
"""Set on a served response whose body is shorter than its headers say, as it was recorded."""


class Unframer:
    """Takes the framing of a body off, piece by piece. `complete` once its end has been seen."""

    def __init__(self, headers: _exchange.Headers, *, chunked: bool) -> None:
        self.complete = False
        self._chunked = chunked
        self._pending = b""
        self._left = self._size = 0
        self._opened = b""
        """The first line and the data so far of a chunk that is not whole."""
        self._trailer = self.malformed = False
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        self._length = int(lengths[0]) if lengths and lengths[0].isdigit() and not chunked else None
        self._seen = 0
        self._sizes: list[int] = []

    @property
    def bounded(self) -> bool:
        """True where the body says itself where it ends: one that ends before that is not whole."""
        return self._chunked or self._length is not None

    def portions(self, parts: Sequence[bytes]) -> list[bytes]:
        """Return what was read as the chunks that the server sent, or in one where it sent none; whole ones only."""
        content = b"".join(parts)
        return _exchange.cut(content[: sum(self._sizes)] if self._chunked else content, self._sizes)

    def wire_end(self) -> bytes:
        """Return what was read of a chunk that never became whole, framing and all."""
        return self._opened + self._pending

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Return the pieces of the body in `data`; each with whether the server's chunk ends with it."""
        if not self._chunked:
            self._seen += len(data)
            self.complete = self._length is not None and self._seen >= self._length
            return [(data, True)]
        self._pending += data
        found = []
        while self._pending and not self.malformed:
            if self._left:
                part, self._pending = self._pending[: self._left], self._pending[self._left :]
                self._left -= len(part)
                self._opened = self._opened + part if self._left else b""
                if not self._left:
                    self._sizes.append(self._size)
                found.append((part, not self._left))
                continue
            line, mark, rest = self._pending.partition(b"\r\n")
            if not mark:
                break
            if line and not self._trailer:  # an empty one ends the chunk before
                try:
                    self._left = self._size = int(line.partition(b";")[0], 16)
                except ValueError:
                    self.malformed = True
                    break
                self._opened = line + mark if self._left else b""
                self._trailer = self.complete = self._left == 0
            self._pending = rest
        return found


class SeenFile:
    """The file that a response reads from, with everything read shown to a recorder."""

    def __init__(self, inner: Any, recorder: Tap | WholeTap, unframer: Unframer) -> None:
        self._inner = inner
        self._recorder = recorder
        self._unframer = unframer

    def _seen(self, data: bytes, *, ended: bool) -> None:
        """Keep what was read. `ended` says that nothing comes after it."""
        recorder = self._recorder
        crossing = recorder.crossing
        if crossing.ended:
            return
        with crossing.session.faults.contained("instrument"):
            for piece, ends in self._unframer.feed(data):
                if isinstance(recorder, PassingTap):
                    recorder.step(piece, ends=ends)
                elif piece:
                    recorder.step(piece)
            if self._unframer.complete or (ended and not self._unframer.bounded):
                recorder.exhausted()
            elif ended:
                recorder.broken(self._unframer.wire_end())

    def _failed(self, fault: BaseException) -> None:
        with self._recorder.crossing.session.faults.contained("instrument"):
            self._recorder.failed(fault)

    def _read(self, name: str, *args: Any) -> Any:
        try:
            data = getattr(self._inner, name)(*args)
        except BaseException as fault:
            self._failed(fault)
            raise
        most = args[0] if args and isinstance(args[0], int) else -1
        if name == "readline":
            ended = not data.endswith(b"\n") and (most < 0 or len(data) < most)
        elif name == "read1":
            ended = not data and most != 0
        else:
            ended = most < 0 or len(data) < most
        self._seen(data, ended=ended)
        return data

    def read(self, *args: Any) -> Any:
        return self._read("read", *args)

    def read1(self, *args: Any) -> Any:
        return self._read("read1", *args)

    def readline(self, *args: Any) -> Any:
        return self._read("readline", *args)

    def readinto(self, buffer: Any) -> Any:
        try:
            count = self._inner.readinto(buffer)
        except BaseException as fault:
            self._failed(fault)
            raise
        self._seen(bytes(memoryview(buffer)[:count]), ended=count < len(buffer))
        return count

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            with self._recorder.crossing.session.faults.contained("instrument"):
                if self._unframer.malformed:
                    self._recorder.broken(self._unframer.wire_end())
                self._recorder.closed()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def see(crossing: Crossing, response: Any, *, exact: bool | None) -> None:
    """Record the answer that `response` (an `http.client.HTTPResponse`) holds, now or as its body is read.

    `exact`: its reader gets packed bodies as they are; None where it may.
    """
    with crossing.session.faults.contained("instrument"):
        headers = list(response.headers.items())
        more = facts_of(response)
        if response.fp is None:
            crossing.returned(_http.answer(response.status, headers, [], **more))
            return
        unframer = Unframer(headers, chunked=bool(response.chunked))
        recorder = _http.recorder_of(
            crossing, response.status, headers, exact=lambda: exact, portions=unframer.portions, **more
        )
        response.fp = SeenFile(response.fp, recorder, unframer)
        return
    crossing.abandon("the recorder failed to keep the answer")


def facts_of(response: Any) -> dict[str, Any]:
    """Return what a status line tells beyond the status, where it is not the usual."""
    usual = http.client.responses.get(response.status, "")
    return {
        "reason": response.reason if response.reason != usual else "",
        "http_version": "HTTP/1.0" if response.version == 10 else "",
    }


# Served ------------------------------------------------------------------------------------------------------


class _Wire(io.RawIOBase):
    """A connection to read from: portions made on demand."""

    def __init__(self, portions: Iterator[bytes], close: Any) -> None:
        self._portions = portions
        self._rest = b""
        self._release = close

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                self._rest = next(self._portions)
            except StopIteration:
                return 0
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._release()
        super().close()


class _Socket:
    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(self._wire)


def served_response(crossing: Crossing, method: str) -> Any:
    """Return the recorded answer as an `http.client.HTTPResponse`, or raise what was raised."""
    served = crossing.served
    assert served is not None
    if served.outcome.kind == "streamed":
        body = ServedBody(crossing)
        return _response(body.head, body.iterate(), body.close, method, None)
    served.wait()
    value = served.give()
    if not _exchange.is_answer(value):
        raise Unservable(f"{crossing.address}: the record holds no HTTP answer where one was expected")
    parts = _exchange.raw_parts(value)
    end = wire_end_of(value)
    if end is not None:
        response = _response(value, iter([*parts, end]), lambda: None, method, None)
        setattr(response, BROKEN, True)
        return response
    return _response(value, iter(parts), lambda: None, method, sum(map(len, parts)))


def _response(head: Any, portions: Iterator[bytes], close: Any, method: str, length: int | None) -> Any:
    status, headers = _exchange.head_from(head)
    chunked = any(name.lower() == "transfer-encoding" and "chunked" in value.lower() for name, value in headers)
    version = head.get("http_version") or "HTTP/1.1"
    reason = head.get("reason") or http.client.responses.get(status, "")
    lines = [f"{version} {status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]

    def wire() -> Iterator[bytes]:
        yield "\r\n".join(lines).encode("latin-1")
        for portion in portions:
            if isinstance(portion, WireEnd):
                yield portion
                return
            yield b"%x\r\n%b\r\n" % (len(portion), portion) if chunked else portion
        if chunked:
            yield b"0\r\n\r\n"

    socket: Any = _Socket(_Wire(wire(), close))
    response = http.client.HTTPResponse(socket, method=method)
    response.begin()
    if length is not None and response.length is not None and response.fp is not None:
        response.length = length  # a body that was packed again may have another length than its header says
    return response


def body_bytes(body: Any) -> bytes | None:
    """Return a request's body where it is at hand without reading it up: None for files and iterables."""
    if body is None:
        return b""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        with contextlib.suppress(UnicodeEncodeError):
            return body.encode("latin-1")
        return body.encode()
    return None
