"""The store: spans kept as Parquet, read back exactly, and asked in SQL.

`open_store(location)` is the door. pyarrow and duckdb live in this room and nowhere else.
"""

from __future__ import annotations

from otel_replay.store.store import Store, open_store

__all__ = ["Store", "open_store"]
