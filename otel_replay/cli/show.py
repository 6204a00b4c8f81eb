"""`otel-replay show RUN`."""

from __future__ import annotations

import click

from otel_replay.cli._child import store_option


@click.command(epilog="Example: otel-replay show trade-notional")
@click.argument("run")
@store_option
@click.option("--content", is_flag=True, help="Show requests and outcomes whole.")
@click.option("--json", "as_json", is_flag=True, help="Print the run and its crossings as JSON.")
def command(run: str, store: str | None, content: bool, as_json: bool) -> None:
    """Show RUN (a name, an id, a file or an address) as a tree: addresses, strands, outcomes, times, tokens."""
    from otel_replay import sources
    from otel_replay.showing import as_dict, as_tree

    recording = sources.load(run, store=store)
    if as_json:
        import orjson

        click.echo(orjson.dumps(as_dict(recording), option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(as_tree(recording, content=content), nl=False)
