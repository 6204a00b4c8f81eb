"""`otel-replay store info|verify|compact|prune|blob`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.cli._units import age, bytes_text, size
from otel_replay.errors import UsageError

EXIT_UNSOUND = 1
format_option = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)


@click.group(epilog="Example: otel-replay store prune --older-than 30d --dry-run")
def command() -> None:
    """Look after a store: what it holds, whether it is whole, fewer files, fewer runs."""


def _json(facts: Mapping[str, Any]) -> None:
    import orjson

    click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode())


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if 0 < ns < 1 << 62 else "-"


@command.command(epilog="Example: otel-replay store info --format json")
@store_option
@format_option
def info(store: str | None, form: str) -> None:
    """Say what the store holds."""
    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        found = opened.info()
    if form == "json":
        _json(dataclasses.asdict(found))
        return
    click.echo(f"store       {found.root}")
    click.echo(f"files       {found.files} ({bytes_text(found.bytes)})")
    click.echo(f"spans       {found.rows}")
    if found.blobs:
        unused = f", {found.blobs_unreferred} of no run any more" if found.blobs_unreferred else ""
        click.echo(f"blobs       {found.blobs} ({bytes_text(found.blob_bytes)}){unused}")
    click.echo(f"times       {_time(found.oldest_ns)} to {_time(found.newest_ns)} (UTC)")
    click.echo(f"journals    {found.journals_live} being written, {found.journals_waiting} waiting to be taken in")
    if found.superseded_rows or found.replaced_files or found.left_behind:
        click.echo(
            f"to compact  {found.superseded_rows} rows and {found.replaced_files} files were taken over, "
            f"{found.left_behind} left behind by killed writers"
        )
    for problem in found.problems:
        click.echo(f"problem     {problem}")


@command.command(epilog="Example: otel-replay store verify")
@store_option
@click.option("--set-aside", is_flag=True, help="Move damaged files to damaged/, and keep what can be read of them.")
@format_option
def verify(store: str | None, set_aside: bool, form: str) -> None:
    """Read every file to its end and check each span and each exact form.

    Exit codes: 0 whole, 1 something is damaged.
    """
    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        moved = opened.set_aside() if set_aside else []
        found = opened.verify()
    if form == "json":
        _json({**dataclasses.asdict(found), "sound": found.sound, "set_aside": [dataclasses.asdict(m) for m in moved]})
    else:
        for one in moved:
            lost = f"what was in its {bytes_text(one.bytes)} is not known"
            if one.rows_lost is not None:
                lost = f"{one.rows_saved} spans of it were kept, {one.rows_lost} could not be read"
            click.echo(f"set aside: {one.path} -> {one.now}: {one.reason}; {lost}")
        blobs = f", {found.blobs} blobs" if found.blobs else ""
        click.echo(f"{found.files} files, {found.rows} spans, {found.envelopes} exact forms{blobs} checked")
        for problem in found.problems:
            click.echo(f"problem: {problem}")
        click.echo("sound" if found.sound else f"NOT SOUND: {len(found.problems)} problem(s)")
    sys.exit(0 if found.sound else EXIT_UNSOUND)


@command.command(epilog="Example: otel-replay store compact")
@store_option
@format_option
def compact(store: str | None, form: str) -> None:
    """Take many small files together into few sorted ones. Readers and writers go on meanwhile."""
    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        done = opened.compact()
    if form == "json":
        _json(dataclasses.asdict(done))
    elif not done.files_before:
        click.echo(f"nothing to take together ({done.removed} old files removed)")
    else:
        click.echo(
            f"{done.files_before} files ({bytes_text(done.bytes_before)}) -> {done.files_after} "
            f"({bytes_text(done.bytes_after)}); {done.rows_parted} copies parted, {done.removed} old files removed"
        )


@command.command(epilog="Example: otel-replay store prune --older-than 30d --max-bytes 10GB --dry-run")
@store_option
@click.option("--older-than", type=age, metavar="AGE", help="Remove runs older than this, for example 30d.")
@click.option("--max-bytes", type=size, metavar="SIZE", help="Remove the oldest until it is this small.")
@click.option("--sample-passing", type=click.IntRange(min=1), metavar="N", help="Keep one in N of the passing runs.")
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@format_option
def prune(
    store: str | None,
    older_than: float | None,
    max_bytes: int | None,
    sample_passing: int | None,
    dry_run: bool,
    form: str,
) -> None:
    """Remove runs by age and size. Failing, pinned and running runs always stay."""
    from otel_replay.store import open_store

    if older_than is None and max_bytes is None and sample_passing is None:
        raise UsageError("say what goes: --older-than 30d, --max-bytes 10GB or --sample-passing 10")
    with open_store(store_folder(store)) as opened:
        done = opened.prune(
            older_than_s=older_than, max_bytes=max_bytes, sample_passing=sample_passing, dry_run=dry_run
        )
    if form == "json":
        _json({**dataclasses.asdict(done), "dry_run": dry_run})
        return
    would = "would remove" if dry_run else "removed"
    click.echo(
        f"{would} {len(done.runs)} runs and {done.loose_spans} spans of no run: "
        f"{bytes_text(done.bytes_before)} -> about {bytes_text(done.bytes_after)}"
    )
    if done.kept_failing or done.kept_pinned:
        click.echo(f"{done.kept_failing} failing and {done.kept_pinned} pinned runs stay")
    for run_id in done.runs[:20]:
        click.echo(f"  {run_id}")
    if len(done.runs) > 20:
        click.echo(f"  and {len(done.runs) - 20} more")


@command.command(epilog="Example: otel-replay store blob 9f86d081884c7d65... > picture.txt")
@click.argument("sha256")
@store_option
def blob(sha256: str, store: str | None) -> None:
    """Write the large string that a reference ({"$":"blob","sha256":...}) stands for.

    Exit codes: 0 it is there and whole, 4 it is not.
    """
    import orjson

    from otel_replay.store import open_store

    with open_store(store_folder(store)) as opened:
        text: str = orjson.loads(f'"{opened.blob(sha256)}"')
    click.echo(text.encode(), nl=False)
