"""Crossings as spans of the program's own TracerProvider, beside its own spans and through its own pipeline.

Where no SDK provider is set up there are no spans to write: ids are made all the same, so that what the journal
holds is a trace. Ids come from a private source: the SDK's default generator takes numbers from `random`, which
belongs to the program.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from otel_replay import carrying, codec, originals, semconv
from otel_replay.crossing import Crossing
from otel_replay.envelope import Envelope, Run
from otel_replay.otel.cheapspan import CheapSpans, add_clean
from otel_replay.otel.fastspan import set_attributes
from otel_replay.readable import error_event, span_name, span_status
from otel_replay.span import KeyValue

_log = logging.getLogger("otel_replay")
_CLIENTS = frozenset({"model", "http", "mcp"})


class PrivateIds:
    """An id generator that never touches the program's randomness."""

    def generate_trace_id(self) -> int:
        return originals.new_trace_id()

    def generate_span_id(self) -> int:
        return originals.new_span_id()

    def is_trace_id_random(self) -> bool:
        return True


def sdk_provider() -> Any | None:
    """Return the global TracerProvider where the program has set up an SDK; None otherwise. Imports nothing."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or "opentelemetry.sdk.trace" not in sys.modules:
        return None
    provider = api.get_tracer_provider()
    return provider if hasattr(provider, "add_span_processor") else None


@contextmanager
def apart(context: Any = None) -> Iterator[None]:
    """Within, `context` (default: the current one) is current; what is made current in here does not stay so."""
    if "opentelemetry.context" not in sys.modules:
        yield
        return
    from opentelemetry import context as api

    token = api.attach(context if context is not None else api.get_current())
    try:
        yield
    finally:
        api.detach(token)


_said: set[int] = set()


def _say_cut(limit: int) -> None:
    """Say once that a limit is in force: what people read of a span is cut by it, what we replay from is not."""
    if limit not in _said:
        _said.add(limit)
        _log.warning(
            "this program's OpenTelemetry cuts attribute values at %d characters: readable gen_ai.* texts are cut, "
            "the exact form goes in parts of that size (said once)",
            limit,
        )


class Tracing:
    """Writes crossings as spans through `provider`; with None it only makes ids."""

    def __init__(
        self,
        provider: Any | None,
        *,
        content: bool = True,
        encoding: carrying.Encoding = "json",
        value_length_limit: int | None = None,
        envelope_bytes_max: int | None = None,
    ) -> None:
        self._tracer: Any = None
        self._api: Any = None  # opentelemetry.trace and opentelemetry.context, looked up once
        self._context: Any = None
        self._cheap: CheapSpans | None = None
        self._kinds: dict[str, Any] = {}
        self._kind_of_others: Any = None
        self._last_parent = (0, "")
        self._content = content
        self._encoding: carrying.Encoding = encoding
        self._envelope_bytes_max = envelope_bytes_max
        self._run_span: Any = None
        self._run_facts: dict[str, object] = {}
        self._run_token: object = None
        self._trace_number = 0
        self._sent: dict[int, set[str]] = {}
        """The large strings that each trace carries already, by their SHA-256."""
        self.trace_id = ""
        self.run_span_id = ""
        self.run_parent_id = ""
        if provider is not None:
            self._tracer = provider.get_tracer(semconv.SCOPE_NAME, str(semconv.SCHEMA_VERSION))
            if hasattr(self._tracer, "id_generator"):
                self._tracer.id_generator = PrivateIds()
            span_limits = getattr(provider, "_span_limits", None)
            limit = getattr(span_limits, "max_span_attribute_length", None) or getattr(
                span_limits, "max_attribute_length", None
            )
            value_length_limit = limit if isinstance(limit, int) else value_length_limit
            if value_length_limit is not None:
                _say_cut(value_length_limit)
            from opentelemetry import context, trace

            self._api, self._context = trace, context
            self._kinds = dict.fromkeys(_CLIENTS, trace.SpanKind.CLIENT)
            self._kind_of_others = trace.SpanKind.INTERNAL
            self._cheap = CheapSpans.of(self._tracer)
        self.part_bytes = carrying.part_size(value_length_limit)

    @property
    def plain_json(self) -> bool:
        """True where a span carries everything, and the exact form as JSON."""
        return self._content and self._encoding == "json" and self._envelope_bytes_max is None

    # The run ---------------------------------------------------------------------------------------------
    def run_started(
        self,
        name: str,
        start_ns: int,
        link: tuple[str, str] | None = None,
        remote: tuple[str, str] | None = None,
    ) -> None:
        """Begin the run's span, under the span that is current where the run begins, and make it current."""
        if self._tracer is None:
            parent = _current_context() or remote
            self.trace_id = parent[0] if parent else f"{originals.new_trace_id():032x}"
            self.run_parent_id = parent[1] if parent else ""
            self.run_span_id = f"{originals.new_span_id():016x}"
            return
        from opentelemetry import trace

        under = None
        parent_context = trace.get_current_span().get_span_context()
        if not parent_context.is_valid and remote is not None:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            parent_context = trace.SpanContext(
                int(remote[0], 16), int(remote[1], 16), is_remote=True, trace_flags=flags
            )
            under = trace.set_span_in_context(trace.NonRecordingSpan(parent_context))
        if parent_context.is_valid:
            self.run_parent_id = f"{parent_context.span_id:016x}"
        span = self._tracer.start_span(name or "run", context=under, start_time=start_ns, links=_links(link))
        self._run_span = span
        found = span.get_span_context()
        self._trace_number = found.trace_id
        self.trace_id, self.run_span_id = f"{found.trace_id:032x}", f"{found.span_id:016x}"
        self._run_facts = {"span": span}
        self._run_token = self.opened(self._run_facts)

    def abandon(self) -> None:
        """End the run's span as it is: the run could not begin."""
        if self._run_span is not None:
            self.closed(self._run_facts, self._run_token)
            self._run_span.end()
            self._run_span = self._run_token = None

    def forked(self) -> None:
        """In a forked child the run's span is the parent's: a lane has its own, beneath it."""
        self._run_span = None
        self._run_token = None
        self.run_parent_id = self.run_span_id
        self.run_span_id = f"{originals.new_span_id():016x}"

    def run_ended(self, run: Run) -> None:
        """Close the run's span with its count and digest."""
        span = self._run_span
        if span is None:
            return
        from opentelemetry import trace

        self.closed(self._run_facts, self._run_token)
        span.set_attributes(_clean(codec.run_to_attributes(run, part_bytes=self.part_bytes)))
        if run.error:
            span.set_status(trace.Status(trace.StatusCode.ERROR, run.error))
        span.end(end_time=run.end_ns)

    # Crossings -------------------------------------------------------------------------------------------
    def crossing_started(self, crossing: Crossing, link: tuple[str, str] | None = None) -> tuple[str, str, Any]:
        """Return (span id, parent span id, span): the span of a crossing that has just been entered."""
        if self._tracer is None:
            parent = crossing.parent
            parent_id = parent.facts.get("span_id", self.run_span_id) if parent is not None else self.run_span_id
            return f"{originals.new_span_id():016x}", str(parent_id), None
        trace = self._api
        current = trace.get_current_span().get_span_context()
        under = None
        if current.trace_id != self._trace_number:  # its context was lost: a thread, a foreign loop
            under = trace.set_span_in_context(self._parent_span(crossing), self._context.get_current())
            current = trace.get_current_span(under).get_span_context()
        span, kind = None, self._kinds.get(crossing.kind, self._kind_of_others)
        name = f"execute_tool {crossing.name}" if crossing.kind == "tool" else crossing.name
        links = _links(link) if link is not None else ()
        if self._cheap is not None and under is None:
            span = self._cheap.start(name, current, kind, crossing.start_ns, links)
        if span is None:
            span = self._tracer.start_span(name, context=under, kind=kind, start_time=crossing.start_ns, links=links)
        return f"{span.get_span_context().span_id:016x}", self._hex(current.span_id), span

    def _hex(self, span_id: int) -> str:
        """Return a span's id as text. Most crossings have the parent of the one before."""
        last = self._last_parent
        if last[0] != span_id:
            last = self._last_parent = (span_id, f"{span_id:016x}")
        return last[1]

    def _parent_span(self, crossing: Crossing) -> Any:
        parent = crossing.parent
        span = parent.facts.get("span") if parent is not None else None
        return span if span is not None else self._run_span

    def opened(self, facts: dict[str, object]) -> object:
        """Make the span in `facts` current while the crossing's body, or a step of it, runs."""
        span: Any = facts.get("span")
        if span is None:
            return None
        context, trace = self._context, self._api
        now = context.get_current()
        left = facts.get("left")
        if isinstance(left, tuple) and left[1] is now:  # a stream's own code holds a context over its yield
            return *left, None
        mine = trace.set_span_in_context(span, now)
        return now, mine, context.attach(mine)

    def closed(self, facts: dict[str, object], token: object) -> None:
        """Make current again what was before; what the body attached and did not detach stays, as without us."""
        if not isinstance(token, tuple):
            return
        context, trace = self._context, self._api
        before, mine, attached = token
        now = context.get_current()
        if now is mine:
            if attached is not None and not self._detached(attached):
                context.attach(before)
        elif trace.get_current_span(now) is facts.get("span"):
            context.attach(trace.set_span_in_context(trace.get_current_span(before), now))
        else:
            facts["left"] = (before, now)

    def _detached(self, token: Any) -> bool:
        """Undo an attach; False where it was done in another context, as for a run that ends in another task."""
        try:
            self._context._RUNTIME_CONTEXT.detach(token)  # not `context.detach`, which logs that as an error
        except ValueError:
            return False
        return True

    def crossing_written(self, span: Any, attributes: dict[str, Any], end_ns: int) -> None:
        """Set ready-made attributes on the span of a crossing that returned, and end it."""
        if span is None:
            return
        if span.is_recording() and not add_clean(span, attributes):
            set_attributes(span, attributes)
        span.end(end_time=end_ns)

    def crossing_ended(self, span: Any, envelope: Envelope) -> None:
        """Set everything on the crossing's span, the exact form last, and end it."""
        if span is None or not span.is_recording():
            if span is not None:
                span.end(end_time=envelope.end_ns)
            return
        trace = self._api
        span.update_name(span_name(envelope))
        code, message = span_status(envelope)
        if code == 2:
            event = error_event(envelope)
            if event is not None:
                span.add_event(event.name, dict(event.attributes), timestamp=event.time_ns)
            span.set_status(trace.Status(trace.StatusCode.ERROR, message))
        attributes = codec.to_attributes(
            envelope,
            encoding=self._encoding,
            part_bytes=self.part_bytes,
            content=self._content,
            envelope_bytes_max=self._envelope_bytes_max,
        )
        sent = self._sent.setdefault(span.get_span_context().trace_id, set())
        for part in carrying.part_spans(attributes, self.part_bytes, sent):
            under = trace.set_span_in_context(span)
            carrier = self._tracer.start_span(carrying.PART_NAME, context=under, start_time=envelope.start_ns)
            carrier.set_attributes(_clean(part))
            carrier.end(end_time=envelope.end_ns)
        set_attributes(span, _clean(attributes))
        span.end(end_time=envelope.end_ns)


def _clean(attributes: Sequence[KeyValue]) -> dict[str, Any]:
    return {key: value for key, value in attributes if value is not None}


def _links(link: tuple[str, str] | None) -> list[Any]:
    if not link or not link[0] or not link[1]:
        return []
    from opentelemetry import trace

    context = trace.SpanContext(int(link[0], 16), int(link[1], 16), is_remote=True)
    return [trace.Link(context, {"otel_replay.link": "replay_of"})]


def _current_context() -> tuple[str, str] | None:
    """Return (trace id, span id) of the current span where the API is loaded and one is current."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    found = api.get_current_span().get_span_context()
    return (f"{found.trace_id:032x}", f"{found.span_id:016x}") if found.is_valid else None
