"""What a sink does for its store every now and then: few large files, and old runs go. Any number may do it at once."""

from __future__ import annotations

from typing import Any


def keep(location: str, older_than_s: str = "", max_bytes: str = "") -> dict[str, Any]:
    """Compact the store at `location`; remove runs by age and size where that is asked. Returns what was done.

    The arguments are texts, as one process hands them to another. Failing, pinned and running runs stay. Raises
    StoreError.
    """
    from otel_replay.store import open_store

    with open_store(location) as store:
        done = store.compact()
        facts: dict[str, Any] = {
            "files_before": done.files_before,
            "files_after": done.files_after,
            "copies_parted": done.rows_parted,
            "files_removed": done.removed,
        }
        if older_than_s or max_bytes:
            pruned = store.prune(
                older_than_s=float(older_than_s) if older_than_s else None,
                max_bytes=int(max_bytes) if max_bytes else None,
            )
            facts |= {"runs_removed": len(pruned.runs), "loose_spans_removed": pruned.loose_spans}
        return facts
