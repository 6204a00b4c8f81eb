"""`otel-replay record NAME -- python agent.py`."""

from __future__ import annotations

import sys

import click

from otel_replay.cli._child import run_program, store_folder, store_option
from otel_replay.errors import NeverRecorded


@click.command()
@click.argument("name")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@store_option
@click.option("--strict", is_flag=True, help="Let faults of the recorder raise in the program: for tests of it.")
@click.option("--fsync", is_flag=True, help="Sync each crossing to the disk: survives a power cut, too.")
@click.option("--quiet", is_flag=True, help="Say nothing of our own.")
def command(name: str, program: tuple[str, ...], store: str | None, strict: bool, fsync: bool, quiet: bool) -> None:
    """Run PROGRAM and record its crossings as the run NAME.

    Options stand before --, the program after it. The exit code is the program's own.
    """
    from otel_replay.store import open_store

    folder = store_folder(store)
    environment = {"OTEL_REPLAY_MODE": "record", "OTEL_REPLAY_NAME": name, "OTEL_REPLAY_STORE": folder}
    if strict:
        environment["OTEL_REPLAY_STRICT"] = "1"
    if fsync:
        environment["OTEL_REPLAY_FSYNC"] = "1"
    code = run_program(program, environment)
    try:
        with open_store(folder, create=True) as opened:
            run = opened.find_run(name)
            if run.verdict == "unknown":
                opened.set_verdict(run.run_id, "failed" if code else "passed")
            if not quiet:
                state = "" if run.state == "complete" else f", {run.state}"
                click.echo(
                    f"otel-replay: recorded {name!r} as {run.run_id[:8]}: {run.crossings} crossings{state}. "
                    f"Next: otel-replay show {name}",
                    err=True,
                )
    except NeverRecorded:
        click.echo(
            f"otel-replay: {name!r} was not recorded: the program never started Python with us in it "
            "(an isolated interpreter, -I or -S?)",
            err=True,
        )
        code = code or 4
    sys.exit(code)
