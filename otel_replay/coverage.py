"""What a recording did not see: connections and programs outside any crossing, as notes on the run."""

from __future__ import annotations

from otel_replay import audit
from otel_replay.limits import COVERAGE_NOTES_MAX
from otel_replay.session import Scope, Session


class Coverage:
    """Notes each kind of call once, in the order in which it first came."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: dict[str, None] = {}
        self._more = 0

    def start(self) -> None:
        audit.watch(self._session, self._asked)

    def stop(self) -> tuple[str, ...]:
        """Return the notes: `not covered: connect to api.example.com:443 outside any crossing`."""
        audit.unwatch(self._session)
        notes = [f"not covered: {call} outside any crossing" for call in self._seen]
        if self._more:
            notes.append(f"not covered: {self._more} further calls outside any crossing")
        return tuple(notes)

    def _asked(self, scope: Scope | None, call: str, process: bool) -> None:
        if scope is not None and scope.crossing is not None:
            return
        if len(self._seen) < COVERAGE_NOTES_MAX or call in self._seen:
            self._seen.setdefault(call)
        else:
            self._more += 1
