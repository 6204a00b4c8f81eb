"""A store's address: a folder, or `s3://bucket/prefix`. What is shown of it holds no credential.

`s3://bucket/prefix?region=eu-west-1&endpoint_override=localhost:9000&scheme=http`: the query's names are those of
pyarrow's `FileSystem.from_uri`. Where it names none, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 and
AWS_ENDPOINT_URL count, as for every AWS tool.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from otel_replay import settings
from otel_replay.errors import StoreError

_WORDS: Final = ("region", "endpoint_override", "scheme")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9!_.'()=+@:,-]+")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store is. `folder` is this machine's part: the store itself, or what a bucket's store keeps here."""

    shown: str
    folder: Path
    bucket: str = ""
    prefix: str = ""
    region: str = ""
    endpoint: str = ""
    scheme: str = "https"
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def remote(self) -> bool:
        return bool(self.bucket)


def is_remote(location: object) -> bool:
    """True for the address of a store in object storage."""
    return isinstance(location, str) and location.startswith("s3://")


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path as text that every terminal, JSON and log takes: bytes that are no UTF-8 stand as `\\xff`."""
    text = os.fspath(path)
    try:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character that no byte stands for
        return text.encode("utf-8", "backslashreplace").decode()


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """False for a path that holds bytes which are no UTF-8: pyarrow and DuckDB open none such."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def locate(location: str | os.PathLike[str]) -> Location:
    """Return where `location` is. Raises StoreError for an address that no store can have; it is not repeated there."""
    text = os.fspath(location)
    if is_remote(text):
        return _bucket(text)
    if "://" in text and not text.startswith("file://"):
        raise StoreError(f"a store is a folder or s3://bucket/prefix, not {text.split('://')[0]}://...")
    folder = Path(text.removeprefix("file://"))
    return Location(printable(folder), folder)


def journal_folder(location: str | os.PathLike[str]) -> Path:
    """Return the folder of the journals of the store at `location`, always one of this machine.

    Never raises: a recorder under a wrong address writes to a place of its own, and nothing of the agent stops.
    """
    try:
        return locate(location).folder / "journal"
    except StoreError:
        digest = hashlib.sha256(os.fspath(location).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        return settings.state_folder() / f"no-store-{digest}" / "journal"


def _bucket(text: str) -> Location:
    try:
        parts = urlsplit(text)
        port = parts.port
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise StoreError("the store's address is no s3://bucket/prefix") from None
    bucket = parts.hostname or ""
    shown = f"s3://{'/'.join(filter(None, (bucket, *parts.path.split('/'))))}"
    unknown = sorted(set(query) - set(_WORDS))
    if unknown or port or parts.fragment:
        raise StoreError(f"{shown}: its query may hold {', '.join(_WORDS)}, and there is no port or fragment")
    segments = [segment for segment in unquote(parts.path).split("/") if segment]
    if not bucket or not all(_SEGMENT.fullmatch(part) and part not in (".", "..") for part in segments):
        raise StoreError(f"{shown} is no s3://bucket/prefix that every tool reads alike: plain letters, no '.' or '..'")
    region, endpoint = settings.object_storage()
    endpoint = query.get("endpoint_override") or endpoint
    scheme, _, host = endpoint.rpartition("://")
    host = host.rstrip("/")
    credentials = None
    if parts.username or parts.password:
        credentials = unquote(parts.username or ""), unquote(parts.password or "")
    prefix = "/".join(segments)
    digest = hashlib.sha256(f"{host}/{bucket}/{prefix}".encode()).hexdigest()[:12]
    return Location(
        shown=shown,
        folder=settings.state_folder() / f"{bucket}-{digest}",
        bucket=bucket,
        prefix=prefix,
        region=query.get("region") or region,
        endpoint=host,
        scheme=query.get("scheme") or scheme or "https",
        credentials=credentials,
    )
