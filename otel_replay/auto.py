"""A mode set from outside: the run begins with the interpreter and ends with it, on unmodified code."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson

from otel_replay import settings as _settings
from otel_replay.errors import OtelReplayError, UsageError
from otel_replay.instruments._hook import instrument_when_imported
from otel_replay.replay.plan import ReplayPlan

if TYPE_CHECKING:
    from otel_replay.root_runs import RootRuns
    from otel_replay.session import Scope, Session

START_WAIT_S = 120
_starting = threading.RLock()  # what begins a run may cross something itself
_begun = threading.Event()
_started: list[object] = []
_root_runs: list[RootRuns] = []


def start() -> None:
    """Begin what `OTEL_REPLAY_MODE` asks for, once. Whoever crosses meanwhile waits until it has begun.

    Raises UsageError where that takes longer than anything does.
    """
    if _begun.is_set():
        return
    if not _starting.acquire(timeout=START_WAIT_S):
        raise UsageError(f"what OTEL_REPLAY_MODE asks for has not begun within {START_WAIT_S} seconds")
    try:
        settings = _settings.load()
        if _started or not _settings.run_wanted():
            return
        _started.append(settings.mode)
        instrument_when_imported()
        if settings.lane:
            _lane(read_options(settings.lane))
        elif settings.mode == "record":
            _record(settings)
        else:
            _replay(settings)
        _begun.set()
    finally:
        _starting.release()


def session_here() -> Session | None:
    """Return the session that a crossing without one belongs to, or None where it is the process's own by now.

    In mode `record` without a name, that is the run of the current trace where the program has a provider.
    """
    runs = _runs_of_traces()
    found = runs.session_here() if runs is not None else None
    if found is None and not _begun.is_set():
        start()
        found = runs.session_here() if runs is not None else None
    return found


def handed_over() -> Scope | None:
    """Return where work stands that is handed to a thread under a trace that has crossed nothing yet; else None."""
    runs = _runs_of_traces()
    return runs.scope_here() if runs is not None else None


def _runs_of_traces() -> RootRuns | None:
    """Return what keeps a run for each trace; None where the process is one run."""
    if _root_runs:
        return _root_runs[0]
    settings = _settings.load()
    if _started or settings.mode != "record" or settings.run_name or settings.lane:
        return None
    from otel_replay.root_runs import RootRuns

    with _starting:
        if not _root_runs:
            _root_runs.append(RootRuns(settings.store))
            atexit.register(_root_runs[0].shutdown)
    return _root_runs[0]


def _lane(told: Mapping[str, Any]) -> None:
    """Be a lane of the run that another process began."""
    from otel_replay import api
    from otel_replay.lane_account import replay_lane

    context: Any = api.record_lane(told) if told.get("mode") == "record" else replay_lane(told)
    context.__enter__()
    atexit.register(lambda: context.__exit__(None, None, None))


def _record(settings: _settings.Settings) -> None:
    from otel_replay.api import record

    run = record(
        settings.run_name or Path(sys.argv[0] if sys.argv else "").stem,
        store=settings.store,
        pins=_program_pins(settings),
    )
    if not (_root_runs and _root_runs[0].begin_process(run)):
        run.begin()
    failed: list[BaseException] = []
    hook = sys.excepthook

    def noticed(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        failed.append(error)
        hook(kind, error, traceback)

    sys.excepthook = noticed

    def finish() -> None:
        error = failed[-1] if failed else None
        run.__exit__(type(error) if error else None, error, None)

    atexit.register(finish)


def _program_pins(settings: _settings.Settings) -> dict[str, object]:
    """Return the program as the command line was given it, so that a recorded run can become a test that runs it."""
    told = os.environ.pop("OTEL_REPLAY_PROGRAM", "")  # a child that records a run of its own is another program
    if not told:
        return {}
    from otel_replay.redaction import Redactor

    table = settings.project.get("redaction", {})
    redactor = Redactor.from_project(table if isinstance(table, Mapping) else {})
    words = orjson.loads(told)
    here, project = Path.cwd(), Path(settings.project_dir or ".").absolute()
    folder = here.relative_to(project).as_posix() if here.is_relative_to(project) else ""
    return {"program": [redactor.redact_text(str(word))[0] for word in words], "program.folder": folder}


def _replay(settings: _settings.Settings) -> None:
    from otel_replay.api import replay
    from otel_replay.replay.report import exit_code_of

    report_path = os.environ.get("OTEL_REPLAY_REPORT", "")
    try:
        options = read_options(os.environ.get("OTEL_REPLAY_PLAN", "{}"))
        if settings.mode == "hybrid":
            options["hybrid"] = True
        session = replay(
            settings.source,
            plan_of(options),
            store=settings.store,
            allow_incomplete=bool(options.get("allow_incomplete")),
            keep=bool(options.get("keep")),
            clock=options.get("clock") or "recorded",
        )
        session.__enter__()
    except OtelReplayError as fault:
        said = f"otel-replay: {fault}\n"
        _write(report_path, {"exit_code": exit_code_of(fault), "text": said})
        if not report_path:  # else the command line says it
            sys.stderr.write(said)
            sys.stderr.flush()
        os._exit(exit_code_of(fault))
    failed: list[BaseException] = []
    hook = sys.excepthook

    def noticed(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        failed.append(error)
        hook(kind, error, traceback)

    sys.excepthook = noticed

    def finish() -> None:
        error = failed[-1] if failed else None
        try:
            session.__exit__(type(error) if error else None, error, None)
        except OtelReplayError:
            pass  # it is in the report, and decides the exit code
        report = session.report
        code = report.exit_code(strict=bool(options.get("strict")))
        _write(report_path, {"exit_code": code, **report.forms()})
        if not report_path:  # started by the environment alone: the interpreter itself must say so
            sys.stderr.write(report.text())
            if code:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    atexit.register(finish)


def _write(path: str, form: Mapping[str, object]) -> None:
    if path:
        Path(path).write_bytes(orjson.dumps(form))


def read_options(text: str) -> dict[str, Any]:
    """Return the options that the command line handed over as JSON. Raises UsageError."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise UsageError(f"OTEL_REPLAY_PLAN is not JSON: {fault}") from None
    if not isinstance(found, dict):
        raise UsageError("OTEL_REPLAY_PLAN must be a JSON object")
    return found


def plan_of(options: Mapping[str, Any]) -> ReplayPlan:
    """Return the plan that options say: lists of names under what happens to them, `on_drift`, `hybrid`."""
    plan = ReplayPlan(
        on_drift=options.get("on_drift") or "fail",
        hybrid=bool(options.get("hybrid")),
        shuffle=options.get("shuffle"),
    )
    for action in ("stub", "live", "changed"):
        for text in options.get(action, ()):
            name, occurrence, kind = selector(text)
            add = {"stub": plan.stub, "live": plan.live, "changed": plan.changed}[action]
            plan = add(kind=kind) if kind else add(name, occurrence)
    for name in options.get("new", ()):
        plan = plan.new(name)
    for name in options.get("repeat", ()):
        plan = plan.repeat(name)
    for text, value in dict(options.get("override", {})).items():
        name, occurrence, _kind = selector(text)
        plan = plan.override(name, occurrence, value)
    return plan


def selector(text: str) -> tuple[str, int | None, str]:
    """Return (name or address, occurrence, kind): `agent`, `agent,2`, `plan[2]/search[1]`, `kind=tool`."""
    if text.startswith("kind="):
        return "", None, text[5:]
    name, comma, occurrence = text.rpartition(",")
    if comma and occurrence.strip().isdigit():
        return name, int(occurrence), ""
    return text, None, ""
