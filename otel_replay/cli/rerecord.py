"""`otel-replay rerecord RUN -- python agent.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from otel_replay.cli._child import record_environment, recorded_since, run_program, store_folder, store_option
from otel_replay.errors import NeverRecorded


@click.command(epilog="Example: otel-replay rerecord trade-notional -- python agent.py")
@click.argument("run")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@store_option
def command(run: str, program: tuple[str, ...], store: str | None) -> None:
    """Run PROGRAM live and record it anew under the name of RUN; then show what changed.

    The old recording stays. Where RUN is a committed fixture, its file is written anew, unless the program
    now fails. The exit code is the program's; 4 where nothing was recorded.
    """
    from otel_replay import settings, sources
    from otel_replay.comparing import compare_recordings
    from otel_replay.exporting import write_fixture
    from otel_replay.originals import now_ns
    from otel_replay.store import open_store

    before = sources.load(run, store=store)
    name = before.run.name or run
    folder = store_folder(store)
    begun_ns = now_ns()
    code = run_program(program, record_environment(name, folder, program))
    with open_store(folder, create=True) as opened:
        runs = recorded_since(opened, name, begun_ns, code)
        if not runs:
            raise NeverRecorded(f"{name!r} was not recorded anew: the program never started Python with us in it")
        after = opened.recording(runs[0].run_id)
        spans = opened.spans(after.run.run_id)
    click.echo(compare_recordings(before, after), nl=False)
    fixture = Path(run) if Path(run).is_file() else sources.find_fixture(run, settings.load())
    if fixture is not None and code and before.run.verdict != "failed":
        click.echo(f"otel-replay: {fixture} stays as it was: the program ended with exit code {code}", err=True)
    elif fixture is not None:
        write_fixture(fixture, spans)
        click.echo(f"otel-replay: wrote {fixture} anew", err=True)
    sys.exit(code)
