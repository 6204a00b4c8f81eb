"""Secrets that a stream cuts in pieces: join, find, and give each piece its part back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from otel_replay.envelope import Payload, Redaction
from otel_replay.redaction_text import Edit, apply
from otel_replay.redaction_tree import Masker

Texts: TypeAlias = dict[tuple[object, ...], list[tuple[int, Any, Any]]]
"""For each text, its pieces: the chunk, and the container and key where the piece stands."""
_MARKS: Final = ("index", "output_index", "content_index", "item_id", "type", "id")
"""Members that tell which text a chunk carries on: parallel tool calls come mixed in one stream."""


def cut(pieces: Sequence[bytes], edits: list[Edit]) -> list[bytes]:
    """Make edits of the joined text in its pieces: the new text goes where an edit begins, the rest of it goes away."""
    out = []
    offset = 0
    for piece in pieces:
        end = offset + len(piece)
        inside: list[Edit] = []
        for start, stop, new in edits:
            begins_here = offset <= start < end
            if begins_here or (start < offset < stop and end > offset):
                inside.append((max(start - offset, 0), min(stop, end) - offset, new if begins_here else b""))
        out.append(apply(piece, inside) if inside else piece)
        offset = end
    return out


def redact_pieces(pieces: Sequence[str], masker: Masker) -> list[str]:
    """Return the pieces redacted as one text."""
    parts = [piece.encode("utf-8", "surrogatepass") for piece in pieces]
    for _ in range(4):
        edits = masker.edits(b"".join(parts))
        if not edits:
            break
        parts = cut(parts, edits)
    return [part.decode("utf-8", "surrogatepass") for part in parts]


def split_secrets(
    payloads: Sequence[Payload], dirty: Callable[[bytes], bool], masker: Masker, hits: list[Redaction]
) -> dict[int, Any]:
    """Return the changed trees, by chunk, of the texts that are dirty when joined across chunks."""
    if len(payloads) < 2:
        return {}
    trees = [payload.tree() for payload in payloads]
    texts: Texts = {}
    whole = list(trees)
    for index in range(len(trees)):
        _gather(whole, index, index, (), texts)
    changed: dict[int, Any] = {}
    for places in texts.values():
        pieces = [holder[key] for _, holder, key in places]
        if len(pieces) < 2 or not dirty("".join(pieces).encode("utf-8", "surrogatepass")):
            continue
        before = len(masker.hits)
        made = redact_pieces(pieces, masker)
        hits += masker.hits[before:]
        for (index, holder, key), old, new in zip(places, pieces, made, strict=True):
            if old != new:
                holder[key] = new
                changed[index] = None
    return {index: whole[index] for index in changed}


def _gather(holder: Any, key: Any, chunk: int, where: tuple[object, ...], texts: Texts) -> None:
    """Collect the string leaves of one chunk under a key that is equal for the pieces of one text."""
    node = holder[key]
    if isinstance(node, str):
        texts.setdefault(where, []).append((chunk, holder, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            step = item.get("index", index) if isinstance(item, dict) else index
            _gather(node, index, chunk, (*where, str(step)), texts)
    elif isinstance(node, dict):
        marks = tuple(str(node[name]) for name in _MARKS[:-1] if isinstance(node.get(name), (str, int)))
        for name in node:
            if name not in ("$", "t") and name not in _MARKS:
                _gather(node, name, chunk, (*where, marks, name), texts)
