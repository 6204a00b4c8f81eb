"""`otel-replay export RUN --format otlp-json`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from otel_replay.cli._child import store_option


@click.command(epilog="Example: otel-replay export trade-notional -o trade.otlp.jsonl")
@click.argument("run")
@store_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["otlp-json", "otlp-proto", "jaeger", "zipkin"]),
    default="otlp-json",
    show_default=True,
)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="The file to write (default: standard output).")
def command(run: str, store: str | None, form: str, output: str | None) -> None:
    """Write RUN as a conforming file that any OpenTelemetry tool reads, and that we read back to the same run."""
    from otel_replay.exporting import export_bytes, spans_of

    data = export_bytes(spans_of(run, store=store), form)
    if output:
        Path(output).write_bytes(data)
        click.echo(f"otel-replay: wrote {output} ({len(data)} bytes)", err=True)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
