"""The two walkers: a value becomes a JSON tree with tags, and such a tree becomes a value again.

Families register here: `encodes(type, ...)` for exact types, `family(...)` for kinds of classes, and
`decodes(tag)` for the way back. Nothing in this file knows a particular kind.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, TypeAlias, cast

from otel_replay.encodings import names
from otel_replay.errors import Unservable
from otel_replay.limits import PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX

Tree: TypeAlias = Any
"""What orjson writes: str, int, float, bool, None, list, dict with str keys. Tags are dicts with the key "$"."""

NODES_MAX = PAYLOAD_BYTES_MAX // 2
"""No tree within the byte limit has more nodes: an element takes at least its own byte and a comma."""
INT_MIN, INT_MAX = -(2**63), 2**64 - 1


class Lost(Exception):
    """Raised while encoding: this value cannot be kept, and why. Caught where the value stands."""


class TooLarge(Exception):
    """Raised while encoding: the whole value is beyond the byte limit."""


EncodeFn: TypeAlias = "Callable[[Any, Encoder], Tree]"
DecodeFn: TypeAlias = "Callable[[dict[str, Tree], Decoder], object]"
PickFn: TypeAlias = "Callable[[type], EncodeFn | None]"

_EXACT: dict[type, EncodeFn] = {}
_FAMILIES: list[tuple[int, PickFn]] = []
_DECODERS: dict[str, DecodeFn] = {}
_picked: weakref.WeakKeyDictionary[type, EncodeFn] = weakref.WeakKeyDictionary()


def encodes(*types: type) -> Callable[[EncodeFn], EncodeFn]:
    """Register the encoder of values whose type is exactly one of `types`."""

    def add(fn: EncodeFn) -> EncodeFn:
        for cls in types:
            _EXACT[cls] = fn
        return fn

    return add


def family(rank: int) -> Callable[[PickFn], PickFn]:
    """Register a function that returns the encoder for a class of its family, or None. Lowest rank is asked first."""

    def add(fn: PickFn) -> PickFn:
        _FAMILIES.append((rank, fn))
        _FAMILIES.sort(key=lambda pair: pair[0])
        return fn

    return add


def decodes(*tags: str) -> Callable[[DecodeFn], DecodeFn]:
    """Register the decoder of tagged values."""

    def add(fn: DecodeFn) -> DecodeFn:
        for tag in tags:
            _DECODERS[tag] = fn
        return fn

    return add


def forget_picks() -> None:
    """Forget which encoder serves which class; called when the registry changes."""
    _picked.clear()


def _pick(cls: type) -> EncodeFn:
    found = _picked.get(cls)
    if found is None:
        found = next((fn for _, pick in _FAMILIES if (fn := pick(cls)) is not None), _EXACT.get(cls, _unknown))
        _picked[cls] = found
    return found


def _unknown(value: object, _: Encoder) -> Tree:
    raise Lost(f"{names.readable(type(value))} is not a kind of value that can be kept; register() it to keep it")


def clean(text: str) -> bool:
    """True where `text` can be written as UTF-8, so holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def child(path: str, part: str) -> str:
    """Return `path` with one more step. Steps are ".name", "[0]" or "['any key']"."""
    return path + part if path or not part.startswith(".") else part[1:]


def key_step(key: object) -> str:
    """Return the step of a path that a mapping key makes."""
    if type(key) is str:
        return f".{key}" if key.isidentifier() else f"[{key[:40]!a}]"
    return f"[{key}]" if type(key) in (int, bool) else f"[{type(key).__name__} key]"


