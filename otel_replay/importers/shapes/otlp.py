"""OTLP/JSON in all its spellings: OTLP itself, Tempo's answers, Jaeger's v3 API, Grafana's export, log records.

The reading is `otel_replay.wire.json`; here is what belongs to the shape: which spelling it is, what that spelling
loses, and how a document too large for memory is read in pieces.
Source: opentelemetry-proto `docs/specification.md`; grafana/tempo `pkg/tempopb`; grafana/grafana
`public/app/plugins/datasource/tempo/resultTransformer.ts` (`transformToOTLP`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import LazyList
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import rows, table, text
from otel_replay.span import KeyValues, Span, Value
from otel_replay.wire import json as wire_json

GROUPS = ("resourceSpans", "resource_spans", "batches")
_SCOPE_GROUPS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_IN_GROUPS = ("resource", "schemaUrl", "schema_url")
_IN_SCOPE_GROUPS = ("scope", "instrumentationLibrary", "instrumentation_library", "schemaUrl", "schema_url")
_PIECE_SPANS = 256
TEMPO_STRING_BYTES = 2048
"""Tempo cuts strings at `max_attribute_bytes`; this is what it is unless somebody set it."""


def holds_groups(value: object) -> bool:
    """True for a document that holds resource groups, itself or in `trace`, `result` or `data`."""
    return _holder(value) is not None


def _holder(value: object) -> Mapping[str, Any] | None:
    one = table(value)
    if any(name in one for name in GROUPS):
        return one
    for name in ("trace", "result", "data"):
        if any(group in table(one.get(name)) for group in GROUPS):
            return table(one[name])
    return None


def spelling(document: Mapping[str, Any]) -> str:
    """Return "grafana", "tempo", "jaeger-v3" or "otlp-json" for a document that `holds_groups`."""
    if "trace" in document:
        return "tempo"
    if "result" in document:
        return "jaeger-v3"
    if "batches" not in document:
        return "otlp-json"
    return "grafana" if _from_grafana(document["batches"]) else "tempo"


def _from_grafana(batches: Any) -> bool:
    """Grafana rebuilds the trace in the browser: hex ids and numbers where Tempo writes base64 and text."""
    for group in islice(rows(batches), 20):
        for scope_group in islice(rows(table(group).get("instrumentationLibrarySpans")), 20):
            for span in islice(rows(table(scope_group).get("spans")), 20):
                if isinstance(table(span).get("startTimeUnixNano"), int):
                    return True
    return False


def read(document: Any, report: Report) -> Iterator[Span]:
    """Read a document that `holds_groups`; what is refused, partial or lost goes to the report."""
    holder = _holder(document)
    if holder is None:
        raise ImportFault("not OTLP/JSON traces")
    name = spelling(document)
    _status(document, report)
    spans = _in_pieces(holder, report) if _is_lazy(holder) else _whole(document, report)
    if name == "grafana":
        report.note(
            "Grafana export: map, bytes and null values, 0.0 and event names were lost in the browser; times are "
            "rounded to 256 ns, integers past 2^53 and whole doubles may be changed"
        )
        spans = _from_browser(spans, report)
    elif name == "tempo":
        report.note("Tempo: null values and span flags are not kept")
        spans = _maybe_cut(spans, report)
    return spans


def _status(document: Mapping[str, Any], report: Report) -> None:
    """Tempo v2 says PARTIAL where spans are missing; Jaeger v3 may carry an error beside what it found."""
    status, message = text(document.get("status")), text(document.get("message"))
    if status.upper().endswith("PARTIAL") or status == "1":  # the enum's name, with or without its prefix, or number
        report.part(message or "the backend returned a partial trace")
    error = table(document.get("error"))
    if error:
        report.part(text(error.get("message")) or "the backend reported an error")


def _whole(document: Any, report: Report) -> Iterator[Span]:
    _misspelt(document, report)
    read = wire_json.read_json(document)
    for problem in read.problems:
        report.problem("skipped", f"an OTLP span: {_kind(problem.reason)}", str(problem))
    yield from read.items


def _misspelt(document: Any, report: Report) -> None:
    """Tell of groups whose spans stand under a name that OTLP does not have: by its letter they are empty."""
    for group in map(table, rows(_member(_holder(document) or {}, GROUPS)[1])):
        if group.keys() & _SCOPE_GROUPS:
            for scope_group in map(table, rows(_member(group, _SCOPE_GROUPS)[1])):
                _unknown(scope_group, ("spans",), _IN_SCOPE_GROUPS, "a scope group", report)
        else:
            _unknown(group, _SCOPE_GROUPS[:1], _IN_GROUPS, "a resource group", report)


def _unknown(group: Mapping[str, Any], wanted: Iterable[str], known: Iterable[str], what: str, report: Report) -> None:
    unknown = [key for key in group if key not in known and group[key]]
    if unknown and not group.keys() & set(wanted):
        held = ", ".join(map(repr, unknown[:3]))
        report.problem("skipped", f"{what} without {' or '.join(wanted)} holds {held:.80}")


def _kind(reason: str) -> str:
    """Return a reason without its particulars, so that equal troubles are counted together."""
    return reason.split(" (", 1)[0][:120]


def _is_lazy(value: Any) -> bool:
    if isinstance(value, LazyList):
        return True
    if isinstance(value, dict):
        return any(_is_lazy(value[name]) for name in (*GROUPS, *_SCOPE_GROUPS, "spans") if name in value)
    return isinstance(value, list) and any(_is_lazy(item) for item in value)


def _member(value: Mapping[str, Any], names: Iterable[str]) -> tuple[str, Any]:
    return next(((name, value[name]) for name in names if name in value), ("", ()))


def _in_pieces(holder: Mapping[str, Any], report: Report) -> Iterator[Span]:
    """Read a document whose arrays stay in the file, a few hundred spans at a time."""
    name, groups = _member(holder, GROUPS)
    for group in rows(groups):
        inner, scope_groups = _member(table(group), _SCOPE_GROUPS)
        for scope_group in rows(scope_groups):
            spans = iter(rows(table(scope_group).get("spans")))
            while piece := list(islice(spans, _PIECE_SPANS)):
                part = {**table(group), inner: [{**table(scope_group), "spans": piece}]}
                yield from _whole({name: [part]}, report)


def _maybe_cut(spans: Iterable[Span], report: Report) -> Iterator[Span]:
    """Tell of string values exactly as long as Tempo's limit: they were probably cut there, without any mark."""
    for span in spans:
        for key, value in span.attributes:
            if isinstance(value, str) and TEMPO_STRING_BYTES - 3 <= len(value.encode("utf-8", "replace")) <= (
                TEMPO_STRING_BYTES + 2
            ):
                report.problem(
                    "lost",
                    f"{key} was probably cut at Tempo's max_attribute_bytes ({TEMPO_STRING_BYTES}); raise or zero it",
                    f"span {span.span_id}",
                )
        yield span


def _from_browser(spans: Iterable[Span], report: Report) -> Iterator[Span]:
    for span in spans:
        empty = [key for key, value in span.attributes if _emptied(value)]
        for key in empty:
            report.problem("lost", 'a value is now "": it may have been a map, bytes, null or 0.0', key)
        events = tuple(
            replace(event, name="exception")
            if not event.name and any(key.startswith("exception.") for key, _ in event.attributes)
            else event
            for event in span.events
        )
        yield replace(span, events=events) if events != span.events else span


def _emptied(value: Value) -> bool:
    if isinstance(value, tuple) and not isinstance(value, KeyValues):
        return any(_emptied(item) for item in value)
    return value == ""
