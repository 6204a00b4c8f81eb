from __future__ import annotations

from pathlib import Path

import pytest

from .worlds import Worlds


@pytest.fixture
def worlds(tmp_path: Path) -> Worlds:
    return Worlds(tmp_path)
