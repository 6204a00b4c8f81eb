"""`otel-replay doctor [SOURCE]`."""

from __future__ import annotations

import dataclasses
import sys

import click

from otel_replay.cli._child import store_folder, store_option

EXIT_PROBLEMS = 1
_SIGNS = {"ok": " ", "note": "-", "problem": "!"}


@click.command(epilog="Example: otel-replay doctor traces.json")
@click.argument("source", required=False)
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(source: str | None, store: str | None, as_json: bool) -> None:
    """Say what is covered, what is missing, and what to do about it.

    With a SOURCE (a run, a file, a folder, an address): which of its crossings can be stubbed, before anything runs,
    and which setting lost the rest. Exit codes: 0 no problem, 1 problems (marked !), 4 no such source.
    """
    from otel_replay.doctor import examine, examine_source

    findings = examine_source(source, store=store)[0] if source else examine(store_folder(store))
    if as_json:
        import orjson

        click.echo(orjson.dumps([dataclasses.asdict(one) for one in findings], option=orjson.OPT_INDENT_2).decode())
    else:
        for one in findings:
            first, *rest = one.text.split("\n")
            click.echo(f"{_SIGNS[one.level]} {one.area:<11} {first}")
            for line in rest:
                click.echo(f"  {'':<11} {line}")
            if one.next:
                click.echo(f"  {'':<11} next: {one.next}")
    sys.exit(EXIT_PROBLEMS if any(one.level == "problem" for one in findings) else 0)
