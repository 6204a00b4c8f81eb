"""Read any trace that somebody else recorded: files, folders, streams and live addresses -> spans.

`open_source` is the door. What the shapes cannot keep is never silent: see `ImportResult.problems` and `.notes`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from otel_replay.errors import ImportFault
from otel_replay.importers import checks, detect, documents, live, sources, yaml_text
from otel_replay.importers.result import ImportResult, ParquetRows, Problem, Progress, Report
from otel_replay.importers.shapes import chronicle, frames, langfuse, tables, vcr
from otel_replay.importers.sources import Input, Source
from otel_replay.span import Span

__all__ = ["FORMATS", "ImportResult", "ParquetRows", "Problem", "Progress", "Source", "open_source"]

FORMATS = (*detect.FORMATS, "otlp-proto")
"""What `format=` may force."""
_HEAD_BYTES = 4096
_META_BYTES_MAX = 1024 * 1024
_PROGRESS_BYTES = 1024 * 1024


def open_source(
    source: Source,
    *,
    format: str | None = None,
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    parquet_rows: ParquetRows | None = None,
) -> ImportResult:
    """Open a path, folder, glob, "-" (standard input), http(s) address, bytes or binary file.

    The format is found by content; `format` (one of `FORMATS`) forces it. `headers` go to a live address.
    Nothing is read before the result is asked for spans. Iterating or `.spans` raises ImportFault where nothing
    of the source can be read; what is lost on the way is in `.problems` and `.notes`.
    """
    report = Report()
    if format is not None and format != "otlp-proto":
        detect.named(format)
    name = source if isinstance(source, str) else str(getattr(source, "name", type(source).__name__))
    stream = _all(source, format, dict(headers or {}), progress, parquet_rows, report)
    return ImportResult(stream, report, name)


def _all(
    source: Source,
    format: str | None,
    headers: Mapping[str, str],
    progress: Progress | None,
    parquet_rows: ParquetRows | None,
    report: Report,
) -> Iterator[Span]:
    faults: list[ImportFault] = []
    is_address = isinstance(source, str) and "://" in source
    for one in live.inputs(str(source), headers) if is_address else sources.inputs(source):
        report.where = "" if one.alone else one.name
        report.source = one.name
        report.document_part = ""
        if not one.alone and tables.is_beside_block(one.path):
            report.problem("skipped", "a file of a Tempo block that holds no spans")
            continue
        try:
            yield from checks.checked(_one(one, format, progress, parquet_rows, report), report)
        except ImportFault as fault:
            if one.alone:
                raise ImportFault(f"{one.name}: {fault}") from None
            yield from report.close_documents()
            faults.append(ImportFault(f"{one.name}: {fault}"))
            report.problem("skipped", "a file that cannot be read", str(fault))
    if faults and not report.formats:
        raise faults[0]


def _one(
    one: Input, format: str | None, progress: Progress | None, parquet_rows: ParquetRows | None, report: Report
) -> Iterator[Span]:
    try:
        raw = one.open()
    except OSError as fault:
        raise ImportFault(f"it cannot be opened: {fault.strerror or fault}") from None
    with sources.seekable(raw, report) as (file, size):
        head = file.read(4)
        file.seek(0)
        if head == b"PAR1":
            spans = _parquet(file, one.path, parquet_rows, report)
        elif head == b"SQLi" and one.path:
            spans = chronicle.from_sqlite(one.path, report)
        else:
            spans = _binary_or_json(file, size, format, report)
        spans = chain(spans, report.close_documents())
        if progress is None:
            yield from spans
            return
        count = told = 0
        for span in spans:
            count += 1
            at = file.tell()
            if at - told >= _PROGRESS_BYTES or at < told:
                told = at
                progress(at, count)
            yield span
        progress(size, count)


def _parquet(file: BinaryIO, path: str, parquet_rows: ParquetRows | None, report: Report) -> Iterator[Span]:
    if parquet_rows is None:
        raise ImportFault("it is a Parquet file; no Parquet reader was handed in")
    if path:
        yield from tables.read(parquet_rows(path), report, _dedicated_beside(path))
        return
    with tempfile.NamedTemporaryFile(suffix=".parquet") as copy:
        shutil.copyfileobj(file, copy)
        copy.flush()
        yield from tables.read(parquet_rows(copy.name), report)


def _dedicated_beside(path: str) -> tables.Names:
    """Read the `meta.json` that stands beside a Tempo block, where there is one."""
    try:
        with open(Path(path).with_name("meta.json"), "rb") as file:
            return tables.dedicated_names(documents.loads(file.read(_META_BYTES_MAX)))
    except (OSError, ValueError):
        return {}


def _binary_or_json(file: BinaryIO, size: int, format: str | None, report: Report) -> Iterator[Span]:
    head = file.read(_HEAD_BYTES)
    if not head:
        raise ImportFault("it is empty")
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begins not in (b"{", b"[") and format in (None, "vcr") and yaml_text.begins_cassette(head):
        file.seek(0)
        report.found("vcr")
        yield from vcr.spans(yaml_text.interactions(file, report), report)
        return
    if format in (None, "langfuse") and langfuse.begins_csv(head):
        yield from langfuse.read_csv(file, report)
        return
    if format == "otlp-proto" or (begins not in (b"{", b"[") and not head.startswith((b"\xff\xfe", b"\xfe\xff"))):
        if format not in (None, "otlp-proto"):
            raise ImportFault(f"it is not JSON, so it is no {format}")
        _refuse_known_others(head)
        yield from frames.read(file, size, report)
        return
    yield from _json(file, size, format, report)


def _refuse_known_others(head: bytes) -> None:
    for magic, what in (
        (b"PK\x03\x04", "a ZIP archive; unpack it first"),
        (b"BZh", "compressed with bzip2; unpack it first"),
        (b"\xfd7zXZ", "compressed with xz; unpack it first"),
    ):
        if head.startswith(magic):
            raise ImportFault(f"it is {what}")


def _json(file: BinaryIO, size: int, format: str | None, report: Report) -> Iterator[Span]:
    shape = detect.named(format) if format else None
    unknown: Any = None
    for document in documents.documents(file, size):
        if document.fault:
            report.problem("skipped", "a line or document that is not JSON", f"{document.where}: {document.fault}")
            continue
        if shape is None or not (format or shape.knows(document.value)):
            found = detect.shape_of(document.value)
            if found is None:
                unknown = unknown or f"found {detect.what(document.value)}; accepted: {detect.accepted()}"
                report.problem("skipped", "a document of unknown shape", document.where)
                continue
            shape = found
        report.found(shape.name)
        report.document_part = ""
        outer = report.where
        report.where = ", ".join(part for part in (outer, document.where) if part)
        try:
            yield from shape.read(document.value, report)
        finally:
            report.where = outer
    if unknown and shape is None:
        raise ImportFault(str(unknown))
