"""A crossing and the protocol that its driver speaks. Decisions only: no awaits and no I/O in here.

The shells in boundary.py and the instruments call `enter`, then either `give` what the driver serves or run the
call between `open` and `close` and say how it ended. A crossing ends exactly once, whichever way it ends.
"""

from __future__ import annotations

import itertools
import marshal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from otel_replay import originals, payload
from otel_replay.envelope import NOTHING, Chunk, Outcome, Payload, lost
from otel_replay.limits import CHUNKS_MAX

if TYPE_CHECKING:
    from otel_replay.session import Scope, Session
    from otel_replay.strand import Strand


@dataclass(slots=True, eq=False)
class Spec:
    """What is known of a boundary before any call: its name, its kind, and how to read its arguments.

    `bind` turns a call's arguments into the request; it raises TypeError where the call itself would.
    `layer` "http" marks a transport: silent beneath a crossing whose `mutes` is true.
    """

    name: str
    kind: str = "custom"
    side_effects: bool = False
    bind: Callable[[tuple[object, ...], Mapping[str, object]], object] | None = None
    mutable_arguments: bool = True
    layer: str = ""
    mutes: bool = False
    pins: Callable[[Crossing], Mapping[str, object]] | None = None
    decode: Callable[[Payload], object] | None = None


class Served(Protocol):
    """An outcome that the tape gives, and the wait for its turn."""

    outcome: Outcome
    took_ns: int
    """How long it took when it was recorded."""

    def give(self) -> object:
        """Return the recorded value or raise the recorded exception. Raises Unservable where neither was kept."""

    def value(self, item: Payload) -> object:
        """Return one payload's value as this run's code may see it."""

    def wait(self) -> None:
        """Block until it is this crossing's turn to end."""

    async def wait_async(self) -> None:
        """Suspend until it is this crossing's turn to end."""

    def check_sent(self, at: int, sent: object, thrown: BaseException | None) -> None:
        """Raise Diverged where the consumer of a stream sent or threw in something else than recorded."""

    def past_end(self) -> BaseException:
        """Return the error for a consumer that reads on where a recorded stream was left."""

    def done(self, how: str) -> None:
        """The crossing's outcome was handed over, whole or (`how` "closed") as far as the consumer wanted."""


class Driver(Protocol):
    """What stands behind a session: a recorder, or a replay."""

    def enter(self, crossing: Crossing) -> None:
        """A crossing was entered: number, request and parent are set. May set `crossing.served`."""

    def opened(self, crossing: Crossing) -> object:
        """Its body, or a step of its stream, begins to run. Returns a token for `closed`."""

    def closed(self, crossing: Crossing, token: object) -> None:
        """Its body, or a step of its stream, stopped running."""

    def leave(self, crossing: Crossing) -> None:
        """It ended: `crossing.outcome` and `end_seq` are set."""

    def forked(self, lane: str) -> None:
        """This is a forked child now, and goes on as `lane`."""


