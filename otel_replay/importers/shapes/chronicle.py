"""Chronicle's local traces (package `agent-chronicle` 0.3 to 0.5): JSON Lines, committed fixtures, its SQLite store.

An envelope becomes a span with `chronicle.name`, `.kind`, `.input`, `.output` (JSON text) and `.schema`; one span of
our own making stands over each trace. Source: `chronicle/envelope/schema.py` of 0.3.0 and 0.4.0 (schema 1.0: `node_id`,
`input_state`, `action_result`) and of 0.5.0 (schema 2.0: `name`, `input`, `output`, `status`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import Unreadable, any_id, iso_ns, json_text, json_value, rows, table, text
from otel_replay.importers.shapes.vcr import name_of
from otel_replay.limits import IMPORT_SPAN_BYTES_MAX
from otel_replay.span import Attributes, Scope, Span

SCOPE = "chronicle"
_STEPS_MAX = 200_000_000
_COLUMNS = {"envelope_id", "trace_id", "sequence", "data"}
_ROWS = "SELECT CASE WHEN length(data) <= ? THEN data END FROM envelopes ORDER BY trace_id, sequence"


def is_envelope(value: object) -> bool:
    one = table(value)
    return "envelope_id" in one and (
        {"node_id", "action_result", "input_state"} <= one.keys() or {"name", "input", "output", "status"} <= one.keys()
    )


def read(document: Any, report: Report) -> Iterator[Span]:
    one = table(document)
    held = one.get("envelopes") if "envelopes" in one else [document] if one else document
    return spans(rows(held), report)


def spans(envelopes: Iterable[Any], report: Report) -> Iterator[Span]:
    """Yield the span of each envelope; those of a trace hang below one span, named after the file, which comes last."""
    report.note("Chronicle keeps plain JSON: tuples, sets and objects of classes became lists, objects and text")
    runs = report.over_documents(_Runs)
    for raw in envelopes:
        one = table(raw)
        try:
            yield runs.holding(_span(one, report))
        except Unreadable as fault:
            name = text(one.get("name") or one.get("node_id"))[:80]
            report.problem("skipped", f"a Chronicle envelope: {fault}", name)


class _Runs:
    """The runs of one file: when each began and ended."""

    def __init__(self, report: Report) -> None:
        self._name = name_of(report.source)
        self._times: dict[str, tuple[int, int]] = {}

    def holding(self, span: Span) -> Span:
        """Return the span below its run, where it has no parent of its own."""
        start, end = self._times.get(span.trace_id, (span.start_ns, span.end_ns))
        self._times[span.trace_id] = min(start, span.start_ns), max(end, span.end_ns)
        return span if span.parent_span_id else replace(span, parent_span_id=_run_id(span.trace_id))

    def close(self) -> Iterator[Span]:
        for trace_id, (start, end) in self._times.items():
            shown = self._name if len(self._times) == 1 else f"{self._name} {trace_id[:8]}"
            yield Span(trace_id, _run_id(trace_id), shown, start, end, scope=Scope(SCOPE))


def _run_id(trace_id: str) -> str:
    return hashlib.sha256(f"run of {trace_id}".encode()).hexdigest()[:16]


def _span(raw: Any, report: Report) -> Span:
    trace_id = any_id(raw.get("trace_id"), 32, report)
    old = "node_id" in raw
    name = text(raw.get("node_id") if old else raw.get("name"))
    end_ns = iso_ns(raw.get("timestamp") if old else raw.get("end_time"), "end_time")
    started = raw.get("started_at") if old else raw.get("start_time")
    parent = text(raw.get("parent_envelope_id"))
    if old and "started_at" not in raw:
        # 0.3 names the envelope written before as the parent, and keeps no start.
        report.note("Chronicle 0.3 keeps neither starts nor nesting: its envelopes stand in the order of their ends")
        parent = ""
    if not name:
        raise Unreadable("it has no name")
    sequence = raw.get("sequence")
    # Envelopes of one microsecond keep their order by their sequence numbers.
    nudge = sequence % 1000 if isinstance(sequence, int) and sequence > 0 else 0
    return Span(
        trace_id=trace_id,
        span_id=any_id(raw.get("envelope_id"), 16, report),
        parent_span_id=any_id(parent, 16, report) if parent else "",
        name=name,
        start_ns=(iso_ns(started, "start_time") or end_ns) + nudge,
        end_ns=end_ns + nudge,
        attributes=(*_told(raw, old=old), *_original(raw, report, old=old)),
        status_code=2 if _error(raw, old=old) else 0,
        status_message=_error(raw, old=old),
        scope=Scope(SCOPE, text(raw.get("schema_version"))),
    )


def _error(raw: Any, *, old: bool) -> str:
    if old:
        result = table(raw.get("action_result"))
        return text(result.get("error")) or text(result.get("error_type"))
    status = table(raw.get("status"))
    return text(status.get("message")) or "ERROR" if status.get("code") == "ERROR" else ""


def _told(raw: Any, *, old: bool) -> Attributes:
    given = table(raw.get("input_state" if old else "input"))
    arguments = given.get("graph_state") if old else given.get("arguments")
    output = table(raw.get("action_result" if old else "output"))
    return (
        ("chronicle.name", text(raw.get("node_id") if old else raw.get("name"))),
        ("chronicle.kind", text(raw.get("boundary_kind") if old else raw.get("kind")) or "custom"),
        ("chronicle.schema", text(raw.get("schema_version"))),
        ("chronicle.input", json_text(arguments if isinstance(arguments, dict) else {})),
        ("chronicle.output", json_text(output)),
    )


def _original(raw: Any, report: Report, *, old: bool) -> Attributes:
    """Return the span's own attributes: as recorded by 0.5, else the model and the labels of 0.4."""
    if not old:
        found = table(raw.get("attributes"))
    else:
        metadata, result = table(raw.get("metadata")), table(raw.get("action_result"))
        model = text(metadata.get("model_version"))
        found = {
            **({"gen_ai.request.model": model} if model not in ("", "unknown") else {}),
            **({"error.type": result["error_type"]} if text(result.get("error_type")) else {}),
            **{f"chronicle.dims.{key}": item for key, item in table(raw.get("dims")).items()},
        }
    return tuple((str(key), json_value(item, report, str(key))) for key, item in found.items() if str(key))


