"""Is all of a run here? By its own count and digest, lane by lane, whichever road it came."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from otel_replay import run_digest
from otel_replay.envelope import Envelope, Run

_CROSSINGS_MAX = 1_000_000
"""A count that exceeds what is here by more than this is damage, and must not become a list."""


def gaps_and_problems(
    runs: Mapping[str, Run],
    begun: Iterable[str],
    seqs: Mapping[str, Collection[int]],
    envelopes: Sequence[Envelope],
    damaged: Mapping[str, str],
) -> tuple[tuple[int, ...], list[str]]:
    """Return (the numbers that the run's own lane lacks, what else is not whole, in words).

    `runs` are the records of the run ("") and its lanes as far as they came, `begun` the lanes that the run names,
    `seqs` the sequence numbers that came of each lane, whole or not.
    """
    gaps: tuple[int, ...] = ()
    problems: list[str] = []
    for lane in sorted({*seqs, *runs, *begun, ""}):
        run = runs.get(lane)
        missing = missing_numbers(seqs.get(lane, ()), run.crossings if run is not None else 0)
        if lane == "":
            gaps = tuple(missing)
        elif missing:
            problems.append(f"lane {lane}: crossings {ranges(missing)} are missing")
        if run is None or not run.end_ns:
            if lane:
                problems.append(f"lane {lane} never closed")
        elif not missing:
            problem = _digest_problem(run, [e for e in envelopes if e.lane == lane], damaged)
            if problem:
                problems.append(problem)
    return gaps, problems


def _digest_problem(run: Run, envelopes: Sequence[Envelope], damaged: Mapping[str, str]) -> str:
    if not run_digest.recipe_of(run.digest) or damaged:
        return ""
    counted = [envelope for envelope in envelopes if envelope.seq <= run.crossings]  # later ones came after its end
    if run_digest.of_run(counted, like=run.digest) == run.digest:
        return ""
    where = f"lane {run.lane}" if run.lane else "the run"
    return f"{where} closed with another digest than its crossings have: something was changed after recording"


def missing_numbers(seqs: Iterable[int], counted: int) -> list[int]:
    """Return the sequence numbers from 1 to the larger of `counted` and the last seen that are not in `seqs`."""
    seen = set(seqs)
    last = max(seen, default=0)
    if counted > len(seen) + _CROSSINGS_MAX:
        counted = last
    if last > len(seen) + _CROSSINGS_MAX:
        last = counted
    return [number for number in range(1, max(counted, last) + 1) if number not in seen]


def ranges(numbers: Sequence[int]) -> str:
    """Return `numbers` (ascending) as text: `3, 311-317`."""
    found: list[str] = []
    start = last = None
    for number in [*numbers, None]:
        if last is not None and number == last + 1:
            last = number
            continue
        if start is not None:
            found.append(str(start) if start == last else f"{start}-{last}")
        start = last = number
    return ", ".join(found)
