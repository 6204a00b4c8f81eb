"""Bodies under a `content-encoding` (RFC 9110, 8.4): unpacked for readers of a record, packed again for its clients.

A body is unpacked only where one stream of each named coding fills it whole: what clients read in different ways (two
members in one body, a stream cut short, bytes after its end) is kept as it came. Packed again, a body is equal for
whoever unpacks it; under a `recipe` (the stream's own first bytes, in hex) it is equal byte for byte.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import zstandard

from otel_replay.errors import Unservable
from otel_replay.limits import PAYLOAD_BYTES_MAX

CODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd")
RECIPE_BYTES_MAX = 1024 * 1024
"""Larger bodies are not packed a second time to find their recipe."""
_SLICE_BYTES = 16 * 1024
_LEVELS = {2: 9, 4: 1}
"""What gzip's fourth flag byte tells of the level (RFC 1952, XFL)."""


class NotWhole(ValueError):
    """These bytes are not one whole stream of their coding within the limit."""


def packing_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return the content encoding that a body under these headers has; "" for none."""
    named = ",".join(value for name, value in headers if name.lower() == "content-encoding")
    return ", ".join(coding for coding in _codings(named) if coding != "identity")


def _codings(packing: str) -> list[str]:
    return [coding for coding in (part.strip().lower() for part in packing.split(",")) if coding]


def unpacked(content: bytes, packing: str) -> tuple[bytes, str]:
    """Return (unpacked bytes, packing), or the bytes as they are and "" where we could not pack them again."""
    parts, kept = unpacked_parts([content], packing)
    return b"".join(parts), kept


def left_plain(content: bytes, packing: str) -> bool:
    """True where a body that `unpacked` left as it is was never packed: some recorders unpack it and keep the header.

    False for what is packed but cut short, or by a coding that is not known here: to pack it again would serve noise.
    """
    codings = _codings(packing)
    if not set(codings) <= set(CODINGS):
        return False
    outer = codings[-1] if codings else ""
    if outer in ("gzip", "x-gzip"):
        return not content.startswith(b"\x1f\x8b")
    if outer == "zstd":
        return not content.startswith(b"\x28\xb5\x2f\xfd")
    if outer == "deflate" and content[:1] == b"\x78" and int.from_bytes(content[:2], "big") % 31 == 0:
        return False
    return outer not in ("deflate", "br") or _is_text(
        content
    )  # neither br nor a bare deflate stream starts with a mark


def _is_text(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return not any(character < " " and character not in "\t\n\r\f\x1b" for character in text)


def unpacked_parts(parts: Sequence[bytes], packing: str) -> tuple[Sequence[bytes], str]:
    """As `unpacked`, for a body that came in parts: each gives what a client unpacks of it, which may be nothing."""
    codings = _codings(packing)
    if not codings or not any(parts):
        return parts, ""
    found = parts
    try:
        for coding in reversed(codings):
            found = _unpacked_one(found, coding)
    except (ValueError, ImportError):
        return parts, ""
    return found, packing


def _unpacked_one(parts: Sequence[bytes], coding: str) -> list[bytes]:
    if coding == "deflate":
        try:
            return _run(_Inflate(zlib.MAX_WBITS), parts)
        except NotWhole:
            return _run(_Inflate(-zlib.MAX_WBITS), parts)  # no zlib header: what some servers send under this name
    if coding in ("gzip", "x-gzip"):
        return _run(_Inflate(16 + zlib.MAX_WBITS), parts)
    if coding == "br":
        return _run(_Unbrotli(), parts)
    if coding == "zstd":
        return _run(_Unzstd(), parts)
    raise NotWhole(coding)


def _run(engine: Any, parts: Sequence[bytes]) -> list[bytes]:
    found, size = [], 0
    for part in parts:
        made = []
        for at in range(0, len(part), _SLICE_BYTES):
            made.append(engine.feed(part[at : at + _SLICE_BYTES]))
            size += len(made[-1])
            if size > PAYLOAD_BYTES_MAX:
                raise NotWhole("too large")
        found.append(b"".join(made))
    if not engine.whole():
        raise NotWhole("cut short, or more than one stream")
    return found


class _Inflate:
    def __init__(self, window: int) -> None:
        self._engine = zlib.decompressobj(window)

    def feed(self, data: bytes) -> bytes:
        if self._engine.eof:
            raise NotWhole("more than one stream")
        try:
            return self._engine.decompress(data)
        except zlib.error as fault:
            raise NotWhole(str(fault)) from fault

    def whole(self) -> bool:
        return self._engine.eof and not self._engine.unused_data


class _Unzstd:
    def __init__(self) -> None:
        self._engine = zstandard.ZstdDecompressor().decompressobj()

    def feed(self, data: bytes) -> bytes:
        if self._engine.eof:
            raise NotWhole("more than one stream")
        try:
            return self._engine.decompress(data)
        except zstandard.ZstdError as fault:
            raise NotWhole(str(fault)) from fault

    def whole(self) -> bool:
        return self._engine.eof and not self._engine.unused_data


@functools.cache
def _brotli() -> Any:
    """Return the module that the HTTP clients use for this coding. Raises ImportError where the program has none."""
    try:
        return import_module("brotli")
    except ImportError:
        return import_module("brotlicffi")


class _Unbrotli:
    def __init__(self) -> None:
        self._module = _brotli()
        self._engine = self._module.Decompressor()
        self._process = getattr(self._engine, "process", None) or self._engine.decompress  # brotlicffi has the second

    def feed(self, data: bytes) -> bytes:
        try:
            made: bytes = self._process(data)
        except self._module.error as fault:
            raise NotWhole(str(fault)) from fault
        return made

    def whole(self) -> bool:
        return bool(self._engine.is_finished())


# Packing -----------------------------------------------------------------------------------------------------


def recipe_of(content: bytes, plain: bytes, packing: str) -> str:
    """Return the recipe by which `packed` makes exactly `content` of `plain`; "" where it has none."""
    size = {"gzip": 10, "x-gzip": 10, "deflate": 2}.get(packing, 0)
    if not size or len(plain) > RECIPE_BYTES_MAX:
        return ""
    recipe = content[:size].hex()
    try:
        return recipe if packed([plain], packing, recipe) == [content] else ""
    except Unservable:
        return ""


def packed(parts: Sequence[bytes], packing: str, recipe: str = "") -> list[bytes]:
    """The inverse of `unpacked_parts`: as many parts, each giving the same bytes to whoever unpacks it.

    With a recipe the parts are one. Raises Unservable for a coding that is not known here, and for an odd recipe.
    """
    found = list(parts)
    if recipe:
        return [_by_recipe(b"".join(found), packing, recipe)]
    for coding in _codings(packing):
        found = _packed_one(found, coding)
    return found


def _by_recipe(plain: bytes, packing: str, recipe: str) -> bytes:
    try:
        head = bytes.fromhex(recipe)
    except ValueError:
        head = b""
    if packing in ("gzip", "x-gzip") and len(head) == 10 and head[:4] == b"\x1f\x8b\x08\x00":
        end = struct.pack("<LL", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
        return head + _deflated(plain, _LEVELS.get(head[8], 6)) + end
    if packing == "deflate" and len(head) == 2:
        return head + _deflated(plain, (1, 5, 6, 9)[head[1] >> 6]) + struct.pack(">L", zlib.adler32(plain))
    raise Unservable(f"the recorded body is packed by the recipe {ascii(recipe)[:40]}, which is none")


def _deflated(plain: bytes, level: int) -> bytes:
    engine = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return engine.compress(plain) + engine.flush()


def _packed_one(parts: Sequence[bytes], coding: str) -> list[bytes]:
    compress, part_end, end = _packer(coding)
    return [compress(part) + (part_end() if at < len(parts) - 1 else end()) for at, part in enumerate(parts)]


def _packer(coding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes], Callable[[], bytes]]:
    """Return what takes a part, what hands out all that was taken so far, and what ends the stream."""
    if coding in ("gzip", "x-gzip", "deflate"):
        deflate = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS + (0 if coding == "deflate" else 16))
        return deflate.compress, lambda: deflate.flush(zlib.Z_SYNC_FLUSH), deflate.flush
    if coding == "zstd":
        zstd = zstandard.ZstdCompressor().compressobj()
        return zstd.compress, lambda: zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), zstd.flush
    if coding == "br":
        try:
            brotli = _brotli().Compressor(quality=5)
        except ImportError as fault:
            raise Unservable(
                "the recorded answer is packed as br, as its client could unpack it then: install the package "
                "brotli here as well, or record the run again without it"
            ) from fault
        return getattr(brotli, "process", None) or brotli.compress, brotli.flush, brotli.finish
    raise Unservable(f"the recorded body is packed as {ascii(coding)[:40]}, which is not known here")
