"""`otel-replay sql "SELECT ..."`."""

from __future__ import annotations

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.cli._table import FORMATS, print_table
from otel_replay.errors import UsageError


@click.command(epilog='Example: otel-replay sql "SELECT address, outcome FROM crossings" --format csv')
@click.argument("query")
@store_option
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def command(query: str, store: str | None, form: str) -> None:
    """Ask the store in SQL (DuckDB's).

    Views: runs, crossings, spans, model_calls, tool_calls, messages, duplicates, forks.
    """
    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        try:
            table = opened.arrow(query)
        except Exception as fault:
            if type(fault).__module__.split(".")[0] not in ("duckdb", "_duckdb"):
                raise
            raise UsageError(
                f"{str(fault).splitlines()[0]} (views: runs, crossings, spans, model_calls, tool_calls)"
            ) from None
        problems = opened.problems
    print_table(table, form)
    for problem in problems:
        click.echo(f"otel-replay: {problem}", err=True)
