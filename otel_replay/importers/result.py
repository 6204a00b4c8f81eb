"""What an import found: spans, log records, the format, and everything that was lost, guessed or skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from otel_replay.errors import ImportFault
from otel_replay.importers import repair
from otel_replay.span import LogRecord, Span

ProblemKind: TypeAlias = Literal["skipped", "lost", "approximate", "partial"]
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (bytes read so far, spans so far), about once a megabyte."""
ParquetRows: TypeAlias = Callable[[str], Iterator[Mapping[str, Any]]]
"""Opens a Parquet file and hands out its rows as dicts; given by whoever may load a Parquet reader."""

_WHERES_KEPT = 5
_KINDS_KEPT = 1_000
"""Kinds of trouble and notes that are told apart in one import."""
T = TypeVar("T", bound="OverDocuments")


def low_half(trace_id: str) -> str:
    """Return what is left of a trace id where it was cut to 64 bits on a hop."""
    return trace_id[-16:]


class OverDocuments(Protocol):
    """What a shape keeps over the documents of one file."""

    def __init__(self, report: Report, /) -> None: ...

    def close(self) -> Iterator[Span]: ...


@dataclass(slots=True)
class Problem:
    """One kind of trouble: what happened, how often, and the first few places.

    `kind`: "skipped" (a span, line or file could not be read), "lost" (the shape does not hold it), "approximate"
    (read, but not exactly as it was), "partial" (the backend said that spans are missing).
    """

    kind: ProblemKind
    what: str
    count: int = 0
    where: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        places = "; ".join(self.where) + ("; ..." if self.where and self.count > len(self.where) else "")
        return f"{self.kind}: {self.what} ({self.count}x: {places})" if places else f"{self.kind}: {self.what}"


class Report:
    """Collects what the shapes have to say while they read."""

    def __init__(self) -> None:
        self.formats: list[str] = []
        self.notes: list[str] = []
        self.logs: list[LogRecord] = []
        self.take_log: Callable[[LogRecord], None] | None = None
        self.partial = ""
        self.parts: dict[str, str] = {}
        """By the low half of a trace id: what the backend said of a trace that it returned in part."""
        self.document_part = ""
        self.where = ""
        self.source = ""
        self._open: dict[type[Any], Any] = {}
        self._problems: dict[tuple[str, str], Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def part(self, text: str, where: str = "", *, trace_id: str = "") -> None:
        """The backend said that this is only a part: of one trace, or of all that follow in the document."""
        self.partial = text
        self.problem("partial", text, where)
        if trace_id:
            self.parts[low_half(trace_id)] = text
        else:
            self.document_part = text

    def found(self, name: str) -> None:
        if name not in self.formats:
            self.formats.append(name)

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < _KINDS_KEPT:
            self.notes.append(text)

    def log(self, records: Iterable[LogRecord]) -> None:
        """Keep log records, or hand them to whoever takes them as they come."""
        if self.take_log is None:
            self.logs.extend(records)
            return
        for record in records:
            self.take_log(record)

    def over_documents(self, kind: type[T]) -> T:
        """Return what a shape keeps over the documents of one file: one `kind(report)`, whose `close()` ends it."""
        if kind not in self._open:
            self._open[kind] = kind(self)
        found: T = self._open[kind]
        return found

    def close_documents(self) -> Iterator[Span]:
        """Yield the spans that only the end of a file brings."""
        while self._open:
            yield from self._open.popitem()[1].close()

    def problem(self, kind: ProblemKind, what: str, where: str = "") -> None:
        if (kind, what) not in self._problems and len(self._problems) >= _KINDS_KEPT:
            what = "and more kinds of trouble"
        known = self._problems.setdefault((kind, what), Problem(kind, what))
        known.count += 1
        place = f"{self.where}: {where}" if self.where and where else where or self.where
        if place and len(known.where) < _WHERES_KEPT and place not in known.where:
            known.where.append(place[:300])


class ImportResult:
    """The answer of `open_source`. Iterate over it once to stream, or ask for `.spans` to have all, repaired.

    Streaming holds one span at a time; `format`, `logs`, `problems` and `notes` are whole when it has ended
    (asked for before, they read the source to its end by way of `spans`).
    `spans` reads to the end and repairs the set: copies collapse, trace ids cut to 64 bits are joined,
    missing parents are named. `history` then holds the copies that lost.
    """

    def __init__(self, stream: Iterable[Span], report: Report, source: str) -> None:
        self.source = source
        self.history: tuple[Span, ...] = ()
        self.missing_parents: tuple[repair.MissingParent, ...] = ()
        self._stream = iter(stream)
        self._report = report
        self._spans: list[Span] | None = None
        self._streamed = False

    def __iter__(self) -> Iterator[Span]:
        """Hand out spans as they are read, unrepaired; raises ImportFault where nothing can be read."""
        if self._spans is not None:
            yield from self._spans
            return
        if self._streamed:
            raise ImportFault(f"{self.source} has been streamed already; open it again, or use .spans")
        self._streamed = True
        yield from self._stream

    def each(self, take_log: Callable[[LogRecord], None]) -> Iterator[Span]:
        """Hand out spans as they are read, unrepaired, and log records to `take_log`: neither is kept here."""
        self._report.take_log = take_log
        yield from self

    def note(self, text: str) -> None:
        """Add to the account what whoever streams has found out."""
        self._report.note(text)

    def problem(self, kind: ProblemKind, what: str, where: str = "") -> None:
        self._report.problem(kind, what, where)

    @property
    def spans(self) -> list[Span]:
        if self._spans is None:
            repaired = repair.repair(self)
            self._spans = repaired.spans
            self.history = repaired.history
            self.missing_parents = repaired.missing_parents
            for note in repaired.notes:
                self._report.note(note)
        return self._spans

    def _told(self) -> Report:
        """Return the report, having read the source where nobody did yet: an unread source has no news."""
        if not self._streamed:
            _ = self.spans
        return self._report

    @property
    def format(self) -> str:
        """The format found; several are joined by "+" (a folder may hold more than one)."""
        return "+".join(self._told().formats)

    @property
    def logs(self) -> list[LogRecord]:
        """Log records that stood beside the spans, in their order."""
        return self._told().logs

    @property
    def problems(self) -> list[Problem]:
        return self._told().problems

    @property
    def notes(self) -> list[str]:
        return self._told().notes

    @property
    def partial(self) -> str:
        """What the backend said about spans that it did not return, or ""."""
        return self._told().partial

    @property
    def parts(self) -> Mapping[str, str]:
        """What the backend said of each trace that it returned in part, by the `low_half` of its id."""
        return self._told().parts

    def problems_of(self, kind: ProblemKind) -> list[Problem]:
        return [problem for problem in self.problems if problem.kind == kind]
