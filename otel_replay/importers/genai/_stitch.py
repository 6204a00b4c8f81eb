"""The serving side of a call in another trace: joined by the id of the call where no context was passed on.

MCP over stdio or through a gateway often loses the trace context, or has it from when the connection was made. Both
sides still know which request it is: by JSON-RPC id (counted in each session), or by the id that the model gave the
tool call. One call must fit and no other: the rest stays apart, and is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from otel_replay.span import Span

_REQUEST_IDS = ("jsonrpc.request.id", "rpc.jsonrpc.request_id", "mcp.request.id")
_SERVER = 2
TOOL_CALL = "tool call id"
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a call: `kind` and `id` say which call it is, `name` and `session` must not gainsay it."""

    span: Span
    kind: str
    id: str
    name: str
    session: str

    @property
    def place(self) -> Place:
        return self.span.trace_id, self.span.span_id

    def fits(self, asked: _Side) -> bool:
        if (self.name and asked.name and self.name != asked.name) or self.place == asked.place:
            return False
        if self.session and asked.session:
            return self.session == asked.session
        within = asked.span.start_ns <= self.span.start_ns and (
            not asked.span.end_ns or self.span.start_ns <= asked.span.end_ns
        )
        return within or self.kind == TOOL_CALL  # JSON-RPC counts its ids anew in each session


@dataclass(slots=True)
class Stitched:
    """The traces as they belong together. `notes` are by the trace that a span was joined to, or left in."""

    traces: dict[str, list[Span]]
    joined: frozenset[Place] = frozenset()
    notes: dict[str, list[str]] = field(default_factory=dict)

    def is_serving(self, span: Span) -> bool:
        """True for the span of a process that serves another one's call."""
        served = span.kind == _SERVER and any(key == "mcp.method.name" for key, _ in span.attributes)
        return served or (span.trace_id, span.span_id) in self.joined


def stitch(traces: Mapping[str, list[Span]], ours: Sequence[Span] = ()) -> Stitched:
    """Return the traces with each serving side, and all below it, under the one call that it serves.

    `ours` are requests of our own runs, which serve nobody and stay where they are: what is joined to one is below it.
    """
    asked, served = _sides(traces)
    for side in (side for span in ours for side in _sides_of(span)):
        asked.setdefault((side.kind, side.id), []).append(side)
    if not served or not asked:
        return Stitched(dict(traces))
    found = Stitched({})
    under: dict[Place, Place] = {}
    for side in served:
        if side.place in under:
            continue
        fitting = [one for one in asked.get((side.kind, side.id), ()) if side.fits(one)]
        fitting = _innermost(fitting)
        if any(one.place == (side.span.trace_id, side.span.parent_span_id) for one in fitting):
            continue  # the context was passed on
        if len(fitting) == 1 and fitting[0].place not in under.values():
            under[side.place] = fitting[0].place
            text = f"{_label(side.span)} is joined to {_label(fitting[0].span)} by its {side.kind} {side.id}"
            found.notes.setdefault(fitting[0].span.trace_id, []).append(text)
        elif fitting:
            text = f"{_label(side.span)} serves one of {len(fitting)} calls of {side.kind} {side.id}: left apart"
            found.notes.setdefault(side.span.trace_id, []).append(text)
    found.joined = frozenset(under)
    _move(traces, ours, under, found)
    return found


def _sides(traces: Mapping[str, Sequence[Span]]) -> tuple[dict[tuple[str, str], list[_Side]], list[_Side]]:
    sides: dict[tuple[str, str], list[_Side]] = {}
    ids = {(span.trace_id, span.span_id) for spans in traces.values() for span in spans}
    for spans in traces.values():
        for span in spans:
            for side in _sides_of(span):
                sides.setdefault((side.kind, side.id), []).append(side)
    asked: dict[tuple[str, str], list[_Side]] = {}
    served: list[_Side] = []
    for key, group in sides.items():
        if key[0] == TOOL_CALL:
            # Both sides may look alike: the other trace's top one, which began later, serves.
            group.sort(key=lambda side: (_is_top(side.span, ids), side.span.start_ns))
            first = group[0].span.trace_id
            serving = [side for side in group if side.span.trace_id != first and _is_top(side.span, ids)]
        else:
            serving = [side for side in group if side.span.kind == _SERVER]
        served += serving
        asked[key] = [side for side in group if side not in serving]
    return asked, served


def _is_top(span: Span, ids: set[Place]) -> bool:
    return (span.trace_id, span.parent_span_id) not in ids


def _sides_of(span: Span) -> list[_Side]:
    held = {key: value for key, value in span.attributes if isinstance(value, (str, int))}
    found = []
    name = str(held.get("gen_ai.tool.name") or "")
    method = held.get("mcp.method.name")
    number = next((held[key] for key in _REQUEST_IDS if held.get(key) not in (None, "")), None)
    if method and number is not None:
        session = str(held.get("mcp.session.id") or "")
        found.append(_Side(span, f"JSON-RPC id ({method})", str(number), name, session))
    given = held.get("gen_ai.tool.call.id")
    if isinstance(given, str) and given:
        found.append(_Side(span, TOOL_CALL, given, name, ""))
    return found


def _innermost(sides: list[_Side]) -> list[_Side]:
    """Return the sides without those that are right around another: two layers tell of one call."""
    around = {(side.span.trace_id, side.span.parent_span_id) for side in sides}
    return [side for side in sides if side.place not in around]


def service_of(span: Span) -> str:
    """Return the name of the service that wrote a span, in brackets; "" where it is unknown."""
    found = (value for key, value in span.resource.attributes if key == "service.name" and isinstance(value, str))
    name = next(found, "")
    return f" ({name})" if name else ""


def _label(span: Span) -> str:
    return f"span {span.span_id}{service_of(span)} {span.name!r}"


def _move(
    traces: Mapping[str, list[Span]], ours: Sequence[Span], under: Mapping[Place, Place], found: Stitched
) -> None:
    parents = {(s.trace_id, s.span_id): (s.trace_id, s.parent_span_id) for spans in traces.values() for s in spans}
    parents.update(((span.trace_id, span.span_id), ("", "")) for span in ours)

    def trace_of(place: Place) -> str:
        seen: set[Place] = set()
        while place not in seen:
            seen.add(place)
            above = under.get(place) or parents[place]
            if above not in parents:
                break
            place = above
        return place[0]

    for spans in traces.values():
        for span in spans:
            place = (span.trace_id, span.span_id)
            above = under.get(place)
            held = found.traces.setdefault(trace_of(place), [])
            held.append(replace(span, parent_span_id=above[1]) if above is not None else span)
