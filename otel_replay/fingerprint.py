"""The key of a request: a digest of its one canonical form.

The canonical form, recipe 1. Two requests are the same exactly if these bytes are the same.
- UTF-8 JSON without white space, as orjson writes it; the keys of objects sorted by code point.
- Numbers by value: 0.7 and 0.70 are one, 1e2 and 100.0 are one. 1 and 1.0 are two (int and float are two values
  in Python), and so are 0.0 and -0.0, 0.3 and 0.30000000000000004.
- Text by code points after JSON's escapes are read; nothing is normalised: "\\u00e9" and "e\\u0301" are two.
- The order of lists counts. A key with null and an absent key are two.
- A string at a declared JSON field that holds JSON stands as {"$":"json","v":...}, in this same form.
- What ignore rules name is left out; headers that rules ignore are left out of any object or list of pairs.
- What normalise rules match reads `<name>`; multipart boundaries read `boundary-1`, `boundary-2` in order.
- Redaction placeholders read `[redacted#1]`, `[redacted#2]` in order of first occurrence in these bytes: requests
  are compared up to a renaming of their secrets, whatever rule found them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from hashlib import sha256
from typing import Any, Final

import orjson

from otel_replay.envelope import Payload
from otel_replay.match_rules import DEFAULT, MatchRules
from otel_replay.paths import Path
from otel_replay.redaction import Redacted

RECIPE: Final = "1"
TRANSPARENT: Final = frozenset(("v", "text", "state", "extra", "private", "members"))
"""Members of a tagged value that add no step to a path."""
_PLACEHOLDER: Final = re.compile(rb"\[redacted:[a-z0-9][a-z0-9-]*#\d+\]")
_BOUNDARY: Final = re.compile(r'(?i)multipart/[a-z0-9.+-]+[^\r\n]{0,200}?boundary="?([^\s";,]{1,70})')
_PART: Final = re.compile(r"(?:^|\r?\n)--([^\r\n]{1,70}?)[ \t]*\r?\n(?=content-(?:disposition|type):)", re.IGNORECASE)
_GONE: Final = object()


def fingerprint(request: Redacted[Payload], rules: MatchRules = DEFAULT) -> str:
    """Return the key of a request: the recipe's version, a colon, and the SHA-256 of its canonical form in hex."""
    payload = request.value
    if payload.lost:
        return f"{RECIPE}:{sha256(b'lost ' + payload.reason.encode('utf-8', 'surrogatepass')).hexdigest()}"
    raw = payload.text.encode()
    if not rules.special(raw):
        return f"{RECIPE}:{sha256(orjson.dumps(orjson.loads(raw), option=orjson.OPT_SORT_KEYS)).hexdigest()}"
    return f"{RECIPE}:{sha256(canonical(orjson.loads(raw), rules)).hexdigest()}"


def plain_key(request: object) -> str:
    """Return the key of a live request of JSON types that needs no redaction and that no rule touches."""
    return f"{RECIPE}:{sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()}"


def canonical(tree: object, rules: MatchRules = DEFAULT) -> bytes:
    """Return the canonical form of a JSON tree (see above). The tree is left as it is."""
    return _number(_dump(_Preparer(rules, tree).node(tree, ())))


def canonical_tree(tree: object, rules: MatchRules = DEFAULT) -> Any:
    """Return the tree that the canonical form stands for: what a comparison of two requests looks at."""
    return json.loads(canonical(tree, rules))


def _dump(tree: object) -> bytes:
    try:
        return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer of more than 64 bits, from JSON text inside a string
        text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")


def _number(raw: bytes) -> bytes:
    if b"[redacted:" not in raw:
        return raw
    seen: dict[bytes, bytes] = {}

    def numbered(found: re.Match[bytes]) -> bytes:
        return seen.setdefault(found.group(), b"[redacted#%d]" % (len(seen) + 1))

    return _PLACEHOLDER.sub(numbered, raw)


