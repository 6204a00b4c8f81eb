"""Secrets that lie in pieces: the chunks of a stream, the items of a list. Join, find, give each piece its part back.

The placeholder stands in the piece where the secret began; the rest of the secret goes away. In a stream any secret
may be cut. Of the items of one list only private keys are joined, line by line or anywhere within a line, and the
tokens of `logprobs`: joining all neighbours would find secrets where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_replay import redaction_rules as rules
from otel_replay.envelope import Payload, Redaction
from otel_replay.redaction_text import Edit, apply, split_keys

if TYPE_CHECKING:
    from otel_replay.redaction_tree import Masker

Step: TypeAlias = "str | int"


class Piece(NamedTuple):
    """One piece of a text: the chunk it came in, the container and key where it stands, and its path."""

    chunk: int
    holder: Any
    key: Any
    path: tuple[Step, ...]

    def text(self) -> str:
        return str(self.holder[self.key])

    def is_token(self) -> bool:
        return self.key == "token" and isinstance(self.holder, dict) and "logprob" in self.holder

    def put(self, text: str) -> None:
        """Put the text in its place. A token of logprobs also stands beside itself as bytes and as an alternative."""
        self.holder[self.key] = text
        if self.is_token():
            if isinstance(self.holder.get("bytes"), list):
                self.holder["bytes"] = list(text.encode("utf-8", "replace"))
            if isinstance(self.holder.get("top_logprobs"), list):
                self.holder["top_logprobs"] = []


Texts: TypeAlias = "dict[tuple[object, ...], list[Piece]]"
_MARKS: Final = ("index", "output_index", "content_index", "item_id", "type", "id")
"""Members that tell which text a chunk carries on: parallel tool calls come mixed in one stream."""
_PLAIN_MEMBERS: Final = ("text", "content", "value", "v", "parts")
"""Members that hold the text of what is around them: a message may be a string here and a list of parts there."""
OPAQUE_TAGS: Final = frozenset(
    ("enum", "flag", "class", "generic", "union", "typevar", "lost", "function", "module", "constant")
)
"""Tags that name things of the program; nothing in them is a value of the user's."""
_IN_PIECES: Final = rules.scan(rf"{rules.KEY_IN_PIECES}|{rules.EVENTS}|\"logprob")


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
    parts = _redact_parts([piece.encode("utf-8", "surrogatepass") for piece in pieces], masker)
    return [part.decode("utf-8", "surrogatepass") for part in parts]


def _redact_parts(parts: list[bytes], masker: Masker) -> list[bytes]:
    # Lines of a stream that came without their ends are lines all the same.
    lines = [part + b"\n" for part in parts] if any(map(_is_event, parts)) and b"\n" not in b"".join(parts) else []
    parts = lines or parts
    for _ in range(4):
        edits = masker.edits(b"".join(parts))
        if not edits:
            break
        parts = cut(parts, edits)
    return [part.removesuffix(b"\n") for part in parts] if lines else parts


def _is_event(line: bytes) -> bool:
    return line.startswith((b"data:", b"{")) and line.rstrip().endswith(b"}")


def _are_events(pieces: list[str]) -> bool:
    """True for the lines of a stream: what they hold may be cut by what is around it in each."""
    return any(_is_event(piece.encode("utf-8", "replace")) for piece in pieces)


def split_secrets(
    payloads: Sequence[Payload], dirty: Callable[[bytes], bool], masker: Masker, hits: list[Redaction]
) -> dict[int, Any]:
    """Return the changed trees, by chunk, of the texts that are dirty when joined across chunks."""
    if len(payloads) < 2:
        return {}
    trees = [payload.tree() for payload in payloads]
    before = len(masker.hits)
    changed = redact_trees(trees, dirty, masker)
    hits += masker.hits[before:]
    return {index: trees[index] for index in changed}


