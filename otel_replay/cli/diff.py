"""`otel-replay diff RUN RUN`."""

from __future__ import annotations

import click

from otel_replay.cli._child import store_option


@click.command(epilog="Example: otel-replay diff trade-notional 7f3a12cd")
@click.argument("first")
@click.argument("second")
@store_option
@click.option("--address", default="", help="Only the crossing at this address.")
def command(first: str, second: str, store: str | None, address: str) -> None:
    """Compare two runs, aligned by address, field by field.

    Where SECOND is an address (search[2]), show that one crossing of FIRST whole.
    """
    from otel_replay import sources
    from otel_replay.comparing import compare_recordings
    from otel_replay.showing import as_tree

    left = sources.load(first, store=store)
    if second in {envelope.address for envelope in left.envelopes}:
        from dataclasses import replace

        only = tuple(envelope for envelope in left.envelopes if envelope.address == second)
        click.echo(as_tree(replace(left, envelopes=only), content=True), nl=False)
        return
    click.echo(compare_recordings(left, sources.load(second, store=store), address), nl=False)