class Crossing:
    """One execution of a boundary, from entry to end."""

    __slots__ = (
        "_chunks",
        "_ended",
        "_image",
        "_outcome",
        "_request",
        "address",
        "answered",
        "asked",
        "changed",
        "children",
        "counts",
        "end_ns",
        "end_seq",
        "facts",
        "kind",
        "live",
        "mutes",
        "name",
        "notes",
        "parent",
        "result",
        "seq",
        "served",
        "session",
        "spec",
        "start_ns",
        "state",
        "strand",
    )

    def __init__(self, session: Session, spec: Spec, parent: Crossing | None, strand: Strand) -> None:
        self.session = session
        self.spec = spec
        self.name = spec.name
        self.kind = spec.kind
        self.parent = parent
        self.strand = strand
        self.counts: dict[str, Iterator[int]] = {}
        counts = session.counts if parent is None else parent.counts
        step = f"{spec.name}[{next(counts.setdefault(spec.name, itertools.count(1)))}]"
        self.address: str = f"{parent.address}/{step}" if parent is not None else session.prefix + step
        self.seq = next(session.entries)
        self.end_seq = 0
        self.start_ns = originals.now_ns()
        self.end_ns = 0
        self.asked: bytes | None = None
        """The request's text as UTF-8, where it is plain JSON."""
        self.answered: bytes | None = None
        """The same of what a call returned."""
        self.live: object = None
        """The request as the call sees it, and may change it; None where it cannot."""
        self.changed: Payload | None = None
        self.result: object = None
        self.notes: list[str] = ["context lost: attached to the only active run"] if strand.adrift else []
        self.facts: dict[str, object] = {}
        self.served: Served | None = None
        self.state: object = None
        self.mutes: bool = spec.mutes or (parent is not None and parent.mutes)
        self._chunks: list[Chunk] = []
        self._ended = False
        self._image: bytes | None = None
        self._request: Payload | None = None
        self._outcome: Outcome | None = None

    def __repr__(self) -> str:
        return f"<crossing {self.address}>"

    @property
    def request(self) -> Payload:
        """What went in, as it was at entry."""
        found = self._request
        if found is None:
            found = self._request = NOTHING if self.asked is None else Payload("json", self.asked.decode())
        return found

    @property
    def outcome(self) -> Outcome | None:
        """What came of it; None while it runs."""
        found = self._outcome
        if found is None and self.answered is not None:
            found = self._outcome = Outcome("returned", Payload("json", self.answered.decode()))
        return found

    # Running ---------------------------------------------------------------------------------------------
    def open(self) -> tuple[object, object]:
        """Enter the crossing's scope: what is crossed from here on is nested in it. Returns what `close` takes."""
        return self.session.push(self), self.session.driver.opened(self)

    def close(self, token: tuple[object, object]) -> None:
        """Leave the scope again."""
        self.session.driver.closed(self, token[1])
        self.session.pop(token[0])

    @property
    def ended(self) -> bool:
        return self._ended

    # Ending: each of these ends a crossing that has not ended yet, and does nothing to one that has --------
    def returned(self, value: object) -> None:
        """The call returned `value`."""
        if self._ended:
            return
        self.result = value
        self._ends()
        try:
            self.answered = payload.plain_json(value)
            if self.answered is None:
                self._outcome = Outcome("returned", self._encode(value))
        except Exception as fault:  # noqa: BLE001  # the agent goes on, whatever fails here
            self.session.faults.caught("outcome", fault)
        self._leave()

    def raised(self, fault: BaseException) -> None:
        """The call raised `fault`. A cancellation is an outcome of its own, apart from error and success."""
        if not self._ended:
            self.result = fault
            kind = "cancelled" if is_cancellation(fault) else "raised"
            self._finish(lambda: Outcome(kind, self._encode(fault)))  # type: ignore[arg-type]

    def chunk(self, value: object, sent: object = None, thrown: BaseException | None = None) -> None:
        """A stream handed out `value`, after `sent` was sent in or `thrown` thrown in."""
        if self._ended or len(self._chunks) > CHUNKS_MAX:
            return
        faults = self.session.faults
        with faults.contained("chunk"):
            if len(self._chunks) == CHUNKS_MAX:
                self._chunks.append(Chunk(lost(f"more than {CHUNKS_MAX} chunks")))
                return
            self._chunks.append(_chunk(payload.encode(value, strict=faults.strict), sent, thrown))

    def stream_end(self, end: str, value: object = None, by: tuple[object, BaseException | None] | None = None) -> None:
        """The stream ended: exhausted (with its return value), closed, dropped, raised or cancelled.

        `by` is what was sent in or thrown in last, where that is known.
        """
        if not self._ended:
            if end == "raised" and isinstance(value, BaseException) and is_cancellation(value):
                end = "cancelled"
            self.result = value
            came_in = None if by is None else _chunk(NOTHING, *by)
            self._finish(lambda: Outcome("streamed", self._encode(value), tuple(self._chunks), end, came_in))

    def abandon(self, reason: str) -> None:
        """Nothing can be said of the outcome: it is lost, for `reason`."""
        if not self._ended:
            self._finish(lambda: Outcome("lost", lost(reason), tuple(self._chunks), reason))

    def give_up_serving(self) -> None:
        """A served stream that its consumer left: nothing more is owed."""
        if self.served is not None:
            self.served.done("closed")

    def end_with(self, outcome: Outcome) -> None:
        """A served crossing was handed over with `outcome`."""
        if not self._ended:
            self.live = None
            if outcome.kind == "returned" and outcome.value.encoding == "json" and not outcome.value.reason:
                self.answered = outcome.value.text.encode()
            self._finish(lambda: outcome)

    def forget(self) -> None:
        """It is another process's crossing: whatever happens to it here is not recorded."""
        self._ended = True

    def _encode(self, value: object) -> Payload:
        return payload.encode(value, strict=self.session.faults.strict)

    def _finish(self, outcome: Callable[[], Outcome]) -> None:
        self._ends()
        with self.session.faults.contained("outcome"):
            self._outcome = outcome()
        self._leave()

    def _ends(self) -> None:
        self._ended = True
        self.end_seq = next(self.session.ends)
        self.end_ns = originals.now_ns()

    def _leave(self) -> None:
        session = self.session
        if self.answered is None:
            if self._outcome is None:
                self._outcome = Outcome("lost", lost("the recorder failed to encode the outcome"))
            if reason := self._outcome.lost_reason:
                session.faults.unkept(self.name, self.address, reason)
        if self.live is not None and self._image is not _STEADY:
            try:
                self._look_at(self.live)
            except Exception as fault:  # noqa: BLE001
                session.faults.caught("arguments", fault)
        session.driver.leave(self)
        # An exception holds the frame that holds this crossing: kept on, it would keep the agent's objects alive.
        self.live = self._image = None
        if not session.keeps_results:
            self.result = None

    def _look_at(self, request: object) -> None:
        """Keep the arguments once more where the call changed them."""
        if self._image is not None and _image(request) == self._image:
            return
        again = payload.encode(request)
        if again.text != self.request.text:
            self.changed = again


