"""Turn any agent run that OpenTelemetry saw into a test.

The names below are loaded when they are first used; importing the package loads no engine and no SDK.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_replay.api import RecordedRun, record, replay
    from otel_replay.boundary import boundary
    from otel_replay.errors import Diverged, OtelReplayError, ReplayError
    from otel_replay.instruments import instrument, uninstrument, wrap
    from otel_replay.payload import register
    from otel_replay.replay.plan import ReplayPlan
    from otel_replay.replaying import ReplaySession
    from otel_replay.store import open_store

__version__ = "0.1.0"

_WHERE = {
    "boundary": "otel_replay.boundary",
    "record": "otel_replay.api",
    "replay": "otel_replay.api",
    "ReplayPlan": "otel_replay.replay.plan",
    "RecordedRun": "otel_replay.api",
    "ReplaySession": "otel_replay.replaying",
    "open_store": "otel_replay.store",
    "register": "otel_replay.payload",
    "OtelReplayError": "otel_replay.errors",
    "ReplayError": "otel_replay.errors",
    "Diverged": "otel_replay.errors",
    "instrument": "otel_replay.instruments",
    "uninstrument": "otel_replay.instruments",
    "wrap": "otel_replay.instruments",
}
__all__ = [
    "Diverged",
    "OtelReplayError",
    "RecordedRun",
    "ReplayError",
    "ReplayPlan",
    "ReplaySession",
    "boundary",
    "instrument",
    "open_store",
    "record",
    "register",
    "replay",
    "uninstrument",
    "wrap",
]


class _FrontDoor(types.ModuleType):
    """`otel_replay.boundary` and `otel_replay.replay` are functions, though modules of these names lie beneath."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _WHERE and isinstance(value, types.ModuleType):
            return  # the import system binds a submodule on its package; the front door keeps the name
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'otel_replay' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(where), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
