"""`otel-replay promote RUN`."""

from __future__ import annotations

import os

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.errors import NeverRecorded, UsageError


@click.command(epilog="""Example: otel-replay promote --where "verdict = 'failed'" --to tests/incidents""")
@click.argument("run", required=False)
@store_option
@click.option("--where", metavar="SQL", help="Promote all runs that meet this condition over the view runs.")
@click.option("--to", metavar="FOLDER", help="Where to (default: the project's fixtures, else tests/incidents).")
@click.option("--name", help="The fixture's name (default: the run's).")
@click.option("--force", is_flag=True, help="Write over a fixture and test of that name.")
def command(
    run: str | None, store: str | None, where: str | None, to: str | None, name: str | None, force: bool
) -> None:
    """Make RUN a committed fixture (OTLP JSON Lines, redacted, in a stable order) with a test that passes at once.

    The test runs the program that was recorded against the fixture. Where the run was not recorded by the command
    line, it says where to call the agent.
    """
    from otel_replay.promoting import promote, runs_where

    if bool(run) == bool(where):
        raise UsageError("name a run, or say which with --where \"verdict = 'failed'\"")
    if where and name:
        raise UsageError("--name is for one run, not for --where")
    folder = store_folder(store)
    chosen = [(run or "", "")]
    if where:
        try:
            chosen = runs_where(where, store=folder)
        except Exception as fault:
            if type(fault).__module__.split(".")[0] not in ("duckdb", "_duckdb"):
                raise
            raise UsageError(f"--where: {str(fault).splitlines()[0]}") from None
        if not chosen:
            raise NeverRecorded(f"no recorded run meets {where!r}")
    names = [title for _run_id, title in chosen]
    for number, (run_id, title) in enumerate(chosen):
        again = names[:number].count(title)  # several runs of one name: the later ones are numbered
        numbered = f"{title}-{again + 1}" if where and again else ""
        made = promote(run_id, store=folder, to=to, name=name or numbered, replace_files=force)
        click.echo(f"wrote {_shown(made.fixture)}")
        if made.test is not None:
            click.echo(f"wrote {_shown(made.test)}")
            if not made.runs_program:
                click.echo("  how the agent is called was not recorded: the test says where to put it")
        for note in made.notes:
            click.echo(f"  {note}")


def _shown(path: object) -> str:
    text = os.path.relpath(str(path))
    return str(path) if text.startswith("..") else text
