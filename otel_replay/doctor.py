"""What is covered, what is missing, and what to do about it: asked before a run, so that none is lost."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias

from otel_replay import settings as _settings
from otel_replay import sources
from otel_replay.envelope import Recording
from otel_replay.errors import ImportFault, OtelReplayError, StoreError
from otel_replay.importers.genai import describe
from otel_replay.importing import account_lines, losses
from otel_replay.location import is_remote

Level: TypeAlias = Literal["ok", "note", "problem"]
_ATTRIBUTES_NEEDED = 24
"""What a span of ours carries beside the envelope; fewer, and the envelope is dropped."""
_RUNS_LOOKED_AT = 20
_PACKAGES = (
    "otel-replay",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp",
    "protobuf",
    "duckdb",
    "pyarrow",
    "orjson",
    "google-re2",
    "grpcio",
    "openai",
    "anthropic",
    "httpx",
)
_LIMITS = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")
_LENGTHS = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: where, how it stands, in words, and what to do about it."""

    area: str
    level: Level
    text: str
    next: str = ""


def examine(store: str | os.PathLike[str] | None = None) -> list[Finding]:
    """Look at what needs no source: versions, settings, telemetry, store, recent runs, instruments."""
    settings = _settings.load()
    return [
        *_versions(),
        *_of_settings(settings),
        *_telemetry(settings),
        *_store(store or settings.store),
        *_instruments(),
    ]


def examine_provider(provider: Any) -> list[Finding]:
    """Return what an existing TracerProvider would lose of our spans. For a program's own set-up, in the program."""
    from otel_replay.otel import splitting

    unreached = splitting.unreached(provider)
    if not unreached:
        return [Finding("provider", "ok", "large envelopes reach every exporter in batches that receivers take")]
    return [
        Finding(
            "provider",
            "problem",
            "an exporter is set up where batches cannot be split: envelopes beyond 4 KB stay out of its spans",
            "put SplittingExporter(exporter) from otel_replay.otel.splitting before it",
        )
    ]


def examine_source(
    source: str, *, store: str | os.PathLike[str] | None = None, headers: dict[str, str] | None = None
) -> tuple[list[Finding], list[Recording]]:
    """Say before any run which crossings of `source` can be stubbed, and which setting lost the rest.

    Raises NeverRecorded, ImportFault, UsageError as `sources.load` does.
    """
    path = Path(source)
    remote = is_remote(source)
    if ("://" in source and not remote) or "*" in source or (path.exists() and not sources.is_store(path)):
        runs, account = sources.recordings(source, headers=headers)
        troubles = [str(problem) for problem in account.problems]
        if not runs:
            raise ImportFault(
                f"{source} holds no run with crossings in it: " + ("; ".join(troubles[:3]) or account.format)
            )
    else:
        runs, troubles = [sources.load(source, store=store)], []
    found: list[Finding] = []
    for run in runs:
        lines = account_lines(run, crossings_max=1_000)
        short = [line for line in describe(run) if not line.servable and line.kind != "custom"]
        level: Level = "problem" if short or not run.complete else "ok"
        found.append(Finding("source", level, "\n".join(lines)))
    found += [Finding("source", "problem", f"lost: {text}") for text in losses(runs)]
    found += [Finding("source", "note", text) for text in troubles[:20]]
    return found, runs


# The looks -------------------------------------------------------------------------------------------------------


def _versions() -> Iterator[Finding]:
    listed = [f"python {platform.python_version()}"]
    absent = []
    for package in _PACKAGES:
        try:
            listed.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            absent.append(package)
    yield Finding("versions", "ok", ", ".join(listed))
    if absent:
        yield Finding("versions", "note", f"not installed: {', '.join(absent)}")


def _of_settings(settings: _settings.Settings) -> Iterator[Finding]:
    project = f"pyproject.toml in {settings.project_dir}" if settings.project_dir else "no pyproject.toml"
    yield Finding("settings", "ok", f"mode {settings.mode}, store {settings.store}, {project}")
    folders = settings.project.get("fixtures")
    for folder in folders if isinstance(folders, list) else ():
        if not (Path(settings.project_dir) / str(folder)).is_dir():
            yield Finding("settings", "problem", f"the fixtures folder {folder!r} of pyproject.toml is not there")
    table = settings.project.get("redaction", {})
    if isinstance(table, dict) and table.get("enabled") is False:
        yield Finding("settings", "problem", "redaction is switched off in pyproject.toml: secrets are recorded")
    try:
        from otel_replay.importing import project_redactor

        project_redactor()
    except OtelReplayError as fault:
        yield Finding("settings", "problem", f"the redaction rules in pyproject.toml cannot be used: {fault}")


