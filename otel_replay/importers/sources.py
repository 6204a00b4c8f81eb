"""Where bytes come from: files, folders, globs, standard input, open files, bytes, addresses; gzip and zstd undone.

Every input becomes a seekable file of known size: what can't seek is spooled to a temporary file, within
`limits.DECOMPRESSED_BYTES_MAX` and `DECOMPRESSED_RATIO_MAX`.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

import zstandard

from otel_replay.errors import ImportFault
from otel_replay.importers.result import Report
from otel_replay.importers.shapes import agentreplay
from otel_replay.limits import DECOMPRESSED_BYTES_MAX, DECOMPRESSED_RATIO_MAX
from otel_replay.location import printable

Source: TypeAlias = "str | Path | bytes | BinaryIO"
_SPOOL_MEMORY_BYTES = 32 * 1024 * 1024
_CHUNK = 1024 * 1024
_RATIO_FLOOR_BYTES = 64 * 1024 * 1024
"""Small files may be as repetitive as they like."""
_FILES_MAX = 100_000
_LAYERS_MAX = 3
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to read. `open` hands out its raw bytes; `alone` is False where it is one of several."""

    name: str
    open: Callable[[], BinaryIO]
    alone: bool = True
    path: str = ""


def inputs(source: Source) -> Iterator[Input]:
    """Name everything that `source` stands for, in a stable order. Raises ImportFault where there is nothing."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        yield Input("<bytes>", lambda: io.BytesIO(data))
    elif isinstance(source, (str, Path)):
        yield from _named(os.fspath(source))
    elif hasattr(source, "read"):
        yield Input(str(getattr(source, "name", "<stream>")), lambda: source)
    else:
        raise ImportFault(f"cannot read from {type(source).__name__}: give a path, an address, bytes or a binary file")


def _named(name: str) -> Iterator[Input]:
    if name == "-":
        yield Input("<stdin>", lambda: sys.stdin.buffer)
    elif os.path.isdir(name):
        yield from _many(name, _files_below(name))
    elif os.path.exists(name):
        yield _file(name, alone=True)
    elif glob.has_magic(name):
        yield from _many(name, sorted(path for path in glob.iglob(name, recursive=True) if os.path.isfile(path)))
    else:
        raise ImportFault(f"there is no file or folder {name!r}")


def _file(path: str, *, alone: bool) -> Input:
    if not os.path.isfile(path):
        raise ImportFault(f"{path!r} is neither a file nor a folder")
    return Input(printable(path), lambda: cast(BinaryIO, open(path, "rb")), alone, path)


def _files_below(folder: str) -> list[str]:
    """List the files of a folder and below, sorted; hidden ones and links to folders are left out."""
    found: list[str] = []
    for here, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if agentreplay.is_cassette(files):  # one recording: its blobs and its header are read with its events
            folders.clear()
            files = [agentreplay.EVENTS]
        found.extend(os.path.join(here, name) for name in sorted(files) if not name.startswith("."))
        if len(found) > _FILES_MAX:
            raise ImportFault(f"{folder!r} holds more than {_FILES_MAX} files; name the ones to read")
    return [path for path in found if os.path.isfile(path)]


def _many(name: str, paths: list[str]) -> Iterator[Input]:
    if not paths:
        raise ImportFault(f"{name!r} holds no files")
    for path in paths:
        yield _file(path, alone=len(paths) == 1)


@contextmanager
def seekable(raw: BinaryIO, report: Report, layers: int = 0) -> Iterator[tuple[BinaryIO, int]]:
    """Give a seekable, uncompressed file of the same content, and its size in bytes; packed twice it is unpacked twice.

    Raises ImportFault past the bounds, and for more than a few layers.
    """
    if layers > _LAYERS_MAX:
        raise ImportFault(f"it is packed more than {_LAYERS_MAX} times")
    with raw:
        head, rest = _peeked(raw)
        opened = _unpacking(rest, head)
        if opened is None and rest is raw and _can_seek(raw):
            size = raw.seek(0, os.SEEK_END)
            raw.seek(0)
            yield raw, size
            return
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_MEMORY_BYTES) as spool:
            size = _spooled(opened or rest, rest, cast("IO[bytes]", spool), report)
            with _settled(spool) as file:
                head = file.read(4)
                file.seek(0)
                if not _is_packed(head):
                    yield file, size
                    return
                with seekable(file, report, layers + 1) as inner:
                    yield inner


@contextmanager
def _settled(spool: Any) -> Iterator[BinaryIO]:
    spool.seek(0)
    yield cast(BinaryIO, spool._file if hasattr(spool, "_file") else spool)


def _can_seek(raw: BinaryIO) -> bool:
    try:
        return raw.seekable()
    except (AttributeError, OSError):
        return False


class _Counted(io.RawIOBase):
    """A stream that gives back the bytes peeked at first, and counts what was taken from it."""

    def __init__(self, head: bytes, raw: BinaryIO) -> None:
        self._head = head
        self._raw = raw
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        want = len(into)
        data, self._head = self._head[:want], self._head[want:]
        if not data:
            data = self._raw.read(want) or b""
        self.taken += len(data)
        into[: len(data)] = data
        return len(data)


def _peeked(raw: BinaryIO) -> tuple[bytes, Any]:
    """Look at the first bytes; a stream that can't seek is wrapped so that nothing is lost."""
    if _can_seek(raw):
        at = raw.tell()
        head = raw.read(4)
        raw.seek(at)
        if at == 0 and head[:2] != _GZIP and head != _ZSTD:
            return head, raw
        return head, _Counted(b"", raw)
    head = b""
    while len(head) < 4 and (more := raw.read(4 - len(head))):
        head += more
    return head, _Counted(head, raw)


def _is_packed(head: bytes) -> bool:
    return head[:2] == _GZIP or head == _ZSTD


def _unpacking(rest: Any, head: bytes) -> Any:
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=io.BufferedReader(rest, _CHUNK))
    if head == _ZSTD:
        return zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(rest, read_across_frames=True)
    return None


def _spooled(stream: Any, packed: Any, into: IO[bytes], report: Report) -> int:
    """Copy a stream to a temporary file, within the bounds; a stream that breaks off is kept as far as it goes."""
    size = 0
    while True:
        try:
            chunk = stream.read(_CHUNK)
        except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as fault:
            if not size:
                raise ImportFault(f"the compressed stream cannot be read: {fault}") from None
            report.problem("partial", f"the compressed stream is broken after {size} bytes: {fault}")
            return size
        if not chunk:
            return size
        size += len(chunk)
        if size > DECOMPRESSED_BYTES_MAX:
            raise ImportFault(f"more than {DECOMPRESSED_BYTES_MAX} bytes when unpacked")
        if stream is not packed and size > max(_RATIO_FLOOR_BYTES, DECOMPRESSED_RATIO_MAX * packed.taken):
            raise ImportFault(f"it unpacks to more than {DECOMPRESSED_RATIO_MAX} times its size: not read")
        into.write(chunk)
