"""A byte stream as a sequence of JSON documents, in bounded memory.

Three layouts are told apart by content: one document, one document a line (JSON Lines), and documents one after
the other (what the Python console exporter prints). Of a document past `WHOLE_BYTES_MAX` the arrays known to grow
(spans, batches, observations ...) are left in the file and handed out element by element by a `LazyList`, so that
what stands before and after them (resource, processes, status) is known first and memory stays bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from otel_replay.errors import ImportFault
from otel_replay.limits import IMPORT_DEPTH_MAX, IMPORT_SPAN_BYTES_MAX
from otel_replay.originals import random_hex
from otel_replay.wire import json as wire_json

WHOLE_BYTES_MAX = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_OVERLAP = 128
_LAZY_DEPTH_MAX = 8
_INNER_MAX = 10_000
"""Arrays of spans left in the file at once; a document of more is read group by group."""
_TOKEN = re.compile(
    rb'"(?:spans|observations|interactions)"[ \t\r\n]{0,32}:[ \t\r\n]{0,32}(?P<inner>\[)'
    rb'|"(?:resourceSpans|resource_spans|batches|scopeSpans|scope_spans|instrumentationLibrarySpans|data|hits)"'
    rb"[ \t\r\n]{0,32}:[ \t\r\n]{0,32}(?P<outer>\[)"
    rb'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<loose>")',
    re.DOTALL,
)
_BLANK = b"\xef\xbb\xbf \t\r\n"


def loads(data: bytes) -> Any:
    """Parse one JSON document; NaN, Infinity, lone surrogates and UTF-16 are accepted. Raises ValueError."""
    try:
        return wire_json.loads(data)
    except ImportFault as fault:
        raise ValueError(str(fault).removeprefix("not JSON: ")) from None


class LazyList:
    """An array that stays in its file: iterating parses one element at a time, and can be done again."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self._offset = offset

    def __iter__(self) -> Iterator[Any]:
        for document in _values(self._file, self._offset):
            if document.fault:
                raise ImportFault(f"{document.where} is not JSON: {document.fault}")
            yield document.value


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON document and where it stood. `fault` says why it could not be parsed (then `value` is None)."""

    value: Any
    where: str
    fault: str = ""


def documents(file: BinaryIO, size: int) -> Iterator[Document]:
    """Hand out the JSON documents of a seekable file of `size` bytes, first to last.

    A line that is not JSON is a Document with a fault, unless it is the only one. Raises ImportFault where
    the file as a whole is not JSON, or where it is nested too deep.
    """
    if _is_lines(file, size):
        yield from _lines(file)
        return
    if size <= WHOLE_BYTES_MAX:
        file.seek(0)
        data = file.read(size)
        try:
            yield Document(loads(data), "")
            return
        except ValueError as fault:
            reason = str(fault)
    else:
        reason = "no object or array in it"
    count = 0
    for document in _values(file, None):
        if document.fault and count == 0:
            raise ImportFault(f"this is not JSON: {reason if size <= WHOLE_BYTES_MAX else document.fault}")
        count += 1
        yield document
    if count == 0:
        raise ImportFault(f"this is not JSON: {reason}")


def _is_lines(file: BinaryIO, size: int) -> bool:
    """True where the first line that holds anything is a document by itself and more follows."""
    start = end = 0
    stripped = b""
    while not stripped:
        start, end = end, _line_end(file, end)
        if end >= size or end - start > IMPORT_SPAN_BYTES_MAX:
            return False
        file.seek(start)
        stripped = file.read(end - start).strip(_BLANK)
    if stripped[:1] + stripped[-1:] not in (b"{}", b"[]"):
        return False
    try:
        loads(stripped)
    except ValueError:
        return False
    return bool(file.read(4096).strip())


def _line_end(file: BinaryIO, start: int) -> int:
    """Return the offset after the next line feed, without holding the line; the end of the file where none is."""
    file.seek(start)
    while chunk := file.read(_CHUNK):
        at = chunk.find(b"\n")
        if at >= 0:
            return start + at + 1
        start += len(chunk)
    return start


def _lines(file: BinaryIO) -> Iterator[Document]:
    file.seek(0)
    number = 0
    while line := file.readline(IMPORT_SPAN_BYTES_MAX):
        number += 1
        where = f"line {number}"
        if len(line) >= IMPORT_SPAN_BYTES_MAX and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(_CHUNK)
            yield Document(None, where, f"longer than {IMPORT_SPAN_BYTES_MAX} bytes")
            continue
        stripped = line.strip(_BLANK + b"\x00")
        if not stripped:
            continue
        try:
            yield Document(loads(stripped), where)
        except ValueError as fault:
            yield Document(None, where, str(fault))


def _steps(file: BinaryIO, base: int) -> Iterator[tuple[str, int]]:
    """Walk over a JSON text from `base`: yields (kind, offset) of each bracket.

    `kind` is "inner" (an array of spans), "outer" (an array of groups), "open" or "close".
    """
    buffer, want = b"", _CHUNK
    while True:
        file.seek(base + len(buffer))
        chunk = file.read(want)
        buffer += chunk
        # A key may lie across the end of the buffer, so the last bytes wait for the next chunk.
        safe = len(buffer) - _OVERLAP if chunk else len(buffer)
        done = len(buffer)
        for match in _TOKEN.finditer(buffer):
            if match.start() >= safe or match.lastgroup == "loose":
                done = match.start()
                break
            if match.lastgroup is not None:
                yield match.lastgroup, base + match.end() - 1
        if not chunk:
            return
        buffer, base = buffer[done:], base + done
        if len(buffer) > 2 * IMPORT_SPAN_BYTES_MAX:
            raise ImportFault(f"the text at byte {base} is longer than {IMPORT_SPAN_BYTES_MAX} bytes")
        want = max(_CHUNK, len(buffer))


def _values(file: BinaryIO, offset: int | None) -> Iterator[Document]:
    """Hand out the values of the array that opens at `offset`, or of the whole file where `offset` is None."""
    steps = _steps(file, 0 if offset is None else offset + 1)
    end = 0 if offset is None else offset + 1
    for number, (kind, at) in enumerate(steps):
        between = _between(file, end, at).strip(_BLANK)
        if between not in ((b"",) if offset is None or number == 0 or kind == "close" else (b",",)):
            yield Document(None, f"byte {end}", f"found {between[:40]!r} where a value should begin")
            return
        if kind == "close":
            if offset is None:
                yield Document(None, f"byte {at}", "a bracket closes that was never opened")
            return
        where = f"document {number + 1}" if offset is None else f"element {number + 1}"
        piece = _piece(steps, at)
        if piece is None:
            yield Document(None, where, f"it begins at byte {at} and never ends")
            return
        end = piece.end
        try:
            is_array = offset is None and _read(file, at, at + 1) == b"["
            yield Document(piece.load(file, whole_array=is_array), where)
        except ValueError as fault:
            yield Document(None, where, str(fault))
    if offset is not None:
        yield Document(None, f"byte {end}", "the array never ends")


def _between(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(min(end - start, 4096))


class _Arrays:
    """The arrays of one kind within a value, as (offset of "[", offset of "]"); those within them are not told."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.found: list[tuple[int, int]] = []
        self._kinds = kinds
        self._depth = self._at = 0

    def opened(self, kind: str, at: int, depth: int) -> None:
        if kind in self._kinds and not self._depth and depth <= _LAZY_DEPTH_MAX:
            self._depth, self._at = depth, at

    def closed(self, at: int, depth: int) -> None:
        if depth == self._depth:
            self._depth = 0
            self.found.append((self._at, at))


