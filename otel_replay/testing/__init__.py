"""Real parts for tests of agents: a local server that plays the model, and a clock and ids that count.

    from otel_replay.testing import ModelServer, reply

See `ModelServer` for the server and `otel_replay.testing.reply` for what it can answer.
"""

from __future__ import annotations

from otel_replay.testing import reply
from otel_replay.testing.clock import CountingIds, StepClock
from otel_replay.testing.server import ModelServer, Request, ScriptFault

__all__ = ["CountingIds", "ModelServer", "Request", "ScriptFault", "StepClock", "reply"]