def _chunk(value: Payload, sent: object, thrown: BaseException | None) -> Chunk:
    came_in = thrown if thrown is not None else sent
    return Chunk(value, None if came_in is None else payload.encode(came_in, strict=False), thrown is not None)


def is_cancellation(fault: BaseException) -> bool:
    """True for what ends a crossing from outside.

    That is a CancelledError of asyncio or concurrent.futures, trio's Cancelled, the user's Ctrl-C, and the
    GeneratorExit that a coroutine gets which is closed while it waits.
    """
    if isinstance(fault, (KeyboardInterrupt, GeneratorExit)):
        return True
    for kind in type(fault).__mro__:
        if kind.__name__ in ("CancelledError", "Cancelled") and kind.__module__.split(".")[0] in (
            "asyncio",
            "concurrent",
            "trio",
        ):
            return True
    return False


def enter(scope: Scope, spec: Spec, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Crossing | None:
    """Enter a crossing of `spec` in `scope`; None where the call stays a plain call.

    The request is encoded here, before the call can change its arguments. Faults of the recorder are contained;
    what a replay raises goes on to the agent.
    """
    session = scope.session
    faults = session.faults
    request: object = None
    if spec.bind is not None:
        try:
            request = spec.bind(args, kwargs)
        except TypeError:
            return None  # the call itself is going to raise it, in its own words
    parent = scope.crossing
    crossing = Crossing(session, spec, parent, scope.strand)
    try:
        asked = crossing.asked = payload.plain_json(request)
        if asked is None:
            crossing._request = payload.encode(request, strict=faults.strict)
        if spec.mutable_arguments:
            crossing.live = request
            if not _holds_mutable(request):
                crossing._image = _STEADY
            elif asked is not None and len(asked) <= _IMAGE_BYTES_MAX:
                crossing._image = _image(request)
    except Exception as fault:  # noqa: BLE001  # the agent goes on, whatever fails here
        faults.caught("request", fault)
    session.driver.enter(crossing)
    return crossing


_IMAGE_BYTES_MAX = 256 * 1024
"""A larger request is encoded once more at the end, not kept as an image of itself while the call runs."""


_STEADY = b"none of the arguments can change"


def _image(request: Any) -> bytes | None:
    """Return bytes that are the same only while a request of JSON types is, in values and in types.

    Made in one pass over distinct objects, and never stored: the cheapest way to see that a call left its arguments as
    they were. None where it has come to hold something that is no plain value.
    """
    try:
        return marshal.dumps(request)
    except ValueError:
        return None


_STEADY_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def _holds_mutable(request: object) -> bool:
    return isinstance(request, dict) and not _STEADY_TYPES.issuperset(map(type, request.values()))
