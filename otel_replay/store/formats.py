"""An Arrow table as the bytes of a file that other programs read."""

from __future__ import annotations

import io

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from otel_replay.errors import UsageError


def to_bytes(table: pa.Table, form: str) -> bytes:
    """Return `table` as `json` (one array of objects), `csv`, `parquet` or `arrow` (an IPC stream)."""
    if form == "json":
        rows = table.to_pylist()
        return orjson.dumps(rows, default=str, option=orjson.OPT_INDENT_2) + b"\n"
    buffer = io.BytesIO()
    if form == "csv":
        pa.csv.write_csv(_flat(table), buffer)
    elif form == "parquet":
        pa.parquet.write_table(table, buffer)
    elif form == "arrow":
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
    else:
        raise UsageError(f"unknown format {form!r}")
    return buffer.getvalue()


def _flat(table: pa.Table) -> pa.Table:
    """CSV has no nested values: they stand in it as JSON text."""
    for at, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [None if v is None else orjson.dumps(v, default=str).decode() for v in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    return table
