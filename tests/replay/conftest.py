"""A store of its own for each test, and a recorder whose faults raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_replay import ReplayPlan, record, replay

from . import scenes


class Lab:
    """Records and replays functions in one store."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def record(self, agent: Callable[[], Any], name: str = "run") -> Any:
        with record(name, store=self.store, strict=True) as run:
            answer = agent()
            run.answer(answer)
        return answer

    def session(self, plan: ReplayPlan | None = None, name: str = "run", **options: Any) -> Any:
        return replay(name, plan, store=self.store, **options)

    def replay(
        self, agent: Callable[[], Any], plan: ReplayPlan | None = None, name: str = "run", **options: Any
    ) -> Any:
        """Return (answer, session) of a replay that must not diverge."""
        with self.session(plan, name, **options) as session:
            answer = agent()
            session.answer(answer)
        return answer, session


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("OTEL_REPLAY_STRICT", "1")
    monkeypatch.chdir(tmp_path)
    return Lab(tmp_path / "store")


@pytest.fixture(autouse=True)
def no_calls() -> None:
    scenes.calls.clear()
