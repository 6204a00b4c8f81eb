"""The matcher against a simple model of strands: generated histories, replayed with one change or none.

The model knows only lists: each strand has its own, and serving is popping from the front. What it says must be what
the matcher decides, crossing by crossing, whatever the strands' turns were when recorded and are now.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.crossing import Crossing, Spec
from otel_replay.envelope import Envelope, Outcome, Payload, Recording, Run
from otel_replay.errors import Diverged
from otel_replay.match_rules import DEFAULT
from otel_replay.replay.divergence import Asked
from otel_replay.replay.matching import Decision, KeyOf, Matcher
from otel_replay.replay.plan import ReplayPlan, resolve
from otel_replay.replay.tape import Tape
from otel_replay.session import Session
from otel_replay.strand import Strand

LETTERS = "abc"
SPEC = {letter: Spec(letter, "tool") for letter in LETTERS}


class NoDriver:
    """The sessions of these tests drive nothing: only their strands are used."""


@dataclass
class Step:
    strand: int
    name: str
    asks: int


names = st.sampled_from(LETTERS)
asks = st.integers(0, 2)
lines = st.lists(st.tuples(names, asks), min_size=1, max_size=5)
histories = st.lists(lines, min_size=1, max_size=4)


def interleaved(history: list[list[tuple[str, int]]], turns: Iterator[int]) -> list[Step]:
    """Return the crossings of all strands in one of the possible orders: each strand's own order is kept."""
    left = [list(line) for line in history]
    found: list[Step] = []
    while any(left):
        open_strands = [number for number, line in enumerate(left) if line]
        number = open_strands[next(turns) % len(open_strands)]
        name, what = left[number].pop(0)
        found.append(Step(number, name, what))
    return found


def recorded(steps: list[Step]) -> Recording:
    counts: dict[str, int] = {}
    envelopes = []
    for seq, step in enumerate(steps, 1):
        counts[step.name] = counts.get(step.name, 0) + 1
        address = f"{step.name}[{counts[step.name]}]"
        outcome = Outcome("returned", Payload(text=str(seq)))
        envelopes.append(
            Envelope(
                "r", address, step.name, "tool", Payload(text=str(step.asks)), outcome, seq, seq, strand=step.strand
            )
        )
    return Recording(Run("r", end_ns=1, crossings=len(envelopes)), tuple(envelopes))


class World:
    """A matcher and strands to ask it with."""

    def __init__(self, recording: Recording, plan: ReplayPlan | None = None) -> None:
        tape = Tape(recording)
        self.matcher = Matcher(tape, resolve(plan or ReplayPlan(), tape), KeyOf(lambda envelope: envelope.request.text))
        self.session = Session(NoDriver(), run_id="x", name="x")  # type: ignore[arg-type]
        self.strands: dict[int, Strand] = {0: self.session.root}

    def ask(self, step: Step, *, free: bool = False) -> Decision:
        strand = self.strands.get(step.strand)
        if strand is None:
            strand = self.strands[step.strand] = self.session.new_strand(self.session.root, None)
        crossing = Crossing.__new__(Crossing)
        crossing.spec = SPEC[step.name]
        crossing.parent = None
        crossing.strand = strand
        crossing.session = self.session
        asked = Asked(step.name, "tool", f"{step.name}[?]", Payload(text=str(step.asks)), str(step.asks), DEFAULT)
        return self.matcher.match(crossing, asked, free=free)


class Model:
    """Each strand serves its own line, front to back. A begun strand takes the first line that opens as it does."""

    def __init__(self, recording: Recording) -> None:
        self.lines: dict[int, list[Envelope]] = {}
        for envelope in recording.envelopes:
            self.lines.setdefault(envelope.strand, []).append(envelope)
        self.taken: dict[int, int] = {}
        if 0 in self.lines:
            self.taken[0] = 0

    def serve(self, step: Step) -> Envelope | None:
        """Return what is served, or None where the model knows of nothing equal at the front."""
        line = self.taken.get(step.strand)
        if line is None:
            free = [number for number in sorted(self.lines) if number not in self.taken.values()]
            line = next((number for number in free if self._opens(number, step)), None)
            if line is None:
                return None
            self.taken[step.strand] = line
        return self.lines[line].pop(0) if self._opens(line, step) else None

    def _opens(self, number: int, step: Step) -> bool:
        line = self.lines[number]
        return bool(line) and (line[0].boundary, line[0].request.text) == (step.name, str(step.asks))


turns = st.lists(st.integers(0, 11), min_size=20, max_size=20)


def served(decision: Decision) -> Envelope:
    assert decision.action == "stub"
    assert decision.entry is not None
    return decision.entry.envelope


