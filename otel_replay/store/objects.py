"""A store in object storage (S3 and what speaks its protocol), by way of pyarrow's filesystem.

A file is written on this machine first, then uploaded under a temporary name, its size compared, and then copied to
its own name, which the service does whole or not at all. (An upload straight to the name would not do: a stream that
is dropped halfway is completed with what it holds.) Readers take byte ranges; files never change.

Source: docs.aws.amazon.com/AmazonS3 (CopyObject; strong consistency since December 2020); arrow.apache.org/docs
`pyarrow.fs.S3FileSystem`; filesystem-spec.readthedocs.io.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from otel_replay.errors import StoreError
from otel_replay.location import Location
from otel_replay.store.lease import Lease
from otel_replay.store.storage import LOCK, TEMPORARY, Entry, fault_point

PROTOCOL: Final = "otelreplay"
_READERS: Final = 16
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_CONNECT_SECONDS: Final = 10
_REQUEST_SECONDS: Final = 60
_STAGING: Final = "staging"


class ObjectStorage:
    """One prefix of one bucket. The bucket must be there; nothing is asked of it before the first read or write."""

    readers = _READERS

    def __init__(self, location: Location) -> None:
        self.root = Path(location.bucket, location.prefix)
        self._location = location
        self._staging = location.folder / _STAGING
        self._known: dict[str, Entry] = {}
        options: dict[str, Any] = {
            "scheme": location.scheme,
            "endpoint_override": location.endpoint or None,
            "connect_timeout": _CONNECT_SECONDS,
            "request_timeout": _REQUEST_SECONDS,
            "allow_delayed_open": True,  # a small file is one request then
        }
        if location.credentials is not None:
            options["access_key"], options["secret_key"] = location.credentials
        with self._told():
            self._fs = fs.S3FileSystem(region=_region(location), **options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._location.shown!r})"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Let no credential stand in the text of a fault."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as fault:
            text = str(fault)
            for secret in filter(None, self._location.credentials or ()):
                text = text.replace(secret, "***")
            raise OSError(text) from None

    def check(self) -> None:
        """Raise StoreError where the bucket is not there or can't be reached."""
        try:
            with self._told():
                there = self._fs.get_file_info(self._location.bucket).type == fs.FileType.Directory
        except OSError as fault:
            raise StoreError(f"{self._location.shown} can't be reached: {fault}") from fault
        if not there:
            raise StoreError(f"there is no bucket {self._location.bucket}, or these credentials don't see it")

    def shown(self, path: Path) -> str:
        return str(path) if path.is_absolute() else f"s3://{path.as_posix()}"

    def files(self, folder: Path) -> list[Entry]:
        selector = fs.FileSelector(folder.as_posix(), recursive=True, allow_not_found=True)
        with self._told():
            listed = [_entry(info) for info in self._fs.get_file_info(selector) if info.type == fs.FileType.File]
        self._known.update((entry.path.as_posix(), entry) for entry in listed)
        return sorted(listed)

    def left_behind(self, folder: Path) -> list[Entry]:
        found = [entry for entry in self.files(folder) if entry.path.name.endswith(TEMPORARY)]
        for path in sorted(self._staging.glob("*")):
            with suppress(FileNotFoundError):
                state = path.stat()
                found.append(Entry(path.absolute(), state.st_size, state.st_mtime_ns))
        return found

    def entry(self, path: Path) -> Entry:
        with self._told():
            info = self._fs.get_file_info(path.as_posix())
        if info.type != fs.FileType.File:
            raise FileNotFoundError(self.shown(path))
        return _entry(info)

    @contextmanager
    def opened(self, path: Path) -> Iterator[Any]:
        with self._told(), self._fs.open_input_file(path.as_posix()) as file:
            yield file

    def read(self, path: Path) -> bytes:
        with self.opened(path) as file:
            data: bytes = file.read()
        return data

    def write(self, path: Path, data: bytes) -> None:
        """Put a small file in one go."""
        with self._told(), self._fs.open_output_stream(path.as_posix()) as stream:
            stream.write(data)

    def staging(self, path: Path) -> Path:
        self._staging.mkdir(parents=True, exist_ok=True)
        return self._staging / f"{path.name}{TEMPORARY}"

    def publish(self, staged: Path, path: Path) -> None:
        temporary = path.with_name(f".{staged.name}")
        size = staged.stat().st_size
        with self._told():
            with self._fs.open_output_stream(temporary.as_posix()) as stream, staged.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    stream.write(chunk)
            arrived = self._fs.get_file_info(temporary.as_posix()).size
            if arrived != size:
                raise OSError(f"{arrived} of {size} bytes arrived in {self.shown(temporary)}")
            fault_point("before the copy")
            self._fs.move(temporary.as_posix(), path.as_posix())
        staged.unlink(missing_ok=True)

    def remove(self, path: Path) -> None:
        if path.is_absolute():  # one that was staged on this machine
            path.unlink(missing_ok=True)
            return
        with self._told(), suppress(FileNotFoundError):
            self._fs.delete_file(path.as_posix())

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        lease = Lease(self, self.root / LOCK)
        try:
            held = lease.take(wait=wait)
        except OSError as fault:
            raise StoreError(f"{self._location.shown} can't be written: {fault}") from fault
        try:
            yield held
        finally:
            lease.give_back()

    def address(self, path: Path) -> str:
        return f"{PROTOCOL}://{path.as_posix()}"

    def attach(self, connection: Any) -> None:
        try:
            from otel_replay.store.ranges import ranges_of
        except ImportError as fault:
            raise StoreError("a store in object storage needs fsspec: pip install 'otel-replay[s3]'") from fault
        connection.register_filesystem(ranges_of(PROTOCOL, self._fs, self._size_and_time))

    def _size_and_time(self, name: str) -> tuple[int, datetime]:
        entry = self._known.get(name) or self.entry(Path(name))
        return entry.size, datetime.fromtimestamp(entry.changed_ns / 1e9, UTC)

    def writable(self) -> bool:
        return True  # only trying tells: rights are the service's

    def is_the_files(self, fault: Exception) -> bool:
        return "AWS Error" not in str(fault) or "ACCESS_DENIED" in str(fault)


def _entry(info: fs.FileInfo) -> Entry:
    return Entry(Path(info.path), info.size, info.mtime_ns or 0)


_regions: dict[str, str] = {}
_regions_lock = threading.Lock()


def _region(location: Location) -> str:
    """Return the region that is named, or else where AWS says that the bucket is."""
    if location.region or location.endpoint:
        return location.region or "us-east-1"  # what other services than AWS go by
    with _regions_lock:
        if location.bucket not in _regions:
            try:
                _regions[location.bucket] = fs.resolve_s3_region(location.bucket)
            except OSError:
                return "us-east-1"
        return _regions[location.bucket]