@dataclass(slots=True)
class _Piece:
    """One value in the file: its bytes from `start` to `end`, and the arrays in it that can stay there."""

    start: int
    end: int
    inner: list[tuple[int, int]]
    outer: list[tuple[int, int]]

    def load(self, file: BinaryIO, *, whole_array: bool) -> Any:
        if self.end - self.start <= WHOLE_BYTES_MAX:
            return loads(_read(file, self.start, self.end))
        if whole_array:
            return LazyList(file, self.start)
        rest = self.end - self.start - sum(closes - opens for opens, closes in self.inner)
        few = len(self.inner) <= _INNER_MAX and rest <= WHOLE_BYTES_MAX
        marker = "lazy:" + random_hex(16) + ":"
        lazy: dict[str, LazyList] = {}
        parts: list[bytes] = []
        cursor = self.start
        for opens, closes in self.inner if few else self.outer:
            parts.append(_read(file, cursor, opens))
            parts.append(f'"{marker}{opens}"'.encode())
            lazy[f"{marker}{opens}"] = LazyList(file, opens)
            cursor = closes + 1
        parts.append(_read(file, cursor, self.end))
        return _filled(loads(b"".join(parts)), lazy)


def _read(file: BinaryIO, start: int, end: int) -> bytes:
    if end - start > IMPORT_SPAN_BYTES_MAX:
        raise ValueError(f"{end - start} bytes at byte {start} are one value, {IMPORT_SPAN_BYTES_MAX} are allowed")
    file.seek(start)
    return file.read(end - start)


def _piece(steps: Iterator[tuple[str, int]], start: int) -> _Piece | None:
    """Follow one value that opened at `start` to its end; None where the file ends first."""
    depth = 1
    inner, outer = _Arrays(("inner",)), _Arrays(("inner", "outer"))
    for kind, at in steps:
        if kind == "close":
            if len(inner.found) <= _INNER_MAX:
                inner.closed(at, depth)
            outer.closed(at, depth)
            depth -= 1
            if depth == 0:
                return _Piece(start, at + 1, inner.found, outer.found)
            continue
        depth += 1
        if depth > IMPORT_DEPTH_MAX:
            raise ImportFault(f"this JSON is nested deeper than {IMPORT_DEPTH_MAX} at byte {at}")
        if kind != "open":
            inner.opened(kind, at, depth)
            outer.opened(kind, at, depth)
    return None


def _filled(value: Any, lazy: dict[str, LazyList]) -> Any:
    """Put the lazy arrays where their markers stand."""
    if isinstance(value, str):
        return lazy.get(value, value)
    if isinstance(value, dict):
        return {key: _filled(item, lazy) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, lazy) for item in value]
    return value