@settings(max_examples=100, deadline=None)
@given(histories, turns, turns)
def test_unchanged_code_is_served_line_by_line_in_any_order_of_turns(
    history: list[list[tuple[str, int]]], then: list[int], now: list[int]
) -> None:
    recording = recorded(interleaved(history, itertools.cycle(then)))
    world, model = World(recording), Model(recording)
    got: dict[int, list[Envelope]] = {}
    for step in interleaved(history, itertools.cycle(now)):
        expected = model.serve(step)
        if expected is None:
            return  # two strands that open equally were claimed crosswise: a real ambiguity, which the report names
        assert served(world.ask(step)) == expected
        got.setdefault(step.strand, []).append(expected)
    assert sum(map(len, got.values())) == len(recording.envelopes)
    for envelopes in got.values():
        assert len({envelope.strand for envelope in envelopes}) == 1, "a strand is served from one line"
        assert [e.seq for e in envelopes] == sorted(e.seq for e in envelopes)


@settings(max_examples=100, deadline=None)
@given(lines, st.data())
def test_one_strand_with_one_change_is_refused_there_and_shifts_nothing(
    line: list[tuple[str, int]], data: st.DataObject
) -> None:
    recording = recorded([Step(0, name, what) for name, what in line])
    at = data.draw(st.integers(0, len(line) - 1))
    name, what = line[at]
    changed = Step(0, name, what + 10)
    strict = World(recording)
    for before in line[:at]:
        served(strict.ask(Step(0, *before)))
    with pytest.raises(Diverged) as caught:
        strict.ask(changed)
    assert caught.value.cause == "input drifted"
    assert [served(strict.ask(Step(0, *step))).seq for step in line[at:]] == list(range(at + 1, len(line) + 1))

    on_drift = World(recording, ReplayPlan(on_drift="serve"))
    steps = [Step(0, *step) for step in line]
    steps[at] = changed
    decisions = [on_drift.ask(step, free=True) for step in steps]
    if all(later != line[at] for later in line[at + 1 :]):
        assert [served(decision).seq for decision in decisions] == list(range(1, len(line) + 1))
    assert [decision.drifted for decision in decisions].count(True) == 1


@settings(max_examples=100, deadline=None)
@given(lines, st.data())
def test_hybrid_runs_what_was_inserted_and_serves_all_the_rest(
    line: list[tuple[str, int]], data: st.DataObject
) -> None:
    recording = recorded([Step(0, name, what) for name, what in line])
    steps = [Step(0, *step) for step in line]
    at = data.draw(st.integers(0, len(line)))
    steps.insert(at, Step(0, data.draw(names), 99))
    world = World(recording, ReplayPlan(hybrid=True))
    decisions = [world.ask(step) for step in steps]
    assert decisions[at].action == "live"
    assert decisions[at].entry is None
    assert [served(d).seq for n, d in enumerate(decisions) if n != at] == list(range(1, len(line) + 1))


@settings(max_examples=100, deadline=None)
@given(lines, st.data())
def test_what_is_asked_once_more_is_never_answered_again(line: list[tuple[str, int]], data: st.DataObject) -> None:
    recording = recorded([Step(0, name, what) for name, what in line])
    world = World(recording)
    for step in line:
        served(world.ask(Step(0, *step)))
    again = data.draw(st.sampled_from(line))
    for free in (False, True):
        with pytest.raises(Diverged) as caught:
            world.ask(Step(0, *again), free=free)
        assert caught.value.cause == "one more than recorded"


@settings(max_examples=100, deadline=None)
@given(histories, turns)
def test_what_ran_side_by_side_may_run_in_turn(history: list[list[tuple[str, int]]], then: list[int]) -> None:
    recording = recorded(interleaved([[("a", 90 + n), *line] for n, line in enumerate(history)], itertools.cycle(then)))
    world = World(recording)
    in_turn = [Step(0, *step) for n, line in enumerate(history) for step in (("a", 90 + n), *line)]
    seen = [served(world.ask(step)) for step in in_turn]
    assert sorted(e.seq for e in seen) == list(range(1, len(recording.envelopes) + 1))
    assert [(e.boundary, e.request.text) for e in seen] == [(step.name, str(step.asks)) for step in in_turn]


@settings(max_examples=100, deadline=None)
@given(st.permutations([(name, what) for name in LETTERS for what in range(2)]), st.data())
def test_two_that_changed_places_are_refused_or_reported(line: list[tuple[str, int]], data: st.DataObject) -> None:
    recording = recorded([Step(0, *step) for step in line])
    first, second = sorted(data.draw(st.permutations(range(len(line))))[:2])
    turned = list(line)
    turned[first], turned[second] = line[second], line[first]
    strict, free = World(recording), World(recording)
    for step in turned[:first]:
        served(strict.ask(Step(0, *step)))
    with pytest.raises(Diverged) as caught:
        strict.ask(Step(0, *turned[first]))
    assert caught.value.cause == "order swapped"
    decisions = [free.ask(Step(0, *step), free=True) for step in turned]
    assert [(served(d).boundary, int(served(d).request.text)) for d in decisions] == turned
    assert decisions[first].reordered
