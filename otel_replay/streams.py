"""Generators as crossings: the same protocol (`send`, `throw`, `close`), recorded or served.

A scope is entered for each step and left again before the value is handed out: nothing is held open over a
`yield`, so a generator may begin in one task and end in another. `drive` and `adrive` are real generators around
a source, so that the program sees the type that it knows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, Protocol

from otel_replay.crossing import Crossing, is_cancellation
from otel_replay.errors import StreamEndsHere


class Source(Protocol):
    def send(self, value: Any, /) -> Any: ...
    def throw(self, fault: BaseException, /) -> Any: ...
    def close(self) -> None: ...


class AsyncSource(Protocol):
    async def asend(self, value: Any, /) -> Any: ...
    async def athrow(self, fault: BaseException, /) -> Any: ...
    async def aclose(self) -> None: ...


def drive(source: Source) -> Generator[Any, Any, Any]:
    """Yield what `source` gives, handing in what is sent and thrown; return its return value."""
    sent, thrown = None, None
    while True:
        try:
            value = source.send(sent) if thrown is None else source.throw(thrown)
        except StopIteration as stop:
            return stop.value
        try:
            sent, thrown = (yield value), None
        except GeneratorExit:
            source.close()
            raise
        except BaseException as fault:  # noqa: BLE001  # handed on to the source, whatever it is
            sent, thrown = None, fault


async def adrive(source: AsyncSource) -> AsyncGenerator[Any, Any]:
    """Yield what `source` gives, handing in what is sent and thrown."""
    sent, thrown = None, None
    while True:
        try:
            value = await (source.asend(sent) if thrown is None else source.athrow(thrown))
        except StopAsyncIteration:
            return
        try:
            sent, thrown = (yield value), None
        except GeneratorExit:
            await source.aclose()
            raise
        except BaseException as fault:  # noqa: BLE001
            sent, thrown = None, fault


class LiveSource:
    """Runs the program's own generator or iterator, keeping what passes."""

    __slots__ = ("_crossing", "_inner")

    def __init__(self, crossing: Crossing, inner: Generator[Any, Any, Any] | Iterator[Any]) -> None:
        crossing.facts["stream"] = True  # left unfinished when the run ends, it was dropped, not lost
        self._crossing = crossing
        self._inner = inner

    def send(self, value: Any) -> Any:
        return self._step(value, None)

    def throw(self, fault: BaseException) -> Any:
        return self._step(None, fault)

    def _step(self, sent: Any, thrown: BaseException | None) -> Any:
        crossing, inner = self._crossing, self._inner
        token = crossing.open()
        try:
            if thrown is not None:
                value = inner.throw(thrown) if hasattr(inner, "throw") else _raise(thrown)
            elif sent is None:
                value = next(inner)
            else:
                value = inner.send(sent)  # type: ignore[union-attr]
        except StopIteration as stop:
            crossing.stream_end("exhausted", stop.value, (sent, thrown))
            raise
        except BaseException as fault:
            crossing.stream_end("raised", fault, (sent, thrown))
            raise
        finally:
            crossing.close(token)
        crossing.chunk(value, sent, thrown)
        return value

    def close(self) -> None:
        crossing = self._crossing
        token = crossing.open()
        try:
            if hasattr(self._inner, "close"):
                self._inner.close()
        except BaseException as fault:
            crossing.stream_end("raised", fault)
            raise
        finally:
            crossing.close(token)
        crossing.stream_end("closed")


class LiveAsyncSource:
    """Runs the program's own async generator or iterator, keeping what passes."""

    __slots__ = ("_crossing", "_inner")

    def __init__(self, crossing: Crossing, inner: AsyncGenerator[Any, Any] | AsyncIterator[Any]) -> None:
        crossing.facts["stream"] = True
        self._crossing = crossing
        self._inner = inner

    async def asend(self, value: Any) -> Any:
        return await self._step(value, None)

    async def athrow(self, fault: BaseException) -> Any:
        return await self._step(None, fault)

    async def _step(self, sent: Any, thrown: BaseException | None) -> Any:
        crossing, inner = self._crossing, self._inner
        token = crossing.open()
        try:
            if thrown is not None:
                value = await inner.athrow(thrown) if hasattr(inner, "athrow") else _raise(thrown)
            elif sent is None:
                value = await anext(inner)
            else:
                value = await inner.asend(sent)  # type: ignore[union-attr]
        except StopAsyncIteration:
            crossing.stream_end("exhausted", None, (sent, thrown))
            raise
        except BaseException as fault:
            crossing.stream_end("raised", fault, (sent, thrown))
            raise
        finally:
            crossing.close(token)
        crossing.chunk(value, sent, thrown)
        return value

    async def aclose(self) -> None:
        crossing = self._crossing
        token = crossing.open()
        try:
            if hasattr(self._inner, "aclose"):
                await self._inner.aclose()
        except BaseException as fault:
            crossing.stream_end("raised", fault)
            raise
        finally:
            crossing.close(token)
        crossing.stream_end("closed")


def _raise(fault: BaseException) -> Any:
    raise fault


class ServedSource:
    """Hands out a recorded stream, chunk by chunk: agents stop on the third chunk, and tests must see that."""

    __slots__ = ("_at", "_crossing", "_over")

    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        self._at = 0
        self._over = False

    def _next(self, sent: Any, thrown: BaseException | None) -> tuple[bool, Any]:
        """Return (True, chunk) or (False, None) at the end that is still to be waited for and given."""
        served = self._crossing.served
        assert served is not None
        if self._over:
            raise served.past_end()
        served.check_sent(self._at, sent, thrown)
        chunks = served.outcome.chunks
        if self._at < len(chunks):
            self._at += 1
            self._crossing.facts["taken"] = self._at
            return True, served.value(chunks[self._at - 1].value)
        self._over = True
        if served.outcome.end not in ("exhausted", "raised", "cancelled"):
            raise served.past_end()
        return False, None

    def _left_by(self, fault: BaseException) -> None:
        """A consumer that is cancelled while it holds a stream leaves it where it is."""
        if is_cancellation(fault):
            self._over = True
            self._crossing.give_up_serving()
            raise fault

    def _end(self) -> Any:
        """Return the stream's return value or raise what it raised."""
        served = self._crossing.served
        assert served is not None
        return served.give()

    def send(self, value: Any) -> Any:
        more, chunk = self._next(value, None)
        if more:
            return chunk
        assert self._crossing.served is not None
        self._crossing.served.wait()
        raise StopIteration(self._end())

    def throw(self, fault: BaseException) -> Any:
        self._left_by(fault)
        more, chunk = self._next(None, fault)
        if more:
            return chunk
        raise StopIteration(self._end())

    def close(self) -> None:
        self._crossing.give_up_serving()

    async def asend(self, value: Any) -> Any:
        more, chunk = self._next(value, None)
        if more:
            return chunk
        assert self._crossing.served is not None
        await self._crossing.served.wait_async()
        self._end()
        raise StopAsyncIteration

    async def athrow(self, fault: BaseException) -> Any:
        self._left_by(fault)
        more, chunk = self._next(None, fault)
        if more:
            return chunk
        self._end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._crossing.give_up_serving()


def stream_left_early(address: str, chunks: int, end: str) -> StreamEndsHere:
    """Return the error for a consumer that reads past where a recorded stream was left."""
    return StreamEndsHere(
        f"the recording of {address} ends here: the recorded consumer left the stream after {chunks} chunk(s) ({end}); "
        "what would have come next was never recorded. Run it live with plan.live(...), or record again"
    )
