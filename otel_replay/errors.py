"""Every error the package raises. The class is the kind, the attributes are the facts, the text is for people.

A text says what went wrong, where, what was recorded, what is now, and the next step.
"""

from __future__ import annotations


class OtelReplayError(Exception):
    """The root of all errors of this package."""


class RecorderFault(OtelReplayError):
    """A step of the recorder failed. Counted and logged; raised only under test (settings.strict)."""


class Unencodable(OtelReplayError):
    """A value cannot be kept exactly. Raised at record time only in strict mode; otherwise it becomes `lost`."""


class StoreError(OtelReplayError):
    """A store, a journal or a file could not be used as asked."""


class DamagedFile(StoreError):
    """A file of a store is torn, empty, or not what its footer says."""


class ImportFault(OtelReplayError):
    """A foreign file or answer could not be read: says what was found and what is accepted."""


class UsageError(OtelReplayError):
    """The caller asked for something that cannot be: a plan, an option or a name."""


class ReplayError(OtelReplayError):
    """A replay cannot go on truthfully. Always raised, never contained."""


class Diverged(ReplayError):
    """The run asked for something other than what the tape holds next."""

    def __init__(self, message: str, *, address: str = "", cause: str = "", details: object = None) -> None:
        super().__init__(message)
        self.address = address
        self.cause = cause
        self.details = details


class Unservable(ReplayError):
    """The record holds no exact outcome for this crossing: it was lost, cut, scrubbed or its class is gone."""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class StreamEndsHere(ReplayError):
    """The recorded stream was left early, and the consumer asks for a chunk past what was recorded."""


class PlaceholderReachedLive(ReplayError):
    """A redaction placeholder would enter a live crossing's request."""


class SideEffectBlocked(ReplayError):
    """A boundary with side effects would have run live without the plan naming it."""


class LiveCallBlocked(ReplayError):
    """Something tried to reach the network or a process while a replay forbids it."""


class ScopeClosed(ReplayError):
    """A crossing came after the `with replay(...)` that it belongs to had ended."""


class UnknownBoundary(UsageError):
    """A plan names a boundary or address that the tape does not hold."""


class AmbiguousAddress(UsageError):
    """A flat occurrence could mean several addresses."""


class NotCaptured(ReplayError):
    """`captured_result` or `captured_input` was asked of a crossing that did not happen."""


class NeverRecorded(ReplayError):
    """No run, file or fixture of that name is there."""


class IncompleteRecording(ReplayError):
    """The recording was interrupted or has gaps, and incomplete runs were not allowed."""


class NothingCompared(ReplayError):
    """A replay ended without a single crossing compared with the record."""
