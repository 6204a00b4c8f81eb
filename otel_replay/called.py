"""A server that serves several runs at once: while it handles a request, it is a lane of the run that asked.

What the request says comes from the network. So a server takes part only where its own environment asks for it, and
writes to its own store: the program that begun it told it (`OTEL_REPLAY_LANE`), or its mode is `record`.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from otel_replay import api, lane_account
from otel_replay import settings as _settings
from otel_replay.auto import read_options
from otel_replay.crossing import Crossing
from otel_replay.session import Scope, Session, current_line, peek_scope, set_scope
from otel_replay.strand import Strand


class Asked(Protocol):
    """What a request says of the run that it belongs to."""

    @property
    def run_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def trace_id(self) -> str: ...
    @property
    def span_id(self) -> str: ...


class LaneScope(Scope):
    """Where control stands in a request that has crossed nothing yet: its lane begins at the first crossing."""

    __slots__ = ("_begun", "_lock", "_over", "_session", "_told")

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._begun: Any = None
        self._over = False
        self._lock = threading.RLock()  # what ends it asks where control stands
        self.line = current_line()

    @property
    def session(self) -> Session:  # type: ignore[override]
        with self._lock:
            if self._begun is None:
                recorded = self._told["mode"] == "record"
                begun: Any = api.record_lane(self._told) if recorded else lane_account.replay_lane(self._told)
                set_scope(None)  # it begins beside whatever this request was found in
                try:
                    begun.__enter__()
                    scope = peek_scope()
                finally:
                    set_scope(self)
                assert scope is not None
                self._begun, self._session = begun, scope.session
                if self._over:
                    self.end()  # the request was answered: what is crossed now is late, and is kept as such
        return self._session

    @property
    def crossing(self) -> Crossing | None:  # type: ignore[override]
        return None

    @property
    def strand(self) -> Strand:  # type: ignore[override]
        return self.session.root

    def end(self) -> None:
        """The request was answered."""
        with self._lock:
            self._over = True
            if self._begun is not None:
                self._begun.__exit__(None, None, None)


def lane_of(asked: Asked) -> LaneScope | None:
    """Return the scope of the lane that `asked` names, or None where this process takes no part in that run."""
    settings = _settings.load()
    told = read_options(settings.lane) if settings.lane else {}
    if told.get("run_id") == asked.run_id and told.get("mode") == asked.mode:
        return LaneScope({**told, "lane": asked.lane, **_parent(asked)})
    if settings.mode == "record" and asked.mode == "record":
        own = {"mode": "record", "run_id": asked.run_id, "name": asked.name, "lane": asked.lane, "parent": ["", ""]}
        return LaneScope({**own, "store": settings.store, **_parent(asked)})
    return None


def _parent(asked: Asked) -> dict[str, Any]:
    return {"parent": [asked.trace_id, asked.span_id]} if asked.span_id else {}
