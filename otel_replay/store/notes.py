"""Verdicts and pins set after a run: one small JSON file each, the latest counts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import orjson

from otel_replay.errors import StoreError, UsageError
from otel_replay.originals import now_ns
from otel_replay.store.parquet import new_name, sync

VERDICTS = ("passed", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class Note:
    """What was last said of a run; None where nothing was."""

    verdict: str | None = None
    pinned: bool | None = None


def write_note(folder: Path, run_id: str, note: Note) -> None:
    """Keep `note`, durable on return. Raises UsageError for a verdict that there is not, StoreError for the disk."""
    if note.verdict is not None and note.verdict not in VERDICTS:
        raise UsageError(f"{note.verdict!r} is no verdict: one of {', '.join(VERDICTS)}")
    path = folder / f"{new_name()}.json"  # never from the run's id: what a recording says becomes no path
    temporary = path.with_name(f".{path.name}.writing")
    body = {"run_id": run_id, "verdict": note.verdict, "pinned": note.pinned, "time_ns": now_ns()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(orjson.dumps(body))
        sync(temporary)
        os.rename(temporary, path)
        sync(folder)
    except OSError as fault:
        raise StoreError(f"{path} could not be written: {fault}") from fault


def read_notes(folder: Path) -> tuple[dict[str, Note], list[str]]:
    """Return (what was last said of each run, files that can't be read)."""
    found: dict[str, Note] = {}
    problems: list[str] = []
    listed: list[tuple[int, str, str, Note]] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            body = orjson.loads(path.read_bytes())
            verdict, pinned = body.get("verdict"), body.get("pinned")
            note = Note(verdict if verdict in VERDICTS else None, pinned if isinstance(pinned, bool) else None)
            listed.append((int(body["time_ns"]), path.name, str(body["run_id"]), note))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            problems.append(f"{path} is no note: {fault}")
    for _, _, run_id, note in sorted(listed, key=lambda item: item[:2]):
        before = found.get(run_id, Note())
        found[run_id] = Note(
            before.verdict if note.verdict is None else note.verdict,
            before.pinned if note.pinned is None else note.pinned,
        )
    return found, problems
