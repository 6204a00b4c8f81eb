"""A long JSON text <-> the same text without its large strings, which are kept under their digest.

A string whose written form is longer than a threshold leaves the text. A reference stands in its place, so that what
is left is JSON still and tells a reader what was there:

    {"$":"blob","sha256":"9f86d0...","bytes":6291456,"media_type":"image/png"}

The blob is what stood between the quotes, escapes and all; its SHA-256 is its name, so that equal pictures are kept
once. Where the references stand is noted beside the text: one that the program itself wrote is never taken for ours.

Law: `join(*cut(text)) == text` for every text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import orjson

from otel_replay import limits

_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_QUOTE: Final = re.compile(r'(?<!\\)"')
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)[;,]")
_NAME: Final = re.compile(r"[0-9a-f]{64}")
_BEGINS: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi": "application/pdf",
}
"""How base64 of these types begins."""


class BlobMissing(LookupError):
    """A blob is not where it should be, or is not what its name says. The text says which."""


class Cut(NamedTuple):
    """Where a reference stands in a text that was cut: its first character, its length, and what it refers to."""

    at: int
    length: int
    sha256: str


class Pieces(NamedTuple):
    """What `cut` returns: the text that is left, where it was cut, and the blobs by name."""

    text: str
    cuts: tuple[Cut, ...]
    blobs: dict[str, str]


def cut(text: str, threshold: int | None = None) -> Pieces:
    """Take the strings longer than `threshold` characters (`limits.BLOB_THRESHOLD_BYTES`) out of `text`."""
    threshold = limits.BLOB_THRESHOLD_BYTES if threshold is None else threshold
    if not threshold < len(text) <= limits.BLOB_TEXT_CHARS_MAX or not _may_be_long(text, threshold):
        return Pieces(text, (), {})
    left: list[str] = []
    cuts: list[Cut] = []
    blobs: dict[str, str] = {}
    end = at = 0
    for found in _STRING.finditer(text):
        if found.end() - found.start() - 2 <= threshold:
            continue
        blob = found.group(1)
        data = blob.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        reference = orjson.dumps(
            {"$": "blob", "sha256": name, "bytes": len(data), "media_type": media_type(blob)}
        ).decode()
        left += (text[end : found.start()], reference)
        at += found.start() - end
        cuts.append(Cut(at, len(reference), name))
        at += len(reference)
        blobs[name] = blob
        end = found.end()
    return Pieces("".join((*left, text[end:])), tuple(cuts), blobs)


def _may_be_long(text: str, threshold: int) -> bool:
    """False where no string can be that long: telling every string from the next costs more than to ask this.

    A long string covers one of these windows whole, and a quote that no backslash stands before is never within one.
    """
    window = max(threshold // 2, 1)
    return any(_QUOTE.search(text, at, at + window) is None for at in range(0, len(text), window))


def join(text: str, cuts: Iterable[Cut], lookup: Callable[[str], str]) -> str:
    """Put the blobs back. `lookup` returns one by its name, or raises BlobMissing.

    Raises ValueError where the cuts do not fit the text: a recording is not trusted.
    """
    whole: list[str] = []
    end = size = 0
    for at, length, name in cuts:
        if not (end <= at <= at + length <= len(text)) or not is_name(name):
            raise ValueError("the places of its blobs do not fit the text")
        blob = lookup(name)
        size += len(blob)
        if size > limits.BLOB_TEXT_CHARS_MAX:
            raise ValueError(f"its blobs come to more than {limits.BLOB_TEXT_CHARS_MAX} characters")
        whole += (text[end:at], '"', blob, '"')
        end = at + length
    return "".join((*whole, text[end:]))


def is_name(name: str) -> bool:
    """True for what a blob can be called: 64 hex digits, so that no name leads out of a folder."""
    return _NAME.fullmatch(name) is not None


def name_of(blob: str) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()


def media_type(blob: str) -> str:
    """Return what the beginning of a string says that it is: of a data URL, or of base64 of a common type."""
    stated = _DATA_URL.match(blob)
    if stated is not None:
        return stated[1]
    return next((kind for begins, kind in _BEGINS.items() if blob.startswith(begins)), "text/plain")
