"""`otel-replay replay RUN [--live ADDRESS ...] -- python agent.py`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from otel_replay.cli._child import run_program, store_folder, store_option
from otel_replay.errors import UsageError

_SELECTOR = "NAME, NAME,OCCURRENCE, ADDRESS or kind=KIND; may be given more than once."


@click.command(epilog="Example: otel-replay replay trade-notional --live place_order,1 -- python agent.py")
@click.argument("run")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@store_option
@click.option("--live", multiple=True, metavar="WHAT", help=f"Run it with today's code: {_SELECTOR}")
@click.option("--stub", multiple=True, metavar="WHAT", help=f"Serve it from the record: {_SELECTOR}")
@click.option("--changed", multiple=True, metavar="WHAT", help=f"Its input was changed on purpose: {_SELECTOR}")
@click.option("--new", multiple=True, metavar="NAME", help="Let a boundary that the record lacks run live.")
@click.option("--repeat", multiple=True, metavar="NAME", help="Serve its last answer again if asked once more.")
@click.option("--override", multiple=True, metavar="WHAT=JSON", help="Give it this outcome.")
@click.option("--on-drift", type=click.Choice(["fail", "live", "serve"]), default="fail", show_default=True)
@click.option("--hybrid", is_flag=True, help="Serve what matches, run live what does not.")
@click.option("--shuffle", type=int, metavar="SEED", help="Let parallel calls end in another order: finds races.")
@click.option("--clock", type=click.Choice(["recorded", "live", "tape"]), default="recorded", show_default=True)
@click.option("--strict", is_flag=True, help="A verdict that rests on a served drift fails (exit code 7).")
@click.option("--allow-incomplete", is_flag=True, help="Replay an interrupted or damaged recording as far as it goes.")
@click.option("--isolate", is_flag=True, help="Give the program no network at all (Linux).")
@click.option("--keep", is_flag=True, help="Keep the replay as a run of its own in the store.")
@click.option("--dry-run", is_flag=True, help="Say what would be served, live and blocked; run nothing.")
@click.option("--json", type=click.Path(dir_okay=False), help="Write the report as JSON (- for stdout).")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write the report as JUnit XML.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write the report as an HTML page.")
def command(
    run: str,
    program: tuple[str, ...],
    store: str | None,
    json: str | None,
    junit: str | None,
    html: str | None,
    dry_run: bool,
    isolate: bool,
    override: tuple[str, ...],
    **options: Any,
) -> None:
    """Run PROGRAM against the recording RUN (a name, an id, a file, a folder, or an address).

    Options stand before --, the program after it. Exit codes: 0 passed, 1 the program failed, 2 usage, 3 diverged,
    4 never recorded, 5 incomplete recording, 6 nothing compared, 7 passed on drift (with --strict).
    """
    chosen = {name: value for name, value in options.items() if value or (name == "shuffle" and value is not None)}
    chosen["override"] = dict(_override(text) for text in override)
    folder = store_folder(store)
    if dry_run:
        _explain(run, folder, chosen)
        return
    if isolate:
        _isolate(run, folder)
    with tempfile.TemporaryDirectory(prefix="otel-replay-") as scratch:
        report = Path(scratch) / "report.json"
        code = run_program(
            program,
            {
                "OTEL_REPLAY_MODE": "replay",
                "OTEL_REPLAY_SOURCE": _absolute(run),
                "OTEL_REPLAY_STORE": folder,
                "OTEL_REPLAY_PLAN": orjson.dumps(chosen).decode(),
                "OTEL_REPLAY_REPORT": str(report),
            },
        )
        form = orjson.loads(report.read_bytes()) if report.is_file() else None
    sys.exit(_tell(form, code, run, {"json": json, "junit": junit, "html": html}))


def _isolate(*places: str) -> None:
    """Leave the network, for what we start too. Raises UsageError where that can't be, or where one is needed."""
    from otel_replay.cli._isolate import isolate

    far = [place for place in places if "://" in place and not place.startswith("file:")]
    if far:
        raise UsageError(f"--isolate leaves no network to read {far[0]!r} by: import it first (otel-replay import)")
    isolate()


def _absolute(run: str) -> str:
    """Return a path as an absolute one: the program may change its working directory."""
    return str(Path(run).absolute()) if "://" not in run and Path(run).exists() and Path(run).suffix else run


def _override(text: str) -> tuple[str, object]:
    what, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not WHAT=JSON", param_hint="--override")
    try:
        return what, orjson.loads(value)
    except orjson.JSONDecodeError as fault:
        raise click.BadParameter(f"{value!r} is not JSON: {fault}", param_hint="--override") from None


def _explain(run: str, folder: str, chosen: Mapping[str, Any]) -> None:
    from otel_replay import sources
    from otel_replay.auto import plan_of

    recording = sources.load(run, store=folder)
    sources.require_usable(recording, allow_incomplete=bool(chosen.get("allow_incomplete")))
    click.echo(plan_of(chosen).explain(recording), nl=False)


def _tell(form: Mapping[str, Any] | None, program_code: int, run: str, files: Mapping[str, str | None]) -> int:
    """Print and write the report; return the exit code."""
    if form is None:
        click.echo(
            f"otel-replay: nothing was compared with {run!r}: the program ended before Python came to an end with us "
            f"in it (exit code {program_code}; os._exit, a signal, or an isolated interpreter)",
            err=True,
        )
        return 6
    click.echo(form["text"], err=True, nl=False)
    for key, path in files.items():
        if path and key in form:
            if path == "-":
                click.echo(form[key], nl=False)
            else:
                Path(path).write_text(form[key], encoding="utf-8")
    code = int(form["exit_code"])
    return code or (1 if program_code else 0)
