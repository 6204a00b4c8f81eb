"""Spans written by hand, as short as the conventions allow."""

from __future__ import annotations

import itertools
from typing import Any

from otel_replay.envelope import Recording
from otel_replay.importers.genai import recordings
from otel_replay.span import Event, Scope, Span

from ._reading import any_value

TRACE = "0af7651916cd43dd8448eb211c80319c"
_ids = itertools.count(1)


def span(
    name: str,
    attributes: dict[str, Any] | None = None,
    *,
    scope: str = "",
    under: Span | None = None,
    start: int = 0,
    error: str = "",
    exception: tuple[str, str] | None = None,
    **other: Any,
) -> Span:
    """Return a span that starts at `start` milliseconds and lasts half a millisecond."""
    at = 1_790_000_000_000_000_000 + start * 1_000_000
    events: tuple[Event, ...] = ()
    if exception:
        pairs = (("exception.type", exception[0]), ("exception.message", exception[1]))
        events = (Event(at, "exception", pairs),)
    return Span(
        TRACE,
        f"{next(_ids):016x}",
        name,
        at,
        at + 500_000,
        parent_span_id=under.span_id if under else "",
        attributes=tuple((key, any_value(value)) for key, value in (attributes or {}).items()),
        scope=Scope(scope),
        status_code=2 if error or exception else 0,
        status_message=error,
        events=events,
        **other,
    )


def of(*spans: Span) -> Recording:
    """Return the one recording of these spans."""
    (found,) = recordings(spans)
    return found
