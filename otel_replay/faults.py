"""Recorder faults: counted, logged once per kind, raised only under test. The agent goes on."""

from __future__ import annotations

import logging
from collections import Counter
from types import TracebackType

from otel_replay.errors import RecorderFault, Unencodable

_log = logging.getLogger("otel_replay")


class Faults:
    """The faults of one run: how often each step failed."""

    __slots__ = ("_contained", "_said", "counts", "last", "strict")

    def __init__(self, *, strict: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.last: dict[str, str] = {}
        self.strict = strict
        self._contained: dict[str, _Contained] = {}
        self._said: set[str] = set()

    def note(self, step: str, fault: BaseException | str) -> None:
        """Count one fault of `step`, log the first of its kind, and raise RecorderFault under test."""
        self.counts[step] += 1
        self.last[step] = str(fault) if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
        if self.strict:
            cause = fault if isinstance(fault, BaseException) else None
            raise RecorderFault(f"{step}: {self.last[step]}") from cause
        if self.counts[step] == 1:
            _log.warning(
                "recording goes on with a fault at step %r: %s (counted from here on; see `otel-replay doctor`)",
                step,
                self.last[step],
            )

    def unkept(self, boundary: str, address: str, reason: str) -> None:
        """Say that a result cannot be replayed: at once, and once for each boundary."""
        if boundary not in self._said:
            self._said.add(boundary)
            _log.warning(
                "result of %s cannot be replayed: %s (said once for each boundary; a replay refuses it by name)",
                address,
                reason,
            )

    def caught(self, step: str, fault: Exception) -> None:
        """Count an exception of the recorder, which goes no further. To be called where it was caught.

        `contained` in the words of `except`: for the steps that every crossing takes.
        """
        if isinstance(fault, Unencodable):
            raise fault  # asked for by strict mode
        self.note(step, fault)

    def contained(self, step: str) -> _Contained:
        """Return a context in which an exception of the recorder is counted and goes no further."""
        found = self._contained.get(step)
        if found is None:
            found = self._contained[step] = _Contained(self, step)  # holds no state, so one serves all
        return found


class _Contained:
    __slots__ = ("_faults", "_step")

    def __init__(self, faults: Faults, step: str) -> None:
        self._faults = faults
        self._step = step

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        if fault is None:
            return False
        if isinstance(fault, Unencodable) or not isinstance(fault, Exception):
            return False  # asked for by strict mode; or the program's own KeyboardInterrupt, which is not ours to eat
        self._faults.note(self._step, fault)
        return True
