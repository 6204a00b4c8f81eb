"""What all transports share: the boundary's name, the request and the answer as values, and how a body is kept.

Boundaries are named `http GET example.com`: few names, the path stands in the request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments._cross import cross_transport, spec_of
from otel_replay.instruments._stream import PassingTap, Tap, WholeTap
from otel_replay.wire import exchange as _exchange
from otel_replay.wire import packing

_OTHERS = tuple(f"opentelemetry.instrumentation.{name}" for name in ("httpx", "httpx2"))
_PORTIONS_MAX = 10_000


def described(method: str, url: str, headers: _exchange.Headers, body: bytes | None) -> tuple[Spec, dict[str, Any]]:
    """Return the spec and the request of one HTTP call. A body of None is one that could not be read beforehand."""
    host = (urlsplit(url).hostname or "unknown").replace("[", "").replace("]", "")
    request: dict[str, Any] = {"method": method.upper(), "url": url}
    request["headers"] = [[name, value] for name, value in headers]
    if body is None:
        request["form"] = "streamed"
    else:
        content, packed = packing.unpacked(body, packing.packing_of(headers))
        if packed:
            request["encoded"] = packed
        request["form"], request["body"] = _exchange.body_to(content)
    spec = spec_of(f"http {method.upper()} {host}", "http", layer="http", mutes=True, pins=_pins)
    return spec, request


def _pins(crossing: Crossing) -> Mapping[str, object]:
    library = crossing.facts.get("library")
    return {"client": library} if library else {}


def enter(describe: Callable[[], tuple[Spec, object]], library: str) -> Crossing | None:
    """Enter the crossing of one HTTP call; None where it stays a plain call."""
    crossing = cross_transport(describe)
    if crossing is not None:
        crossing.facts["library"] = library
    return crossing


def answer(
    status: int, headers: _exchange.Headers, parts: Sequence[bytes], *, exact: bool | None = False, **more: Any
) -> dict[str, Any]:
    """Return the value of a whole answer whose raw body came in these parts.

    `exact`: its reader gets the packed bytes, so it is kept unpacked only where packing gives these bytes again.
    None where that is not known: byte for byte if it can be, else equal for whoever unpacks it.
    """
    plain, encoded = packing.unpacked_parts(parts, packing.packing_of(headers))
    recipe = ""
    if encoded and exact is not False:
        recipe = packing.recipe_of(b"".join(parts), b"".join(plain), encoded)
        if exact and not recipe:
            plain, encoded = parts, ""
    came = portions_of(parts if recipe else plain)
    return _exchange.answer_to(status, headers, b"".join(plain), encoded=encoded, recipe=recipe, portions=came, **more)


def portions_of(parts: Sequence[bytes]) -> list[int]:
    """Return the sizes of a body's portions, where there are several and not too many to keep."""
    sizes = [len(part) for part in parts if part]
    return sizes if 1 < len(sizes) <= _PORTIONS_MAX else []


def recorder_of(
    crossing: Crossing,
    status: int,
    headers: list[tuple[str, str]],
    *,
    exact: Callable[[], bool | None],
    portions: Callable[[Sequence[bytes]], Sequence[bytes]] | None = None,
    **more: Any,
) -> Tap | WholeTap:
    """Return what records the body of an answer: event by event, or whole.

    `exact` and `portions` are asked at its end: see `answer`, and the portions that the parts were, where the reader
    took them in others.
    """
    head = _exchange.head_to(status, headers, **more)
    if is_events(headers):
        return PassingTap(crossing, head)

    def finish(parts: Sequence[bytes], **end: Any) -> dict[str, Any]:
        came = parts if portions is None else portions(parts)
        return answer(status, headers, came, exact=True if end else exact(), **more, **end)

    return WholeTap(crossing, head, finish)


@contextmanager
def spoken_for(headers: Any) -> Iterator[None]:
    """Our span is the request's span: OpenTelemetry's own HTTP instrumentations make no second one meanwhile.

    What they would have sent along (the trace context) is put into `headers` in their place.
    """
    if not any(name in sys.modules for name in _OTHERS):
        yield
        return
    from opentelemetry import context, propagate

    key = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "")
    with suppress(Exception):  # a propagator of the program's own may raise anything; the request goes on
        propagate.inject(headers)
    token = context.attach(context.set_value(key, True)) if key else None
    try:
        yield
    finally:
        if token is not None:
            context.detach(token)


def is_events(headers: _exchange.Headers) -> bool:
    """True where a body is an event stream."""
    return any(name.lower() == "content-type" and "text/event-stream" in value.lower() for name, value in headers)
