"""The journal: what was recorded <-> the bytes of a file that survives a killed process.

A journal is `otrj1\\n` and then frames: length (4 bytes, little endian), CRC-32 of the body (4 bytes), body (a
`JournalEntry` message). A frame is appended with one write, so that all that was written before a kill is whole;
a torn last frame is cut off by the reader and named. The writer holds a lock on its file for as long as it lives.

Law: what `append_*` returned from is read back, after `kill -9` too.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from otel_replay import jsonform, limits, protoform
from otel_replay._proto.otel_replay.v1 import envelope_pb2 as pb
from otel_replay.blobs import BlobMissing, Cut, cut, join, name_of
from otel_replay.envelope import Envelope, Mark, Run
from otel_replay.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows has no flock: a journal is then live while it can't be renamed
    fcntl = None  # type: ignore[assignment]

MAGIC = b"otrj1\n"
SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal held. `run` is its latest record of the run; `closed` tells whether that was its end."""

    run: Run | None
    envelopes: tuple[Envelope, ...]
    unfinished: tuple[Mark, ...]
    closed: bool
    torn_bytes: int = 0
    problem: str = ""


class JournalWriter:
    """Appends to one journal file. Raises OSError where the disk refuses; the caller contains that."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        # Under another name until it is locked: a reader that saw it unlocked would take it for a dead writer's.
        unlocked = path.with_suffix(".new")
        self._descriptor = os.open(unlocked, flags, 0o600)
        self.path = path
        self._fsync = fsync
        self._blobs: set[str] = set()
        if fcntl is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._descriptor, MAGIC)
        os.rename(unlocked, path)

    def append(self, entry: bytes) -> None:
        """Append one serialised JournalEntry. Durable against SIGKILL on return, against power loss with fsync."""
        frame = _HEAD(len(entry), zlib.crc32(entry)) + entry
        written = os.write(self._descriptor, frame)
        while written < len(frame):  # a signal or a nearly full disk; the frame stays torn if this raises
            written += os.write(self._descriptor, frame[written:])
        if self._fsync:
            os.fdatasync(self._descriptor)

    def run_start(self, run: Run) -> None:
        self.append(pb.JournalEntry(run_start=protoform.run_to_message(run)).SerializeToString())

    def mark(
        self,
        address: str,
        boundary: str,
        kind: str,
        seq: int,
        strand: int = 0,
        start_ns: int = 0,
        parent: str = "",
        span_id: str = "",
    ) -> None:
        """Append that a crossing was entered."""
        self.append(mark_entry(address, boundary, kind, seq, strand, start_ns, parent, span_id))

    def crossing(self, envelope: Envelope) -> None:
        message = protoform.envelope_to_message(envelope)
        if message.ByteSize() > limits.BLOB_THRESHOLD_BYTES:
            self._take_blobs(message)
        self.append(pb.JournalEntry(crossing=message).SerializeToString())

    def _take_blobs(self, message: pb.Envelope) -> None:
        """Append the large strings of `message` that this journal does not hold yet, and leave references to them."""
        for payload in _payloads(message):
            if payload.ByteSize() <= limits.BLOB_THRESHOLD_BYTES:
                continue
            text, cuts, blobs = cut(payload.text.decode())
            for name, blob in blobs.items():
                if name not in self._blobs:
                    self.append(pb.JournalEntry(blob=pb.Blob(text=blob.encode())).SerializeToString())
                    self._blobs.add(name)
            if cuts:
                payload.text = text.encode()
                payload.cuts.extend(pb.Cut(at=at, length=length, sha256=name) for at, length, name in cuts)

    def drawn(self, address: str, pins: Mapping[str, Mapping[str, list[Any]]]) -> None:
        self.append(pb.JournalEntry(drawn=pb.Drawn(address=address, json=orjson.dumps(pins))).SerializeToString())

    def written(self, json: bytes, trace_id: str, span_id: str, parent_span_id: str) -> None:
        """Append a crossing whose envelope stands in its JSON form already."""
        ids = _field(_TRACE_ID, trace_id) + _field(_SPAN_ID, span_id) + _field(_PARENT_SPAN_ID, parent_span_id)
        length = _varint(len(json))
        inner = _varint(1 + len(length) + len(json) + len(ids))
        self.append(b"".join((_WRITTEN, inner, _JSON, length, json, ids)))

    def run_end(self, run: Run) -> None:
        self.append(pb.JournalEntry(run_end=protoform.run_to_message(run)).SerializeToString())

    def close(self) -> None:
        """Close the file and with it the lock: readers may seal the journal now."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def abandon_in_child(self) -> None:
        """Close a forked child's copy of the descriptor. The lock is the open file's: the parent keeps it."""
        self.close()


# By hand, since message objects cost more than the rest of the recording; tests hold both ways together.
_JSON, _TRACE_ID, _SPAN_ID, _PARENT_SPAN_ID = b"\x0a", b"\x12", b"\x1a", b"\x22"
_WRITTEN, _MARK = b"\x32", b"\x12"
_HEAD = struct.Struct("<II").pack
_START = struct.Struct("<BQ").pack


