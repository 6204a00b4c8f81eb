"""Fields that this version of OTLP does not know: taken out of parsed messages, and put back where they stood.

A span's own unknown fields are kept as they came. Those of nested messages (an event, the resource, the scope) are
kept beside them in one private field, each with the path of the message it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from ._schema import Leftover

ROOT_SPAN: Final = 0
ROOT_RESOURCE: Final = 1
ROOT_SCOPE: Final = 2
Path = tuple[int, ...]


def has_unknown(message: Any) -> bool:
    """Return True where `message` or one within it holds unknown fields. The message loses them in the asking."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != size)


def collect(message: Any, path: Path = ()) -> Iterator[tuple[Path, bytes]]:
    """Yield (path, bytes) of every message at or below `message` with unknown fields; paths are number, index, ..."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field, value in message.ListFields():
        rest.ClearField(field.name)
        if field.message_type is None:
            continue
        if field.is_repeated:
            for index, item in enumerate(value):
                yield from collect(item, (*path, field.number, index))
        else:
            yield from collect(value, (*path, field.number, 0))
    data = rest.SerializeToString()
    if data:
        yield path, data


def restore(message: Any, path: Path, data: bytes) -> None:
    """Put `data` back into the message at `path`; where that message is gone, the fields go with it."""
    try:
        for number, index in zip(path[::2], path[1::2], strict=True):
            field = message.DESCRIPTOR.fields_by_number[number]
            value = getattr(message, field.name)
            message = value[index] if field.is_repeated else value
        message.MergeFromString(data)
    except (KeyError, IndexError, ValueError, AttributeError, DecodeError):
        return


def pack(parts: list[tuple[int, Path, bytes]]) -> bytes:
    """Return `Span.unknown` for (root, path, bytes) parts: a span's own fields first, as they came."""
    own = b"".join(data for root, path, data in parts if root == ROOT_SPAN and not path)
    leftover = Leftover()
    for root, path, data in parts:
        if root != ROOT_SPAN or path:
            leftover.nested.add(root=root, path=path, data=data)
    return own + bytes(leftover.SerializeToString())


def unpack(unknown: bytes) -> list[tuple[int, Path, bytes]]:
    """Return the (root, path, bytes) parts of `Span.unknown`; none where it is no protobuf."""
    try:
        leftover = Leftover.FromString(unknown)
    except DecodeError:
        return []
    nested = [(int(item.root), tuple(item.path), bytes(item.data)) for item in leftover.nested]
    leftover.ClearField("nested")
    own = bytes(leftover.SerializeToString())
    return ([(ROOT_SPAN, (), own)] if own else []) + nested
