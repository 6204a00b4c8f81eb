"""Where the sample traces are: our own reduced copies always, and the full shared ones where the folder exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otel_replay.envelope import Envelope, Recording
from otel_replay.importers.genai import recordings

from ._reading import read

OWN = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[4] / "shared"
FOLDERS = [OWN] + ([SHARED / "samples" / "genai"] if (SHARED / "samples" / "genai").is_dir() else [])
CASES = [OWN / "cases"] + ([SHARED / "cases"] if (SHARED / "cases").is_dir() else [])


def recording(folder: Path, *names: str) -> Recording:
    """Return the one recording of the named files."""
    (found,) = recordings(*read(*(folder / name for name in names)))
    return found


def at(found: Recording, address: str) -> Envelope:
    (envelope,) = (envelope for envelope in found.envelopes if envelope.address == address)
    return envelope


def request(found: Recording, address: str) -> Any:
    return at(found, address).request.tree()


def answer(found: Recording, address: str) -> Any:
    return at(found, address).outcome.value.tree()
