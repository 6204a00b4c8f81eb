"""Journals -> rows: what a recorder wrote down, finished or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from otel_replay import carrying, codec, jsonform, limits, semconv
from otel_replay.codec import Reading
from otel_replay.envelope import Envelope, Mark, Outcome, Run, lost
from otel_replay.errors import StoreError
from otel_replay.journal import SUFFIX, JournalContents, is_live, read_journal
from otel_replay.location import is_utf8, printable
from otel_replay.readable import genai_attributes
from otel_replay.span import Span
from otel_replay.store.rows import Row, from_row, to_row

IN_FLIGHT = "it was still running when the recording stopped"


@dataclass(frozen=True, slots=True)
class JournalRows:
    """The rows of one journal; `live` while its recorder is at work."""

    path: Path
    rows: list[Row]
    live: bool
    problem: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        return self.path.name


def journal_paths(folder: Path) -> list[Path]:
    """Return the journals in `folder`, by name; none where there is no such folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_all(folder: Path, known: Mapping[str, JournalRows] | None = None) -> Iterator[JournalRows]:
    """Yield every journal in `folder`. One that can't be read comes without rows and with its problem.

    `known` are journals that were read before, by name: one that has not grown since is not read again.
    """
    for path in journal_paths(folder):
        if not is_utf8(path.name):  # a file that seals it could not say so
            yield JournalRows(path, [], True, f"{printable(path)} has a name that is not UTF-8: rename it")
            continue
        try:
            live = is_live(path)  # before reading: what is written after this is not lost by sealing too early
            size = path.stat().st_size
            before = (known or {}).get(path.name)
            if before is not None and (before.size, before.live) == (size, live):
                yield before
                continue
            contents = read_journal(path)
        except FileNotFoundError:
            continue  # sealed by another process between listing and reading
        except (StoreError, OSError, ValueError) as fault:
            yield JournalRows(path, [], True, f"{path.name}: {fault}")
            continue
        problem = f"{path.name}: {contents.problem}" if contents.problem and not live else ""
        yield JournalRows(path, rows_of(contents), live, problem, size)


def rows_of(contents: JournalContents) -> list[Row]:
    """Return the rows of a journal: its run, its crossings, and those that were entered and never ended."""
    rows: list[Row] = []
    run = contents.run
    if run is not None:
        rows.append(to_row(codec.run_to_span(run), source="journal"))
    for envelope in contents.envelopes:
        rows.append(_row(envelope))
    if run is None and not contents.envelopes:
        return rows  # marks alone do not say which run they belong to
    for mark in contents.unfinished:
        rows.append(_row(in_flight(mark, run, contents.envelopes)))
    return rows


def _row(envelope: Envelope) -> Row:
    return to_row(sealed_span(envelope), source="journal", reading=Reading(envelope, "intact"))


def sealed_span(envelope: Envelope) -> Span:
    """Return the span that a journal's crossing is kept as: `codec.to_span` without the readable messages.

    They say again what request and response say, and would double the size of a store. `shown_span` adds them. What a
    streamed answer said is kept, since its pieces say it to no one.
    """
    carried = jsonform.ascii_text(jsonform.envelope_to_json(envelope).decode())
    attributes = [
        *codec.index_attributes(envelope),
        *genai_attributes(envelope, content=False),
        *carrying.envelope_attributes(carried, "json", limits.ENVELOPE_PART_BYTES_MAX, attribute_bytes=None),
    ]
    if envelope.kind == "model" and envelope.outcome.kind == "streamed":  # no SQL puts its pieces together
        said = genai_attributes(envelope, content=True)
        attributes += [(key, value) for key, value in said if key == semconv.GEN_AI_OUTPUT_MESSAGES]
    return replace(codec.to_span(envelope, content=False), attributes=tuple(attributes))


def shown_span(row: Row) -> Span:
    """Return the span of `row` as other tools are shown it: with the readable messages of a journal's crossing."""
    span = from_row(row)
    if row.get("source") == "journal" and row.get("kind") != semconv.KIND_RUN:
        envelope = codec.from_span(span).envelope
        if envelope is not None:
            return codec.to_span(envelope)
    return span


def in_flight(mark: Mark, run: Run | None, siblings: tuple[Envelope, ...] = ()) -> Envelope:
    """Return the envelope of a crossing of which only the entry is known."""
    known = run or (siblings[0] if siblings else None)
    name = run.name if run is not None else siblings[0].run_name if siblings else ""
    return Envelope(
        run_id=known.run_id if known is not None else "",
        run_name=name,
        lane=known.lane if known is not None else "",
        address=mark.address,
        boundary=mark.boundary,
        kind=mark.kind,
        request=lost(IN_FLIGHT),
        outcome=Outcome("lost", lost(IN_FLIGHT), (), IN_FLIGHT),
        seq=mark.seq,
        strand=mark.strand,
        parent=mark.parent,
        start_ns=mark.start_ns,
        end_ns=mark.start_ns,
        trace_id=known.trace_id if known is not None else "",
        span_id=mark.span_id,
    )
