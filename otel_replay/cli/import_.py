"""`otel-replay import SOURCE...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.cli._units import bytes_text
from otel_replay.errors import ImportFault, UsageError

EXIT_NOTHING = 4
_RUNS_SHOWN = 20
_PROBLEMS_SHOWN = 20
_BAR_WIDTH = 24


@click.command(
    epilog="Example: otel-replay import traces.json 'exports/*.json.gz' http://localhost:16686/api/traces/ID"
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@store_option
@click.option("--format", "form", metavar="FORMAT", help="Force the format instead of finding it by content.")
@click.option("--header", "headers", multiple=True, metavar="KEY=VALUE", help="Send this header to an address.")
@click.option("--dry-run", is_flag=True, help="Say what is there; keep nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the account as JSON.")
@click.option("--quiet", is_flag=True, help="Say only what went wrong.")
def command(
    sources: tuple[str, ...],
    store: str | None,
    form: str | None,
    headers: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read traces that others recorded: files, folders, globs, - for standard input, addresses of Jaeger or Tempo.

    Says what was found, which crossings can be replayed, what was lost on the way and which setting lost it. Secrets
    are redacted before anything is kept. Exit codes: 0 found something, 2 usage, 4 nothing found.
    """
    from otel_replay.importing import as_dict, import_source, project_redactor
    from otel_replay.store import open_store

    sent = dict(_header(text) for text in headers)
    redactor = project_redactor()
    folder = store_folder(store)
    opened = None if dry_run else open_store(folder, create=True)
    found: list[Any] = []
    accounts: list[dict[str, Any]] = []
    try:
        for source in sources:
            shown = sys.stderr.isatty() and not quiet
            progress = _progress(source) if shown else None
            keeping = _keeping(source) if shown else None
            try:
                one = import_source(
                    source, opened, redactor=redactor, format=form, headers=sent, progress=progress, keeping=keeping
                )
            except ImportFault as fault:
                click.echo(f"otel-replay: {fault}", err=True)
                accounts.append({"source": source, "spans": 0, "runs": [], "error": str(fault)})
                continue
            finally:
                if progress is not None:
                    click.echo("\r\x1b[K", nl=False, err=True)
            found.append(one)
            accounts.append(as_dict(one))
            if not as_json:
                _tell(one, quiet)
    finally:
        if opened is not None:
            opened.close()
    if as_json:
        import orjson

        click.echo(orjson.dumps(accounts, option=orjson.OPT_INDENT_2).decode())
    elif not quiet:
        _next(found, dry_run)
    sys.exit(0 if any(one.spans for one in found) else EXIT_NOTHING)


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError("--header takes KEY=VALUE, for example --header 'Authorization=Bearer ...'")
    return name.strip(), value


def _progress(source: str) -> Callable[[int, int], None]:
    """Return what shows a bar while a source is read; where its size is not known (an address, a pipe) a count."""
    size = os.path.getsize(source) if os.path.isfile(source) else 0

    def told(done_bytes: int, spans: int) -> None:
        bar = _bar(done_bytes, size) if done_bytes <= size else ""
        _line(f"reading {source}: {bar}{bytes_text(done_bytes)}, {spans:,} spans")

    return told


def _keeping(source: str) -> Callable[[int, int], None]:
    return lambda done, count: _line(f"keeping {source}: {_bar(done, count)}{done:,} of {count:,} spans")


def _bar(done: int, whole: int) -> str:
    filled = _BAR_WIDTH * done // whole if whole else _BAR_WIDTH
    return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {100 * done // whole if whole else 100}% "


def _line(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", nl=False, err=True)


def _tell(one: Any, quiet: bool) -> None:
    from otel_replay.importing import account_lines

    if not quiet:
        counted = f"{one.spans} spans, {one.runs_found} runs, {one.crossings} crossings"
        click.echo(f"{one.source}: {one.format}, {counted}")
        for run in one.runs[:_RUNS_SHOWN]:
            for line in account_lines(run):
                click.echo(f"  {line}")
        if one.runs_found > _RUNS_SHOWN:
            click.echo(f"  and {one.runs_found - _RUNS_SHOWN} more runs")
        for text in one.lost:
            click.echo(f"  lost: {text}")
        if one.redacted:
            click.echo(f"  redacted: {one.redacted} secret(s)")
        for note in one.account.notes:
            click.echo(f"  note: {note}")
    problems = one.account.problems
    for problem in problems[:_PROBLEMS_SHOWN]:
        click.echo(f"  {problem}", err=quiet)
    if len(problems) > _PROBLEMS_SHOWN:
        click.echo(f"  and {len(problems) - _PROBLEMS_SHOWN} more kinds of trouble", err=quiet)
    if one.account.partial:
        click.echo(f"  partial: {one.account.partial}", err=quiet)


def _next(found: list[Any], dry_run: bool) -> None:
    runs = [run for one in found for run in one.runs]
    if dry_run:
        click.echo("nothing was kept (--dry-run)")
    elif runs:
        click.echo(f"next: otel-replay show {runs[0].run.run_id[:8]}")
