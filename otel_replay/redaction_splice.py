"""Carry what redaction changed in a tree into the JSON text that the tree was read from, and nothing else.

White space, the order of members and the spelling of numbers stay as they were: a text inside a text is compared
byte for byte by those who signed or counted it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from otel_replay import redaction_text as texts

Tree: TypeAlias = Any


class Splice:
    """Carry the difference of two trees into the JSON text of the first, token by token."""

    _TOKEN: Final = re.compile(rb'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._edits: list[texts.Edit] = []

    def edits(self, old: Tree, new: Tree) -> list[texts.Edit]:
        self._value(old, new)
        return self._edits

    def _next(self) -> tuple[int, int, bytes]:
        found = self._TOKEN.match(self._raw, self._at)
        if found is None:
            raise ValueError("the text is not JSON")
        self._at = found.end()
        return found.start(1), found.end(1), found.group(1)

    def _value(self, old: Tree, new: Tree) -> None:
        start, _, token = self._next()
        mark = len(self._edits)
        if token == b"{":
            self._members(old, new)
        elif token == b"[":
            self._items(old, new)
        if type(old) is not type(new) or (not isinstance(old, (dict, list)) and old != new):
            del self._edits[mark:]
            self._edits.append(_narrow(start, self._raw[start : self._at], _literal(new, token)))

    def _members(self, old: Mapping[str, Tree], new: Tree) -> None:
        same_size = isinstance(new, dict) and len(new) == len(old)
        for (key, item), (new_key, new_item) in zip(old.items(), (new if same_size else old).items(), strict=True):
            start, end, token = self._next()
            if key != new_key:
                self._edits.append(_narrow(start, self._raw[start:end], _literal(new_key, token)))
            self._next()
            self._value(item, new_item)
            self._next()
        if not old:
            self._next()

    def _items(self, old: list[Tree], new: Tree) -> None:
        for index, item in enumerate(old):
            self._value(item, new[index] if isinstance(new, list) and index < len(new) else item)
            self._next()
        if not old:
            self._next()


def _literal(value: Tree, like: bytes) -> bytes:
    return json.dumps(value, ensure_ascii=like.isascii()).encode("utf-8", "surrogatepass")


def _narrow(start: int, old: bytes, new: bytes) -> texts.Edit:
    """Return the edit without what both literals have in common at their ends."""
    head = 0
    limit = min(len(old), len(new))
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    # An escape is one thing: never cut one in two.
    while head and old[head - 1] == 0x5C:
        head -= 1
    return (start + head, start + len(old) - tail, new[head : len(new) - tail])
