"""HTTP bodies: decompression that stops at a bound, whatever the bytes claim to be."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

ENCODINGS: Final = ("gzip", "deflate", "zstd", "identity")
_OUT_BYTES: Final = 1024 * 1024
_ZSTD_IN_BYTES: Final = 1024
"""A zstd block of 4 bytes can stand for 128 KiB: 1 KiB of input is 32 MiB of output at most."""
_ZSTD_WINDOW_MAX: Final = 128 * 1024 * 1024


class BadBody(ValueError):
    """The body is not what its content-encoding says. The text never holds bytes of it."""


class TooLarge(ValueError):
    """The body is, or unfolds to, more than the limit."""


class UnknownEncoding(ValueError):
    """A content-encoding that is not in `ENCODINGS`."""


def _zlib_members(data: bytes, wbits: int, what: str) -> Iterator[bytes]:
    """Yield the output of every member of `data`, in bounded pieces."""
    rest = data
    while rest:
        inflater = zlib.decompressobj(wbits)
        while not inflater.eof:
            try:
                piece = inflater.decompress(rest, _OUT_BYTES)
            except zlib.error as fault:
                raise BadBody(f"the body is not {what}: {fault}") from None
            rest = inflater.unconsumed_tail
            if piece:
                yield piece
            elif not inflater.eof and not rest:
                raise BadBody(f"the {what} body ends in the middle")
        rest = inflater.unused_data
        if wbits < 0 and rest:
            raise BadBody("bytes follow the end of the deflate body")
        rest = rest.lstrip(b"\0") if not rest.strip(b"\0") else rest  # gzip files may be padded with zeros


def _deflate(data: bytes) -> Iterator[bytes]:
    # "deflate" means zlib in the standard and the bare stream in much of the field. The header tells them apart.
    if len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0:
        return _zlib_members(data, zlib.MAX_WBITS, "deflate")
    return _zlib_members(data, -zlib.MAX_WBITS, "deflate")


def _zstd(data: bytes) -> Iterator[bytes]:
    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX)
    view = memoryview(data)
    at = 0
    while at < len(view):
        frame = context.decompressobj()
        while not frame.eof:
            if at >= len(view):
                raise BadBody("the zstd body ends in the middle")
            chunk = view[at : at + _ZSTD_IN_BYTES]
            at += len(chunk)
            try:
                piece = frame.decompress(chunk)
            except zstandard.ZstdError as fault:
                raise BadBody(f"the body is not zstd: {fault}") from None
            if piece:
                yield piece
        at -= len(frame.unused_data)


def decompress(data: bytes, encoding: str, bytes_max: int, reserve: Callable[[int], None]) -> bytes:
    """Return `data` decoded from content-encoding `encoding` ("" for none).

    `reserve` is called with the size of each piece before it is kept. Raises BadBody, TooLarge, UnknownEncoding, and
    what `reserve` raises.
    """
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        if len(data) > bytes_max:
            raise TooLarge(f"the body has {len(data)} bytes, the limit is {bytes_max}")
        return data
    if name == "gzip":
        pieces = _zlib_members(data, zlib.MAX_WBITS | 16, "gzip")
    elif name == "deflate":
        pieces = _deflate(data)
    elif name == "zstd":
        pieces = _zstd(data)
    else:
        raise UnknownEncoding(f"content-encoding {encoding[:40]!r} is not accepted; accepted: {', '.join(ENCODINGS)}")
    if not data:
        raise BadBody(f"the {name} body is empty")
    out: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > bytes_max:
            raise TooLarge(f"the body unfolds to more than the limit of {bytes_max} bytes")
        reserve(len(piece))
        out.append(piece)
    return b"".join(out)
