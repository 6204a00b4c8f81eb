"""One agent without a recorder, under one, and in a replay of what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from otel_replay import record, replay

WORLDS = ["recorded", "recorded with spans", "replayed"]


class Worlds:
    """Runs an agent without a recorder, under one, and in a replay of what was recorded."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def run(self, world: str, agent: Callable[[], Any]) -> Any:
        if world == "off":
            return agent()
        provider = TracerProvider() if world == "recorded with spans" else None
        with record("run", store=self.store, strict=True, tracer_provider=provider):
            found = agent()
        if world == "replayed":
            with replay("run", store=self.store):
                found = agent()
        return found
