"""The spans of one trace as a tree: ancestors without trusting the file (cycles, missing parents), and its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from otel_replay import limits
from otel_replay.importers.genai._call import Call
from otel_replay.span import Span


class Tree:
    """One trace. Of spans that stand twice the one that ends last is kept; `copies` counts the others."""

    def __init__(self, spans: Iterable[Span]) -> None:
        kept: dict[str, Span] = {}
        self.copies = 0
        for number, span in enumerate(spans):
            key = span.span_id or f"unnamed {number}"
            other = kept.get(key)
            if other is not None:
                self.copies += 1
            if other is None or (span.end_ns, len(span.attributes)) > (other.end_ns, len(other.attributes)):
                kept[key] = span
        self.spans: tuple[Span, ...] = tuple(sorted(kept.values(), key=lambda span: (span.start_ns, span.span_id)))
        self._by_id = {span.span_id: span for span in self.spans}
        self._children = {span.parent_span_id for span in self.spans}

    def ancestors(self, span: Span) -> Iterator[Span]:
        """Yield parent, grandparent and so on, as far as they are in the file; a cycle ends it."""
        seen = {span.span_id}
        for _ in range(limits.IMPORT_DEPTH_MAX):
            parent = self._by_id.get(span.parent_span_id)
            if parent is None or parent.span_id in seen:
                return
            yield parent
            seen.add(parent.span_id)
            span = parent

    def depth(self, span: Span) -> int:
        """Return how many ancestors of `span` are in the file."""
        return sum(1 for _ in self.ancestors(span))

    @property
    def root(self) -> Span | None:
        """The one span that all others stand under; None where there are several, or none (a cycle)."""
        tops = [span for span in self.spans if span.parent_span_id not in self._by_id]
        return tops[0] if len(tops) == 1 else None

    @property
    def trace_id(self) -> str:
        """The trace that the run began in: spans of other traces may have been joined to it."""
        tops = (span for span in self.spans if span.parent_span_id not in self._by_id)
        return next(tops, self.spans[0]).trace_id

    @property
    def missing_parents(self) -> tuple[str, ...]:
        """Ids of parents that are named but not in the file."""
        found = {s.parent_span_id for s in self.spans if s.parent_span_id and s.parent_span_id not in self._by_id}
        return tuple(sorted(found))

    def run_span(self, calls: Sequence[Call]) -> Call | None:
        """Return the root's call where the root is the run itself: an agent, workflow or chain with others below it."""
        root = self.root
        if root is None or root.span_id not in self._children:
            return None
        return next((c for c in calls if c.span.span_id == root.span_id and c.role == "structure"), None)
