"""Another order of ends is one that the program could have seen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel_replay.envelope import Envelope, Outcome, Payload, Recording, Run
from otel_replay.replay.shuffling import shuffled_ends
from otel_replay.replay.tape import Tape

steps = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=14)


def taped(described: list[tuple[int, int, int]]) -> Tape:
    """Lay out crossings of several strands: each begins when the one before it in its strand has ended, or later."""
    free = dict.fromkeys(range(5), 0)
    found: list[Envelope] = []
    for number, (strand, lasts, pause) in enumerate(described, 1):
        start = free[strand] + pause
        free[strand] = start + lasts
        found.append(
            Envelope(
                *("r", f"call[{number}]", "call", "tool", Payload(), Outcome("returned"), number),
                strand=strand,
                start_ns=start,
                end_ns=start + lasts,
            )
        )
    inner = [
        replace(parent, address=f"{parent.address}/in[1]", parent=parent.address, seq=parent.seq + 100)
        for parent in found[:3]
    ]
    every = sorted([*inner, *found], key=lambda envelope: (envelope.end_ns, -len(envelope.address)))
    return Tape(Recording(Run("r"), tuple(replace(e, end_seq=at) for at, e in enumerate(every, 1))))


@given(steps, st.integers())
def test_every_order_keeps_what_could_not_be_otherwise(described: list[tuple[int, int, int]], seed: int) -> None:
    tape = taped(described)
    entries = sorted(tape.entries.values(), key=lambda entry: entry.envelope.end_seq)
    places = shuffled_ends(entries, seed)
    assert sorted(places.values()) == list(range(len(entries)))
    assert places == shuffled_ends(entries, seed), "the same number, the same order"
    for first in entries:
        for second in entries:
            before = places[first.address] < places[second.address]
            if first.line is second.line and first.at < second.at:
                assert before, "one strand in its own order"
            if first.address.startswith(f"{second.address}/"):
                assert before, "what lies in it first"
            if first.envelope.end_ns <= second.envelope.start_ns:
                assert before, "what may be a cause first"
