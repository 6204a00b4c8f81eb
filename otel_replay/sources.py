"""From what a person names (a run, a file, a folder, an address) to the recording that is replayed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from otel_replay import settings as _settings
from otel_replay.envelope import LATE, Recording
from otel_replay.errors import IncompleteRecording, NeverRecorded, StoreError, UsageError
from otel_replay.location import is_remote
from otel_replay.wholeness import ranges

FIXTURE_FOLDERS = ("tests/incidents", "tests/fixtures", "incidents", "fixtures")
FIXTURE_SUFFIXES = (".otlp.jsonl", ".jsonl", ".otlp.json")


def load(
    source: object,
    *,
    store: str | os.PathLike[str] | None = None,
    run: str = "",
    headers: Mapping[str, str] | None = None,
    settings: _settings.Settings | None = None,
) -> Recording:
    """Return the recording that `source` names.

    `source` is a Recording, a run's name or id (or the beginning of one), a fixture's name, a file, a folder, a store,
    or the address of a Jaeger or Tempo. A committed fixture of a name comes before a run of that name. `run` picks
    one where the source holds several. Raises NeverRecorded, UsageError where several runs are meant, ImportFault.
    """
    if isinstance(source, Recording):
        return source
    settings = settings or _settings.load()
    text = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    if not text:
        raise UsageError(f"a replay's source is a name, a path or an address, not {type(source).__name__}")
    if is_remote(text):
        return _from_store(text, run)
    if "://" in text:
        return _imported(text, run, headers)
    path = Path(text)
    looks_like_path = isinstance(source, os.PathLike) or os.sep in text or path.suffix != ""
    if not looks_like_path:
        fixture = find_fixture(text, settings)
        if fixture is not None:
            return _imported(str(fixture), run, headers)
        return _from_store(store or settings.store, text)
    if is_store(path):
        return _from_store(path, run)
    if path.exists():
        return _imported(text, run, headers)
    fixture = find_fixture(text, settings)
    if fixture is not None:
        return _imported(str(fixture), run, headers)
    try:
        return _from_store(store or settings.store, text)
    except NeverRecorded:
        raise NeverRecorded(f"there is no file {text!r}, and no run of that name") from None


def is_store(path: Path) -> bool:
    """True where `path` is a folder laid out as a store."""
    return path.is_dir() and any((path / part).is_dir() for part in ("spans", "journal"))


def find_fixture(name: str, settings: _settings.Settings) -> Path | None:
    """Return the committed fixture of that name, looked for in the project's fixture folders, or None."""
    if "/" in name or "\\" in name or name.startswith("."):
        return None
    configured = settings.project.get("fixtures", FIXTURE_FOLDERS)
    folders = (
        [configured]
        if isinstance(configured, str)
        else list(configured)
        if isinstance(configured, list | tuple)
        else []
    )
    for folder in folders:
        for suffix in FIXTURE_SUFFIXES:
            candidate = Path(settings.project_dir or ".") / str(folder) / f"{name}{suffix}"
            if candidate.is_file():
                return candidate
    return None


def _from_store(location: str | os.PathLike[str], name: str) -> Recording:
    from otel_replay.store import open_store

    try:
        store = open_store(location)
    except StoreError as fault:
        raise NeverRecorded(f"{name!r} was never recorded: {fault}") from None
    with store:
        if not name:
            runs = store.runs(limit=2)
            if len(runs) != 1:
                raise UsageError(f"{store.shown} holds {'several runs' if runs else 'no run'}: name one of them")
            name = runs[0].run_id
        return store.recording(store.find_run(name).run_id)


def recordings(
    source: str, *, headers: Mapping[str, str] | None = None, format: str | None = None
) -> tuple[list[Recording], Any]:
    """Return all runs that a file, folder or address holds, and the import's own account of itself."""
    from otel_replay.importers import open_source
    from otel_replay.importers.genai import recordings as to_recordings

    found = open_source(source, headers=headers, format=format, parquet_rows=parquet_rows)
    spans = list(found.spans)
    return to_recordings(spans, list(getattr(found, "logs", ()) or ()), source=source, parts=found.parts), found


def parquet_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of somebody's Parquet file as dicts. Raises ImportFault."""
    from otel_replay.store.parquet import foreign_rows

    return foreign_rows(Path(path))


def _imported(source: str, run: str, headers: Mapping[str, str] | None) -> Recording:
    if not run and source.endswith(".jsonl"):
        from otel_replay.importers import own_lines

        whole = own_lines.recording(Path(source), source)
        if whole is not None:
            return whole
    runs, _account = recordings(source, headers=headers)
    if run:
        runs = [r for r in runs if r.run.name == run or r.run.run_id.startswith(run)]
    if not runs:
        raise NeverRecorded(f"{source} holds no run{f' {run!r}' if run else ''} with crossings in it")
    originals = [r for r in runs if not r.run.replay_of] or runs
    if len(originals) > 1:
        listed = ", ".join(f"{r.run.name or 'unnamed'} ({r.run.run_id[:8]})" for r in originals[:10])
        raise UsageError(f"{source} holds {len(originals)} runs: {listed}; name one of them")
    return originals[0]


def for_clients(recording: Recording) -> Recording:
    """Return the recording as the clients that are instrumented now will ask for it.

    What a cassette holds of an SDK's call is served to the SDK, or to its transport where only that is instrumented.
    """
    from otel_replay.importers.genai import exchange
    from otel_replay.instruments import active

    return exchange.for_clients(recording, active())


def require_usable(recording: Recording, *, allow_incomplete: bool) -> None:
    """Raise IncompleteRecording where the recording has gaps and that was not allowed; say what is missing."""
    if recording.complete or allow_incomplete:
        return
    raise IncompleteRecording(
        f"the recording of {recording.run.name or recording.run.run_id[:8]!r} is not complete: "
        f"{'; '.join(incompleteness(recording))}. Next: "
        "--allow-incomplete (allow_incomplete=True) replays what is there"
    )


def incompleteness(recording: Recording) -> list[str]:
    """Return what is missing from a recording, in words; empty where it is complete."""
    found: list[str] = []
    run = recording.run
    if not run.end_ns:
        found.append("it was interrupted: the run never closed")
    if recording.unfinished:
        found.append("in flight when it stopped: " + ", ".join(mark.address for mark in recording.unfinished[:5]))
    if recording.gaps:
        total = run.crossings or (recording.envelopes[-1].seq if recording.envelopes else 0)
        found.append(f"{len(recording.gaps)} of {total} crossings are missing: {ranges(recording.gaps)}")
    found += [f"{address}: {what}" for address, what in list(recording.damaged.items())[:10]]
    found += list(recording.problems[:10])
    if recording.late:
        more = f" and {len(recording.late) - 5} more" if len(recording.late) > 5 else ""
        found.append(f"{', '.join(recording.late[:5])}{more} came {LATE}")
    return found
