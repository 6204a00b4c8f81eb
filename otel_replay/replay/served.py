"""What the tape gives for one crossing: the same value, the same raise, the same chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from otel_replay import payload
from otel_replay.changes import compare
from otel_replay.crossing import Crossing
from otel_replay.envelope import Outcome, Payload
from otel_replay.errors import Diverged, Unservable
from otel_replay.limits import CANCELLED_WAIT_MS_MAX
from otel_replay.readable import untagged
from otel_replay.renaming import apply_renaming
from otel_replay.replay.divergence import short
from otel_replay.replay.tape import Entry
from otel_replay.replay.turns import Turns
from otel_replay.streams import stream_left_early


class TapeServed:
    """Serves `entry` to `crossing` when its turn has come."""

    def __init__(
        self,
        crossing: Crossing,
        entry: Entry,
        turns: Turns,
        renamed: dict[str, str],
        finish: Callable[[Outcome, BaseException | None], None],
        latch: Callable[[Exception], Exception],
        redact: Callable[[Payload], Payload],
    ) -> None:
        self._crossing = crossing
        self._entry = entry
        self._turns = turns
        self._renamed = renamed
        self._finish = finish
        self._latch = latch
        self._redact = redact
        self.outcome = entry.envelope.outcome
        self.took_ns = max(entry.envelope.end_ns - entry.envelope.start_ns, 0)

    def _where(self) -> str:
        return self._entry.address

    def value(self, item: Payload) -> object:
        """Return one payload's value, its ids renamed to those of this run. Raises Unservable."""
        if item.reason or item.lost:
            raise self._unservable(item.reason or "nothing was kept")
        if self._renamed:
            tree = apply_renaming(item.tree(), self._renamed)
            import orjson  # only a run with a live part comes here

            item = Payload(item.encoding, orjson.dumps(tree).decode())
        decode = self._crossing.spec.decode
        try:
            return decode(item) if decode is not None else payload.decode(item)
        except Unservable as fault:
            raise self._unservable(str(fault)) from fault

    def _unservable(self, reason: str) -> Exception:
        where = self._where()
        name, _, rest = where.rpartition("/")[2].partition("[")
        return self._latch(
            Unservable(
                f"{where} cannot be served: {reason}. Nothing was made up in its place. "
                f"Next: run it live: plan.live({name!r}, {rest.rstrip(']')})",
                address=where,
            )
        )

    def give(self) -> object:
        outcome = self.outcome
        if outcome.kind == "lost":
            raise self._unservable(outcome.lost_reason)
        if "cancelled" in (outcome.kind, outcome.end):  # a blocking call: nobody cancels it now as it was then
            raise self._unservable("it was cancelled when recorded: the recorded call has no result")
        found: object = None
        try:
            found = self.value(outcome.value)
        except Unservable:
            self._turns.delivered(self._entry, self._crossing.strand)
            raise
        failed = "raised" in (outcome.kind, outcome.end)
        self._apply_changes()
        self._crossing.result = found
        self._finish(outcome, None)
        self._turns.delivered(self._entry, self._crossing.strand)
        if failed:
            if not isinstance(found, BaseException):
                raise self._unservable(f"its record says {outcome.kind}, but holds no exception")
            raise_as_recorded(found)
        return found

    def _apply_changes(self) -> None:
        """Let the call change its arguments as it did when recorded."""
        changed = self._entry.envelope.changed
        now = self._crossing.live
        if changed is None or now is None:
            return
        then = self.value(changed)
        if isinstance(now, dict) and isinstance(then, dict):
            for name, target in now.items():
                _become(target, then.get(name, target))

    # Turns -----------------------------------------------------------------------------------------------
    def wait(self) -> None:
        if self.outcome.kind != "cancelled":
            self._turns.wait(self._entry, self._crossing.strand)

    async def wait_async(self) -> None:
        if self.outcome.kind == "cancelled" or self.outcome.end == "cancelled":
            await self._until_cancelled()
        elif self._turns.needed or self._crossing.strand.number:
            await self._turns.wait_async(self._entry, self._crossing.strand)

    async def _until_cancelled(self) -> None:
        """Stay suspended until the agent cancels, as it did when recorded; refuse after a bound."""
        try:
            await asyncio.sleep(CANCELLED_WAIT_MS_MAX / 1000)
        except (asyncio.CancelledError, GeneratorExit) as fault:
            self._crossing.result = fault
            self._finish(self.outcome, fault)
            self._turns.delivered(self._entry, self._crossing.strand)
            raise
        raise self._unservable(
            f"it was cancelled when recorded, and now nobody cancelled it for {CANCELLED_WAIT_MS_MAX} ms: "
            "the recorded call has no result"
        )

    # Streams ---------------------------------------------------------------------------------------------
    def check_sent(self, at: int, sent: object, thrown: BaseException | None) -> None:
        chunks = self.outcome.chunks
        recorded = chunks[at] if at < len(chunks) else self.outcome.ended_by
        if recorded is None:
            return  # it was left there, or an older record does not tell what ended it
        now = thrown if thrown is not None else sent
        came_in = None if now is None else self._redact(payload.encode(now))
        then = None if recorded.sent is None else self._redact(recorded.sent)
        if _equal(then, came_in) and recorded.thrown == (thrown is not None):
            return
        verb = "threw in" if thrown is not None else "sent"
        where = f"chunk {at + 1}" if at < len(chunks) else "its end"
        raise self._latch(
            Diverged(
                f"{self._where()} diverged at {where}: the consumer {verb} {_shown(came_in)}, recorded was "
                f"{'thrown in ' * recorded.thrown}{_shown(then)}. Nothing was served. "
                f'Next: run it live with --live "{self._where()}"',
                address=self._where(),
                cause="input drifted",
            )
        )

    def past_end(self) -> BaseException:
        outcome = self.outcome
        if outcome.kind != "streamed":
            return self._unservable(f"its record is no stream but {outcome.kind}")
        self.done("closed")
        return self._latch(stream_left_early(self._where(), len(outcome.chunks), outcome.end))

    def done(self, how: str) -> None:
        self._finish(self.outcome, None)
        self._turns.delivered(self._entry, self._crossing.strand)


