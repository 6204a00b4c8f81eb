"""Streamed bodies as crossings: recorded as they pass, one event a chunk, and served in the same portions.

The first chunk of such a record is the head (status and headers), the others are events. Below an SDK that gives its
reader events, an event is handed on when it is whole and recorded when it is handed on: an agent that stops on its
third event has recorded three. Where the reader sees the portions themselves they are handed on as they come, and each
event says where in it a portion ended.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from otel_replay.crossing import Crossing
from otel_replay.limits import PAYLOAD_BYTES_MAX
from otel_replay.wire import exchange as _exchange

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LAST = re.compile(
    rb"\A(?:data: ?\[DONE\]|event: ?(?:message_stop|response\.(?:completed|failed|incomplete))\s"
    rb'|data: ?\{"type": ?"(?:message_stop|response\.(?:completed|failed|incomplete))")'
)
_PENDING_BYTES_MAX = 1024 * 1024


class Splitter:
    """Cuts a body into events where it is an event stream; else hands on the portions as they come."""

    def __init__(self, events: bool) -> None:
        self._events = events
        self._pending = b""

    def feed(self, part: bytes) -> list[bytes]:
        if not self._events:
            return [part] if part else []
        data = self._pending + part
        found, start = [], 0
        for match in _BOUNDARY.finditer(data, max(0, len(self._pending) - 3)):
            found.append(data[start : match.end()])
            start = match.end()
        self._pending = data[start:]
        if len(self._pending) > _PENDING_BYTES_MAX:
            found += self.rest()
        return found

    def rest(self) -> list[bytes]:
        pending, self._pending = self._pending, b""
        return [pending] if pending else []


class Tap:
    """Records one streamed body. `step` is told every portion before it is handed on."""

    def __init__(self, crossing: Crossing, head: dict[str, Any], *, events: bool, on_event: Any = None) -> None:
        self.crossing = crossing
        self.splitter = Splitter(events)
        self.whole = False
        """The last event has passed: whoever closes now has read it all."""
        self._on_event = on_event
        crossing.facts["stream"] = True
        crossing.chunk(head)

    def step(self, portion: bytes) -> bytes:
        crossing = self.crossing
        if not crossing.ended:
            with crossing.session.faults.contained("stream"):
                self.whole = self.whole or _LAST.match(portion) is not None
                value = _exchange.event_to(portion)
                crossing.chunk(value)
                if self._on_event is not None:
                    self._on_event(crossing, value)
        return portion

    def exhausted(self) -> None:
        self.crossing.stream_end("exhausted")

    def failed(self, fault: BaseException) -> None:
        self.crossing.stream_end("raised", fault)

    def closed(self) -> None:
        self.crossing.stream_end("exhausted" if self.whole else "closed")

    def broken(self, wire_end: bytes) -> None:
        """The body ended before it was whole, with these bytes of its framing: whoever read it has seen that."""
        with self.crossing.session.faults.contained("stream"):
            self.crossing.chunk({"wire_end": _exchange.body_to(wire_end)})
        self.crossing.stream_end("exhausted")

    def iterate(self, inner: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what `inner` gives, in events."""
        while True:
            try:
                part = next(inner)
            except StopIteration:
                yield from map(self.step, self.splitter.rest())
                self.exhausted()
                return
            except BaseException as fault:
                yield from map(self.step, self.splitter.rest())
                self.failed(fault)
                raise
            yield from map(self.step, self.splitter.feed(part))

    async def aiterate(self, inner: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what `inner` gives, in events."""
        while True:
            try:
                part = await anext(inner)
            except StopAsyncIteration:
                for portion in self.splitter.rest():
                    yield self.step(portion)
                self.exhausted()
                return
            except Exception as fault:
                for portion in self.splitter.rest():
                    yield self.step(portion)
                self.failed(fault)
                raise
            except BaseException as fault:  # a cancellation: nothing is handed out any more
                self.failed(fault)
                raise
            for portion in self.splitter.feed(part):
                yield self.step(portion)


class _Passing:
    """Hands a body on as it comes, with each portion told to `step` before, and its end to `exhausted` or `failed`."""

    if TYPE_CHECKING:

        def step(self, portion: bytes) -> bytes: ...
        def exhausted(self) -> None: ...
        def failed(self, fault: BaseException) -> None: ...

    def iterate(self, inner: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what `inner` gives."""
        while True:
            try:
                part = next(inner)
            except StopIteration:
                self.exhausted()
                return
            except BaseException as fault:
                self.failed(fault)
                raise
            yield self.step(part)

    async def aiterate(self, inner: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what `inner` gives."""
        while True:
            try:
                part = await anext(inner)
            except StopAsyncIteration:
                self.exhausted()
                return
            except BaseException as fault:
                self.failed(fault)
                raise
            yield self.step(part)


class PassingTap(_Passing, Tap):
    """Records an event stream whose portions are handed on as they come."""

    def __init__(self, crossing: Crossing, head: dict[str, Any]) -> None:
        super().__init__(crossing, head, events=True)
        self._pending = b""
        self._ends: list[int] = []

    def step(self, portion: bytes, *, ends: bool = True) -> bytes:
        """Keep the events that are whole by now. Unless it `ends`, the portion goes on with the next step."""
        crossing = self.crossing
        if not crossing.ended:
            with crossing.session.faults.contained("stream"):
                self._pending += portion
                if ends and portion:
                    self._ends.append(len(self._pending))
                for event in self.splitter.feed(portion):
                    self._keep(event)
        return portion

    def _keep(self, event: bytes) -> None:
        size = len(event)
        within = [end for end in self._ends if end <= size]
        self._ends = [end - size for end in self._ends if end > size]
        self._pending = self._pending[size:]
        self.whole = self.whole or _LAST.match(event) is not None
        value = _exchange.event_to(event)
        self.crossing.chunk(value if within == [size] else {**value, "cut": within})

    def _rest(self) -> None:
        if not self.crossing.ended:
            with self.crossing.session.faults.contained("stream"):
                for event in self.splitter.rest():
                    self._keep(event)

    def exhausted(self) -> None:
        self._rest()
        super().exhausted()

    def failed(self, fault: BaseException) -> None:
        self._rest()
        super().failed(fault)

    def closed(self) -> None:
        self._rest()
        super().closed()

    def broken(self, wire_end: bytes) -> None:
        self._rest()
        super().broken(wire_end)


def _part_to(part: bytes) -> dict[str, Any]:
    value = _exchange.event_to(part)
    ends = getattr(part, "ends", None)
    return value if ends is None or ends == (len(part),) else {**value, "ends": list(ends)}


class WholeTap(_Passing):
    """Records a body that is no event stream: kept whole when it has been read to its end, else as far as it was.

    `finish` is called with the raw portions, and with how the body broke off if it did, and returns the answer's value.
    """

    def __init__(self, crossing: Crossing, head: dict[str, Any], finish: Callable[..., Any]) -> None:
        self.crossing = crossing
        self._head = head
        self._finish = finish
        self._parts: list[bytes] = []
        self._size = 0
        crossing.facts["stream"] = True

    def step(self, portion: bytes) -> bytes:
        self._size += len(portion)
        if self._size <= PAYLOAD_BYTES_MAX:
            self._parts.append(portion)
        return portion

    def exhausted(self) -> None:
        self._returned()

    def broken(self, wire_end: bytes) -> None:
        """The body ended before it was whole, with these bytes of its framing: whoever read it has seen that."""
        self._returned(wire_end=_exchange.body_to(wire_end))

    def _returned(self, **more: Any) -> None:
        if self.crossing.ended:
            return
        parts, self._parts = self._parts, []
        if self._size > PAYLOAD_BYTES_MAX:
            self.crossing.abandon(f"the body is larger than {PAYLOAD_BYTES_MAX // 1024 // 1024} MB")
            return
        value: object = None
        with self.crossing.session.faults.contained("instrument"):
            value = self._finish(parts, **more)
        if value is None:
            self.crossing.abandon("the recorder failed to keep the answer")
        else:
            self.crossing.returned(value)

    def failed(self, fault: BaseException) -> None:
        self._so_far()
        self.crossing.stream_end("raised", fault)

    def closed(self) -> None:
        if self._expected() == self._size:
            self.exhausted()
            return
        self._so_far()
        self.crossing.stream_end("closed")

    def _expected(self) -> int:
        lengths = [value for name, value in self._head["headers"] if name.lower() == "content-length"]
        return int(lengths[0]) if lengths and lengths[0].isdigit() else -1

    def _so_far(self) -> None:
        if not self.crossing.ended:
            with self.crossing.session.faults.contained("stream"):
                self.crossing.chunk(self._head)
                for part in self._parts:
                    self.crossing.chunk(_part_to(part))