def mark_entry(
    address: str, boundary: str, kind: str, seq: int, strand: int, start_ns: int, parent: str, span_id: str
) -> bytes:
    """Return the serialised JournalEntry of a mark."""
    body = b"".join(
        (
            _field(b"\x0a", address),
            _names(boundary, kind),
            b"\x20" + _varint(seq) if seq else b"",
            b"\x28" + _varint(strand) if strand else b"",
            _START(0x31, start_ns) if start_ns else b"",
            _field(b"\x3a", parent) if parent else b"",
            _field(b"\x42", span_id),
        )
    )
    return b"".join((_MARK, _varint(len(body)), body))


@lru_cache(maxsize=256)
def _names(boundary: str, kind: str) -> bytes:
    return _field(b"\x12", boundary) + _field(b"\x1a", kind)


def _field(tag: bytes, text: str) -> bytes:
    """Return a string field in protobuf's wire form; nothing for an empty one."""
    if not text:
        return b""
    data = text.encode()
    return tag + _varint(len(data)) + data


_SMALL = tuple(bytes((number,)) for number in range(128))


def _varint(number: int) -> bytes:
    if number < 128:
        return _SMALL[number]
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _payloads(message: pb.Envelope) -> Iterator[pb.Payload]:
    """Yield every payload of an envelope."""
    yield message.request
    if message.HasField("changed"):
        yield message.changed
    yield message.outcome.value
    for chunk in message.outcome.chunks:
        yield chunk.value
        if chunk.HasField("sent"):
            yield chunk.sent


def _with_blobs(message: pb.Envelope, blobs: Mapping[str, str]) -> pb.Envelope:
    """Put the large strings back into `message`. A payload whose blob is not there is lost, with that as the reason."""

    def lookup(name: str) -> str:
        if name not in blobs:
            raise BlobMissing(f"missing: the journal does not hold the blob {name}")
        return blobs[name]

    for payload in _payloads(message):
        if payload.cuts:
            cuts = [Cut(one.at, one.length, one.sha256) for one in payload.cuts]
            try:
                payload.text = join(payload.text.decode(), cuts, lookup).encode()
            except (BlobMissing, ValueError) as fault:
                payload.encoding, payload.text, payload.reason = "lost", b"null", str(fault)
            del payload.cuts[:]
    return message


def _unwritten(message: pb.Written) -> Envelope:
    return jsonform.envelope_from_json(
        message.json, trace_id=message.trace_id, span_id=message.span_id, parent_span_id=message.parent_span_id
    )


def is_live(path: Path) -> bool:
    """True while a living process holds the journal's lock."""
    if fcntl is None:
        return False  # type: ignore[unreachable]  # on Windows
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_journal(path: Path) -> JournalContents:
    """Return what the journal at `path` holds, up to its first torn or damaged frame.

    Raises StoreError where the file is no journal; a torn end is no error but data (`torn_bytes`).
    """
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        if MAGIC.startswith(data):
            return JournalContents(None, (), (), False, len(data), "the journal ends before its first entry")
        raise StoreError(f"{path} is not a journal: it starts with {data[:8]!r}")
    run: Run | None = None
    closed = False
    marks: dict[int, Mark] = {}
    envelopes: list[Envelope] = []
    drawn: dict[str, list[pb.Drawn]] = {}
    blobs: dict[str, str] = {}
    at, problem = len(MAGIC), ""
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        body = data[at + 8 : at + 8 + length]
        if length > limits.JOURNAL_ENTRY_BYTES_MAX or len(body) < length:
            problem = "the last entry was cut while it was written"
            break
        if zlib.crc32(body) != int.from_bytes(data[at + 4 : at + 8], "little"):
            problem = f"the entry at byte {at} is damaged"
            break
        entry = pb.JournalEntry.FromString(body)
        which = entry.WhichOneof("entry")
        if which == "crossing" or which == "written":
            envelope = (
                protoform.envelope_from_message(_with_blobs(entry.crossing, blobs))
                if which == "crossing"
                else _unwritten(entry.written)
            )
            envelopes.append(envelope)
            marks.pop(envelope.seq, None)
            drawn.pop(envelope.address, None)
        elif which == "mark":
            mark = protoform.mark_from_message(entry.mark)
            marks[mark.seq] = mark
        elif which == "drawn":
            drawn.setdefault(entry.drawn.address, []).append(entry.drawn)
        elif which == "blob":
            blob = entry.blob.text.decode()
            blobs[name_of(blob)] = blob
        elif which == "run_start":
            run = protoform.run_from_message(entry.run_start)
        elif which == "run_end":
            run, closed = protoform.run_from_message(entry.run_end), True
        at += 8 + length
    if run is not None and not closed:
        run = replace(run, pins=_with_drawn(run.pins, drawn))
    torn = len(data) - at
    if torn and not problem:
        problem = "the last entry was cut while it was written"
    return JournalContents(run, tuple(envelopes), tuple(marks.values()), closed, torn, problem)


def _with_drawn(pins: Mapping[str, object], drawn: Mapping[str, list[pb.Drawn]]) -> dict[str, object]:
    """Return a run's pins with what was drawn and is on no envelope, as the run's end would have held it."""
    found: dict[str, Any] = dict(pins)
    for address, entries in drawn.items():
        for entry in entries:
            for kind, sites in orjson.loads(entry.json).items():
                held = found.setdefault(kind, {})
                for site, values in sites.items():
                    held.setdefault(address + site, []).extend(values)
    return found
