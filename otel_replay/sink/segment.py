"""Write-ahead segments: a file of checked frames, written in order, read back to the last whole one.

File: the 8 bytes `ORWAL\\x00\\x01\\n`, then frames. Frame: marker, kind, length and CRC-32 of kind, length and payload
(little-endian `<4sBII`), then the payload: one export request in protobuf.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC: Final = b"ORWAL\x00\x01\n"
MARKER: Final = b"\xf5ORF"
TRACES: Final = 1
LOGS: Final = 2
_HEADER: Final = struct.Struct("<4sBII")
_CHECKED: Final = struct.Struct("<BI")
_BUFFERS_MAX: Final = 512
OPEN_SUFFIX: Final = ".open"
SEALED_SUFFIX: Final = ".wal"

fdatasync = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync."""


def frame(kind: int, payload: bytes) -> tuple[bytes, bytes]:
    """Return (header, payload) of one frame."""
    crc = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, len(payload))))
    return _HEADER.pack(MARKER, kind, len(payload), crc), payload


def write_all(fd: int, parts: Sequence[bytes]) -> None:
    """Write every byte of `parts` to `fd`, or raise OSError."""
    views = deque(memoryview(part) for part in parts if part)
    while views:
        batch = [views[i] for i in range(min(len(views), _BUFFERS_MAX))]
        written = os.writev(fd, batch)
        while written:
            if written >= len(views[0]):
                written -= len(views.popleft())
            else:
                views[0] = views[0][written:]
                written = 0


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(slots=True)
class Damage:
    """What a reader stepped over: bytes at the end of the file, and bytes between whole frames."""

    tail_bytes: int = 0
    middle_bytes: int = 0


def read_segment(path: Path, damage: Damage, payload_bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yield (kind, payload) of every whole frame, and count in `damage` the bytes that belong to none.

    A tail that was being written when its writer died is no fault: it was never acknowledged. Damage before a whole
    frame is. Raises OSError.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = len(MAGIC) if file.read(len(MAGIC)) == MAGIC else 0
        skipped = 0
        while at < size:
            found = _frame_at(file.fileno(), at, size, payload_bytes_max)
            if found is None:
                following = _next_marker(file.fileno(), at + 1, size)
                skipped += following - at
                at = following
                continue
            damage.middle_bytes += skipped
            skipped = 0
            kind, payload = found
            at += _HEADER.size + len(payload)
            yield kind, payload
        damage.tail_bytes += skipped


def _frame_at(fd: int, at: int, size: int, payload_bytes_max: int) -> tuple[int, bytes] | None:
    header = os.pread(fd, _HEADER.size, at)
    if len(header) < _HEADER.size:
        return None
    marker, kind, length, _crc = _HEADER.unpack(header)
    if marker != MARKER or length > payload_bytes_max or at + _HEADER.size + length > size:
        return None
    payload = os.pread(fd, length, at + _HEADER.size)
    if len(payload) != length or frame(kind, payload)[0] != header:
        return None
    return kind, payload


def _next_marker(fd: int, at: int, size: int) -> int:
    """Return the offset of the next frame marker at or after `at`, or `size`."""
    block = 1024 * 1024
    while at < size:
        data = os.pread(fd, block + len(MARKER) - 1, at)
        found = data.find(MARKER)
        if found >= 0:
            return at + found
        at += block
    return size
