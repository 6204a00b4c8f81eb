"""`otel-replay record NAME -- python agent.py`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from typing import Any

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
@click.option("--dry-run", is_flag=True, help="Keep nothing; list what redaction takes out, and where.")
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
    dry_run: bool,
    quiet: bool,
) -> None:
    """Run PROGRAM and record its crossings as the run NAME.

    Options stand before --, the program after it. The exit code is the program's own; 4 where it came to a good end
    and nothing was recorded.
    """
    chosen = {
        "OTEL_REPLAY_STRICT": "1" if strict else "",
        "OTEL_REPLAY_FSYNC": "1" if fsync else "",
        "OTEL_REPLAY_COVERAGE": "1" if coverage else "",
        "OTEL_REPLAY_CHANCE": "1" if chance else "",
        "OTEL_REPLAY_CLOCK": clock or "",
    }
    chosen = {variable: value for variable, value in chosen.items() if value}
    if not dry_run:
        sys.exit(_recorded(name, program, store_folder(store), chosen, quiet=quiet))
    chosen["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "NO_CONTENT"  # nor do our spans carry any
    with tempfile.TemporaryDirectory(prefix="otel-replay-") as scratch:
        code = _recorded(name, program, scratch, chosen, quiet=quiet, kept=False)
    sys.exit(code)


def _recorded(
    name: str, program: tuple[str, ...], folder: str, chosen: Mapping[str, str], *, quiet: bool, kept: bool = True
) -> int:
    """Run `program`, recorded into `folder`, say what came of it, and return the exit code."""
    from otel_replay.originals import now_ns
    from otel_replay.store import open_store

    begun_ns = now_ns()
    code = run_program(program, {**record_environment(name, folder, program), **chosen})
    with open_store(folder, create=True) as opened:
        runs = recorded_since(opened, name, begun_ns, code)
        problems = opened.problems
        for run in () if quiet else runs:
            said = _kept(name, run) if kept else _rehearsed(opened, name, run)
            click.echo(f"otel-replay: {said}", err=True)
    if not runs:
        click.echo(
            f"otel-replay: {name!r} was not recorded: the program never started Python with us in it "
            "(an isolated interpreter, -I or -S?)",
            err=True,
        )
        code = code or EXIT_NOT_RECORDED
    for problem in problems:
        click.echo(f"otel-replay: {problem}", err=True)
    return code


def _crossings(run: Any) -> str:
    return "1 crossing" if run.crossings == 1 else f"{run.crossings} crossings"


def _kept(name: str, run: Any) -> str:
    state = "" if run.state == "complete" else f", {run.state}"
    return f"recorded {name!r} as {run.run_id[:8]}: {_crossings(run)}{state}. Next: otel-replay show {name}"


def _rehearsed(store: Any, name: str, run: Any) -> str:
    """Return what a recording would have held, and each thing that redaction took out of it."""
    from otel_replay.showing import redaction_lines

    hits = redaction_lines(store.recording(run.run_id))
    listed = "".join(f"\n  redacted: {hit}" for hit in hits)
    return f"{name!r} would have been recorded: {_crossings(run)}, {len(hits)} redaction(s). Nothing was kept.{listed}"
