"""What serves a crossing that waits for its strand to be known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from otel_replay import originals
from otel_replay.envelope import Outcome, Payload
from otel_replay.replay.served import TapeServed

_SIBLINGS_SECONDS = 0.05


class Deferred:
    """Serves a drifted strand: which recorded one it is shows only once the others have claimed theirs."""

    def __init__(self, settle: Callable[[], TapeServed]) -> None:
        self._settle = settle
        self._served: TapeServed | None = None
        self._waited = False

    @property
    def outcome(self) -> Outcome:
        return self._settled().outcome

    @property
    def took_ns(self) -> int:
        return self._settled().took_ns

    def _settled(self) -> TapeServed:
        if self._served is None:
            if not self._waited:
                originals.sleep(_SIBLINGS_SECONDS)  # in other threads they get to their first crossing meanwhile
            self._served = self._settle()
        return self._served

    def wait(self) -> None:
        self._settled().wait()

    async def wait_async(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)  # siblings that were begun together get to their first crossing
        self._waited = True
        await self._settled().wait_async()

    def give(self) -> object:
        return self._settled().give()

    def value(self, item: Payload) -> object:
        return self._settled().value(item)

    def check_sent(self, at: int, sent: object, thrown: BaseException | None) -> None:
        self._settled().check_sent(at, sent, thrown)

    def past_end(self) -> BaseException:
        return self._settled().past_end()

    def done(self, how: str) -> None:
        self._settled().done(how)
