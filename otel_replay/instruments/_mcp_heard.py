"""What a server says while it answers a request: progress, notifications, and requests of its own to the client.

The client's callbacks are the agent's code. What one was called with, and what it answered, are chunks of the request's
crossing; what it crosses itself is nested there. In a replay they are called again in that order, with the server off,
and an answer other than the recorded one is refused: the recorded result came of another.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import anyio

from otel_replay.crossing import Crossing
from otel_replay.errors import ReplayError
from otel_replay.instruments import _mcp_meta
from otel_replay.instruments._cross import carrier
from otel_replay.session import Scope, current_line, reset_scope, set_scope

_log = logging.getLogger(__name__)
_ASKED = ("_sampling_callback", "_elicitation_callback", "_list_roots_callback")
_TOLD = ("_logging_callback", "_message_handler")
Callback = Callable[..., Awaitable[Any]]


class Progress:
    """The progress callback among a request's arguments, and the arguments with ours in its place."""

    _AT = 3  # of what follows the request: the type of its result, its timeout, metadata

    def __init__(self, heard: Heard, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.crossing: Crossing | None = None
        at = self._AT
        self.theirs: Callback | None = args[at] if len(args) > at else kwargs.get("progress_callback")
        self.args, self.kwargs = args, kwargs
        if self.theirs is None:
            return

        async def told(*given: Any) -> Any:
            assert self.theirs is not None
            return await heard.tell(self.crossing, "progress", self.theirs, given)

        if len(args) > at:
            self.args = (*args[:at], told, *args[at + 1 :])
        else:
            self.kwargs = {**kwargs, "progress_callback": told}


class Heard:
    """One client session's callbacks, and the requests that are under way on it."""

    def __init__(self, session: Any, on: Callable[[], bool]) -> None:
        self._on = on
        self._flying: list[Crossing] = []
        self._theirs: dict[str, Callback] = {}
        self._answering: set[int] | None = set() if hasattr(type(session), "_on_request") else None
        self._session = session
        for name in (*_ASKED, *_TOLD):
            found = getattr(session, name, None)
            if found is not None and not getattr(found, "__name__", "").startswith("_default_"):
                self._theirs[name] = found
                setattr(session, name, self._asked(name) if name in _ASKED else self._told(name))

    @contextmanager
    def answering(self) -> Iterator[None]:
        """In here a request of the server's is answered: the callbacks that are called are called for it."""
        task = anyio.get_current_task().id
        assert self._answering is not None
        self._answering.add(task)
        try:
            yield
        finally:
            self._answering.discard(task)

    def _of(self, meta: Any = None) -> Crossing | None:
        """Return the crossing of the request that the server answers when it says something; None between requests.

        Where several are under way it is the one that the message names, else the eldest: over one stream only the
        server knows.
        """
        if len(self._flying) > 1 and meta is not None:
            scope = _mcp_meta.scope_of(_dict(meta))
            if scope is not None and scope.crossing in self._flying:
                return scope.crossing
        return self._flying[0] if self._flying else None

    # Live --------------------------------------------------------------------------------------------------
    async def through(self, crossing: Crossing, call: Callable[[], Awaitable[Any]], progress: Progress | None) -> Any:
        """Run `call` as the body of `crossing`; what is heard meanwhile makes it a stream."""
        if progress is not None:
            progress.crossing = crossing
        self._flying.append(crossing)
        token = crossing.open()
        try:
            result = await call()
        except BaseException as fault:
            if "heard" in crossing.facts:
                crossing.stream_end("raised", fault)
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)
            self._flying.remove(crossing)
        if "heard" in crossing.facts:
            crossing.stream_end("exhausted", result)
        crossing.returned(result)
        return result

    def _told(self, name: str) -> Callback:
        async def told(*given: Any) -> Any:
            if not self._on() or not given or not hasattr(given[0], "model_dump"):
                return await self._theirs[name](*given)
            return await self.tell(self._of(), name, self._theirs[name], given)

        return told

    async def tell(self, crossing: Crossing | None, name: str, theirs: Callback, given: tuple[Any, ...]) -> Any:
        """Call what the agent gave for what a server tells, as part of `crossing`."""
        if crossing is None or crossing.ended:
            return await theirs(*given)
        _keep(crossing, {"told": name, "with": list(given)})
        with _inside(crossing):
            return await theirs(*given)

    def _asked(self, name: str) -> Callback:
        async def asked(context: Any, *given: Any) -> Any:
            theirs = self._theirs[name]
            mine = self._answering is None or anyio.get_current_task().id in self._answering
            crossing = self._of(getattr(context, "meta", None)) if mine and self._on() else None
            if crossing is None or crossing.ended:
                return await theirs(context, *given)
            number = _keep(crossing, {"asked": name, "with": list(given), "meta": _plain(context)})
            try:
                with _inside(crossing):
                    answer = await theirs(context, *given)
            except BaseException as fault:
                if number:
                    crossing.chunk({"answered": number}, thrown=fault)
                raise
            if number:
                crossing.chunk({"answered": number}, answer)
            return answer

        return asked

    # Served ------------------------------------------------------------------------------------------------
    async def again(self, crossing: Crossing, progress: Progress | None) -> None:
        """Call the agent's callbacks as the record of `crossing` says. Raises Diverged where one answers otherwise."""
        served = crossing.served
        assert served is not None
        answers: dict[int, tuple[Any, BaseException | None]] = {}
        number = 0
        for at, chunk in enumerate(served.outcome.chunks):
            said: Any = served.value(chunk.value)
            if "answered" in said:
                served.check_sent(at, *answers.pop(said["answered"], (None, None)))
                continue
            number += 1
            name = said.get("asked") or said["told"]
            theirs = progress.theirs if name == "progress" and progress is not None else self._theirs.get(name)
            if theirs is None:
                continue  # the agent gives no callback any more: where one answered, its answer is missed
            with _inside(crossing):
                if "asked" not in said:
                    await _contained(theirs, said["with"])
                    continue
                try:
                    answers[number] = await theirs(_context(self._session, number, said["meta"]), *said["with"]), None
                except ReplayError:
                    raise
                except Exception as fault:  # noqa: BLE001 - its answer, as the SDK takes it
                    answers[number] = None, fault


