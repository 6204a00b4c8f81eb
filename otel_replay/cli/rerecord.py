"""`otel-replay rerecord RUN -- python agent.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from otel_replay.cli._child import run_program, store_folder, store_option


@click.command()
@click.argument("run")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@store_option
def command(run: str, program: tuple[str, ...], store: str | None) -> None:
    """Run PROGRAM live and record it anew under the name of RUN; then show what changed.

    The old recording stays. Where RUN is a committed fixture, its file is written anew. The exit code is the program's.
    """
    from otel_replay import settings, sources
    from otel_replay.comparing import compare_recordings
    from otel_replay.exporting import write_fixture
    from otel_replay.store import open_store

    before = sources.load(run, store=store)
    name = before.run.name or run
    folder = store_folder(store)
    code = run_program(program, {"OTEL_REPLAY_MODE": "record", "OTEL_REPLAY_NAME": name, "OTEL_REPLAY_STORE": folder})
    with open_store(folder, create=True) as opened:
        after = opened.recording(opened.find_run(name).run_id)
        spans = opened.spans(after.run.run_id)
    click.echo(compare_recordings(before, after), nl=False)
    fixture = Path(run) if Path(run).is_file() else sources.find_fixture(run, settings.load())
    if fixture is not None:
        write_fixture(fixture, spans)
        click.echo(f"otel-replay: wrote {fixture} anew", err=True)
    sys.exit(code)
