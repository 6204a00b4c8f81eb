"""Spans of any number, handed out trace by trace in bounded memory: past a bound they wait in temporary files.

A span goes to one of some files by the low half of its trace id, so that a trace whose id was cut to 64 bits on a hop
stays together. Spans are kept as OTLP protobuf, which gives back every one as it was.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO

from otel_replay.span import Span
from otel_replay.wire.protobuf import request_from_spans, spans_from_request

HELD_SPANS_MAX = 5_000
"""Spans of an import that are held in memory; with more, all go to files."""
HELD_BYTES_MAX = 32 * 1024 * 1024
GROUP_BYTES_MAX = 64 * 1024 * 1024
"""The largest group of traces read back at once. One larger trace is handed out in parts of this size."""
_FILES = 128
_BATCH_BYTES = 64 * 1024
_LENGTH = struct.Struct("<I")


class ByTrace:
    """Takes spans one by one, and hands them out in groups of whole traces. Close it, or use it in a `with`."""

    def __init__(self) -> None:
        self.count = 0
        self._held: list[Span] = []
        self._bytes = 0
        self._files: list[IO[bytes]] = []
        self._waiting: list[list[Span]] = []
        self._weights: list[int] = []
        self._open = ExitStack()

    def __enter__(self) -> ByTrace:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def spilled(self) -> bool:
        """True where the spans are in files: then no group holds all of them."""
        return bool(self._files)

    def add(self, span: Span) -> None:
        """Take one span."""
        self.count += 1
        if self._files:
            self._put(span)
            return
        self._held.append(span)
        self._bytes += weight_of(span)
        if len(self._held) > HELD_SPANS_MAX or self._bytes > HELD_BYTES_MAX:
            self._spill()

    def _spill(self) -> None:
        self._files = [self._open.enter_context(tempfile.TemporaryFile()) for _ in range(_FILES)]  # noqa: SIM115
        self._waiting = [[] for _ in range(_FILES)]
        self._weights = [0] * _FILES
        held, self._held = self._held, []
        for span in held:
            self._put(span)

    def _put(self, span: Span) -> None:
        at = zlib.crc32(span.trace_id[-16:].encode()) % _FILES
        self._waiting[at].append(span)
        self._weights[at] += weight_of(span)
        if self._weights[at] > _BATCH_BYTES:
            self._flush(at)

    def _flush(self, at: int) -> None:
        if self._waiting[at]:
            data = request_from_spans(self._waiting[at])
            self._files[at].write(_LENGTH.pack(len(data)) + data)
            self._waiting[at], self._weights[at] = [], 0

    def groups(self) -> Iterator[tuple[list[Span], bool]]:
        """Yield (spans, whole) in the order in which they came within a group; whole: no trace of it is in another."""
        if not self._files:
            yield self._held, True
            return
        for at, file in enumerate(self._files):
            self._flush(at)
            size = file.tell()
            file.seek(0)
            if size <= GROUP_BYTES_MAX:
                spans = [span for batch in _batches(file) for span in batch]
                if spans:
                    yield spans, True
            else:
                yield from self._parts(file)
            file.close()

    def _parts(self, file: IO[bytes]) -> Iterator[tuple[list[Span], bool]]:
        """Yield the traces of a large file one after the other, and of one that is itself too large its parts."""
        sizes: dict[str, int] = {}
        for batch in _batches(file):
            for span in batch:
                sizes[span.trace_id[-16:]] = sizes.get(span.trace_id[-16:], 0) + weight_of(span)
        group: set[str] = set()
        weight = 0
        for low, size in sizes.items():
            if group and weight + size > GROUP_BYTES_MAX:
                yield _of(file, group), True
                group, weight = set(), 0
            if size > GROUP_BYTES_MAX:
                yield from ((part, False) for part in _large(file, low))
                continue
            group.add(low)
            weight += size
        if group:
            yield _of(file, group), True


def weight_of(span: Span) -> int:
    """Return about how many bytes the texts of a span have."""
    found = 200 + len(span.name)
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        for key, value in attributes:
            found += 20 + len(key) + _weight(value)
    return found


def _weight(value: object, depth: int = 0) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, tuple) and depth < 200:
        return sum(_weight(item, depth + 1) for item in value)
    return 8


def _batches(file: IO[bytes]) -> Iterator[list[Span]]:
    file.seek(0)
    while head := file.read(_LENGTH.size):
        yield spans_from_request(file.read(_LENGTH.unpack(head)[0]))


def _of(file: IO[bytes], lows: set[str]) -> list[Span]:
    return [span for batch in _batches(file) for span in batch if span.trace_id[-16:] in lows]


def _large(file: IO[bytes], low: str) -> Iterator[list[Span]]:
    part: list[Span] = []
    weight = 0
    for batch in _batches(file):
        for span in batch:
            if span.trace_id[-16:] == low:
                part.append(span)
                weight += weight_of(span)
        if weight > GROUP_BYTES_MAX // 4:
            yield part
            part, weight = [], 0
    if part:
        yield part
