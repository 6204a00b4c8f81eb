"""`otel-replay`: a file a command. A command's module is loaded only when that command runs."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from otel_replay.errors import OtelReplayError

_COMMANDS = {
    "record": "Run a program and record its crossings.",
    "replay": "Run a program against a recording.",
    "rerecord": "Run a program again and keep the new recording under the same name.",
    "runs": "List the runs of a store.",
    "show": "Show one run as a tree.",
    "sql": "Ask the store in SQL.",
    "diff": "Compare two runs, or a run with itself at one address.",
    "export": "Write a run as a file that other tools read.",
    "import": "Read traces that others recorded.",
    "promote": "Make a recorded run a committed fixture with a test.",
    "verdict": "Say how a run ended.",
    "store": "Look after a store: info, verify, compact, prune, blob.",
    "sink": "Receive OTLP and keep it in a store.",
    "doctor": "Say what is covered, what is missing, and what to do about it.",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(
            f"otel_replay.cli.{cmd_name}_" if cmd_name == "import" else f"otel_replay.cli.{cmd_name}"
        )
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="otel-replay", prog_name="otel-replay")
def cli() -> None:
    """Turn any agent run that OpenTelemetry saw into a test."""


def main() -> None:
    """Run the command line. Errors of the package end with one line on stderr and their own exit code."""
    try:
        cli.main(prog_name="otel-replay", standalone_mode=True)
    except OtelReplayError as fault:
        from otel_replay.replay.report import exit_code_of

        sys.stderr.write(f"otel-replay: {fault}\n")
        sys.exit(exit_code_of(fault))
    except BrokenPipeError:  # `otel-replay sql ... | head`: nothing to say, and nothing left to flush
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        sys.stderr.write(f"otel-replay: {where}{fault.strerror or fault}\n")
        sys.exit(8)
