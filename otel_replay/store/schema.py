"""The columns of a store's Parquet files, and what stands in a file's own metadata.

One row is one span. Promoted columns are typed copies of what people ask for; the exact span is given back from
`attributes`, `events`, `links`, `resource`, `rest` and the long texts at the end, or from `exact` where plain JSON
cannot carry it (see rows.py). Columns are only ever added: a file of an older version lacks some, a file of a newer
one has some that are not known here, and both are read together by name.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

VERSION: Final = 2
"""Raised when a column is added. A change of a column's meaning needs a new column.

1: the first. 2: large strings stand once beside the files (blobs.py), and `blobs` says where they belong; an exact
form that came in several attributes stands in `envelope` too.
"""

VERSION_KEY: Final = b"otel_replay.store.schema"
NEEDS: Final = ", to be read by otel-replay with store schema "
"""A file that an older version would read wrongly says `2, to be read by ... 2`; one that it reads rightly says `1`.

Versions before 2 take it for a footer that they can't read: they name the file, this text with it, and step over it.
"""
BLOBS_KEY: Final = b"otel_replay.store.blobs"
"""JSON list: the blobs that rows of this file refer to. One that no file names is removed."""
SEALS_KEY: Final = b"otel_replay.store.seals"
"""JSON list: the journals that this file took over. A journal named here is not read any more."""
REPLACES_KEY: Final = b"otel_replay.store.replaces"
"""JSON list: the files that this file took over (compaction). A file named here is not read any more."""
SUPERSEDES_KEY: Final = b"otel_replay.store.supersedes"
"""JSON object, file -> row numbers: rows elsewhere that a better copy in this file takes the place of."""
DOUBLES_KEY: Final = b"otel_replay.store.doubles"
"""There where each row that is a double of another says so in `kind`; older files leave that to every query."""

_TEXT = pa.string()
_INT = pa.int64()
_BOOL = pa.bool_()

SCHEMA: Final = pa.schema(
    [
        # the span, as OTLP has it
        ("trace_id", _TEXT),
        ("span_id", _TEXT),
        ("parent_span_id", _TEXT),
        ("name", _TEXT),
        ("span_kind", pa.int32()),
        ("start_ns", _INT),
        ("end_ns", _INT),
        ("status_code", pa.int32()),
        ("status_message", _TEXT),
        ("trace_state", _TEXT),
        ("flags", _INT),
        ("dropped_attributes", _INT),
        ("service", _TEXT),
        ("scope", _TEXT),
        # the crossing or run that it records
        ("run_id", _TEXT),
        ("run_name", _TEXT),
        ("lane", _TEXT),
        ("address", _TEXT),
        ("parent", _TEXT),
        ("boundary", _TEXT),
        ("kind", _TEXT),
        ("mode", _TEXT),
        ("outcome", _TEXT),
        ("strand", _INT),
        ("seq", _INT),
        ("end_seq", _INT),
        ("key", _TEXT),
        ("side_effects", _BOOL),
        ("integrity", _TEXT),
        ("grade", _TEXT),
        ("crossings", _INT),
        ("digest", _TEXT),
        ("verdict", _TEXT),
        ("replay_of", _TEXT),
        # what the GenAI conventions say of it
        ("operation", _TEXT),
        ("provider", _TEXT),
        ("model", _TEXT),
        ("response_model", _TEXT),
        ("tool", _TEXT),
        ("input_tokens", _INT),
        ("output_tokens", _INT),
        ("error_type", _TEXT),
        # how it came here
        ("source", _TEXT),
        ("difference", _TEXT),
        # the rest of the span, exact
        ("resource", _TEXT),
        ("rest", _TEXT),
        ("links", _TEXT),
        ("events", _TEXT),
        ("attributes", _TEXT),
        ("exact", _TEXT),
        # where the large strings belong that leave the texts below (large.py)
        ("blobs", _TEXT),
        # long texts last: a query that does not name them does not read them
        ("content", _TEXT),
        ("request_at", _INT),
        ("response_at", _INT),
        ("part_size", _INT),
        ("envelope", _TEXT),
        ("request", _TEXT),
        ("response", _TEXT),
    ]
)

COLUMNS: Final = tuple(SCHEMA.names)
LONG_COLUMNS: Final = ("attributes", "events", "content", "envelope", "exact", "request", "response")
"""The columns that decide how large a row is."""
_ONLY_ASKED: Final = frozenset(
    {"service", "key", "side_effects", "grade", "crossings", "digest", "verdict", "replay_of", "operation", "provider"}
    | {"model", "response_model", "tool", "input_tokens", "output_tokens", "error_type", "difference"}
)
READ_COLUMNS: Final = tuple(name for name in COLUMNS if name not in _ONLY_ASKED)
"""What gives a span or a recording back."""
BLOOM_COLUMNS: Final = ("trace_id", "run_id")
"""The columns that a reader looks single values up in."""
NOT_COMPARED: Final = frozenset({"source", "difference", "kind"})
"""Columns that say nothing about the span itself: two copies may differ in them and still be equal.

`kind` is among them, as it is in the attributes too, and depends on the spans beside it where it is "double".
"""
