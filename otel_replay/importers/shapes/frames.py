"""OTLP protobuf in files: one message, or messages behind a length, each perhaps compressed.

Source: opentelemetry-collector-contrib `exporter/fileexporter/file_writer.go` (4-byte big-endian length; zstd for
each message by default); specification `protocol/file-exporter.md` (varint length); opentelemetry-proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import otlp
from otel_replay.limits import IMPORT_SPAN_BYTES_MAX
from otel_replay.span import Span
from otel_replay.wire import logs, protobuf

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GROUP_TAG = 0x0A
"""Field 1, length-delimited: the only field of TracesData and ExportTraceServiceRequest."""


def layout(file: BinaryIO, size: int) -> str:
    """Return "raw", "4-byte", "varint" or "" by walking over the lengths of a binary file, and nothing else."""
    for name, walk in (("4-byte", _fixed), ("raw", _fields), ("varint", _varints)):
        if all(step is not None for step in _first(walk(file, size))):
            return name
    return ""


def _first(steps: Iterator[tuple[int, int] | None]) -> list[tuple[int, int] | None]:
    """Look at the first thousand lengths; a file that fits so long is what it seems."""
    seen: list[tuple[int, int] | None] = []
    for step in steps:
        seen.append(step)
        if step is None or len(seen) >= 1000:
            break
    return seen or [None]


def read(file: BinaryIO, size: int, report: Report) -> Iterator[Span]:
    """Read the messages one by one; a message that is broken or too large is skipped and named."""
    answer = _tempo_answer(file, size)
    if answer is not None:
        yield from _tempo(answer, report)
        return
    name = layout(file, size)
    walks = {"4-byte": _fixed, "raw": _fields, "varint": _varints}
    if name not in walks:
        raise ImportFault("this is binary, but neither OTLP protobuf nor a known framing of it")
    report.found(f"otlp-proto ({name})" if name != "raw" else "otlp-proto")
    for number, step in enumerate(walks[name](file, size), 1):
        where = f"message {number}"
        if step is None:
            report.problem("partial", "the file ends within a message", where)
            return
        offset, length = step
        if length > IMPORT_SPAN_BYTES_MAX:
            report.problem("skipped", f"a message of more than {IMPORT_SPAN_BYTES_MAX} bytes", f"{where}: {length}")
            continue
        file.seek(offset)
        data = file.read(length)
        try:
            yield from _message(_unpacked(data), report, where)
        except (ImportFault, ValueError, zstandard.ZstdError) as fault:
            report.problem("skipped", "a message that is no OTLP", f"{where}: {fault}")


def _tempo_answer(file: BinaryIO, size: int) -> dict[int, int | bytes] | None:
    """Return the fields of Tempo's v2 answer in protobuf, or None where the file is none.

    TraceByIDResponse is {trace = 1, metrics = 2, status = 3, message = 4}; its trace is itself a TracesData, which
    tells it from one. Source: grafana/tempo, `pkg/tempopb/tempo.proto`.
    """
    file.seek(0)
    if size > IMPORT_SPAN_BYTES_MAX or file.read(1) != bytes([_GROUP_TAG]):
        return None
    file.seek(0)
    data = file.read(size)
    found = _top_fields(data)
    trace = found.get(1) if found is not None else None
    if found is None or not isinstance(trace, bytes) or trace[:1] != bytes([_GROUP_TAG]):
        return None
    try:
        inner = protobuf.read_request(trace).items
        outer = protobuf.read_request(data).items if set(found) == {1} else []
    except (ImportFault, ValueError):
        return None
    return found if not outer and any(span.span_id and span.start_ns for span in inner) else None


def _top_fields(data: bytes) -> dict[int, int | bytes] | None:
    """Return the fields 1 to 4 of a message, each once; None where it has others."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        value = _varint(data[at + 1 : at + 11])
        if value is None or number in found or (number, kind) not in ((1, 2), (2, 2), (3, 0), (4, 2)):
            return None
        at += 1 + value[1]
        if kind == 0:
            found[number] = value[0]
            continue
        if at + value[0] > len(data):
            return None
        found[number] = data[at : at + value[0]]
        at += value[0]
    return found


def _tempo(answer: dict[int, int | bytes], report: Report) -> Iterator[Span]:
    report.found("tempo-proto")
    report.note("Tempo: null values and span flags are not kept")
    if answer.get(3):
        said = answer.get(4)
        told = said.decode("utf-8", "replace")[:300] if isinstance(said, bytes) else ""
        report.part(told or "the backend returned a partial trace")
    trace = answer[1]
    assert isinstance(trace, bytes)
    yield from _message(trace, report, "the trace")


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(ZSTD_MAGIC):
        return data
    stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(data, read_across_frames=True)
    plain: bytes = stream.read(IMPORT_SPAN_BYTES_MAX + 1)
    if len(plain) > IMPORT_SPAN_BYTES_MAX:
        raise ValueError(f"more than {IMPORT_SPAN_BYTES_MAX} bytes when unpacked")
    return plain


def _message(data: bytes, report: Report, where: str) -> Iterator[Span]:
    if data.lstrip()[:1] == b"{":
        document = loads(data)
        if not otlp.holds_groups(document):
            raise ImportFault("JSON without resourceSpans")
        yield from otlp.read(document, report)
        return
    if data and data[0] != _GROUP_TAG:
        raise ImportFault("no resource group at its beginning")
    read = protobuf.read_request(data)
    if not any(span.span_id or span.start_ns for span in read.items) and _logs(data, report):
        return
    for problem in read.problems:
        report.problem("skipped", f"an OTLP span: {problem.reason[:120]}", f"{where}: {problem}")
    yield from read.items


def _logs(data: bytes, report: Report) -> bool:
    """Read log records, whose requests have the same outer form as those of spans; False where they are none."""
    try:
        records = logs.read_logs_request(data).items
    except ImportFault:
        return False
    if not any(record.time_ns or record.observed_time_ns for record in records):
        return False
    report.log(records)
    return True


def _fixed(file: BinaryIO, size: int) -> Iterator[tuple[int, int] | None]:
    """Yield (offset, length) of each message behind a 4-byte big-endian length; None where it does not fit."""
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(9)
        length = int.from_bytes(head[:4], "big")
        body = head[4:]
        plausible = body[:1] in (b"\x0a", b"{") or body.startswith(ZSTD_MAGIC)
        if not length or at + 4 + length > size or not plausible:
            yield None
            return
        yield at + 4, length
        at += 4 + length


def _varint(data: bytes) -> tuple[int, int] | None:
    """Return (value, byte count) of the varint at the beginning of `data`."""
    value = 0
    for count, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, count + 1
    return None


def _varints(file: BinaryIO, size: int) -> Iterator[tuple[int, int] | None]:
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(16)
        found = _varint(head)
        if found is None or not found[0] or at + sum(found) > size or head[found[1]] != _GROUP_TAG:
            yield None
            return
        yield at + found[1], found[0]
        at += sum(found)


def _fields(file: BinaryIO, size: int) -> Iterator[tuple[int, int] | None]:
    """Yield each resource group of one message, with its tag, so that each is a small message by itself."""
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(16)
        found = _varint(head[1:])
        if head[0] != _GROUP_TAG or found is None or at + 1 + sum(found) > size:
            yield None
            return
        yield at, 1 + sum(found)
        at += 1 + sum(found)