class Overridden(TapeServed):
    """Serves what the plan gives in place of the record."""

    def __init__(self, served: TapeServed, value: object, raises: BaseException | None) -> None:
        self.__dict__.update(served.__dict__)
        kind, given = ("raised", raises) if raises is not None else ("returned", value)
        self._given = given
        self.outcome = Outcome(kind, payload.encode(given))  # type: ignore[arg-type]

    def give(self) -> object:
        self._crossing.result = self._given
        self._finish(self.outcome, None)
        self._turns.delivered(self._entry, self._crossing.strand)
        if self.outcome.kind == "raised":
            assert isinstance(self._given, BaseException)
            raise self._given
        return self._given


def _equal(recorded: Payload | None, now: Payload | None) -> bool:
    if recorded is None or now is None:
        return recorded is now
    return not (recorded.lost or now.lost) and not compare(recorded.tree(), now.tree())


def _shown(came_in: Payload | None) -> str:
    return "nothing" if came_in is None else came_in.reason or short(untagged(came_in.tree()))


def raise_as_recorded(fault: BaseException) -> NoReturn:
    """Raise `fault` with what it was raised from: Python puts what is being handled here and now in its place."""
    context = fault.__context__
    try:
        raise fault
    except BaseException:
        if context is not None:
            fault.__context__ = context
        raise


def _become(target: object, then: object) -> None:
    """Make the container `target` equal to `then`, in place."""
    if isinstance(target, list) and isinstance(then, list):
        target[:] = then
    elif (isinstance(target, dict) and isinstance(then, dict)) or (isinstance(target, set) and isinstance(then, set)):
        target.clear()
        target.update(then)
    elif isinstance(target, bytearray) and isinstance(then, (bytes, bytearray)):
        target[:] = then
