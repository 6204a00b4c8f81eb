"""From a request to its acknowledgement, for both receivers: check, keep, count. Knows neither HTTP nor gRPC."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import ImportFault, StoreError
from ..wire import check
from ..wire.check import Checked
from .metrics import Metrics
from .segment import LOGS, TRACES
from .wal import Busy, Wal

_logger = logging.getLogger("otel_replay.sink")
SIGNALS: Final = ("traces", "logs")
_KINDS: Final = {"traces": TRACES, "logs": LOGS}
_CHECKS: Final[dict[tuple[str, bool], Callable[[bytes], Checked]]] = {
    ("traces", False): check.check_traces,
    ("traces", True): check.check_traces_json,
    ("logs", False): check.check_logs,
    ("logs", True): check.check_logs_json,
}
_WAIT_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 5


class Accepted(NamedTuple):
    """The request is durable, but for `rejected` items, of which `message` tells."""

    rejected: int
    message: str


class Refused(Exception):  # an answer, not a fault
    """The request is not taken. `kind` says whose trouble it is and so what to answer."""

    def __init__(self, kind: str, message: str, retry_seconds: int = 0) -> None:
        super().__init__(message)
        self.kind = kind  # "bad": the sender's; "busy", "unavailable": ours, and it passes
        self.retry_seconds = retry_seconds


class MemoryBudget:
    """Bytes of request bodies held at once. Who asks for more waits a little, and is then sent away."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = 0
        self._condition = threading.Condition()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def take(self, count: int) -> None:
        """Hold `count` more bytes. Raises Refused after a short wait in vain."""
        with self._condition:
            if count > self._bytes_max:
                raise Refused("bad", f"{count} bytes are more than this sink holds at all ({self._bytes_max})")
            if not self._condition.wait_for(lambda: self._held + count <= self._bytes_max, _WAIT_SECONDS):
                raise Refused("busy", f"{self._held} bytes of requests are being handled", 1)
            self._held += count

    def give_back(self, count: int) -> None:
        """Let go of `count` bytes."""
        with self._condition:
            self._held -= count
            self._condition.notify_all()


class Intake:
    """What the receivers call."""

    def __init__(self, wal: Wal, metrics: Metrics, tokens: tuple[str, ...], memory_bytes_max: int) -> None:
        self._wal = wal
        self._metrics = metrics
        self._tokens = [token.encode() for token in tokens]
        self.memory = MemoryBudget(memory_bytes_max)
        self.stopping = False

    def authorized(self, header: str) -> bool:
        """Return True where `header` (of `Authorization`) holds a known bearer token, or none is asked for."""
        if not self._tokens:
            return True
        scheme, _, token = header.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        # Every token is compared, so that the time taken tells nothing.
        found = [hmac.compare_digest(given, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(found)

    def not_ready(self) -> str:
        """Return why the sink takes nothing at the moment, or ""."""
        if self.stopping:
            return "the sink is stopping"
        try:
            self._wal.refuse_when_full()
        except (Busy, StoreError) as why:
            return str(why)
        return ""

    def take(self, transport: str, signal: str, data: bytes, *, is_json: bool = False) -> Accepted:
        """Return once every good item of the request is durable. Raises Refused."""
        answer = "unavailable"
        try:
            accepted = self._take(signal, data, is_json)
            answer = "partial" if accepted.rejected else "ok"
            return accepted
        except Refused as refused:
            answer = refused.kind
            raise
        except Exception as fault:
            # A fault of ours must not cost the sender's data: 500 and INTERNAL would.
            _logger.exception("a request of %d bytes could not be handled", len(data))
            raise Refused("unavailable", f"internal fault: {type(fault).__name__}", 30) from fault
        finally:
            self._metrics.add("requests_total", transport=transport, signal=signal, answer=answer)

    def _take(self, signal: str, data: bytes, is_json: bool) -> Accepted:
        if self.stopping:
            raise Refused("unavailable", "the sink is stopping", _RETRY_SECONDS)
        try:
            checked = _CHECKS[signal, is_json](data)
        except ImportFault as fault:
            raise Refused("bad", str(fault)) from None
        if checked.accepted:
            try:
                self._wal.append(_KINDS[signal], checked.data)
            except Busy as busy:
                raise Refused("busy", str(busy), busy.retry_seconds) from None
            except StoreError as fault:
                raise Refused("unavailable", str(fault), _RETRY_SECONDS) from None
        self._metrics.add("accepted_total", checked.accepted, signal=signal)
        self._metrics.add("received_bytes_total", len(checked.data), signal=signal)
        rejected = len(checked.problems)
        if rejected:
            self._metrics.add("refused_total", rejected, signal=signal)
        return Accepted(rejected, check.refusal(checked.problems) if rejected else "")
