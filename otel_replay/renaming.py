"""Requests that are equal but for ids that the model generated anew: the history after a live crossing.

Only what stands at a declared id path may be renamed, and what `known` says: pairs learnt from a live outcome and
its recorded twin. A string that merely looks like an id never is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_replay.fingerprint import TRANSPARENT, canonical_tree
from otel_replay.match_rules import DEFAULT, MatchRules
from otel_replay.paths import Path


class _Differ(Exception):
    """The two sides are not equal up to renaming."""


class _Renaming:
    """A one-to-one map from recorded ids to those of now, grown while two trees are walked together."""

    __slots__ = ("_back", "_known", "_rules", "forth")

    def __init__(self, rules: MatchRules, known: Mapping[str, str]) -> None:
        self._rules = rules
        self._known = dict(known)
        self.forth: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for old, new in known.items():
            self.pair(old, new)

    def pair(self, old: str, new: str) -> None:
        if self.forth.setdefault(old, new) != new or self._back.setdefault(new, old) != old:
            raise _Differ

    def walk(self, old: Any, new: Any, path: Path) -> None:
        if type(old) is not type(new):
            raise _Differ
        if isinstance(old, dict):
            tagged = "$" in old and old["$"] != "dict"
            if old.keys() != new.keys():
                raise _Differ
            if old.get("$") == "dict" and new["$"] == "dict":
                # A dict with keys that are no text is a list of pairs; what stands in it stands at its key.
                old, new = as_object(old), as_object(new)
                if old.keys() != new.keys():
                    raise _Differ
            for key in old:
                step = path if tagged and key in TRANSPARENT else (*path, key)
                self.walk(old[key], new[key], step)
        elif isinstance(old, list):
            if len(old) != len(new):
                raise _Differ
            for index, (left, right) in enumerate(zip(old, new, strict=True)):
                self.walk(left, right, (*path, index))
        elif isinstance(old, str):
            self._text(old, new, path)
        elif old != new or str(old) != str(new):
            raise _Differ

    def _text(self, old: str, new: str, path: Path) -> None:
        if self._rules.is_id(path):
            self.pair(old, new)
        elif old in self._known:
            # Both its own spelling (a text that the agent wrote by itself) and the renamed one are the same request.
            if new not in (old, self._known[old]):
                raise _Differ
        elif old != new and substituted(old, self._known) != new:
            raise _Differ


def equal_up_to_renaming(
    recorded: object, now: object, rules: MatchRules = DEFAULT, known: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the renaming (recorded id -> id of now, without those that stayed) under which both are equal, or None.

    `known` holds pairs learnt before. The renaming is one-to-one and agrees with `known`: swapped results differ.
    """
    try:
        renaming = _Renaming(rules, known or {})
        renaming.walk(canonical_tree(recorded, rules), canonical_tree(now, rules), ())
    except _Differ:
        return None
    return {old: new for old, new in renaming.forth.items() if old != new}


def as_object(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tag of a dict with keys of any kind as an object, keys that are no text in their JSON form."""
    return {key if isinstance(key, str) else repr(key): item for key, item in node.get("v", ())}


def substituted(text: str, mapping: Mapping[str, str]) -> str:
    """Return `text` with each whole word that is a key of `mapping` replaced, all at once."""
    here = [old for old in mapping if old and old in text]
    if not here:
        return text
    union = "|".join(re.escape(old) for old in sorted(here, key=len, reverse=True))
    return re.sub(rf"(?<![A-Za-z0-9_-])(?:{union})(?![A-Za-z0-9_-])", lambda found: mapping[found.group()], text)


def apply_renaming(tree: Any, mapping: Mapping[str, str]) -> Any:
    """Return a copy of `tree`, a served answer, with the ids of `mapping` replaced where they stand as whole words."""
    if not mapping:
        return tree
    if isinstance(tree, str):
        return substituted(tree, mapping)
    if isinstance(tree, list):
        return [apply_renaming(item, mapping) for item in tree]
    if isinstance(tree, dict):
        names = ("$", "t") if "$" in tree else ()
        return {key: item if key in names else apply_renaming(item, mapping) for key, item in tree.items()}
    return tree
