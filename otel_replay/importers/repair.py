"""Mend what happens to spans on their way: copies, trace ids cut in half, parents that never came.

Works on a whole set of spans; nothing is dropped silently, every change is a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from otel_replay.span import Span

_HALF = "0" * 16


@dataclass(frozen=True, slots=True)
class MissingParent:
    """A placeholder for a parent that is not there: the orphans under it, in start order."""

    trace_id: str
    span_id: str
    children: tuple[str, ...]


@dataclass(slots=True)
class Repaired:
    spans: list[Span]
    history: tuple[Span, ...] = ()
    missing_parents: tuple[MissingParent, ...] = ()
    notes: tuple[str, ...] = ()


def repair(spans: Iterable[Span]) -> Repaired:
    """Return the spans in their given order with ids joined and copies collapsed, and what was done."""
    notes: list[str] = []
    kept, history = _without_copies(_joined(list(spans), notes), notes)
    orphans = _missing_parents(kept)
    for orphan in orphans:
        notes.append(
            f"root missing: span {orphan.span_id} of trace {orphan.trace_id} is not in the source; "
            f"{len(orphan.children)} span(s) hang below it"
        )
    _loops(kept, notes)
    _round_counts(kept, {orphan.trace_id for orphan in orphans}, notes)
    backwards = sum(1 for span in kept if 0 < span.end_ns < span.start_ns)
    if backwards:
        notes.append(f"{backwards} span(s) end before they start; their times are kept as given")
    return Repaired(kept, tuple(history), orphans, tuple(notes))


def _joined(spans: list[Span], notes: list[str]) -> list[Span]:
    """Give spans whose trace id was cut to its low 64 bits the long id, where exactly one long id fits."""
    ids = {span.trace_id for span in spans}
    shorts = {trace for trace in ids if trace.startswith(_HALF) and trace[16:] != _HALF}
    by_low: dict[str, list[str]] = {}
    for trace in ids - shorts:
        if len(trace) == 32:
            by_low.setdefault(trace[16:], []).append(trace)
    to_long: dict[str, str] = {}
    for short in sorted(shorts):
        longs = sorted(by_low.get(short[16:], ()))
        if len(longs) == 1:
            to_long[short] = longs[0]
            notes.append(f"joined 64-bit trace id {short[16:]} to {longs[0]}")
        elif longs:
            notes.append(f"64-bit trace id {short[16:]} fits {len(longs)} long ids ({', '.join(longs)}); left apart")
    if not to_long:
        return spans
    return [replace(span, trace_id=to_long.get(span.trace_id, span.trace_id)) for span in spans]


def _without_copies(spans: list[Span], notes: list[str]) -> tuple[list[Span], list[Span]]:
    """Keep one span for each (trace id, span id): equal copies collapse, else the latest end wins."""
    best: dict[tuple[str, str], int] = {}
    lost: set[int] = set()
    equal = 0
    changed: list[str] = []
    history: list[Span] = []
    for position, span in enumerate(spans):
        if not span.span_id:
            continue
        key = (span.trace_id, span.span_id)
        earlier = best.get(key)
        if earlier is None:
            best[key] = position
        elif spans[earlier] == span:
            equal += 1
            lost.add(position)
        else:
            winner, loser = (position, earlier) if span.end_ns >= spans[earlier].end_ns else (earlier, position)
            best[key] = winner
            lost.add(loser)
            if spans[loser] not in history:
                history.append(spans[loser])
            changed.append(span.span_id)
    if equal:
        notes.append(f"{equal} equal copies of spans collapsed")
    if changed:
        names = ", ".join(dict.fromkeys(changed[:5]))
        notes.append(f"{len(changed)} unequal copies of spans ({names}): the latest end is used, the rest is history")
    if not lost:
        return spans, history
    return [span for position, span in enumerate(spans) if position not in lost], history


def _missing_parents(spans: list[Span]) -> tuple[MissingParent, ...]:
    here = {(span.trace_id, span.span_id) for span in spans}
    orphans: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        if span.parent_span_id and (span.trace_id, span.parent_span_id) not in here:
            orphans.setdefault((span.trace_id, span.parent_span_id), []).append(span)
    return tuple(
        MissingParent(trace, parent, tuple(child.span_id for child in sorted(children, key=_order)))
        for (trace, parent), children in orphans.items()
    )


def _order(span: Span) -> tuple[int, str]:
    return span.start_ns, span.span_id


def _loops(spans: list[Span], notes: list[str]) -> None:
    """Cut each circle of parents once, at its earliest span, so that every reader of the tree ends."""
    position = {(span.trace_id, span.span_id): index for index, span in enumerate(spans)}
    state: dict[tuple[str, str], int] = {}
    for start in position:
        path: list[tuple[str, str]] = []
        here: tuple[str, str] | None = start
        while here is not None and here in position and here not in state:
            state[here] = 1
            path.append(here)
            parent = spans[position[here]].parent_span_id
            here = (here[0], parent) if parent else None
        if here is not None and state.get(here) == 1 and here in path:
            circle = path[path.index(here) :]
            cut = min(circle, key=lambda key: _order(spans[position[key]]))
            notes.append(f"{len(circle)} span(s) of trace {cut[0]} are each other's parents; cut at span {cut[1]}")
            spans[position[cut]] = replace(spans[position[cut]], parent_span_id="")
        for key in path:
            state[key] = 2


def _round_counts(spans: list[Span], incomplete: set[str], notes: list[str]) -> None:
    """A trace with orphans and a round number of spans was probably cut by a limit of whoever exported it."""
    for trace, count in Counter(span.trace_id for span in spans).items():
        if trace in incomplete and count >= 100 and (count & (count - 1) == 0 or count % 100 == 0):
            notes.append(f"trace {trace} has exactly {count} spans and misses parents: it was probably cut at a limit")
