"""Child spans of the SDK's own class, without the parts that most spans never use.

The SDK's tracer asks the sampler, cleans attributes and makes two lists for each span, and copies the span when it
ends: several times what a crossing's record costs. A crossing stands beneath a sampled span of its own run, so the
answers are known, and the lists are made when somebody asks for them. What is made here touches names that the SDK
keeps to itself, so it is compared once with a span made the public way; where the two differ in anything, or where
the provider samples, limits or counts in a way of its own, the public way serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from otel_replay import originals
from otel_replay.session import outside

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.id_generator import IdGenerator

_ATTRIBUTES_MIN = 64
"""A lower limit on a span's attributes leaves the choice of what goes to the SDK."""


class CheapSpans:
    """Starts the child spans of one SDK tracer. Made by `of`."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry.trace import SpanContext
        from opentelemetry.trace.status import Status

        limits = tracer._span_limits
        self._tracer = tracer
        self._span = _span_class()
        self._context = SpanContext
        self._same = {
            "_instrumentation_info": tracer.instrumentation_info,
            "_instrumentation_scope": tracer._instrumentation_scope,
            "_end_time": None,
            "_kind": None,
            "_name": "",
            "_parent": None,
            "_resource": None,
            "_sampler": tracer.sampler,
            "_trace_config": None,
            "_record_exception": True,
            "_set_status_on_exception": True,
            "_limits": limits,
            "_record_end_metrics": None,
            "_status": Status(),  # never changed in place
        }

    @classmethod
    def of(cls, tracer: Any) -> CheapSpans | None:
        """Return what starts spans of `tracer`; None where only the public way will do."""
        try:
            if not usable() or not _takes_all_children(tracer.sampler) or _counts(tracer):
                return None
            limits = tracer._span_limits
            most = limits.max_span_attributes
            if limits.max_span_attribute_length is not None or (most is not None and most < _ATTRIBUTES_MIN):
                return None
            return cls(tracer)
        except Exception:  # noqa: BLE001  # a tracer that is made otherwise
            return None

    def start(self, name: str, parent: Any, kind: Any, start_ns: int, links: Sequence[Any] = ()) -> Any | None:
        """Start a span beneath the context `parent`; None, with nothing done, where the sampler must be asked."""
        tracer = self._tracer
        flags = parent.trace_flags
        if not flags & 1 or parent.is_remote or not tracer._is_enabled():
            return None
        span = object.__new__(self._span)
        processor = tracer.span_processor
        # As SpanContext makes itself, without the check of ids that can't be out of their range.
        context = (parent.trace_id, originals.new_span_id(), False, flags, parent.trace_state, parent.is_valid)
        span.__dict__ = {
            **self._same,
            "_name": name,
            "_context": tuple.__new__(self._context, context),
            "_parent": parent,
            "_kind": kind,
            "_resource": tracer.resource,
            "_start_time": start_ns,
            "_span_processor": processor,
            "_lock": Lock(),
        }
        if links:
            span._links = span._new_links(links)
        processor.on_start(span, parent_context=None)
        return span


def add_clean(span: Any, attributes: dict[str, Any]) -> bool:
    """Set `attributes`, whose values are clean and few, on a span that was started here; False where it is not so.

    They are the span's own from then on.
    """
    if type(span) is not _span_class():
        return False
    with span._lock:
        if span._end_time is not None:
            return False
        most = span._limits.max_span_attributes
        held = span.__dict__.get("_attributes")
        if held is None:  # nobody has set any: these become them
            if most is not None and len(attributes) > most:
                return False
            span._new_attributes()._dict = attributes
            return True
        within: dict[str, Any] = held._dict
        if (most is not None and len(within) + len(attributes) > most) or not within.keys().isdisjoint(attributes):
            return False
        with held._lock:
            within.update(attributes)
    return True


@cache
def _span_class() -> Any:
    from opentelemetry.attributes import BoundedAttributes
    from opentelemetry.sdk.trace import Span

    class CrossingSpan(Span):
        """A span whose attributes, events and links are made on demand, and which is itself handed on at its end."""

        def __init__(self) -> None:
            raise TypeError("a CrossingSpan is made by CheapSpans.start")

        def __getattr__(self, name: str) -> Any:
            # `setdefault`, so that of two threads that ask at once both get the same.
            if name == "_attributes":
                return self._new_attributes()
            if name == "_events":
                return self.__dict__.setdefault(name, cast("Any", self)._new_events())
            if name == "_links":
                return self.__dict__.setdefault(name, cast("Any", self)._new_links(()))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def _new_attributes(self) -> Any:
            most = cast("Any", self)._limits.max_span_attributes
            return self.__dict__.setdefault("_attributes", BoundedAttributes(most, None, False))

        @property
        def events(self) -> Any:
            return tuple(self._events) if "_events" in self.__dict__ else ()

        @property
        def links(self) -> Any:
            return tuple(self._links) if "_links" in self.__dict__ else ()

        @property
        def dropped_events(self) -> Any:
            return cast("Any", self._events).dropped if "_events" in self.__dict__ else 0

        @property
        def dropped_links(self) -> Any:
            return cast("Any", self._links).dropped if "_links" in self.__dict__ else 0

        def end(self, end_time: int | None = None) -> None:
            with self._lock:
                ended = self._end_time is not None
                if not ended:
                    self._end_time = end_time if end_time is not None else originals.now_ns()
                    cast("Any", self._attributes)._immutable = True
            if ended:
                super().end(end_time)  # says so in the SDK's own words
                return
            # Not a copy: an ended span takes no change.
            self._span_processor._on_ending(self)
            self._span_processor.on_end(self)

    return CrossingSpan


def _takes_all_children(sampler: Any) -> bool:
    """True for the samplers that take every child of a sampled local span, and say nothing more of it."""
    from opentelemetry.sdk.trace import sampling

    if type(sampler) in (sampling.ParentBased, sampling.ParentBasedTraceIdRatio):
        sampler = sampler._local_parent_sampled
    return sampler is sampling.ALWAYS_ON


def _counts(tracer: Any) -> bool:
    """True where the SDK counts its spans as metrics: that is the public way's business."""
    metrics = getattr(tracer, "_tracer_metrics", None)
    return metrics is not None and type(metrics).__name__ != "NoOpTracerMetrics"


