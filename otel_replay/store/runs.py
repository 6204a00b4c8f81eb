"""Runs in a store: listed, found by name or id, and read back as recordings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from otel_replay import carrying, codec, jsonform, semconv
from otel_replay.envelope import NOT_WHOLE, Envelope, Mark, Recording, Run
from otel_replay.errors import NeverRecorded, StoreError, UsageError
from otel_replay.span import Span
from otel_replay.store.large import MISSING
from otel_replay.store.rows import ROW_FAULTS, Row, envelope_text, from_row, to_row
from otel_replay.wholeness import gaps_and_problems

_WITHOUT_TEXTS: Row = dict.fromkeys(("request", "response", "envelope", "content", "request_at", "response_at"))
ID_PREFIX_CHARS_MIN = 4
_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a list of runs shows of one. Times are Unix nanoseconds, `duration_ms` counts to the last span."""

    run_id: str
    name: str
    start_ns: int
    end_ns: int
    duration_ms: float
    crossings: int
    counted: int
    complete: bool
    state: str
    verdict: str
    pinned: bool
    mode: str
    replay_of: str
    lanes: int
    damaged: int
    unfinished: int
    input_tokens: int | None
    output_tokens: int | None
    digest: str
    trace_id: str
    note: str = ""


RUN_COLUMNS = tuple(name for name in RunInfo.__dataclass_fields__ if name != "note")


def run_info(values: Sequence[Any]) -> RunInfo:
    """Return the RunInfo of one row of the view `runs`, in the order of RUN_COLUMNS."""
    found = dict(zip(RUN_COLUMNS, values, strict=True))
    for name in ("name", "replay_of", "digest", "trace_id"):
        found[name] = found[name] or ""
    return RunInfo(**found)


def is_recorded(run: RunInfo) -> bool:
    """True for a run that was recorded or imported, False for a replay that was kept."""
    return run.mode == "record" and not run.replay_of


def choose(asked: str, named: Sequence[RunInfo], count: int, by_id: Sequence[RunInfo], names: Iterable[str]) -> RunInfo:
    """Return the run that `asked` means: a name first, then an id or the beginning of one.

    `count` runs bear the name; `named` and `by_id` are the candidates, newest first. A replay that was kept bears the
    name of its recording, and is never meant by it while a recording is there. Raises NeverRecorded, or UsageError
    where the beginning of an id fits several runs.
    """
    if named:
        recorded = [run for run in named if is_recorded(run)] or list(named)
        whole = [run for run in recorded if run.complete]
        chosen = (whole or recorded)[0]
        if count == 1:
            return chosen
        kind = "newest complete one" if whole else "newest; none is complete"
        return replace(chosen, note=f"{count} runs are called {asked!r}; {chosen.run_id[:8]} is the {kind}")
    exact = [run for run in by_id if run.run_id == asked]
    if len(exact) == 1 or len(by_id) == 1:
        return (exact or list(by_id))[0]
    if by_id:
        listed = ", ".join(f"{run.run_id[:12]} ({run.name})" for run in by_id[:_NAMES_SHOWN])
        raise UsageError(f"{asked!r} begins the ids of {len(by_id)} runs: {listed}; give more of the id")
    raise NeverRecorded(_not_there(asked, sorted(set(names))))


def _not_there(asked: str, names: Sequence[str]) -> str:
    if not names:
        return f"no run {asked!r} in this store: it holds no runs yet. Record one: otel-replay record {asked} -- ..."
    near = difflib.get_close_matches(asked, names, n=3, cutoff=0.5)
    if near:
        return f"no run is called {asked!r}; did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"no run is called {asked!r}; this store holds {shown}{more}"


# A run's rows -> Recording -------------------------------------------------------------------------------


def envelope_of(row: Row) -> tuple[Envelope | None, str]:
    """Return (the envelope of a crossing's row, "") or (None, why it can't be served).

    The short way: the exact form without its request and response is small, and their texts stand beside it. Their
    digest is checked all the same. Law: the same as `codec.from_span(from_row(row))`.
    """
    if MISSING in row:
        return None, f"missing: {row[MISSING]}"
    short = _short_way(row)
    if short is not None:
        return short, ""
    try:
        reading = codec.from_span(from_row(row))
    except ROW_FAULTS as fault:
        return None, f"missing: the row was damaged: {fault}"
    if reading.envelope is None:
        return None, f"{reading.integrity}: {reading.reason}"
    return reading.envelope, ""


