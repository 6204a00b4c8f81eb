"""Redact the tree of a payload: leaves under secret names, header pairs, JSON text inside strings, text anywhere.

Tags of typed JSON stay valid: class names and structural tags are never touched, bytes are looked into.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import re2

from otel_replay import redaction_chunks as chunks
from otel_replay import redaction_rules as rules
from otel_replay import redaction_text as texts
from otel_replay.envelope import Redaction
from otel_replay.paths import Path, PathRule, show
from otel_replay.redaction_splice import Splice

Tree: TypeAlias = Any
Function: TypeAlias = "Callable[[str, object], object]"

TEXT_TAGS: Final = frozenset(("str", "bytes", "bytearray", "memoryview", "path", "pattern"))
TRANSPARENT: Final = frozenset(("v", "state", "extra", "private", "members"))
"""Members of a tag that add no step to a path."""
_BOOKKEEPING: Final = frozenset(("$", "t", "set", "factory", "of"))
_KNOWN_CHARS: Final = re.compile(r"[!#-\[\]-~]{8,200}")
KNOWN_MAX: Final = 256


class Known:
    """Secrets that a run has shown so far, so that one seen under `password` is also found where it stands bare.

    Only long random-looking values are kept, in memory only. A secret is learnt before control returns to the agent,
    so whatever is made from it comes later, in record and replay alike.
    """

    __slots__ = ("_rules", "regex")

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self.regex: re2._Regexp | None = None

    def learn(self, rule: str, secret: str) -> None:
        """Remember `secret` if it is long and random enough to be told from a word."""
        if secret in self._rules or len(self._rules) >= KNOWN_MAX:
            return
        if rules.looks_random(secret) and _KNOWN_CHARS.fullmatch(secret) and not texts.PLACEHOLDER.search(secret):
            self._rules = {**self._rules, secret: rule}
            longest_first = sorted(self._rules, key=len, reverse=True)
            self.regex = rules.compiled(rf"\b({'|'.join(map(re.escape, longest_first))})\b")

    def rule(self, secret: str) -> str:
        return self._rules.get(secret, "known")


class Scope:
    """One crossing: gives the same secret the same placeholder, numbered by first occurrence."""

    __slots__ = ("_by_secret", "_next", "_taken", "known")

    def __init__(self, known: Known | None = None) -> None:
        self._by_secret: dict[str, str] = {}
        self._taken: set[int] = set()
        self._next = 1
        self.known = known if known is not None else Known()

    def reserve(self, text: str) -> None:
        """Leave the numbers of placeholders that stand in `text` already to them."""
        if "[redacted:" in text:
            self._taken.update(int(found.group(2)) for found in texts.PLACEHOLDER.finditer(text))

    def placeholder(self, rule: str, secret: str) -> str:
        """Return the placeholder of `secret`. Its number counts secrets and tells nothing of the value."""
        found = self._by_secret.get(secret)
        if found is None:
            while self._next in self._taken:
                self._next += 1
            found = self._by_secret[secret] = f"[redacted:{rule}#{self._next}]"
            self._next += 1
            self.known.learn(rule, secret)
        return found


class RuleSet:
    """The rules of one redactor beyond the built-in ones, compiled."""

    __slots__ = ("defaults", "functions", "keep_paths", "keep_patterns", "paths", "patterns")

    def __init__(self) -> None:
        self.defaults = True
        self.paths: tuple[PathRule, ...] = ()
        self.patterns: tuple[texts.Pattern, ...] = ()
        self.functions: tuple[tuple[str, Function], ...] = ()
        self.keep_paths: tuple[PathRule, ...] = ()
        self.keep_patterns: tuple[re2._Regexp, ...] = ()


class Masker:
    """One walk over one tree. `hits` lists what was redacted, by logical path."""

    __slots__ = ("_scan", "hits", "own", "root", "scope")

    def __init__(self, own: RuleSet, scope: Scope, scan: Callable[[bytes], bool], root: str = "$") -> None:
        """`scan` says of encoded bytes whether any rule could hit; it may be wrong only by saying yes."""
        self._scan = scan
        self.own = own
        self.scope = scope
        self.root = root
        self.hits: list[Redaction] = []

    def whole(self, tree: Tree, raw: bytes, path: Path = ()) -> Tree:
        """Return a whole tree redacted, `raw` being its text: what lies in pieces in it, then node by node."""
        if chunks.may_be_in_pieces(raw):
            tree = chunks.redact_items(tree, path, self)
        return self.node(tree, path)

    # Nodes ---------------------------------------------------------------------------------------------------

    def node(self, tree: Tree, path: Path, name: str = "") -> Tree:
        """Return `tree` redacted; containers are changed in place. `name` is the key or header it stands under."""
        if type(tree) is dict:
            return self._tag(tree, path, name) if "$" in tree else self._object(tree, path, name)
        if type(tree) is list:
            return self._list(tree, path, name)
        return self._leaf(tree, path, name)

    def _object(self, tree: dict[str, Tree], path: Path, name: str) -> Tree:
        label = next((tree[key] for key in ("name", "key") if isinstance(tree.get(key), str)), "")
        under = name if name.startswith("\0") else ""
        renamed = False
        for key, item in tree.items():
            step = key.rstrip(_AGAIN)
            inner = under or (label if step == "value" and label else step)
            if step == "token" and "logprob" in tree:
                inner = ""  # a token of a text, not a credential
            tree[key] = self.node(item, (*path, step), inner)
            renamed = renamed or self._scan(key.encode("utf-8", "surrogatepass"))
        if renamed:  # in its own order, which is the order of what is around it in the text
            members = {self.text(key, (*path, key)): item for key, item in tree.items()}
            tree.clear()
            tree.update(members)
        return tree

    def _tag(self, tree: dict[str, Tree], path: Path, name: str) -> Tree:
        tag = tree["$"]
        if tag in chunks.OPAQUE_TAGS:
            return tree
        if tag == "dict" and isinstance(tree.get("v"), list):
            for pair in tree["v"]:
                if isinstance(pair, list) and len(pair) == 2:
                    key = _text_of(pair[0])
                    pair[0] = self.node(pair[0], (*path, key))
                    pair[1] = self.node(pair[1], (*path, key), key)
            return tree
        if isinstance(tree.get("base64"), str):
            return self._bytes(tree, path, name)
        if tag in ("int", "float", "decimal", "uuid") and self._whole(path, name, str(tree.get("v"))):
            return self._mask(str(tree.get("v")), path, rules.rule_name(name))
        for key, item in tree.items():
            if key not in _BOOKKEEPING and (tag in TEXT_TAGS or not isinstance(item, str) or key not in TRANSPARENT):
                plain = key in TRANSPARENT or (key == "text" and tag in TEXT_TAGS)
                tree[key] = self.node(item, path if plain else (*path, key), name if plain else key)
        return tree

    def _list(self, tree: list[Tree], path: Path, name: str) -> Tree:
        pairs = _pairs(tree)
        for index, item in enumerate(tree):
            here = (*path, index)
            if pairs is not None:
                pair = pairs[index]
                key = _text_of(pair[0])
                pair[0] = self.node(pair[0], (*here, 0))
                pair[1] = self.node(pair[1], (*here, 1), key if key.lower() in rules.HEADER_NAMES else name)
            else:
                tree[index] = self.node(item, here, name)
        return tree

    # Leaves --------------------------------------------------------------------------------------------------

    def _leaf(self, value: Tree, path: Path, name: str) -> Tree:
        if value is None or isinstance(value, bool) or any(rule.matches(path) for rule in self.own.keep_paths):
            return value
        for rule in self.own.paths:
            if any(rule.matches(path[:length]) for length in range(1, len(path) + 1)):
                return self._mask(value, path, "path")
        for label, function in self.own.functions:
            made = function(show(path), value)
            if made is not None and made != value:
                if made is True:
                    return self._mask(value, path, label)
                self.hits.append(Redaction(label, self._show(path), len(str(value))))
                return made
        if isinstance(value, str):
            return self.text(value, path, name)
        if self.own.defaults and self._whole(path, name, value):
            return self._mask(value, path, rules.rule_name(name))
        return value

    def _show(self, path: Path) -> str:
        return self.root + show(path)[1:]

    def _whole(self, path: Path, name: str, value: object) -> bool:
        """True where a number stands under a secret name and is long enough to be one."""
        return bool(name) and rules.is_secret_name(name) and len(str(value)) >= 4

    def _mask(self, value: object, path: Path, rule: str) -> Tree:
        text = value if isinstance(value, str) else json.dumps(value)
        if texts.PLACEHOLDER.fullmatch(text) or not text or self._kept(text):
            return value
        return self._hit(rule, path, text)

    def placeholder(self, secret: bytes, path: Path, rule: str) -> bytes:
        """Return what stands for a secret; the secret itself where a rule keeps it."""
        text = secret.decode("utf-8", "surrogatepass")
        return secret if self._kept(text) else self._hit(rule, path, text).encode()

    def _hit(self, rule: str, path: Path, secret: str) -> str:
        self.hits.append(Redaction(rule, self._show(path), len(secret)))
        return self.scope.placeholder(rule, secret)

    def _kept(self, secret: str) -> bool:
        return any(regex.search(secret.encode("utf-8", "replace")) for regex in self.own.keep_patterns)

    def text(self, value: str, path: Path = (), name: str = "") -> str:
        """Return a text redacted, until nothing more is found."""
        raw = value.encode("utf-8", "surrogatepass")
        for _ in range(4):
            edits = self.edits(raw, path, name)
            if not edits:
                break
            raw = texts.apply(raw, edits)
        return raw.decode("utf-8", "surrogatepass")

    def edits(self, raw: bytes, path: Path = (), name: str = "") -> list[texts.Edit]:
        """Return what has to change in one text: inside where it is JSON, or lines of it are, else as it stands."""
        if raw.lstrip()[:1] in (b"{", b"[", b'"'):
            inside = self._json(raw, path)
            if inside is not None:
                return inside
        if b"\n" in raw and _JSON_LINE.search(raw):
            return self._lines(raw, path, name)
        return self._plain(raw, path, name)

    def _plain(self, raw: bytes, path: Path, name: str) -> list[texts.Edit]:
        hits: list[texts.Hit] = []
        if self.own.defaults and name:
            hits = [hit for hit in _named(name, raw) if b"[redacted:" not in raw[hit.start : hit.end]]
            hits = texts.signatures(raw) or hits
        if not hits and self._scan(raw):
            hits = texts.find(raw, self.own.patterns, self.scope.known.regex, self.own.defaults)
        edits = []
        for hit in hits:
            secret = raw[hit.start : hit.end].decode("utf-8", "surrogatepass")
            if self._kept(secret):
                continue
            rule = self.scope.known.rule(secret) if hit.rule == "known" else hit.rule
            self.hits.append(Redaction(rule, self._show(path), len(secret)))
            edits.append((hit.start, hit.end, self.scope.placeholder(rule, secret).encode()))
        return edits

    def _lines(self, raw: bytes, path: Path, name: str) -> list[texts.Edit]:
        """JSON Lines and server-sent events: the JSON of a line is redacted as JSON, what is between as text."""
        found = [match for match in _JSON_LINE.finditer(raw) if _is_json(match.group(1))]
        old = [_parse(match.group(1)) for match in found]
        new = [_parse(match.group(1)) for match in found]
        chunks.redact_trees(new, self._scan, self)
        edits: list[texts.Edit] = []
        at = 0
        for match, before, after in zip(found, old, new, strict=True):
            start, end = match.span(1)
            after = self.whole(after, match.group(1), path)
            edits += _shift(self._plain(raw[at:start], path, name), at)
            edits += _shift(Splice(match.group(1)).edits(before, after), start) if after != before else []
            at = end
        return edits + _shift(self._plain(raw[at:], path, name), at)

    def _json(self, raw: bytes, path: Path) -> list[texts.Edit] | None:
        """Return the edits inside JSON text, its spelling kept; None where it is no JSON object, list or string."""
        try:
            old, new = _parse(raw), _parse(raw)
            if not isinstance(old, (dict, list, str)):
                return None
            new = self.whole(new, raw, path)
            if new == old:
                return []
            return Splice(raw).edits(old, new)
        except (ValueError, RecursionError):
            return None

    def _bytes(self, tree: dict[str, Tree], path: Path, name: str) -> Tree:
        try:
            raw = base64.b64decode(tree["base64"], validate=True)
        except (binascii.Error, ValueError):
            return tree
        if name and rules.is_secret_name(name):
            return {"$": tree["$"], "text": self._mask(tree["base64"], path, rules.rule_name(name))}
        # Not UTF-8 as a whole, but what is secret in it is ASCII: edits of the bytes leave the rest alone.
        edits = self._plain(raw, path, "") if _has_ascii_run(raw) else []
        if edits:
            tree["base64"] = base64.b64encode(texts.apply(raw, edits)).decode()
        return tree


_AGAIN: Final = "\ue000"
_JSON_LINE: Final = re.compile(rb"(?m)^(?:data:[ \t]*)?([{\[].*[}\]])[ \t]*\r?$")
_ASCII_RUN: Final = re.compile(rb"[ -~]{8}")


def _has_ascii_run(raw: bytes) -> bool:
    return _ASCII_RUN.search(raw) is not None


def _shift(edits: list[texts.Edit], by: int) -> list[texts.Edit]:
    return [(start + by, end + by, new) for start, end, new in edits]


def _unique(pairs: list[tuple[str, Tree]]) -> dict[str, Tree]:
    """Keep keys that stand twice: a secret under the first of two equal keys must be seen too."""
    out: dict[str, Tree] = {}
    for key, value in pairs:
        while key in out:
            key += _AGAIN
        out[key] = value
    return out


def _parse(raw: bytes) -> Tree:
    return json.loads(raw.decode("utf-8", "surrogatepass"), object_pairs_hook=_unique)


def _is_json(raw: bytes) -> bool:
    try:
        _parse(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _text_of(node: Tree) -> str:
    """Return the text of a string or of bytes that are text, else ""."""
    if isinstance(node, dict):
        node = node.get("text", node.get("v"))
    return node if isinstance(node, str) else ""


def _pairs(tree: list[Tree]) -> list[list[Tree]] | None:
    """Return the [name, value] pairs where the list is made of nothing else (header lists), else None."""
    out = []
    for item in tree:
        if isinstance(item, dict) and item.get("$") == "tuple":
            item = item.get("v")
        if not isinstance(item, list) or len(item) != 2 or not _text_of(item[0]):
            return None
        out.append(item)
    return out or None


def _named(name: str, raw: bytes) -> list[texts.Hit]:
    """Return what the name of a value makes secret of it."""
    header = rules.header_name(name)
    if header and ("cookie" in header or "authorization" in header or rules.plain_name(name) not in rules.SECRET_NAMES):
        return texts.header_value(header, raw)
    text = raw.decode("utf-8", "replace")
    if text.strip() and rules.is_secret_field(name, text):
        return [texts.Hit(0, len(raw), rules.rule_name(name))]
    return []