@cache
@outside()  # the SDK begins threads of its own, which are no part of the run that asks first
def usable() -> bool:
    """True where a span made here cannot be told from one made the public way."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

        from otel_replay.otel.tracing import PrivateIds  # the SDK's own would take numbers from the program's `random`

        seen: list[tuple[str, Any]] = []

        class Watching(SpanProcessor):
            def on_start(self, span: Any, parent_context: Any = None) -> None:
                seen.append(("start", span.name))

            def on_end(self, span: Any) -> None:
                seen.append(("end", span))

        provider = TracerProvider(shutdown_on_exit=False, id_generator=cast("IdGenerator", PrivateIds()))
        provider.add_span_processor(Watching())
        tracer: Any = provider.get_tracer("otel_replay.check", "1")
        parent = tracer.start_span("parent", start_time=1)
        cheap = CheapSpans(tracer).start("check", parent.get_span_context(), trace.SpanKind.CLIENT, 2)
        plain = tracer.start_span("check", trace.set_span_in_context(parent), kind=trace.SpanKind.CLIENT, start_time=2)
        del seen[0]
        for span in (cheap, plain):
            if span is None or not isinstance(span, trace.Span):
                return False
            span.set_attribute("before", "x")
            clean = {"text": "a", "number": 1, "parts": ("b", "c")}
            if span is cheap and not add_clean(span, clean):
                return False
            if span is plain:
                span.set_attributes(clean)
            span.end(end_time=4)
        names = [entry[0] for entry in seen]
        if names != ["start", "start", "end", "end"]:
            return False
        found = [_shown(span) for kind, span in seen if kind == "end"]
        fields = set(vars(plain)) - {"_events", "_links"}
        return found[0] == found[1] and fields == set(vars(cheap)) - {"_events", "_links"}
    except Exception:  # noqa: BLE001  # an SDK that is made otherwise: the public way serves all
        return False


def _shown(span: Any) -> dict[str, Any]:
    """Return all that a processor or an exporter can read of an ended span, its own id aside."""
    context = span.get_span_context()
    return {
        "name": span.name,
        "trace": (context.trace_id, context.trace_flags, context.trace_state, context.is_remote),
        "parent": span.parent,
        "kind": span.kind,
        "times": (span.start_time, span.end_time),
        "attributes": list(span.attributes.items()),
        "events": span.events,
        "links": span.links,
        "status": (span.status.status_code, span.status.description),
        "resource": span.resource,
        "scope": span.instrumentation_scope,
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
    }
