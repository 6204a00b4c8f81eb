"""A recorded run becomes a committed fixture and a test that passes at once."""

from __future__ import annotations

import json
import keyword
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from otel_replay import codec, sources
from otel_replay import settings as _settings
from otel_replay.envelope import Recording
from otel_replay.errors import UsageError
from otel_replay.exporting import spans_of, write_fixture
from otel_replay.importing import kept_spans, project_redactor, redacted_recording
from otel_replay.span import Span

SUFFIX = ".otlp.jsonl"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_PLACEHOLDER = "[redacted:"


@dataclass(frozen=True, slots=True)
class Promoted:
    """What was written. `test` is None where a test of that name was there before and was kept."""

    name: str
    fixture: Path
    test: Path | None
    runs_program: bool
    notes: tuple[str, ...] = ()


def promote(
    run: str,
    *,
    store: str | os.PathLike[str] | None = None,
    to: str | os.PathLike[str] | None = None,
    name: str = "",
    replace_files: bool = False,
) -> Promoted:
    """Write the fixture and the test of `run` (a name, id or file) into the folder `to`.

    The default folder is the first that the project looks for fixtures in. Secrets are redacted by today's rules.
    Raises UsageError where a fixture of that name is there already and `replace_files` is off, NeverRecorded.
    """
    settings = _settings.load()
    recording = sources.load(run, store=store)
    sources.require_usable(recording, allow_incomplete=False)
    chosen = name or fixture_name(recording)
    if not _NAME.fullmatch(chosen):
        raise UsageError(f"{chosen!r} is no name for a file: letters, digits, dots, hyphens; give another with --name")
    folder = Path(to) if to is not None else Path(settings.project_dir or ".") / _default_folder(settings)
    fixture = folder / f"{chosen}{SUFFIX}"
    if fixture.exists() and not replace_files:
        raise UsageError(f"{fixture} is there already; give another --name, or --force to write it anew")
    spans, clean = _spans(run, recording, store)
    write_fixture(fixture, spans)
    test = folder / f"test_{_identifier(chosen)}.py"
    program, where = _program(clean)
    notes = []
    if sources.find_fixture(chosen, settings) is None:
        notes.append(
            f"{folder} is not among the fixture folders: name the file, or add it to [tool.otel_replay] fixtures"
        )
    if test.exists() and not replace_files:
        return Promoted(chosen, fixture, None, bool(program), (*notes, f"{test} is there already and was kept"))
    project = Path(settings.project_dir or ".").absolute()
    text = _program_test(fixture, project / where, clean, program) if program else _skeleton(fixture, chosen, clean)
    test.write_text(text, encoding="utf-8")
    return Promoted(chosen, fixture, test, bool(program), tuple(notes))


def fixture_name(recording: Recording) -> str:
    """Return a name that is safe as a file's: the run's own, other signs as hyphens, else the beginning of its id."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", recording.run.name).strip("-._")[:80]
    return name or recording.run.run_id[:8]


def runs_where(condition: str, *, store: str | os.PathLike[str] | None = None) -> list[tuple[str, str]]:
    """Return (id, name) of the recorded runs that meet `condition`, SQL over the view `runs`; oldest first."""
    from otel_replay.store import open_store

    with open_store(store or _settings.load().store) as opened:
        text = f"SELECT run_id, name FROM runs WHERE mode = 'record' AND ({condition}) ORDER BY start_ns"  # noqa: S608
        table = opened.arrow(text)
        return list(zip(table.column("run_id").to_pylist(), table.column("name").to_pylist(), strict=True))


def _default_folder(settings: _settings.Settings) -> str:
    configured = settings.project.get("fixtures")
    if isinstance(configured, str):
        return configured
    if isinstance(configured, list | tuple) and configured:
        return str(configured[0])
    return sources.FIXTURE_FOLDERS[0]


def _spans(run: str, recording: Recording, store: str | os.PathLike[str] | None) -> tuple[list[Span], Recording]:
    """Return the spans of the run as they may be committed: only its own, redacted by today's rules."""
    redactor = project_redactor()
    own = [span for span in spans_of(run, store=store) if codec.is_ours(span)]
    clean = redacted_recording(recording, redactor)
    kept = kept_spans(own, [replace(clean, source="")], redactor)
    return kept, clean


def _identifier(name: str) -> str:
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return f"run_{found}" if not found or found[0].isdigit() or keyword.iskeyword(found) else found


def _quoted(text: str) -> str:
    """Return `text` as a Python literal on one line: what a recording says never becomes code."""
    return json.dumps(text)


def _program(recording: Recording) -> tuple[list[str], str]:
    """Return (the program's words, its folder below the project); nothing where a secret stood among them."""
    words, folder = recording.run.pins.get("program"), recording.run.pins.get("program.folder", "")
    if not isinstance(words, Sequence) or isinstance(words, str) or not all(isinstance(word, str) for word in words):
        return [], ""
    listed = [str(word) for word in words]
    if not listed or any(_PLACEHOLDER in word for word in listed):
        return [], ""
    return listed, str(folder)


def _program_test(fixture: Path, folder: Path, recording: Recording, program: Sequence[str]) -> str:
    name = fixture.name.removesuffix(SUFFIX)
    up = Path(os.path.relpath(folder, fixture.parent.absolute())).as_posix()
    words = "".join(f"    {_quoted(word)},\n" for word in program)
    run = recording.run
    expected, why = ("(0,)", "")
    if run.error or run.verdict == "failed":
        expected = "(1,)" if run.error else "(0, 1)"
        why = "  # the recorded program failed: 1 says that it still does; make it (0,) with the fix"
    return f'''"""The recorded run {name}, replayed: its program runs, every crossing is served from the record."""

import subprocess
import sys
from pathlib import Path

FIXTURE = Path(__file__).with_name({_quoted(fixture.name)})
FOLDER = Path(__file__).parent / {_quoted(up)}
PROGRAM = [
{words}]
LIVE: list[str] = []  # steps to run with today's code, for example ["--live", "place_order,1"]
EXPECTED = {expected}{why}


def test_{_identifier(name)}() -> None:
    """Fails where the program no longer asks for what was recorded (exit code 3), or ends in another way."""
    command = [sys.executable, "-m", "otel_replay", "replay", str(FIXTURE), *LIVE, "--", *PROGRAM]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=300)
    assert done.returncode in EXPECTED, done.stderr + done.stdout
'''


def _skeleton(fixture: Path, name: str, recording: Recording) -> str:
    first = recording.envelopes[0].address if recording.envelopes else ""
    crossings = "".join(f"    #   {_quoted(envelope.address)}\n" for envelope in recording.envelopes[:20])
    return f'''"""The recorded run {name}. How the agent is called was not recorded: put it in below."""

from pathlib import Path

import pytest

from otel_replay import sources

FIXTURE = Path(__file__).with_name({_quoted(fixture.name)})


def test_{_identifier(name)}_is_whole() -> None:
    recording = sources.load(FIXTURE)
    assert recording.complete, sources.incompleteness(recording)
    assert recording.envelopes[0].address == {_quoted(first)}


# @pytest.mark.replay({_quoted(fixture.name)})  # add live=["NAME,1"] to run one step with today's code
@pytest.mark.skip(reason="call the agent here, then take this line away and the mark above in")
def test_{_identifier(name)}(replay_session) -> None:
    # Recorded crossings:
{crossings}    ...  # run_agent()
'''
