"""What all transports share: the boundary's name, the request and the answer as values, and how a body is kept.

Boundaries are named `http GET example.com`: few names, the path stands in the request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments._cross import cross_transport, spec_of
from otel_replay.instruments._stream import Tap, WholeTap
from otel_replay.wire import exchange as _exchange

_OTHERS = tuple(f"opentelemetry.instrumentation.{name}" for name in ("httpx", "httpx2"))


def described(method: str, url: str, headers: _exchange.Headers, body: bytes | None) -> tuple[Spec, dict[str, Any]]:
    """Return the spec and the request of one HTTP call. A body of None is one that could not be read beforehand."""
    host = (urlsplit(url).hostname or "unknown").replace("[", "").replace("]", "")
    request: dict[str, Any] = {"method": method.upper(), "url": url}
    request["headers"] = [[name, value] for name, value in headers]
    if body is None:
        request["form"] = "streamed"
    else:
        packing = _exchange.packing_of(headers)
        content, packed = _exchange.unpacked(body, packing)
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
    status: int,
    headers: _exchange.Headers,
    content: bytes,
    *,
    unpacked: bool = False,
    exact: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return the value of a whole answer whose body came as `content`: raw, or `unpacked` by the library already.

    `exact`: whoever reads it gets the packed bytes, so it is kept unpacked only where packing gives these bytes again.
    """
    packing = _exchange.packing_of(headers)
    if unpacked:
        return _exchange.answer_to(status, headers, content, encoded=packing, **more)
    plain, packed = _exchange.unpacked(content, packing)
    if exact and _exchange.packed(plain, packed) != content:
        plain, packed = content, ""
    return _exchange.answer_to(status, headers, plain, encoded=packed, **more)


def raw_body(value: Any) -> bytes:
    """Return the bytes of an answer's body as they stand on the wire, under its headers. Raises Unservable."""
    return _exchange.packed(_exchange.body_from(value.get("form"), value.get("body")), value.get("encoded"))


def recorder_of(
    crossing: Crossing, status: int, headers: list[tuple[str, str]], *, exact: bool = False, **more: Any
) -> Tap | WholeTap:
    """Return what records the body of an answer: event by event, or whole."""
    head = _exchange.head_to(status, headers, **more)
    if is_events(headers):
        return Tap(crossing, head, events=True)
    return WholeTap(crossing, head, lambda content: answer(status, headers, content, exact=exact, **more))


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
