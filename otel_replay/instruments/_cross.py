"""Entering crossings from an instrument: contained while recording, closed while replaying."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import UsageError
from otel_replay.session import Scope, current_scope, enter_call, peek_scope


def _first(args: tuple[object, ...], _kwargs: Mapping[str, object]) -> object:
    return args[0]


_specs: dict[tuple[str, str, str], Spec] = {}


def spec_of(
    name: str,
    kind: str,
    *,
    layer: str = "",
    mutes: bool = False,
    pins: Callable[[Crossing], Mapping[str, object]] | None = None,
) -> Spec:
    """Return the one Spec of that name, kind and layer. Its only argument is the request."""
    key = (name, kind, layer)
    found = _specs.get(key)
    if found is None:
        found = Spec(name, kind, bind=_first, mutable_arguments=False, layer=layer, mutes=mutes, pins=pins)
        if len(_specs) < 10_000:
            _specs[key] = found
    return found


Describe: TypeAlias = Callable[[], tuple[Spec, object] | None]
"""Tells a call's spec and request; None where it is no crossing of its own."""


def cross(describe: Describe) -> Crossing | None:
    """Enter the crossing that `describe` tells; None where the call stays a plain call.

    A fault of `describe` is counted while recording and the call goes on unrecorded. In a replay it raises
    UsageError: a call that cannot be told cannot be matched, and must not reach the network.
    """
    scope = current_scope()
    if scope is None:
        return None
    return _cross(scope, describe)


def cross_transport(describe: Describe) -> Crossing | None:
    """As `cross`, for a transport: silent beneath a crossing that speaks for it, and for OpenTelemetry's exporters."""
    if muted() or suppressed():
        return None
    return cross(describe)


_CARRIER = "otel_replay-carrier"


def muted() -> bool:
    """True beneath a crossing that speaks for the clients and transports under it."""
    inherited = peek_scope()
    return inherited is not None and inherited.crossing is not None and inherited.crossing.mutes


@contextmanager
def carrier(yes: bool = True) -> Iterator[None]:
    """In here, and in tasks begun in here, what transports send only carries a crossing that stands elsewhere."""
    from opentelemetry import context

    token = context.attach(context.set_value(_CARRIER, yes))
    try:
        yield
    finally:
        context.detach(token)


def suppressed() -> bool:
    """True in a `carrier`, and inside an OpenTelemetry exporter: what it sends is not the agent's."""
    from opentelemetry import context

    key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "")
    return bool((key and context.get_value(key)) or context.get_value(_CARRIER))


def _cross(scope: Scope, describe: Describe) -> Crossing | None:
    session = scope.session
    try:
        told = describe()
    except Exception as fault:
        if session.raises_when_late:
            raise UsageError(f"a call cannot be matched with the record: reading it raised {fault!r}") from fault
        session.faults.note("instrument", fault)
        return None
    return enter_call(told[0], (told[1],), {}) if told is not None else None


def inner_crossing(kind: str) -> Crossing | None:
    """Return the crossing that control stands in, where it is of `kind`."""
    scope = peek_scope()
    crossing = scope.crossing if scope is not None else None
    return crossing if crossing is not None and crossing.spec.kind == kind else None


def attempt_noted(crossing: Crossing, failed: tuple[str, int, int], wait_s: float) -> None:
    """Keep one failed try (status, start, end) of a crossing that tries again by itself."""
    from otel_replay.envelope import Attempt

    attempts: Any = crossing.facts.setdefault("attempts", [])
    attempts.append(Attempt(*failed, round(wait_s * 1e9)))