async def _contained(theirs: Callback, given: list[Any]) -> None:
    """Call it as the SDK does: what it raises is logged there, and reaches nobody."""
    try:
        await theirs(*given)
    except ReplayError:
        raise
    except Exception as fault:  # noqa: BLE001
        _log.debug("a callback of the agent's raised %r", fault)


def _keep(crossing: Crossing, said: dict[str, Any]) -> int:
    """Keep what the server said; return its number among what it said, or 0 where that failed."""
    with crossing.session.faults.contained("instrument"):
        number = _number(crossing)
        crossing.chunk(said)
        return number
    return 0


def _number(crossing: Crossing) -> int:
    number = int(str(crossing.facts.get("heard", 0))) + 1
    crossing.facts["heard"] = number
    return number


@contextmanager
def _inside(crossing: Crossing) -> Iterator[None]:
    """Let what the agent's callback crosses stand in `crossing`, as a strand of its own."""
    session = crossing.session
    strand = session.new_strand(crossing.strand, crossing)
    over = False
    strand.until = lambda: over
    token = set_scope(Scope(session, crossing, strand, current_line()))
    try:
        with carrier(False):
            yield
    finally:
        over = True
        reset_scope(token)


def _plain(context: Any) -> dict[str, Any] | None:
    meta = _dict(getattr(context, "meta", None))
    return {key: value for key, value in meta.items() if key not in _mcp_meta.OURS} or None


def _dict(meta: Any) -> dict[str, Any]:
    if isinstance(meta, dict):
        return meta
    dump = getattr(meta, "model_dump", None)
    return dict(dump(exclude_none=True)) if dump is not None else {}


def _context(session: Any, number: int, meta: dict[str, Any] | None) -> Any:
    """Return what the SDK hands to a callback beside the parameters."""
    kind = getattr(import_module("mcp.client.session"), "ClientRequestContext", None)
    if kind is not None:
        return kind(session=session, request_id=number, meta=meta)
    made = import_module("mcp.types").RequestParams.Meta.model_validate(meta) if meta else None
    return import_module("mcp.shared.context").RequestContext(
        request_id=number, meta=made, session=session, lifespan_context=None
    )
