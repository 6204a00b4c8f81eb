"""Which runs and traces a file holds, remembered: a file never changes, and asking one in a bucket takes requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

FILE_ROWS_MAX: Final = 50_000
"""A file with more rows is asked each time: few are so large, and their ids would fill the memory."""
_IDS_MAX: Final = 500_000


def ids_of(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the runs and traces of `rows`."""
    return {row[column] for row in rows for column in ("run_id", "trace_id") if row.get(column)}


def ids_in(table: pa.Table) -> set[str]:
    """Return the ids of the runs and traces of the rows of `table`."""
    found = {*pc.unique(table.column("run_id")).to_pylist(), *pc.unique(table.column("trace_id")).to_pylist()}
    return found - {None, ""}


class Ids:
    """Remembers at most `_IDS_MAX` ids, those of the files that were learnt last."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def knows(self, name: str) -> bool:
        return name in self._known

    def may_hold(self, name: str, wanted: set[str]) -> bool:
        """False where the file called `name` is known to hold none of `wanted`."""
        return name not in self._known or not self._known[name].isdisjoint(wanted)

    def held(self, name: str, wanted: set[str]) -> set[str]:
        """Return which of `wanted` the file called `name` is known to hold."""
        return wanted & self._known.get(name, frozenset())

    def learn(self, name: str, ids: Iterable[str]) -> None:
        """Remember all that the file called `name` holds."""
        self._known[name] = frozenset(ids)
        total = sum(map(len, self._known.values()))
        for oldest in list(self._known)[:-1]:
            if total <= _IDS_MAX:
                break
            total -= len(self._known.pop(oldest))
