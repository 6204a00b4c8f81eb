"""Verdicts and pins set after a run: one small JSON file each, the latest counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from otel_replay.errors import StoreError, UsageError
from otel_replay.originals import now_ns
from otel_replay.store.parquet import new_name
from otel_replay.store.storage import Entry, Storage

VERDICTS = ("passed", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class Note:
    """What was last said of a run; None where nothing was."""

    verdict: str | None = None
    pinned: bool | None = None


def write_note(storage: Storage, folder: Path, run_id: str, note: Note) -> None:
    """Keep `note`, durable on return. Raises UsageError for a verdict that there is not, StoreError for the disk."""
    if note.verdict is not None and note.verdict not in VERDICTS:
        raise UsageError(f"{note.verdict!r} is no verdict: one of {', '.join(VERDICTS)}")
    path = folder / f"{new_name()}.json"  # never from the run's id: what a recording says becomes no path
    body = {"run_id": run_id, "verdict": note.verdict, "pinned": note.pinned, "time_ns": now_ns()}
    try:
        staged = storage.staging(path)
        staged.write_bytes(orjson.dumps(body))
        storage.publish(staged, path)
    except OSError as fault:
        raise StoreError(f"{storage.shown(path)} could not be written: {fault}") from fault


class Notes:
    """The notes of a store. Keeps what it has read: a note never changes once it has its name."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage = storage
        self._folder = folder
        self._read: dict[Entry, tuple[int, str, str, Note] | str] = {}

    def latest(self) -> tuple[dict[str, Note], list[str]]:
        """Return (what was last said of each run, files that can't be read)."""
        try:
            listed = [entry for entry in self._storage.files(self._folder) if _is_note(entry.path.name)]
        except OSError as fault:
            return {}, [f"{self._storage.shown(self._folder)} can't be listed: {fault}"]
        self._read = {entry: self._read.get(entry) or self._note(entry) for entry in listed}
        found: dict[str, Note] = {}
        for _, _, run_id, note in sorted(item for item in self._read.values() if not isinstance(item, str)):
            before = found.get(run_id, Note())
            found[run_id] = Note(
                before.verdict if note.verdict is None else note.verdict,
                before.pinned if note.pinned is None else note.pinned,
            )
        return found, [item for item in self._read.values() if isinstance(item, str)]

    def _note(self, entry: Entry) -> tuple[int, str, str, Note] | str:
        try:
            body = orjson.loads(self._storage.read(entry.path))
            verdict, pinned = body.get("verdict"), body.get("pinned")
            note = Note(verdict if verdict in VERDICTS else None, pinned if isinstance(pinned, bool) else None)
            return int(body["time_ns"]), entry.path.name, str(body["run_id"]), note
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            return f"{self._storage.shown(entry.path)} is no note: {fault}"


def _is_note(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")
