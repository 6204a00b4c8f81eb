"""Our own spans come back exact, and a damaged one is named and never served."""

from __future__ import annotations

from dataclasses import replace

from otel_replay import codec, run_digest, semconv
from otel_replay.envelope import Envelope, Outcome, Payload, Run
from otel_replay.importers.genai import describe, recordings
from otel_replay.span import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"


def envelope(seq: int) -> Envelope:
    told = Outcome("returned", Payload(text="2"))
    return Envelope("run1", f"add[{seq}]", "add", "tool", Payload(text='{"a":1}'), told, seq, seq, run_name="r",
                    start_ns=10 * seq, end_ns=10 * seq + 5, trace_id=TRACE, span_id=f"{seq:016x}",
                    parent_span_id="00000000000000ff")  # fmt: skip


ENVELOPES = tuple(envelope(seq) for seq in (1, 2, 3))
RUN = Run("run1", "r", start_ns=1, end_ns=99, crossings=3, digest=run_digest.of_run(ENVELOPES), trace_id=TRACE,
          span_id="00000000000000ff")  # fmt: skip


def spans() -> list[Span]:
    return [codec.to_span(one) for one in ENVELOPES] + [codec.run_to_span(RUN)]


def test_they_come_back_exact() -> None:
    (found,) = recordings(spans()[::-1], source="x.jsonl")
    assert (found.run, found.envelopes, found.source) == (RUN, ENVELOPES, "x.jsonl")
    assert found.complete
    assert {line.grade for line in describe(found)} == {"exact"}


def test_a_cut_envelope_is_damage_with_its_reason() -> None:
    first, second, *rest = spans()
    cut = tuple((k, (*v[:-1], str(v[-1])[:-9])) if k == semconv.ENVELOPE and isinstance(v, tuple) else (k, v)
                for k, v in second.attributes)  # fmt: skip
    (found,) = recordings([first, replace(second, attributes=cut), *rest])
    assert list(found.damaged) == ["add[2]"]
    assert "cut" in found.damaged["add[2]"]
    assert found.envelopes[1].outcome.kind == "lost"
    assert describe(found)[1].grade == "insufficient"
    assert not found.complete


def test_a_missing_crossing_is_a_gap_and_a_missing_run_span_a_problem() -> None:
    first, _, third, run = spans()
    (found,) = recordings([first, third, run])
    assert found.gaps == (2,)
    (found,) = recordings([first, third])
    assert found.problems == ("the run's own span is not here: the run was interrupted, or it was lost",)


def test_a_changed_envelope_does_not_add_up() -> None:
    other = replace(ENVELOPES[1], outcome=Outcome("returned", Payload(text="3")))
    (found,) = recordings([codec.to_span(ENVELOPES[0]), codec.to_span(other), *spans()[2:]])
    (problem,) = found.problems
    assert problem.startswith("the run closed with another digest than its crossings have")


def test_what_others_saw_of_our_run_is_not_served_twice() -> None:
    foreign = Span(TRACE, "00000000000000aa", "chat m", 5, 9, attributes=(("gen_ai.operation.name", "chat"),))
    (found,) = recordings([*spans(), foreign])
    assert found.envelopes == ENVELOPES