# Its SQLite store --------------------------------------------------------------------------------------------


def from_sqlite(path: str, report: Report) -> Iterator[Span]:
    """Yield the spans of Chronicle's SQLite store at `path`, which is only read. Raises ImportFault for any other."""
    address = Path(path).absolute().as_uri() + "?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as opened:
            opened.execute("PRAGMA trusted_schema = OFF")
            opened.execute("PRAGMA query_only = ON")
            steps = iter(range(_STEPS_MAX // 1_000_000))
            opened.set_progress_handler(lambda: next(steps, None) is None, 1_000_000)
            _require_envelopes(opened)
            report.found("chronicle")
            yield from spans(_rows(opened, report), report)
    except sqlite3.Error as fault:
        raise ImportFault(f"the SQLite database cannot be read: {fault}") from None


def _require_envelopes(opened: sqlite3.Connection) -> None:
    found = opened.execute("SELECT type, sql FROM sqlite_master WHERE name = 'envelopes'").fetchall()
    columns = {row[1] for row in opened.execute("PRAGMA table_info(envelopes)")}
    if [kind for kind, _ in found] != ["table"] or not columns >= _COLUMNS or "virtual" in str(found[0][1]).lower():
        raise ImportFault("it is an SQLite database, but not Chronicle's (which has a table of envelopes)")


def _rows(opened: sqlite3.Connection, report: Report) -> Iterator[Any]:
    for number, (data,) in enumerate(opened.execute(_ROWS, (IMPORT_SPAN_BYTES_MAX,)), 1):
        try:
            yield loads(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data or b"")
        except ValueError as fault:
            report.problem("skipped", "a row that is not JSON", f"row {number}: {str(fault)[:120]}")
