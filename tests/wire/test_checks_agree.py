"""A request that is checked at one go is judged as when each of its spans is parsed alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.errors import ImportFault
from otel_replay.span import Span
from otel_replay.wire import check
from otel_replay.wire.check import Checked
from otel_replay.wire.protobuf import request_from_spans

from .strategies import span_lists

GOOD = ("ab" * 16, "cd" * 8, "")
BAD = [(trace, "cd" * 8, "") for trace in ("", "00" * 16, "ab" * 8)]
BAD += [("ab" * 16, own, "") for own in ("", "00" * 8, "cd" * 16)] + [("ab" * 16, "cd" * 8, "0a")]
IDS = st.one_of(st.just(GOOD), st.sampled_from(BAD))
PLAIN = Span("ab" * 16, "cd" * 8, "n", 1, 2)


def judged(how: object, data: bytes) -> Checked | str:
    try:
        found = how(data)  # type: ignore[operator]
        assert isinstance(found, Checked)
        return found
    except ImportFault as fault:
        return str(fault)


@settings(max_examples=100, deadline=None)
@given(span_lists(), st.lists(IDS, min_size=1, max_size=3))
def test_of_spans_with_and_without_ids(spans: list[Span], ids: list[tuple[str, str, str]]) -> None:
    named = [
        replace(span, trace_id=trace, span_id=own, parent_span_id=parent)
        for span, (trace, own, parent) in zip([*spans, PLAIN, PLAIN, PLAIN], ids, strict=False)
    ]
    data = request_from_spans(named)
    assert judged(check.check_traces, data) == judged(check.check_each_span, data)


@settings(max_examples=100, deadline=None)
@given(span_lists(), st.integers(0, 10**6), st.binary(min_size=1, max_size=3))
def test_of_damaged_bytes(spans: list[Span], at: int, patch: bytes) -> None:
    whole = [replace(span, trace_id="ab" * 16, span_id="cd" * 8, parent_span_id="") for span in spans]
    data = bytearray(request_from_spans(whole))
    at %= len(data) or 1
    data[at : at + len(patch)] = patch
    assert judged(check.check_traces, bytes(data)) == judged(check.check_each_span, bytes(data))
