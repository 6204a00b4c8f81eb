"""`otel-replay runs`."""

from __future__ import annotations

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.cli._table import FORMATS, print_table


@click.command(epilog="Example: otel-replay runs --name trade-notional --format json")
@store_option
@click.option("--name", help="Only runs of this name.")
@click.option("--limit", type=int, default=50, show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def command(store: str | None, name: str | None, limit: int, form: str) -> None:
    """List the runs of a store, newest first."""
    from otel_replay.store import open_store

    where = "WHERE name = ?" if name else ""
    text = (
        "SELECT left(run_id, 8) AS run, name, start_time, round(duration_ms, 1) AS ms, "  # noqa: S608  # our own words
        "crossings, state, verdict, mode, "
        f"input_tokens, output_tokens, left(replay_of, 8) AS replay_of FROM runs {where} "
        f"ORDER BY start_ns DESC LIMIT {max(limit, 0)}"
    )
    with open_store(store_folder(store)) as opened:
        table = opened.arrow(text, [name] if name else [])
        problems = opened.problems
    print_table(table, form, empty="no runs yet: otel-replay record NAME -- python agent.py")
    for problem in problems:
        click.echo(f"otel-replay: {problem}", err=True)
