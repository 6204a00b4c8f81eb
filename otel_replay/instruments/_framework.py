"""What the instruments of agent frameworks share: nodes, routers and tools as crossings under their own names.

A tool or node is a crossing around the framework's own call of it. Where a tool's function is itself marked with
`@boundary`, that speaks for it: one envelope a call.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from otel_replay.boundary import athrough, through
from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments._cross import Describe, cross
from otel_replay.session import Session, peek_scope
from otel_replay.settings import project_table

_NOT_IN_NAMES = str.maketrans(dict.fromkeys("/[]~", "_"))
_declared: weakref.WeakKeyDictionary[Session, frozenset[str]] = weakref.WeakKeyDictionary()


def _first(args: tuple[object, ...], _kwargs: Mapping[str, object]) -> object:
    return args[0]


def spec_of(name: str, kind: str, *, side_effects: bool = False) -> Spec:
    """Return the Spec of a node, router or tool; its only argument is the request."""
    clean = (name or kind).encode("utf-8", "backslashreplace").decode().translate(_NOT_IN_NAMES)
    return Spec(clean, kind, side_effects or clean in _side_effects(), _first)


def _side_effects() -> frozenset[str]:
    """Return the names under `side_effects` in the project's `[tool.otel_replay]`, read once a session."""
    scope = peek_scope()
    if scope is None:
        return frozenset()
    found = _declared.get(scope.session)
    if found is None:
        named = project_table()[0].get("side_effects", ())
        found = frozenset(map(str, named)) if isinstance(named, (list, tuple)) else frozenset()
        _declared[scope.session] = found
    return found


def is_boundary(*functions: Any) -> bool:
    """True where one of these is marked with `@boundary`, and so is a crossing of its own."""
    return any(getattr(fn, "__otel_replay__", False) is True for fn in functions if fn is not None)


def run(describe: Describe, call: Callable[[], Any]) -> Any:
    """Return what `call` returns, as the crossing that `describe` tells; in a replay, what was recorded."""
    crossing = cross(describe)
    if crossing is None:
        return call()
    if crossing.served is not None:
        crossing.served.wait()
        return crossing.served.give()
    return through(crossing, call)


async def arun(describe: Describe, call: Callable[[], Awaitable[Any]]) -> Any:
    """As `run`, for a coroutine."""
    crossing: Crossing | None = cross(describe)
    if crossing is None:
        return await call()
    if crossing.served is not None:
        await crossing.served.wait_async()
        return crossing.served.give()
    return await athrough(crossing, call)
