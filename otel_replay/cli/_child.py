"""Running a program with the recorder or a replay in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from otel_replay.errors import UsageError

BOOTSTRAP = Path(__file__).parent.parent / "bootstrap"


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` with our bootstrap first on PYTHONPATH; return its exit code (128 + n where signal n ended it).

    Standard input, output and error are the caller's own. SIGINT and SIGTERM go to the program.
    """
    if not command:
        raise UsageError("no program given: write it after --, for example: -- python agent.py")
    if command[0].startswith("-"):
        raise UsageError(f"{command[0]} stands where the program should: options stand before --, the program after it")
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
    "--store",
    metavar="FOLDER",
    default=None,
    help="The store, a folder or s3://bucket/prefix (default: OTEL_REPLAY_STORE, pyproject, .otel-replay).",
)


def record_environment(name: str, folder: str, program: Sequence[str]) -> dict[str, str]:
    """Return what a program is told so that it records itself as the run `name` in the store `folder`."""
    import orjson

    told = [word.encode("utf-8", "backslashreplace").decode() for word in program]
    return {
        "OTEL_REPLAY_MODE": "record",
        "OTEL_REPLAY_NAME": name,
        "OTEL_REPLAY_STORE": folder,
        "OTEL_REPLAY_PROGRAM": orjson.dumps(told).decode(),
    }


def recorded_since(store: Any, name: str, begun_ns: int, code: int) -> list[Any]:
    """Return the runs called `name` that this program recorded, the first one begun first.

    A run whose code said nothing of it has the verdict that the program's exit code gives.
    """
    found = [run for run in store.runs(name=name) if run.start_ns >= begun_ns and run.mode == "record"]
    for run in found:
        if run.verdict == "unknown":
            store.set_verdict(run.run_id, "failed" if code else "passed")
    return sorted(found, key=lambda run: run.start_ns)


def store_folder(given: str | None) -> str:
    """Return the store's absolute path: the program may change its working directory."""
    from otel_replay import settings

    text = given or settings.load().store
    return text if "://" in text else str(Path(text).absolute())