def _short_way(row: Row) -> Envelope | None:
    if row.get("exact") is not None or row.get("envelope") is None or row.get("integrity") != "intact":
        return None
    if not row["envelope"].startswith("{"):  # hex or zstd
        return None
    try:
        if not codec.carries(envelope_text(row), row["attributes"]):
            return None
        return jsonform.envelope_from_cut_json(
            row["envelope"],
            row["request"] if row.get("request_at") is not None else None,
            row["response"] if row.get("response_at") is not None else None,
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            parent_span_id=row["parent_span_id"],
        )
    except ROW_FAULTS:
        return None


def recording_of(rows: Iterable[Row], source: str = "", verdict: str = "") -> Recording:
    """Return the recording that a run's rows hold: `rows` are those of one run, in the order (lane, seq).

    `verdict` is what was said of the run after it, "" where nothing was.
    """
    runs: dict[str, Run] = {}
    envelopes: list[Envelope] = []
    unfinished: list[Mark] = []
    damaged: dict[str, str] = {}
    problems: list[str] = []
    seqs: dict[str, list[int]] = {}
    first: Row | None = None
    for row in _assembled(list(rows)):
        first = first or row
        if row["kind"] == semconv.KIND_RUN:
            run = run_of(row)
            if run is not None:
                runs[run.lane] = run
            continue
        if row["seq"] is not None:
            seqs.setdefault(row["lane"] or "", []).append(row["seq"])
        if row["outcome"] == "lost" and row["end_seq"] == 0:
            unfinished.append(_mark_of(row))
            continue
        envelope, reason = envelope_of(row)
        if envelope is None:
            damaged[row["address"] or row["span_id"]] = reason
        else:
            envelopes.append(envelope)
            if envelope.grade == "insufficient" and envelope.kind != "custom":
                damaged[envelope.address] = envelope.outcome.lost_reason or envelope.request.reason
    if first is None:
        raise StoreError("a recording needs at least one row")
    main = runs.get("") or _unclosed(first, runs)
    main = replace(main, verdict=verdict) if verdict else main
    problems += [note.removeprefix(NOT_WHOLE) for note in main.notes if note.startswith(NOT_WHOLE)]
    gaps, short = gaps_and_problems(runs, main.lanes, seqs, envelopes, damaged)
    problems += short
    others = tuple(run for lane, run in sorted(runs.items()) if lane)
    return Recording(main, tuple(envelopes), tuple(unfinished), gaps, damaged, tuple(problems), source, others)


def _assembled(rows: list[Row]) -> list[Row]:
    """Return the rows with envelopes that came in part spans put back on their crossings."""
    if not any(row["kind"] == semconv.KIND_PART for row in rows):
        return rows
    shared = [row for row in rows if row["kind"] == semconv.KIND_PART or _is_elsewhere(row)]
    spans = {(s.trace_id, s.span_id): s for s in carrying.assemble(list(_readable(shared)))}
    found = []
    for row in rows:
        if row["kind"] == semconv.KIND_PART:
            continue
        span = spans.get((row["trace_id"], row["span_id"]))
        found.append({**row, **_WITHOUT_TEXTS, **to_row(span)} if span is not None else row)
    return found


def _is_elsewhere(row: Row) -> bool:
    """True where the envelope of a row, or strings of it, may be in part spans."""
    return row.get("envelope") is None or f'"{semconv.ENVELOPE_BLOBS}":' in (row["attributes"] or "")


def _readable(rows: Iterable[Row]) -> Iterator[Span]:
    for row in rows:
        with suppress(*ROW_FAULTS):  # what is said of its crossing is that its envelope is missing
            yield from_row(row)


def run_of(row: Row) -> Run | None:
    """Return the record of a run or lane that its own row holds, or None where the row is damaged."""
    try:
        return codec.run_from_span(from_row(row))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _unclosed(row: Row, runs: Mapping[str, Run]) -> Run:
    """Return a run that says no more than its crossings do: its own record never came."""
    start = min([row["start_ns"], *(run.start_ns for run in runs.values())])
    return Run(
        row["run_id"], row["run_name"] or "", start_ns=start, trace_id=row["trace_id"], mode=row["mode"] or "record"
    )


def _mark_of(row: Row) -> Mark:
    return Mark(
        address=row["address"] or "",
        boundary=row["boundary"] or "",
        kind=row["kind"] or "",
        seq=row["seq"] or 0,
        strand=row["strand"] or 0,
        start_ns=row["start_ns"],
        parent=row["parent"] or "",
        span_id=row["span_id"],
    )
