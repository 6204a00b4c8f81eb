"""Streamed bodies served: in the portions in which they came, and broken off where they broke off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from otel_replay.crossing import Crossing
from otel_replay.streams import ServedSource
from otel_replay.wire import exchange as _exchange


class Arrived(bytes):
    """What came at once, and where in it the server's chunks ended: readers may ask for either."""

    ends: tuple[int, ...] = ()


class WireEnd(bytes):
    """What a body that is not whole ends with on the wire, framing and all."""

    __slots__ = ()


def wire_end_of(value: object) -> WireEnd | None:
    """Return what a recorded answer, or the last chunk of a stream, says of its broken end; None where it was whole."""
    found = value.get("wire_end") if isinstance(value, dict) else None
    if isinstance(found, (list, tuple)) and len(found) == 2:
        return WireEnd(_exchange.body_from(*found))
    return None


class _Portions:
    """Puts together the portions in which a stream came from the events that were kept of it."""

    def __init__(self) -> None:
        self._held = b""

    def of(self, value: Any) -> list[bytes]:
        end = wire_end_of(value)
        if end is not None:
            self._held = b""  # it stands in the end, with its framing
            return [end]
        data = _exchange.event_from(value)
        if isinstance(value, dict) and isinstance(value.get("ends"), list):
            arrived = Arrived(data)
            arrived.ends = tuple(int(end) for end in value["ends"])
            return [arrived]
        cuts = value.get("cut", [len(data)]) if isinstance(value, dict) else [len(data)]
        found, at = [], 0
        for end_at in cuts if isinstance(cuts, list) else [len(data)]:
            stop = min(int(end_at), len(data))  # redaction may have made the event shorter than it was
            portion, self._held, at = self._held + data[at:stop], b"", max(at, stop)
            found.append(portion)
        self._held += data[at:]
        return [portion for portion in found if portion]

    def rest(self) -> list[bytes]:
        held, self._held = self._held, b""
        return [held] if held else []


class ServedBody:
    """Serves one streamed body. `head` is its first chunk."""

    def __init__(self, crossing: Crossing) -> None:
        self._source = ServedSource(crossing)
        self._portions = _Portions()
        self._over = False
        self.head = self._source.send(None)
        assert crossing.served is not None
        self._left = len(crossing.served.outcome.chunks) - 1

    def _of(self, value: Any) -> list[bytes]:
        """Return the portions that are whole with this chunk: all that is there, with the last one."""
        self._left -= 1
        found = self._portions.of(value)
        return found if self._left else [*found, *self._portions.rest()]

    def iterate(self) -> Iterator[bytes]:
        while not self._over:
            try:
                value = self._source.send(None)
            except BaseException as fault:
                self._over = True
                if isinstance(fault, StopIteration):
                    return
                raise
            yield from self._of(value)

    async def aiterate(self) -> AsyncIterator[bytes]:
        while not self._over:
            try:
                value = await self._source.asend(None)
            except BaseException as fault:
                self._over = True
                if isinstance(fault, StopAsyncIteration):
                    return
                raise
            for portion in self._of(value):
                yield portion

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._source.close()


class Portions:
    """Serves the portions of a whole answer."""

    def __init__(self, portions: list[bytes]) -> None:
        self._portions = portions

    def iterate(self) -> Iterator[bytes]:
        yield from self._portions

    async def aiterate(self) -> AsyncIterator[bytes]:
        for portion in self._portions:
            yield portion

    def close(self) -> None:
        """Nothing is held."""
