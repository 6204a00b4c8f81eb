"""The quick way writes the same span and the same journal entry as the plain one, or leaves the crossing to it."""

from __future__ import annotations

import re
import threading
from dataclasses import astuple
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from otel_replay import boundary, open_store, record, run_digest
from otel_replay._proto.otel_replay.v1 import envelope_pb2 as pb
from otel_replay.envelope import Mark
from otel_replay.journal import mark_entry
from otel_replay.otel.quick import Quick
from otel_replay.protoform import mark_to_message
from tests.fast.making import texts

TAKEN: list[bool] = []


class Keeping(SpanProcessor):
    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(
        ["sk-proj-aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY", "é", "\ud83d\ude00", '"', "\u2028", "a" * 4000, "Bearer abc"]
    ),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(texts | st.sampled_from(["$", "headers", "password", "_meta"]), inner, max_size=3)
    | st.tuples(inner),
    max_leaves=8,
)  # fmt: skip


def written(quickly: bool, folder: Path, ask: Any, answer: Any, kind: str, effects: bool) -> tuple[Any, Any]:
    """Return (spans, envelopes) of one run, without what is another on each run."""
    processor, provider = Keeping(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)

    @boundary('in é"ner', kind="custom")
    def inner(q: Any) -> Any:
        return answer

    @boundary("outer", kind=kind, side_effects=effects)
    def outer(q: Any, *, more: int = 1) -> Any:
        return inner(ask)

    run = record("a run", store=folder, tracer_provider=provider)
    with run:
        if not quickly:
            run._recorder._quick = None
        outer(ask)
        aside = threading.Thread(target=inner, args=(2,))
        aside.start()
        aside.join()
        inner(1)
    with open_store(folder) as store:
        recording = store.recording(run.id)
    assert recording.complete
    assert recording.run.digest == run_digest.of_run(recording.envelopes)
    return [shown(span) for span in processor.ended[:-1]], [
        {**steady(vars_of(envelope)), "key": envelope.key} for envelope in recording.envelopes
    ]


_ANOTHER = ("run_id", "trace_id", "span_id", "parent_span_id", "start_ns", "end_ns")


def vars_of(envelope: Any) -> dict[str, Any]:
    return {name: getattr(envelope, name) for name in envelope.__dataclass_fields__}


def steady(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _ANOTHER}


def shown(span: ReadableSpan) -> Any:
    attributes = dict(span.attributes or {})
    carried = [name for name in attributes if re.fullmatch(r"otel_replay\.envelope(\.\d+)?", name)]
    exact = orjson.loads("".join(part for name in carried for part in attributes.pop(name)))  # type: ignore[union-attr,misc]
    order = [*attributes, *exact]
    for name in ("otel_replay.run.id", "otel_replay.envelope.sha256", "otel_replay.envelope.bytes"):
        attributes.pop(name)
    return span.name, span.kind, span.status.status_code, list(attributes.items()), steady(exact), order, span.events


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Quick.written

    def watching(self: Quick, crossing: Any) -> Any:
        found = plain(self, crossing)
        TAKEN.append(found is not None)
        return found

    monkeypatch.setattr(Quick, "written", watching)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values, values, st.sampled_from(["tool", "router", "custom", "model"]), st.booleans())
def test_same_spans_and_same_envelopes(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, answer: Any, kind: str, effects: bool
) -> None:
    TAKEN.clear()
    quick = written(True, tmp_path_factory.mktemp("quick"), ask, answer, kind, effects)
    assert TAKEN[-1:] == [True] or "password" in repr(answer) or answer is not None  # the last call is a common one
    plain = written(False, tmp_path_factory.mktemp("plain"), ask, answer, kind, effects)
    assert repr(quick) == repr(plain)


@pytest.mark.parametrize(
    ("ask", "answer", "quick"),
    [
        ({"q": 1}, ["x", {"y": 1.5}], True),
        ({"q": {"a": 1}}, {"y": {"b": 1.5}}, True),
        ("é", "\U0001f600", True),
        ((1,), 1, False),
        ({"q": 1}, {1, 2}, False),
        ({"password": "hunter2-hunter2-99"}, 1, False),
        (1, "sk-proj-aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY", False),
        ({"headers": {"a": 1}}, 1, False),
        ("x" * 70_000, 1, False),
    ],
)
def test_what_is_common(tmp_path: Path, ask: Any, answer: Any, quick: bool) -> None:
    TAKEN.clear()
    written(True, tmp_path, ask, answer, "tool", False)
    assert TAKEN[0] is quick


@settings(max_examples=100)
@given(texts, texts, texts, st.integers(0, 2**63), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), texts)
def test_a_mark_by_hand_is_the_message(
    address: str, name: str, kind: str, seq: int, strand: int, start: int, parent: str
) -> None:
    mark = Mark(address, name, kind, seq, strand, start, parent, "ab")
    assert mark_entry(*astuple(mark)) == pb.JournalEntry(mark=mark_to_message(mark)).SerializeToString()