def _telemetry(settings: _settings.Settings) -> Iterator[Finding]:
    found = _settings.telemetry()
    flag = found.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    if settings.capture_content in ("NO_CONTENT", "EVENT_ONLY"):
        yield Finding(
            "capture",
            "note",
            f"content stays out of spans that leave the process ({flag or settings.capture_content}): the local store "
            "keeps it, a collector's copy cannot be replayed",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
        )
    else:
        yield Finding("capture", "ok", f"content goes with our spans ({flag or 'no flag is set'})")
    if not flag:
        yield Finding(
            "capture",
            "note",
            "other GenAI instrumentations capture no content unless they are told to: their spans cannot be replayed",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
        )
    for name in _LIMITS:
        if found.get(name, "").isdigit() and int(found[name]) < _ATTRIBUTES_NEEDED:
            yield Finding(
                "limits", "problem", f"{name}={found[name]} drops envelopes from spans that leave the process",
                f"{name}={_ATTRIBUTES_NEEDED} or more",
            )  # fmt: skip
    for name in _LENGTHS:
        if found.get(name, "").isdigit():
            yield Finding(
                "limits", "note", f"{name}={found[name]}: our envelopes are cut into parts that fit; messages on spans "
                "of other instrumentations are cut and cannot be replayed", f"unset {name}",
            )  # fmt: skip
    if found.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield Finding("exporter", "note", "OTEL_SDK_DISABLED=true: nothing leaves the process; the local store records")
    if found.get("OTEL_TRACES_SAMPLER", "").endswith(("always_off", "traceidratio")):
        text = f"OTEL_TRACES_SAMPLER={found['OTEL_TRACES_SAMPLER']}: some runs do not reach the collector whole"
        yield Finding("exporter", "note", f"{text}; the local store records all")
    exporter = found.get("OTEL_TRACES_EXPORTER", "")
    batch = found.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "")
    if exporter:
        yield Finding(
            "exporter", "ok", f"OTEL_TRACES_EXPORTER={exporter}{f', batches of {batch} spans' if batch else ''}"
        )


def _store(root: str | os.PathLike[str]) -> Iterator[Finding]:
    from otel_replay.store import open_store

    try:
        opened = open_store(root)
    except StoreError as fault:
        yield Finding("store", "note", str(fault), "otel-replay record NAME -- python agent.py")
        return
    with opened:
        try:
            yield from _of_store(opened)
        except (StoreError, OSError) as fault:
            yield Finding("store", "problem", str(fault))


def _of_store(opened: Any) -> Iterator[Finding]:
    opened.refresh()  # takes in what ended recorders left
    info = opened.info()
    yield Finding("store", "ok", f"{info.root}: {info.files} files, {info.rows} spans, {info.bytes} bytes")
    if not info.writable:
        yield Finding("store", "problem", f"{info.root} cannot be written: nothing new is recorded here")
    for problem in dict.fromkeys((*info.problems, *opened.problems)):
        yield Finding("store", "problem", problem, "otel-replay store verify")
    if info.journals_live:
        yield Finding("journals", "note", f"{info.journals_live} recorders are at work now")
    if info.journals_waiting:
        yield Finding(
            "journals", "problem", f"{info.journals_waiting} journals of ended recorders could not be taken in"
        )
    if info.left_behind:
        text = f"{info.left_behind} unfinished files of killed writers"
        yield Finding("store", "note", text, "otel-replay store compact")
    for run in opened.runs(limit=_RUNS_LOOKED_AT):
        if run.state in ("interrupted", "incomplete"):
            text = f"{run.name or 'unnamed'} ({run.run_id[:8]}) is {run.state}"
            yield Finding("runs", "problem", text, f"otel-replay show {run.run_id[:8]}")
    for run in opened.run_records(limit=_RUNS_LOOKED_AT):
        for step, count in run.faults.items():
            text = f"{run.name or 'unnamed'} ({run.run_id[:8]}): the recorder failed {count} times at step {step!r}"
            yield Finding("runs", "problem", text)


def _instruments() -> Iterator[Finding]:
    from otel_replay.instruments import check

    absent = []
    try:
        for found in check.dry_calls():
            named = f"{found.name} {found.version}".strip()
            if not found.version and not found.layers:
                absent.append(found.name)
            elif found.problem:
                covered = f"; covered: {', '.join(found.layers)}" if found.layers else ""
                text = f"{named}: not recorded as it should be: {found.problem}{covered}"
                yield Finding("instruments", "problem", text, "try a version from the table in the README")
            else:
                yield Finding("instruments", "ok", f"{named}: {', '.join(found.layers)}")
    except Exception as fault:  # noqa: BLE001  # the look at one library must not hide what else was found
        yield Finding("instruments", "problem", f"the check of instruments failed: {type(fault).__name__}: {fault}")
    if absent:
        yield Finding("instruments", "note", f"not installed: {', '.join(absent)}")