class Encoder:
    """One walk over one value. `reason` is the first loss with its path; `tagged` tells that a tag was written."""

    __slots__ = ("active", "chain", "depth", "held", "nodes", "path", "reason", "tagged")

    def __init__(self) -> None:
        self.active: set[int] = set()
        self.chain = 0
        self.depth = 0
        self.held: list[object] = []
        self.nodes = 0
        self.path = ""
        self.reason = ""
        self.tagged = False

    def value(self, value: object, step: str = "") -> Tree:
        """Return the tree of `value`, which stands at `step` under the current path. Losses stay in place."""
        kind = type(value)
        if kind is str:
            return value if clean(cast(str, value)) else self._tag(value, kind, step)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if INT_MIN <= cast(int, value) <= INT_MAX else self._tag(value, kind, step)
        if kind is float:
            return value if isfinite(cast(float, value)) else self._tag(value, kind, step)
        return self._nested(value, kind, step)

    def items(self, values: Iterable[object]) -> list[Tree]:
        """Return the trees of `values`, each at its index."""
        out = []
        for index, value in enumerate(values):
            self.count()
            out.append(self.value(value, f"[{index}]"))
        return out

    def state(self, state: dict[str, object]) -> Tree:
        """Return the tree of an object's attributes, each at `.name`."""
        return self.mapping(state)

    def mapping(self, mapping: dict[Any, Any]) -> Tree:
        """Return a plain object where every key is plain text, else the tagged list of pairs."""
        pairs = list(dict.items(mapping))
        if all(type(key) is str and key != "$" and clean(key) for key, _ in pairs):
            out = {}
            for key, value in pairs:
                self.count()
                out[key] = self.value(value, key_step(key))
            return out
        self.tagged = True
        self.depth += 2
        try:
            return {"$": "dict", "v": [[self.value(k, "[key]"), self.value(v, key_step(k))] for k, v in pairs]}
        finally:
            self.depth -= 2

    def count(self) -> None:
        """Count one more node of the tree. Raises TooLarge past the limit: shared parts can grow without end."""
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise TooLarge

    def hold(self, temporary: object) -> object:
        """Keep a temporary object alive during the walk, so that its id stays its own."""
        self.held.append(temporary)
        return temporary

    def _tag(self, value: object, kind: type, step: str) -> Tree:
        self.tagged = True
        outer, self.path = self.path, child(self.path, step)
        try:
            return _EXACT[kind](value, self)
        finally:
            self.path = outer

    def _nested(self, value: object, kind: type, step: str) -> Tree:
        outer, depth = self.path, self.depth
        self.path = child(outer, step)
        me = id(value)
        entered = False
        try:
            if me in self.active:
                raise Lost("it contains itself, and a value with a cycle cannot be kept")
            self.depth += 1 if kind is list or kind is dict else 2
            if self.depth > PAYLOAD_DEPTH_MAX:
                raise Lost(f"it is nested deeper than {PAYLOAD_DEPTH_MAX} levels")
            self.active.add(me)
            entered = True
            if kind is list:
                return self.items(list(cast("list[object]", value)))
            if kind is dict:
                return self.mapping(cast("dict[Any, Any]", value))
            self.tagged = True
            return _pick(kind)(value, self)
        except TooLarge:
            raise
        except RecursionError:
            return self.lost(value, "it is nested deeper than the interpreter's recursion limit leaves room for")
        except Lost as loss:
            return self.lost(value, str(loss))
        except Exception as error:  # noqa: BLE001 - a value's own code may raise anything; the agent must go on
            return self.lost(value, f"reading it raised {type(error).__name__}")
        finally:
            if entered:
                self.active.discard(me)
            self.path, self.depth = outer, depth

    def lost(self, value: object, reason: str) -> Tree:
        """Return the tag of a lost value, and remember the first loss with its path."""
        self.tagged = True
        reason = reason.encode("utf-8", "backslashreplace").decode()
        if not self.reason:
            self.reason = f"{self.path}: {reason}" if self.path else reason
            self.reason = self.reason.encode("utf-8", "backslashreplace").decode()
        return {"$": "lost", "t": names.readable(type(value)), "reason": reason}


_TREE_DEPTH_MAX = 3 * PAYLOAD_DEPTH_MAX + 10
"""A tagged level is an object, a list, and at times a pair within it."""


class Decoder:
    """One walk over one tree. Raises Unservable for all that is not a value that `Encoder` writes."""

    __slots__ = ("_depth",)

    def __init__(self) -> None:
        self._depth = 0

    def value(self, tree: Tree) -> Any:
        """Return the value of `tree`. Raises Unservable where it is nested deeper than `Encoder` writes."""
        kind = type(tree)
        if kind is not list and kind is not dict:
            return tree
        self._depth += 1
        if self._depth > _TREE_DEPTH_MAX:  # of its own: how deep Python itself may go differs by version
            raise Unservable("the recorded value is nested too deep to be rebuilt")
        try:
            return self._holder(tree)
        finally:
            self._depth -= 1

    def _holder(self, tree: Tree) -> Any:
        if type(tree) is list:
            return [self.value(item) for item in tree]
        assert type(tree) is dict
        tag = tree.get("$")
        if tag is None and "$" not in tree:
            return {key: self.value(item) for key, item in tree.items()}
        decoder = _DECODERS.get(tag) if type(tag) is str else None
        if decoder is None:
            raise Unservable(f"the record holds a value with the unknown tag {ascii(tag)[:60]}")
        return decoder(tree, self)

    def part(self, tree: dict[str, Tree], key: str, *types: type) -> Any:
        """Return the raw member `key` of a tagged value. Raises Unservable where it is absent or of another type."""
        found = tree.get(key)
        if type(found) not in types:
            raise Unservable(f"the recorded {tree.get('$')} is malformed: its {key!r} is {type(found).__name__}")
        return found

    def decoded(self, tree: dict[str, Tree], key: str, *types: type) -> Any:
        """Return the decoded member `key`. Raises Unservable where it is absent or not exactly of one of `types`."""
        if key not in tree:
            raise Unservable(f"the recorded {tree.get('$')} is malformed: it lacks {key!r}")
        found = self.value(tree[key])
        if type(found) not in types:
            raise Unservable(f"the recorded {tree.get('$')} is malformed: its {key!r} is {type(found).__name__}")
        return found


@decodes("lost")
def _decode_lost(tree: dict[str, Tree], _: Decoder) -> object:
    raise Unservable(f"a part of it ({ascii(tree.get('t'))[1:-1]}) was not kept: {tree.get('reason')}")
