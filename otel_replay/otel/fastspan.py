"""Many attributes onto an SDK span at once, without the SDK's cleaning of values that are clean already.

The SDK copies, checks and locks per value, which costs more than all that the recorder does to make them. What is
set here touches names that the SDK keeps to itself, so it is tried once at the start against the public
`set_attributes`; where the two differ in anything, the public way is taken from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from otel_replay.session import outside

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.id_generator import IdGenerator

_LEAVES = frozenset({str, int, bool, float})


def set_attributes(span: Any, attributes: Mapping[str, Any]) -> None:
    """Do what `span.set_attributes(attributes)` does."""
    if not (usable() and _set_at_once(span, attributes)):
        span.set_attributes(attributes)


def _set_at_once(span: Any, attributes: Mapping[str, Any]) -> bool:
    """Return False, with nothing done, for a span or values that need the SDK's care."""
    held: Any = getattr(span, "_attributes", None)
    if type(held) is not _bounded() or held.max_value_len is not None or held._immutable:
        return False
    for key, value in attributes.items():
        kind = type(value)
        if not key or (kind not in _LEAVES and not (kind is tuple and all(type(part) is str for part in value))):
            return False
    with span._lock:
        if span._end_time is not None:
            return False
        with held._lock:
            within: dict[str, Any] = held._dict
            if held.maxlen is not None and len(within) + len(attributes) > held.maxlen:
                return False
            if not within.keys().isdisjoint(attributes):
                return False
            within.update(attributes)
    return True


@cache
def _bounded() -> Any:
    from opentelemetry.attributes import BoundedAttributes

    return BoundedAttributes


@cache
@outside()  # the SDK begins threads of its own, which are no part of the run that asks first
def usable() -> bool:
    """True where the short way gives a span that nobody can tell from one made the public way."""
    try:
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider

        from otel_replay.otel.tracing import PrivateIds  # the SDK's own would take numbers from the program's `random`

        limits = SpanLimits(max_span_attributes=8, max_attribute_length=SpanLimits.UNSET)
        provider = TracerProvider(
            shutdown_on_exit=False, span_limits=limits, id_generator=cast("IdGenerator", PrivateIds())
        )
        tracer = provider.get_tracer("otel_replay.check")
        values = {"text": "a", "number": 1, "parts": ("b", "c"), "truth": True, "real": 0.5}
        spans = []
        for short in (True, False):
            span: Any = tracer.start_span("check", start_time=1)
            span.set_attribute("before", "x")
            if short:
                if not _set_at_once(span, values) or _set_at_once(span, dict.fromkeys("abc", "over the limit")):
                    return False
            else:
                span.set_attributes(values)
            span.set_attribute("after", "y")
            span.end(end_time=2)
            spans.append((list(span.attributes.items()), span.dropped_attributes))
        return spans[0] == spans[1] and not _set_at_once(span, {"late": 1})
    except Exception:  # noqa: BLE001  # an SDK that is made otherwise: the public way serves all
        return False
