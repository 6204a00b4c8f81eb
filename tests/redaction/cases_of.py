"""Where the recorded cases stand: our own copies always, and the shared folder where it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
FOLDERS = [folder for folder in (OWN, SHARED) if folder.is_dir()]


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))
