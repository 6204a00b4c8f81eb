"""Tables that people can read, and the formats that programs read."""

from __future__ import annotations

import sys
from typing import Any

import click

FORMATS = ("table", "json", "csv", "parquet", "arrow")
_CELL_CHARS_MAX = 80


def print_table(table: Any, form: str, *, empty: str = "no rows") -> None:
    """Print an Arrow table in `form`, one of FORMATS; binary forms go to standard output as they are."""
    if form == "table":
        _print_people(table, empty)
        return
    from otel_replay.store.formats import to_bytes

    sys.stdout.buffer.write(to_bytes(table, form))
    sys.stdout.buffer.flush()


def _print_people(table: Any, empty: str) -> None:
    if not table.num_rows:
        click.echo(empty)
        return
    from rich.console import Console
    from rich.table import Table

    wide = sys.stdout.isatty()
    console = Console(width=None if wide else 1000, soft_wrap=not wide, highlight=False)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in table.column_names:
        shown.add_column(str(name), no_wrap=not wide, overflow="ellipsis")
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        shown.add_row(*(_cell(value, wide) for value in row))
    console.print(shown)


def _cell(value: object, wide: bool) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    isoformat = getattr(value, "isoformat", None)
    text = isoformat(sep=" ", timespec="milliseconds") if isoformat and hasattr(value, "hour") else str(value)
    text = " ".join(text.split())
    limit = _CELL_CHARS_MAX if wide else 400
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")
