"""What a request of MCP says of the run that it belongs to, in its `_meta`: `traceparent` and W3C `baggage`.

Source of the keys: the Model Context Protocol's SEP-414 and OpenTelemetry's conventions for MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from otel_replay import lanes
from otel_replay.crossing import Crossing
from otel_replay.session import Scope, peek_scope

OURS = frozenset({"traceparent", "tracestate", "baggage", "progressToken"})
RUN_ID, RUN_NAME, LANE, MODE = "otel_replay.run.id", "otel_replay.run.name", "otel_replay.run.lane", "otel_replay.mode"
_BAGGAGE_CHARS_MAX = 8_192  # what the W3C recommendation asks every carrier to keep
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")

in_flight: dict[tuple[str, str], Scope] = {}
"""(run, lane) -> scope, of each request of this process's clients that is being sent or answered now."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lane of which run a request is for."""

    run_id: str
    name: str
    lane: str
    mode: str
    trace_id: str
    span_id: str


Key: TypeAlias = tuple[str, str]


def key_of(more: Any) -> Key | None:
    """Return what finds the request with `more` in its `_meta` while it flies."""
    asked = read(more) if isinstance(more, Mapping) else None
    return (asked.run_id, asked.lane) if asked is not None else None


@contextmanager
def flying(key: Key | None) -> Iterator[None]:
    """While in here, what the transport does for the request of `key` finds where it was sent from."""
    scope = peek_scope()
    if scope is None or key is None:
        yield
        return
    in_flight[key] = scope
    try:
        yield
    finally:
        in_flight.pop(key, None)


def scope_of(meta: Any) -> Scope | None:
    """Return where the request with this `_meta` was sent from, where that was in this process."""
    key = key_of(meta)
    return in_flight.get(key) if key is not None else None


def written(crossing: Crossing) -> dict[str, str]:
    """Return the keys of `_meta` that tell a server which lane of the run it is while it handles `crossing`."""
    told = lanes.tell_request(crossing)
    trace_id = _trace_id(told)
    found = {}
    if trace_id:
        found["traceparent"] = f"00-{trace_id}-{crossing.facts.get('span_id', '')}-01"
    if told:
        entries = {RUN_ID: told["run_id"], RUN_NAME: crossing.session.name, LANE: told["lane"], MODE: told["mode"]}
        entries = {**_of_the_program(), **entries}
        found["baggage"] = ",".join(f"{key}={quote(str(value), safe='')}" for key, value in entries.items())
    return found


def _trace_id(told: Mapping[str, Any]) -> str:
    from opentelemetry import trace

    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        return f"{current.trace_id:032x}"
    parent = told.get("parent") or ("",)
    return str(parent[0])


def _of_the_program() -> dict[str, object]:
    from opentelemetry import baggage

    return dict(baggage.get_all())


def attach(more: Mapping[str, str]) -> object:
    """Put what `written` gave in OpenTelemetry's baggage, from where newer SDKs write `_meta`. Returns for `detach`."""
    from opentelemetry import baggage, context

    here = context.get_current()
    for key, value in _entries(more.get("baggage", "")).items():
        here = baggage.set_baggage(key, value, here)
    return context.attach(here)


def detach(token: Any) -> None:
    """Undo one `attach`; None is nothing to undo."""
    if token is not None:
        from opentelemetry import context

        context.detach(token)


def _entries(text: str) -> dict[str, str]:
    found = {}
    for part in text[:_BAGGAGE_CHARS_MAX].split(","):
        key, equals, value = part.partition("=")
        if equals:
            found[key.strip()] = unquote(value.partition(";")[0].strip())
    return found


def read(meta: Mapping[str, Any]) -> Asked | None:
    """Return what `meta` says of a run, or None where it says nothing well formed. It comes from the network."""
    entries = _entries(str(meta.get("baggage", "")))
    match = _TRACEPARENT.fullmatch(str(meta.get("traceparent", "")))
    run_id, lane = entries.get(RUN_ID, ""), entries.get(LANE, "")
    if not re.fullmatch(r"[0-9a-f]{32}", run_id) or not lane or entries.get(MODE) not in ("record", "replay"):
        return None
    trace_id, span_id = (match[1], match[2]) if match else ("", "")
    return Asked(run_id, entries.get(RUN_NAME, ""), lane, entries[MODE], trace_id, span_id)
