"""The newest runs of a store, without a look into files that ended before these began.

Opening a file and planning over it costs the engine about a millisecond, whatever is in it: over the files of many
days that is most of what a list of the last twenty runs takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from otel_replay.store import query
from otel_replay.store.folder import Listing

_RUN_ROWS = """SELECT start_ns FROM near WHERE difference IS NULL AND kind = 'run' AND coalesce(lane, '') = ''
  AND start_ns >= ? ORDER BY start_ns DESC LIMIT 1 OFFSET ?"""
_FILES = (1, 4, 16)
"""So many of the newest files are asked before all are."""
EVER_NS = -(2**63)


@dataclass(frozen=True, slots=True)
class Newest:
    """What the views of a store were pointed at last."""

    listing: Listing
    superseded: Mapping[str, Iterable[int]]

    def look_from(self, connection: duckdb.DuckDBPyConnection, since: int) -> None:
        """Point the view `near` at the files that hold rows which began at `since` or later."""
        files = {name: info for name, info in self.listing.files.items() if info.start_max >= since}
        connection.execute(query.rows_that_count("near", files, self.superseded))

    def begin(self, connection: duckdb.DuckDBPyConnection, count: int) -> int:
        """Return when the `count`-th run from the end began, by the run rows alone; EVER_NS where there are fewer.

        The view `near` shows all rows from there on.
        """
        starts = sorted((info.start_min for info in self.listing.files.values()), reverse=True)
        for floor in (*(starts[n - 1] for n in _FILES if n < len(starts)), EVER_NS):
            self.look_from(connection, floor)
            found = connection.execute(_RUN_ROWS, [floor, count - 1]).fetchall()
            if found:
                since = int(found[0][0])
                self.look_from(connection, since)
                return since
        return EVER_NS
