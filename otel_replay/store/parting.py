"""One span, one row: which of several copies stands, and what becomes of the others.

Two rows are copies of one another where they record the same crossing (run, lane, sequence number), the same run
span (run, lane), or else bear the same trace id, span id and start. Equal ids with another start are two spans: a
program that seeds its random numbers repeats its ids. Equal copies collapse. Of unequal ones the ended wins over
the unended, then the journal's over others, then the more whole, then the later end; the losers are kept with a
word on what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from otel_replay import semconv
from otel_replay.store import schema
from otel_replay.store.rows import Row

Key: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[str, int]
"""(file name, row number in it)."""

_COMPARED: Final = tuple(name for name in schema.COLUMNS if name not in schema.NOT_COMPARED)
_WHOLE: Final = {"intact": 3, "truncated": 2, "scrubbed": 1}


@dataclass(frozen=True, slots=True)
class Parted:
    """What to write: rows (losers bear a `difference`), and rows elsewhere that these take the place of."""

    rows: list[Row]
    supersedes: dict[str, list[int]] = field(default_factory=dict)


KEY_COLUMNS: Final = ("run_id", "lane", "seq", "kind", "trace_id", "span_id", "start_ns")
"""What `key_of` asks of a row."""


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what two copies of one span have in common."""
    run_id = row.get("run_id")
    if run_id:
        if row.get("kind") == semconv.KIND_RUN:
            return "run", run_id, row.get("lane") or ""
        seq = row.get("seq")
        if seq is not None:
            return "crossing", run_id, row.get("lane") or "", seq
    return "span", row["trace_id"], row["span_id"], row["start_ns"]


def rank_of(row: Row) -> tuple[bool, bool, int, int]:
    """Return how good a copy is; the greatest stands."""
    return (
        row.get("outcome") != "lost",
        row.get("source") == "journal",
        _WHOLE.get(row.get("integrity") or "", 0),
        row["end_ns"],
    )


def content_of(row: Row) -> tuple[Any, ...]:
    """Return what equal copies share."""
    return tuple([row.get(name) for name in _COMPARED])


def difference_of(winner: Row, loser: Row) -> str:
    """Return the names of what differs, attributes by their own names: `end_ns, attributes: gen_ai.usage...`."""
    names = [name for name in _COMPARED if winner.get(name) != loser.get(name) and name != "attributes"]
    if winner.get("attributes") != loser.get("attributes"):
        left, right = (_keys(row.get("attributes")) for row in (winner, loser))
        changed = [key for key in {**left, **right} if left.get(key, _ABSENT) != right.get(key, _ABSENT)]
        names.append("attributes: " + (", ".join(changed) or "their order"))
    return ", ".join(names)


_ABSENT: Final = object()


def _keys(text: str | None) -> dict[str, object]:
    tree = orjson.loads(text) if text else {}
    return tree if isinstance(tree, dict) else {}


def part(
    rows: Iterable[Row],
    stored: Mapping[Key, Sequence[Place]],
    fetch: Callable[[Sequence[Place]], Mapping[Place, Row]],
) -> Parted:
    """Part `rows` from each other and from what is stored already.

    `stored` names the rows of the store that bear one of the same keys, superseded ones aside; `fetch` reads them.
    """
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    wanted = [place for key in groups for place in stored.get(key, ())]
    fetched = fetch(wanted) if wanted else {}
    parted = Parted([])
    for key, copies in groups.items():
        places = stored.get(key, ())
        if len(copies) == 1 and not places:
            parted.rows.append(copies[0])
            continue
        fresh, lost = _settle(copies, [(place, fetched[place]) for place in places if place in fetched])
        parted.rows.extend(fresh)
        for name, number in lost:
            parted.supersedes.setdefault(name, []).append(number)
    return parted


def _settle(copies: Sequence[Row], stored: Sequence[tuple[Place, Row]]) -> tuple[list[Row], list[Place]]:
    """Return (rows to write, stored rows that lose their place) for the copies of one span."""
    equals: dict[tuple[Any, ...], list[tuple[Place, Row]]] = {}
    for place, row in stored:
        equals.setdefault(content_of(row), []).append((place, row))
    fresh: list[Row] = []
    fallen: list[Place] = []
    seen: set[tuple[Any, ...]] = set()
    for row in sorted(copies, key=rank_of, reverse=True):  # of equal copies the one by the better road is kept
        content = content_of(row)
        before = equals.get(content, ())
        if content in seen or any(rank_of(other) >= rank_of(row) for _, other in before):
            continue
        seen.add(content)
        fresh.append(row)
        fallen += [place for place, _ in before]
    if not fresh:
        return [], []
    standing = [(place, row) for place, row in stored if row.get("difference") is None and place not in fallen]
    winner = max([*(row for _, row in standing), *fresh], key=rank_of)
    written = [row if row is winner else _beaten(row, winner) for row in fresh]
    for place, row in standing:
        if row is not winner:
            fallen.append(place)
            written.append(_beaten(row, winner))
    return written, fallen


def _beaten(row: Row, winner: Row) -> Row:
    return {**row, "difference": difference_of(winner, row)}