def redact_trees(trees: list[Any], dirty: Callable[[bytes], bool], masker: Masker) -> list[int]:
    """Redact, in place, what is secret in the texts that grow from tree to tree; return which trees changed."""
    texts: Texts = {}
    for index in range(len(trees)):
        _gather(trees, index, index, (), texts)
    changed: set[int] = set()
    for places in texts.values():
        pieces = [piece.text() for piece in places]
        if len(pieces) < 2 or not (dirty("".join(pieces).encode("utf-8", "surrogatepass")) or _are_events(pieces)):
            continue
        for place, old, new in zip(places, pieces, redact_pieces(pieces, masker), strict=True):
            if old != new:
                place.put(new)
                changed.add(place.chunk)
    return sorted(changed)


def _gather(holder: Any, key: Any, chunk: int, where: tuple[object, ...], texts: Texts) -> None:
    """Collect the string leaves of one chunk under a key that is equal for the pieces of one text."""
    node = holder[key]
    if isinstance(node, str):
        texts.setdefault(where, []).append(Piece(chunk, holder, key, ()))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            step = item.get("index", index) if isinstance(item, dict) else index
            _gather(node, index, chunk, (*where, str(step)), texts)
    elif isinstance(node, dict):
        marks = tuple(str(node[name]) for name in _MARKS[:-1] if isinstance(node.get(name), (str, int)))
        for name in node:
            if name not in _MARKS and not ("$" in node and name in ("$", "t")):
                _gather(node, name, chunk, (*where, marks, name), texts)


# Within one tree ---------------------------------------------------------------------------------------------


def may_be_in_pieces(raw: bytes) -> bool:
    """True where the text of a tree may hold a private key, or tokens, in pieces."""
    return _IN_PIECES.search(raw) is not None


def redact_items(tree: Any, path: tuple[Step, ...], masker: Masker) -> Any:
    """Redact, in place, the private keys whose lines or pieces are items of the lists of one tree, and split tokens."""
    around = [tree]
    texts: Texts = {}
    for where, piece in _leaves(around, 0, path, ()):
        texts.setdefault(where, []).append(piece)
    for places in texts.values():
        if len(places) < 2:
            continue
        pieces = [place.text().encode("utf-8", "surrogatepass") for place in places]
        if places[0].is_token() or sum(map(_is_event, pieces)) > 1:
            made = _redact_parts(pieces, masker)
        else:
            made = _without_keys(pieces, places, masker)
        for place, old, new in zip(places, pieces, made, strict=True):
            if old != new:
                place.put(new.decode("utf-8", "surrogatepass"))
    return around[0]


def _without_keys(pieces: list[bytes], places: list[Piece], masker: Masker) -> list[bytes]:
    if not masker.own.defaults:
        return pieces
    starts = list(accumulate((len(piece) for piece in pieces), initial=0))
    joined = b"".join(pieces)
    edits: list[Edit] = []
    for start, end in split_keys(pieces):
        first = next(at for at in range(len(pieces)) if starts[at] <= start < starts[at + 1])
        if end > starts[first + 1]:  # else it lies in one item, which the walk sees
            edits.append((start, end, masker.placeholder(joined[start:end], places[first].path, "private-key")))
    return cut(pieces, edits)


def _leaves(holder: Any, key: Any, path: tuple[Step, ...], where: tuple[str, ...]) -> Iterator[tuple[Any, Piece]]:
    """Yield the string leaves in order, each with a name that is equal for the pieces of one text."""
    node = holder[key]
    if isinstance(node, str):
        yield where, Piece(0, holder, key, path)
    elif isinstance(node, list):
        for index, _ in enumerate(node):
            yield from _leaves(node, index, (*path, index), where)
    elif isinstance(node, dict) and node.get("$") not in OPAQUE_TAGS:
        role = node.get("role")
        where = (*where, f"role={role}") if isinstance(role, str) else where
        for name in node:
            if name == "role" or ("$" in node and name in ("$", "t", "base64")):
                continue
            plain = name in _PLAIN_MEMBERS or name.isdigit()
            inner = where if plain else (*where, name.rstrip("0123456789"))
            yield from _leaves(node, name, path if "$" in node and name in ("v", "text") else (*path, name), inner)
