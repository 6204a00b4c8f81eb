"""One call that several spans tell of counts once. Decided when rows are written, so that no question pays for it.

A framework, an instrumentation and the SDK each write a span for one model call, one in the other: the innermost
counts. MCP and the framework around it each write one for a tool call: the agent's own, the outer one, counts. The
others bear `kind` "double" in their row; their attributes stay as they came. Recorded crossings are never doubles.
Like copies, they are looked for in files whose times are at most an hour away (`adding.NEAR_NS`).

`IN_SQL` is the same in SQL, for rows of files that were written before this was decided. Law: both find the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from otel_replay import semconv
from otel_replay.store.parting import Parted, Place
from otel_replay.store.rows import Row

KIN_COLUMNS: Final = ("kind", "trace_id", "span_id", "parent_span_id", "operation", "model", "tool", "difference")
"""What is asked of a stored row to tell whether it or one beside it is a double."""
_MODEL_OPERATIONS: Final = ("chat", "text_completion", "generate_content", "embeddings")
_MODEL_KINDS: Final = (None, "model", semconv.KIND_DOUBLE)
_TOOL_KINDS: Final = (None, "tool", semconv.KIND_DOUBLE)

MODEL_CALL: Final = f"""({{0}}.operation IN {_MODEL_OPERATIONS}
    OR ({{0}}.operation IS NULL AND {{0}}.tool IS NULL AND {{0}}.model IS NOT NULL))"""
"""SQL: what makes a span without a kind a model call; {0} is its row."""
INNER_MODEL: Final = f"""EXISTS (SELECT 1 FROM {{1}} AS inner_one WHERE inner_one.trace_id = {{0}}.trace_id
    AND inner_one.parent_span_id = {{0}}.span_id AND inner_one.difference IS NULL AND (inner_one.kind = 'model' OR
    (coalesce(inner_one.kind, 'double') = 'double' AND {MODEL_CALL.format("inner_one")})))"""  # noqa: S608  # our own names
"""SQL: whether row {0} has another model call within it, among the rows {1}."""
OUTER_TOOL: Final = """EXISTS (SELECT 1 FROM {1} AS outer_one WHERE outer_one.trace_id = {0}.trace_id
    AND outer_one.span_id = {0}.parent_span_id AND outer_one.difference IS NULL
    AND coalesce(outer_one.kind, 'double') IN ('double', 'tool') AND outer_one.tool = {0}.tool)"""
"""SQL: whether row {0} lies within another span of the same tool, among the rows {1}."""
IN_SQL: Final = f"""({{0}}.kind IS NULL AND {{0}}.difference IS NULL
    AND (({MODEL_CALL} AND {INNER_MODEL}) OR ({{0}}.tool IS NOT NULL AND {OUTER_TOOL})))"""


def _is_model_call(row: Mapping[str, Any]) -> bool:
    operation = row.get("operation")
    if operation is None:
        return row.get("tool") is None and row.get("model") is not None
    return operation in _MODEL_OPERATIONS


def doubles_among(rows: Iterable[Mapping[str, Any]]) -> list[bool]:
    """Return of each row whether it tells once more of a call that another of them counts for."""
    listed = list(rows)
    loose = [
        row.get("kind") is None
        and (row.get("model") is not None or row.get("tool") is not None or row.get("operation") is not None)
        and row.get("difference") is None
        for row in listed
    ]
    if not any(loose):  # the rows of a recorder
        return loose
    within: set[tuple[str, str]] = set()
    tools: set[tuple[str, str, str]] = set()
    for row in listed:
        if row.get("difference") is not None:
            continue
        kind = row.get("kind")
        if kind == "model" or (kind in _MODEL_KINDS and _is_model_call(row)):
            within.add((row["trace_id"], row["parent_span_id"]))
        tool = row.get("tool")
        if tool is not None and kind in _TOOL_KINDS:
            tools.add((row["trace_id"], row["span_id"], tool))
    return [
        may
        and (
            (_is_model_call(row) and (row["trace_id"], row["span_id"]) in within)
            or (row.get("tool") is not None and (row["trace_id"], row["parent_span_id"], row["tool"]) in tools)
        )
        for row, may in zip(listed, loose, strict=True)
    ]


def marked(row: Row) -> Row:
    """Return `row` as that of a double."""
    return {**row, "kind": semconv.KIND_DOUBLE}


def mark(table: pa.Table) -> pa.Table:
    """Return `table` with the doubles among its rows marked: those that `doubles_among` finds."""
    kind, tool, operation = (table.column(name) for name in ("kind", "tool", "operation"))
    standing = pc.is_null(table.column("difference"))
    loose = pc.and_(pc.is_null(kind), standing)
    named, modelled = pc.is_valid(tool), pc.is_valid(table.column("model"))
    calls = pc.if_else(
        pc.is_null(operation),
        pc.and_(modelled, pc.invert(named)),
        pc.is_in(operation, pa.array(_MODEL_OPERATIONS, pa.string())),
    )
    if not pc.any(pc.and_(loose, pc.or_(calls, named))).as_py():
        return table
    traces, spans, parents = (table.column(name).to_pylist() for name in ("trace_id", "span_id", "parent_span_id"))
    inner = pc.or_(pc.fill_null(pc.equal(kind, "model"), False), pc.and_(calls, _is_in(kind, _MODEL_KINDS)))
    within = set(compress(zip(traces, parents, strict=True), pc.and_(standing, inner).to_pylist()))
    mask = [
        may and (trace, span) in within
        for may, trace, span in zip(pc.and_(loose, calls).to_pylist(), traces, spans, strict=True)
    ]
    if pc.any(named).as_py():
        tools = tool.to_pylist()
        outer = pc.and_(standing, pc.and_(named, _is_in(kind, _TOOL_KINDS)))
        around = set(compress(zip(traces, spans, tools, strict=True), outer.to_pylist()))
        may_be = pc.and_(loose, named).to_pylist()
        mask = [
            double or (may and (trace, parent, name) in around)
            for double, may, trace, parent, name in zip(mask, may_be, traces, parents, tools, strict=True)
        ]
    kinds = pc.if_else(pa.array(mask, pa.bool_()), pa.scalar(semconv.KIND_DOUBLE), kind)
    return table.set_column(table.schema.get_field_index("kind"), table.schema.field("kind"), kinds)


def _is_in(kinds: pa.ChunkedArray, several: tuple[str | None, ...]) -> pa.ChunkedArray:
    return pc.is_in(kinds, pa.array(several, pa.string()))  # null is in what holds None


def kin_that_turn(parted: Parted, kin: Mapping[Place, Mapping[str, Any]]) -> list[Place]:
    """Mark the doubles among the rows of `parted`, and return where stored rows stand that are doubles beside them.

    `kin` are the stored rows of the same traces, with KIN_COLUMNS.
    """
    standing = {place: row for place, row in kin.items() if place[1] not in parted.supersedes.get(place[0], ())}
    found = doubles_among([*parted.rows, *standing.values()])
    ours = len(parted.rows)
    parted.rows[:] = [marked(row) if double else row for row, double in zip(parted.rows, found[:ours], strict=True)]
    return [place for place, double in zip(standing, found[ours:], strict=True) if double]
