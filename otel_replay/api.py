"""`record` and `replay`: the only place that joins drivers, recorders, stores and exporters."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace as _replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from otel_replay import limits, originals, payload, sources
from otel_replay import settings as _settings
from otel_replay.clock import CHOICES, ClockChoice
from otel_replay.envelope import Recording, Run
from otel_replay.errors import UsageError
from otel_replay.faults import Faults
from otel_replay.fingerprint import fingerprint
from otel_replay.location import journal_folder
from otel_replay.match_rules import MatchBook, MatchRules
from otel_replay.otel.recorder import Recorder
from otel_replay.otel.tracing import Tracing, sdk_provider
from otel_replay.recorded import INSIDE, RecordedRun
from otel_replay.redaction import Redactor
from otel_replay.replay import explain
from otel_replay.replay.driver import ReplayDriver
from otel_replay.replay.plan import OnDrift, ReplayPlan, plan_from, resolve
from otel_replay.replay.tape import Tape
from otel_replay.replaying import ReplaySession
from otel_replay.session import Session
from otel_replay.span import SpanSink

__all__ = ["RecordedRun", "ReplayPlan", "ReplaySession", "record", "replay"]

_PINNED_PACKAGES = ("openai", "anthropic", "langgraph", "langchain-core", "openai-agents", "pydantic-ai", "litellm")


def record(
    name: str = "",
    *,
    store: str | os.PathLike[str] | None = None,
    tracer_provider: Any = None,
    pins: Mapping[str, object] | None = None,
    strict: bool | None = None,
    redactor: Redactor | None = None,
    coverage: bool | None = None,
    chance: bool | None = None,
    clock: Literal["live", "tape"] | None = None,
) -> RecordedRun:
    """Record the run inside the `with` (or `async with`).

    Crossings go to the journal of `store` (default `.otel-replay/`), and as spans through `tracer_provider` (default:
    the program's own, where it has set one up). `pins` are facts to keep on the run. With `coverage` (default: the
    project's setting) the run notes each connection and each program outside any crossing. With `chance` it
    keeps what the program's own code draws from random, secrets, uuid, os.urandom and numpy, and with `clock="tape"`
    each time that it reads; a replay gives that back. Raises nothing that the agent would see; with `strict` faults of
    the recorder raise, for tests.
    """
    settings = _settings.load()
    strict = settings.strict if strict is None else strict
    faults = Faults(strict=strict)
    run = Run(
        run_id=originals.new_run_id(),
        name=_text(name),
        start_ns=originals.now_ns(),
        pins={**environment_pins(), **(pins or {})},
    )
    recorder = _recorder(
        run,
        settings,
        faults,
        folder=journal_folder(store if store is not None else settings.store),
        provider=tracer_provider,
        redactor=redactor,
    )
    session = Session(recorder, run_id=run.run_id, name=run.name, faults=faults)
    return RecordedRun(
        run,
        session,
        recorder,
        coverage=settings.coverage if coverage is None else coverage,
        tape=_kinds(settings.chance if chance is None else chance, clock or settings.clock),
    )


def record_lane(told: Mapping[str, Any]) -> RecordedRun:
    """Record as the lane of a run that another process began; `told` is what it said in our environment."""
    settings = _settings.load()
    faults = Faults(strict=settings.strict)
    run = Run(
        run_id=str(told["run_id"]),
        name=str(told["name"]),
        lane=str(told["lane"]),
        start_ns=originals.now_ns(),
        pins=environment_pins(),
    )
    recorder = _recorder(
        run, settings, faults, folder=Path(str(told["store"])) / "journal", provider=None, redactor=None
    )
    session = Session(recorder, run_id=run.run_id, name=run.name, lane=run.lane, faults=faults)
    trace_id, span_id = told["parent"]
    return RecordedRun(
        run,
        session,
        recorder,
        parent=(str(trace_id), str(span_id)),
        coverage=settings.coverage,
        tape=[str(kind) for kind in told.get("tape", ())],
    )


def replay(
    source: str | os.PathLike[str] | Recording,
    plan: ReplayPlan | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    run: str = "",
    on_drift: OnDrift | None = None,
    allow_incomplete: bool = False,
    tracer_provider: Any = None,
    redactor: Redactor | None = None,
    keep: bool = False,
    headers: Mapping[str, str] | None = None,
    lane: str = "",
    clock: ClockChoice = "recorded",
    pins: Mapping[str, object] | None = None,
) -> ReplaySession:
    """Serve a recording to the code inside the `with` (or `async with`).

    `source` is a run's name or id, a file, a folder, a store, an address of Jaeger or Tempo, or a Recording. Without a
    `plan` everything is served. With `keep` the replay is itself kept as a run in `store`. The replay's spans go
    through `tracer_provider` (default: the program's own), linked to the recorded ones. Date and time follow the
    record, by its tape where it has one, unless `clock` is "live"; with "tape" it must have one. `pins` are facts of
    today: the report shows where they differ from the recorded ones, as it does for the interpreter, the SDKs and the
    code revision. Nothing reaches the network or begins a program but what the plan runs live: LiveCallBlocked. Leaving
    the context raises Diverged and its kin where anything went apart.
    """
    if clock not in CHOICES:
        raise UsageError(f"clock is recorded or live or tape, not {clock!r}")
    settings = _settings.load()
    recording = sources.load(source, store=store, run=run, headers=headers, settings=settings)
    sources.require_usable(recording, allow_incomplete=allow_incomplete)
    recording = sources.for_clients(recording)
    chosen = plan_from(plan)
    if on_drift is not None:
        chosen = _replace(chosen, on_drift=on_drift)
    tape = Tape(recording, lane)
    resolved = resolve(chosen, tape, {envelope.boundary: envelope for envelope in recording.envelopes})
    faults = Faults(strict=settings.strict)
    own = Run(
        run_id=originals.new_run_id(),
        name=recording.run.name,
        lane=lane,
        start_ns=originals.now_ns(),
        mode="replay",
        replay_of=recording.run.run_id,
        pins={**environment_pins(recording.run.pins), **(pins or {})},
    )
    folder = journal_folder(store if store is not None else settings.store) if keep else None
    redactor = redactor or _redactor(settings)
    recorder = _recorder(own, settings, faults, folder=folder, provider=tracer_provider, redactor=redactor)
    driver = ReplayDriver(
        tape,
        resolved,
        recorder=recorder,
        redactor=redactor,
        rules_for=_rules(settings),
        key_of_request=fingerprint,
    )
    session = Session(driver, run_id=own.run_id, name=recording.run.name, lane=lane, faults=faults)
    session.raises_when_late = session.keeps_results = True
    notes = (
        [] if recording.complete else [f"incomplete recording: {text}" for text in sources.incompleteness(recording)]
    )
    notes += [note for note in recording.run.notes if note.startswith(INSIDE)]
    return ReplaySession(session, driver, recorder, recording, notes, clock=clock)


def _kinds(chance: bool, clock: str) -> tuple[str, ...]:
    """Return what the tape of a recording is to hold. Raises UsageError."""
    if clock not in ("live", "tape"):
        raise UsageError(f"the clock of a recording is live or tape, not {clock!r}")
    return (*(("chance",) if chance else ()), *(("clock",) if clock == "tape" else ()))


def _recorder(
    run: Run,
    settings: _settings.Settings,
    faults: Faults,
    *,
    folder: Path | None,
    provider: Any,
    redactor: Redactor | None,
) -> Recorder:
    provider = provider if provider is not None else sdk_provider()
    envelope_bytes_max = None
    if provider is not None:
        with faults.contained("splitting"):
            from otel_replay.otel import splitting

            splitting.install(provider)
            if splitting.unreached(provider):
                envelope_bytes_max = limits.ENVELOPE_INLINE_BYTES_MAX
    tracing = Tracing(
        provider,
        envelope_bytes_max=envelope_bytes_max,
        content=settings.capture_content not in ("NO_CONTENT", "EVENT_ONLY"),
        value_length_limit=settings.value_length_limit,
    )
    return Recorder(
        run,
        journal_folder=folder.absolute() if folder is not None else None,
        tracing=tracing,
        redactor=redactor or _redactor(settings),
        rules_for=_rules(settings),
        faults=faults,
        fsync=settings.fsync,
    )


def _redactor(settings: _settings.Settings) -> Redactor:
    allowed = settings.project.get("allow_packages", ())
    if isinstance(allowed, (list, tuple)):
        payload.allow_packages([str(name) for name in allowed])  # whose classes a recording may name
    table = settings.project.get("redaction", {})
    return Redactor.from_project(table if isinstance(table, Mapping) else {})


def _rules(settings: _settings.Settings) -> Callable[[str, str], MatchRules]:
    table = settings.project.get("match", {})
    book = MatchBook.from_project(table if isinstance(table, Mapping) else {})
    known: dict[tuple[str, str], MatchRules] = {}

    def rules_for(kind: str, name: str) -> MatchRules:
        found = known.get((kind, name))
        if found is None:
            found = known[kind, name] = book.rules(boundary=name, kind=kind)
        return found

    return rules_for


def _text(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def environment_pins(recorded: Collection[str] = ()) -> dict[str, object]:
    """Return what explains a run beside its requests: interpreter, SDK versions, code revision.

    An SDK counts where it is loaded, or where the pins `recorded` name it: the program may load it only later.
    """
    found: dict[str, object] = {"python": platform.python_version()}
    for package in _PINNED_PACKAGES:
        module = package.replace("-", "_").replace("openai_agents", "agents")
        if module in sys.modules or package in recorded:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
    revision = git_revision(os.getcwd())
    if revision:
        found["git"] = revision
    return found


def git_revision(start: str) -> str:
    """Return the checked-out commit of the repository around `start`, read from its files; "" where there is none."""
    folder = start
    while not os.path.exists(git := os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return ""
    try:
        if os.path.isfile(git):
            git = os.path.join(folder, _text_of(git).removeprefix("gitdir:").strip())
        head = _text_of(os.path.join(git, "HEAD"))
        if not head.startswith("ref: "):
            return head[:40]
        reference = head.removeprefix("ref: ")
        loose = os.path.join(git, reference)
        if os.path.isfile(loose):
            return _text_of(loose)[:40]
        for line in _text_of(os.path.join(git, "packed-refs")).splitlines():
            if line.endswith(f" {reference}"):
                return line.split(" ")[0][:40]
    except OSError:
        pass
    return ""


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def open_sink(location: str | None) -> SpanSink:
    """Return the store at `location` (default: the one that the settings name), made where it is not there."""
    from otel_replay.store import open_store

    return open_store(location or _settings.load().store, create=True)


def _explained(source: object) -> Recording:
    return sources.load(source)


explain.loader = _explained