class _Preparer:
    """One walk over one tree: leaves out, parses and normalises what the rules say. Returns new containers."""

    __slots__ = ("_boundaries", "_rules")

    def __init__(self, rules: MatchRules, tree: object) -> None:
        self._rules = rules
        self._boundaries: list[tuple[str, str]] = []
        for value in _strings(tree):
            for regex, sign in ((_BOUNDARY, "oundary="), (_PART, "--")):
                if sign in value:
                    self._learn(regex.findall(value))

    def _learn(self, found: list[str]) -> None:
        for boundary in found:
            if all(boundary != known for known, _ in self._boundaries):
                self._boundaries.append((boundary, f"boundary-{len(self._boundaries) + 1}"))

    def node(self, node: Any, path: Path) -> Any:
        if path and any(rule.matches(path) for rule in self._rules.ignored_paths):
            return _GONE
        if isinstance(node, str):
            return self._text(node, path)
        if isinstance(node, list):
            return self._list(node, path)
        if isinstance(node, dict):
            return self._tag(node, path) if "$" in node else self._object(node, path)
        return node

    def _object(self, node: dict[str, Any], path: Path) -> dict[str, Any]:
        if self._boundaries and node.get("form") == "base64" and isinstance(node.get("body"), str):
            node = {**node, "body": self._binary(node["body"])}  # a body that an HTTP client sent
        out = {}
        headers = self._rules.headers
        for key, item in node.items():
            if key.lower() in headers and _in_headers(path):
                continue
            made = self.node(item, (*path, key))
            if made is not _GONE:
                out[key] = made
        return out

    def _list(self, node: list[Any], path: Path) -> list[Any]:
        if _in_headers(path):
            node = [item for item in node if _pair_name(item) not in self._rules.headers]
        made = (self.node(item, (*path, index)) for index, item in enumerate(node))
        return [item for item in made if item is not _GONE]

    def _tag(self, node: dict[str, Any], path: Path) -> dict[str, Any]:
        if node["$"] == "dict" and isinstance(node.get("v"), list):
            return {"$": "dict", "v": self._tagged_pairs(node["v"], path)}
        if "base64" in node and self._boundaries:
            node = {**node, "base64": self._binary(node["base64"])}
        out = {}
        for key, item in node.items():
            if key in ("$", "t"):
                out[key] = item
                continue
            made = self.node(item, path if key in TRANSPARENT else (*path, key))
            if made is not _GONE:
                out[key] = made
        return out

    def _tagged_pairs(self, pairs: list[Any], path: Path) -> list[Any]:
        out = []
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                out.append(pair)
                continue
            name = _plain(pair[0])
            if name.lower() in self._rules.headers and _in_headers(path):
                continue
            made = self.node(pair[1], (*path, name))
            if made is not _GONE:
                out.append([pair[0], made])
        # A dict's own order does not count, whatever its keys are.
        return sorted(out, key=_dump)

    def _text(self, text: str, path: Path) -> Any:
        if text[:1] in ("{", "[") and any(rule.matches(path) for rule in self._rules.json_paths):
            try:
                return {"$": "json", "v": self.node(json.loads(text, parse_constant=_refuse), path)}
            except (ValueError, RecursionError):
                pass
        for boundary, name in self._boundaries:
            if boundary in text:
                text = text.replace(f"--{boundary}", f"--{name}").replace(f"={boundary}", f"={name}")
                text = text.replace(f'="{boundary}"', f'="{name}"')
        for name, regex in self._rules.patterns:
            text = regex.sub(f"<{name}>", text)
        return text

    def _binary(self, text: str) -> str:
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return text
        for boundary, name in self._boundaries:
            raw = raw.replace(f"--{boundary}".encode(), f"--{name}".encode())
        return base64.b64encode(raw).decode()


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _strings(node: object) -> list[str]:
    if isinstance(node, str):
        return [node]
    items = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [text for item in items for text in _strings(item)]


def _in_headers(path: Path) -> bool:
    return any(isinstance(step, str) and (step.lower().endswith("headers") or step == "_meta") for step in path[-1:])


def _plain(node: object) -> str:
    if isinstance(node, dict):
        node = node.get("text", node.get("v"))
    return node if isinstance(node, str) else ""


def _pair_name(item: object) -> str:
    """Return the name of a [name, value] pair in lower case, else ""."""
    if isinstance(item, dict):
        if isinstance(item.get("name"), str):
            return str(item["name"]).lower()
        item = item.get("v")
    return _plain(item[0]).lower() if isinstance(item, list) and len(item) == 2 else ""
