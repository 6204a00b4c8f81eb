"""Running a program with the recorder or a replay in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from otel_replay.errors import UsageError

BOOTSTRAP = Path(__file__).parent.parent / "bootstrap"


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` with our bootstrap first on PYTHONPATH; return its exit code (128 + n where signal n ended it).

    Standard input, output and error are the caller's own. SIGINT and SIGTERM go to the program.
    """
    if not command:
        raise UsageError("no program given: write it after --, for example: -- python agent.py")
    env = {**os.environ, **environment}
    env["PYTHONPATH"] = os.pathsep.join([str(BOOTSTRAP), *filter(None, [env.get("PYTHONPATH", "")])])
    argv = list(command)
    if argv[0] in ("python", "python3"):
        argv[0] = sys.executable  # the interpreter that we are installed in
    try:
        child = subprocess.Popen(argv, env=env)  # noqa: S603  # the user's own program, asked for by name
    except OSError as fault:
        raise UsageError(f"{argv[0]!r} cannot be run: {fault.strerror}") from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _frame: child.send_signal(n) if child.poll() is None else None)
    code = child.wait()
    return 128 - code if code < 0 else code


store_option = click.option(
    "--store", metavar="FOLDER", default=None, help="The store (default: OTEL_REPLAY_STORE, pyproject, .otel-replay)."
)


def store_folder(given: str | None) -> str:
    """Return the store's absolute path: the program may change its working directory."""
    from otel_replay import settings

    text = given or settings.load().store
    return text if "://" in text else str(Path(text).absolute())
