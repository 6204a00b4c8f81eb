"""`otel-replay verdict RUN passed|failed|unknown`."""

from __future__ import annotations

import click

from otel_replay.cli._child import store_folder, store_option


@click.command(epilog="Example: otel-replay verdict trade-notional failed")
@click.argument("run")
@click.argument("verdict", type=click.Choice(["passed", "failed", "unknown"]))
@store_option
@click.option("--pin/--unpin", default=None, help="Keep the run from being pruned, whatever its verdict; or let it go.")
def command(run: str, verdict: str, store: str | None, pin: bool | None) -> None:
    """Say how RUN ended. Failing runs are never pruned.

    RUN is a name (its newest complete run), an id, or the beginning of an id.
    """
    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        found = opened.find_run(run)
        opened.set_verdict(found.run_id, verdict)
        if pin is not None:
            opened.pin(found.run_id, pin)
    if found.note:
        click.echo(f"otel-replay: {found.note}", err=True)
    click.echo(f"{found.name or 'unnamed'} ({found.run_id[:8]}): {verdict} (was {found.verdict})")
