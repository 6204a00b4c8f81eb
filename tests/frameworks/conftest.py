"""A store of its own for each test, and instruments that are taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_replay import ReplayPlan, open_store, record, replay
from otel_replay.envelope import Envelope
from otel_replay.instruments import _framework, uninstrument


class Lab:
    """Records and replays functions in one store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.run_id = ""

    def record(self, agent: Callable[[], Any]) -> Any:
        with record("run", store=self.store, strict=True) as run:
            self.run_id = run.id
            return agent()

    def replay(self, agent: Callable[[], Any], plan: ReplayPlan | None = None, **options: Any) -> Any:
        """Return what the agent returns in a replay that must not diverge."""
        with replay("run", plan, store=self.store, **options):
            return agent()

    def envelopes(self) -> tuple[Envelope, ...]:
        """Return the crossings of the run that was recorded last."""
        with open_store(self.store) as store:
            found: tuple[Envelope, ...] = store.recording(self.run_id).envelopes
            return found

    def addresses(self) -> list[tuple[str, str]]:
        """Return (address, kind) of each crossing of the recorded run, in the order of entry."""
        with open_store(self.store) as store:
            return [(envelope.address, envelope.kind) for envelope in store.recording(self.run_id).envelopes]


def each_broken_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of each step of an instrument while that step raises whatever it is given."""

    def broken(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("broken within")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    for step in ("spec_of", "is_boundary"):
        with monkeypatch.context() as patch:
            patch.setattr(_framework, step, broken)
            yield step


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("OTEL_REPLAY_STRICT", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.chdir(tmp_path)
    yield Lab(tmp_path / "store")
    uninstrument()
