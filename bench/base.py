"""What every figure of recording is set against: a bare SDK span with eight attributes and a minimal processor."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from otel_replay import RecordedRun

ATTRIBUTES = {f"gen_ai.bare.{number}": "a value" for number in range(8)}
TINY = {"city": "Bern"}


def of_size(kilobytes: float) -> dict[str, Any]:
    """Return messages that are about that many kilobytes of JSON."""
    count = max(int(kilobytes * 8), 1)
    return {
        "messages": [{"role": "user", "content": "in what part of the town is " + "it " * 26} for _ in range(count)]
    }


class Counting(SpanProcessor):
    """The least that a processor can do."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []
        self.keeping = False

    def on_end(self, span: ReadableSpan) -> None:
        if self.keeping:
            self.ended.append(span)


def plain(q: Any) -> Any:
    return q


def bare(tracer: Any, request: object) -> None:
    """Make the base's span around the same call."""
    with tracer.start_as_current_span("bare") as span:
        for key, value in ATTRIBUTES.items():
            span.set_attribute(key, value)
        plain(request)


def without_journal(run: RecordedRun) -> RecordedRun:
    """Take the journal from a run that has not begun. Users have no switch for it: the figure is the span's cost."""
    assert hasattr(run._recorder, "_folder")
    run._recorder._folder = None
    return run
