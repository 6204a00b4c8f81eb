"""`otel-replay record NAME -- python agent.py`."""

from __future__ import annotations

import sys

import click

from otel_replay.cli._child import record_environment, recorded_since, run_program, store_folder, store_option

EXIT_NOT_RECORDED = 4


@click.command(epilog="Example: otel-replay record trade-notional -- python agent.py --symbol ACME")
@click.argument("name")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@store_option
@click.option("--strict", is_flag=True, help="Let faults of the recorder raise in the program: for tests of it.")
@click.option("--fsync", is_flag=True, help="Sync each crossing to the disk: survives a power cut, too.")
@click.option("--coverage", is_flag=True, help="Note what the program reached outside any crossing.")
@click.option("--chance", is_flag=True, help="Keep what the program draws from random, secrets and uuid.")
@click.option("--clock", type=click.Choice(["live", "tape"]), help="tape: keep each time that the program reads.")
@click.option("--quiet", is_flag=True, help="Say nothing of our own.")
def command(
    name: str,
    program: tuple[str, ...],
    store: str | None,
    strict: bool,
    fsync: bool,
    coverage: bool,
    chance: bool,
    clock: str | None,
    quiet: bool,
) -> None:
    """Run PROGRAM and record its crossings as the run NAME.

    Options stand before --, the program after it. The exit code is the program's own; 4 where it came to a good end
    and nothing was recorded.
    """
    from otel_replay.originals import now_ns
    from otel_replay.store import open_store

    folder = store_folder(store)
    environment = record_environment(name, folder, program)
    if strict:
        environment["OTEL_REPLAY_STRICT"] = "1"
    if fsync:
        environment["OTEL_REPLAY_FSYNC"] = "1"
    if coverage:
        environment["OTEL_REPLAY_COVERAGE"] = "1"
    if chance:
        environment["OTEL_REPLAY_CHANCE"] = "1"
    if clock:
        environment["OTEL_REPLAY_CLOCK"] = clock
    begun_ns = now_ns()
    code = run_program(program, environment)
    with open_store(folder, create=True) as opened:
        runs = recorded_since(opened, name, begun_ns, code)
        problems = opened.problems
    for run in () if quiet else runs:
        state = "" if run.state == "complete" else f", {run.state}"
        crossings = "1 crossing" if run.crossings == 1 else f"{run.crossings} crossings"
        click.echo(
            f"otel-replay: recorded {name!r} as {run.run_id[:8]}: {crossings}{state}. Next: otel-replay show {name}",
            err=True,
        )
    if not runs:
        click.echo(
            f"otel-replay: {name!r} was not recorded: the program never started Python with us in it "
            "(an isolated interpreter, -I or -S?)",
            err=True,
        )
        code = code or EXIT_NOT_RECORDED
    for problem in problems:
        click.echo(f"otel-replay: {problem}", err=True)
    sys.exit(code)
