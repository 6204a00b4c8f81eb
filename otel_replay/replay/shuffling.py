"""Another order in which parallel crossings may end: what an agent makes of it shows its races.

Only what overlapped in the record is exchanged. What had ended before another began may be its cause, what one strand
crossed came in its own order, and a crossing ends after all that lies in it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from otel_replay.replay.tape import Entry


def shuffled_ends(entries: Sequence[Entry], seed: int) -> dict[str, int]:
    """Return the place of each of `entries`, by address, in an order that `seed` picks: the same seed, the same order.

    `entries` are in the order in which they ended.
    """
    draw = random.Random(seed)  # noqa: S311  # an order to try, no secret
    inside = Counter(address for entry in entries for address in _around(entry.address))
    next_of: dict[int, list[Entry]] = {}
    for entry in entries:
        next_of.setdefault(id(entry.line), []).append(entry)
    heads = [listed[::-1] for listed in next_of.values()]  # the last of each is the next of its line
    found: dict[str, int] = {}
    left = set(range(len(heads)))
    by_end = sorted(entries, key=lambda entry: entry.envelope.end_ns)
    first = 0
    while left:
        while by_end[first].address in found:
            first += 1
        first_end = by_end[first].envelope.end_ns  # what began after it may not come before it
        ready = [
            at
            for at in sorted(left)
            if heads[at][-1].envelope.start_ns < first_end and not inside[heads[at][-1].address]
        ]
        at = draw.choice(ready or [min(left, key=lambda one: heads[one][-1].envelope.end_seq)])
        entry = heads[at].pop()
        found[entry.address] = len(found)
        inside.subtract(_around(entry.address))
        if not heads[at]:
            left.remove(at)
    return found


def _around(address: str) -> list[str]:
    steps = address.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]
