"""What differs between a recorded request and a live one, field by field, and whether only generated ids do.

Both sides are compared in their canonical form (fingerprint.py), so that what the rules leave out never shows.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

import orjson

from otel_replay.fingerprint import TRANSPARENT, canonical_tree
from otel_replay.match_rules import DEFAULT, MatchRules
from otel_replay.paths import Path, show
from otel_replay.renaming import apply_renaming, as_object, equal_up_to_renaming

__all__ = [
    "ABSENT", "FieldChange", "apply_renaming", "compare", "equal_up_to_renaming", "readable", "similarity", "suggest",
]  # fmt: skip

CHANGES_MAX: Final = 200
TEXT_SHOWN_CHARS: Final = 120
CONTEXT_CHARS: Final = 24
ALIGN_ITEMS_MAX: Final = 400
WORDS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for what is not there on one side."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = Missing()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference. `recorded` and `now` are readable values; long texts are cut to the part that differs."""

    path: str
    recorded: object
    now: object
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.path} recorded {self.recorded!r}, now {self.now!r}{note}"


def compare(recorded: object, now: object, rules: MatchRules = DEFAULT) -> tuple[FieldChange, ...]:
    """Return how two JSON trees differ under `rules`, in the order of the paths.

    At most CHANGES_MAX come back; where there are more, the last one says how many.
    """
    out: list[FieldChange] = []
    _compare(canonical_tree(recorded, rules), canonical_tree(now, rules), (), out)
    if len(out) > CHANGES_MAX:
        rest = len(out) - CHANGES_MAX + 1
        out[CHANGES_MAX - 1 :] = [FieldChange("$", "...", "...", f"{rest} further changes are not listed")]
    return tuple(out)


def _compare(old: Any, new: Any, path: Path, out: list[FieldChange]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_objects(old, new, path, out)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, path, out)
    elif type(old) is type(new) and repr(old) == repr(new):  # 0.0 and -0.0 are two, and so are 1 and 1.0
        return
    elif isinstance(old, str) and isinstance(new, str):
        out.append(_text_change(old, new, path))
    else:
        out.append(FieldChange(show(path), readable(old), readable(new), _note(old, new)))


def _compare_objects(old: dict[str, Any], new: dict[str, Any], path: Path, out: list[FieldChange]) -> None:
    tags = (old.get("$"), new.get("$"))
    if tags != (None, None) and (tags[0] != tags[1] or old.get("t") != new.get("t")):
        note = f"{_kind(old)} became {_kind(new)}"
        out.append(FieldChange(show(path), readable(old), readable(new), note))
        return
    if tags == ("dict", "dict"):
        old, new = as_object(old), as_object(new)
    for key in (*old, *(key for key in new if key not in old)):
        step = path if tags[0] and key in TRANSPARENT and tags[0] != "dict" else (*path, key)
        if key not in new:
            out.append(FieldChange(show(step), readable(old[key]), ABSENT, "absent now"))
        elif key not in old:
            out.append(FieldChange(show(step), ABSENT, readable(new[key]), "new"))
        else:
            _compare(old[key], new[key], step, out)


# Lists -----------------------------------------------------------------------------------------------------


def _compare_lists(old: list[Any], new: list[Any], path: Path, out: list[FieldChange]) -> None:
    """Align by equal items first, so that an inserted message shows as one insertion."""
    old_keys, new_keys = [_dump(item) for item in old], [_dump(item) for item in new]
    for tag, i1, i2, j1, j2 in _blocks(old_keys, new_keys):
        if tag == "equal":
            continue
        for i, j in _matched(old[i1:i2], new[j1:j2]):
            if j is None and i is not None:
                out.append(FieldChange(show((*path, i1 + i)), readable(old[i1 + i]), ABSENT, "removed"))
            elif i is None and j is not None:
                out.append(FieldChange(show((*path, j1 + j)), ABSENT, readable(new[j1 + j]), "inserted"))
            elif i is not None and j is not None:
                _compare(old[i1 + i], new[j1 + j], (*path, j1 + j), out)


def _dump(item: Any) -> bytes:
    try:
        return orjson.dumps(item)
    except TypeError:
        return repr(item).encode("utf-8", "surrogatepass")


def _blocks(old: list[bytes], new: list[bytes]) -> list[tuple[str, int, int, int, int]]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(middle_old), len(middle_new)) > ALIGN_ITEMS_MAX:
        return [("replace", head, len(old) - tail, head, len(new) - tail)]
    found = SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_opcodes()
    return [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in found]


def _matched(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[int | None, int | None]]:
    """Pair the items of two differing blocks in order: the shorter side's items with the most similar of the other."""
    if len(old) == len(new) or max(len(old), len(new)) > 40:
        pairs: list[tuple[int | None, int | None]] = [(i, i) for i in range(min(len(old), len(new)))]
        shared = len(pairs)
        return pairs + [(i, None) for i in range(shared, len(old))] + [(None, j) for j in range(shared, len(new))]
    if len(old) > len(new):
        return [(i, j) for j, i in _matched(new, old)]
    # best[i][j]: the best total when the first i of the short side are paired within the first j of the long one.
    score = [[similarity(a, b) for b in new] for a in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(1, len(old) + 1):
        for j in range(i, len(new) - len(old) + i + 1):
            taken = best[i - 1][j - 1] + score[i - 1][j - 1] + 1e-9
            best[i][j] = max(taken, best[i][j - 1] if j > i else taken)
    out: list[tuple[int | None, int | None]] = []
    i, j = len(old), len(new)
    while j:
        if i and (j == i or best[i][j] > best[i][j - 1]):
            out.append((i - 1, j - 1))
            i -= 1
        else:
            out.append((None, j - 1))
        j -= 1
    return out[::-1]


# Leaves ----------------------------------------------------------------------------------------------------


def _text_change(old: str, new: str, path: Path) -> FieldChange:
    note = ""
    if unicodedata.normalize("NFC", old) == unicodedata.normalize("NFC", new):
        at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        note = f"the same text in another Unicode form: {_code_points(old[at:])} and {_code_points(new[at:])}"
    elif old.split() == new.split():
        note = "only white space differs"
    elif old.casefold() == new.casefold():
        note = "only upper and lower case differ"
    if max(len(old), len(new)) > TEXT_SHOWN_CHARS:
        old, new = excerpts(old, new)
    return FieldChange(show(path), old, new, note)


def _code_points(text: str) -> str:
    """Return the code points of the first character and what combines with it."""
    end = 1
    while end < min(len(text), 4) and unicodedata.combining(text[end]):
        end += 1
    return " ".join(f"U+{ord(char):04X}" for char in text[:end]) or "(end)"


def excerpts(old: str, new: str) -> tuple[str, str]:
    """Return of two long texts the part that differs, with a little around it."""
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    return _excerpt(old, head, len(old) - tail), _excerpt(new, head, len(new) - tail)


def _excerpt(text: str, start: int, end: int) -> str:
    if end - start > TEXT_SHOWN_CHARS:
        part = f"{text[start : start + TEXT_SHOWN_CHARS // 2]}...{text[end - TEXT_SHOWN_CHARS // 2 : end]}"
    else:
        part = text[start:end]
    before, after = max(0, start - CONTEXT_CHARS), min(len(text), end + CONTEXT_CHARS)
    dots = ("..." if before else "", "..." if after < len(text) else "")
    return f"{dots[0]}{text[before:start]}{part}{text[end:after]}{dots[1]}"


def _note(old: Any, new: Any) -> str:
    if _is_number(old) and _is_number(new):
        if type(old) is type(new) and old == new:
            return "the sign of zero differs"
        if old == new:
            return f"equal numbers of two kinds: {_kind(old)} and {_kind(new)}"
        if abs(old - new) <= 1e-9 * max(abs(old), abs(new)):
            return "numeric noise"
        return "" if type(old) is type(new) else f"{_kind(old)} became {_kind(new)}"
    return f"{_kind(old)} became {_kind(new)}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(node: Any) -> str:
    if isinstance(node, dict):
        tag, name = node.get("$"), node.get("t")
        return str(name).rpartition(":")[2] if isinstance(name, str) else str(tag or "object")
    names = {type(None): "null", bool: "bool", int: "int", float: "float", str: "text", list: "list"}
    return names.get(type(node), type(node).__name__)


def readable(node: Any) -> object:
    """Return a tree as people read it: tags as the values that they stand for, long texts cut."""
    if isinstance(node, str):
        return node if len(node) <= TEXT_SHOWN_CHARS else f"{node[: TEXT_SHOWN_CHARS - 3]}..."
    if isinstance(node, list):
        return [readable(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$" not in node:
        return {key: readable(item) for key, item in node.items()}
    return _readable_tag(node)


def _readable_tag(node: dict[str, Any]) -> object:
    tag = node["$"]
    inner = readable(node.get("v"))
    if tag == "tuple" and isinstance(inner, list):
        return tuple(inner)
    if tag == "json" or tag == "str":
        return inner
    if tag in ("bytes", "bytearray", "memoryview"):
        return f"{tag}({readable(node['text'])!r})" if "text" in node else f"{tag}({readable(node.get('base64'))})"
    if tag == "dict" and isinstance(node.get("v"), list):
        return {str(readable(key)): readable(item) for key, item in node["v"]}
    if tag == "lost":
        return f"lost({node.get('reason', '')})"
    rest = {key: readable(item) for key, item in node.items() if key not in ("$", "t", "v")}
    parts = [f"{inner}" if inner is not None else "", *(f"{key}={item}" for key, item in rest.items())]
    return f"{_kind(node)}({', '.join(part for part in parts if part)})"


# Nearest ---------------------------------------------------------------------------------------------------


def similarity(a: object, b: object) -> float:
    """Return 0.0 to 1.0: how much of the words and values of two trees is shared. Cheap; for finding the nearest."""
    left, right = Counter(_words(a)), Counter(_words(b))
    total = left.total() + right.total()
    return 1.0 if not total else 2.0 * (left & right).total() / total


def _words(tree: object) -> list[str]:
    out: list[str] = []
    open_nodes: list[tuple[str, object]] = [("", tree)]
    while open_nodes and len(out) < WORDS_MAX:
        name, node = open_nodes.pop()
        if isinstance(node, dict):
            open_nodes += list(node.items())
            out += list(node)
        elif isinstance(node, list):
            open_nodes += [(name, item) for item in node]
        elif isinstance(node, str):
            out += [f"{name}={word}" for word in node[:8_000].split()] or [f"{name}="]
        else:
            out.append(f"{name}={node!r}")
    return out


_LOOKS: Final = (
    ("a uuid", re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"), "uuid"),
    ("a time", re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"), "rfc3339"),
    ("a date", re.compile(r"\d{4}-\d{2}-\d{2}"), "date"),
    ("a time in Unix seconds", re.compile(r"1[5-9]\d{8}(?:\.\d+)?"), "unix_seconds"),
    ("a time in Unix milliseconds", re.compile(r"1[5-9]\d{11}"), "unix_millis"),
    ("a generated id", re.compile(r"[a-z]{2,12}[-_][A-Za-z0-9]{6,}|[0-9a-f]{16,64}"), ""),
)


def suggest(changes: Sequence[FieldChange]) -> list[str]:
    """Return the next steps that the changes call for: where alone they differ, and the ignore rule to paste."""
    paths = list(dict.fromkeys(change.path for change in changes))
    if not paths:
        return []
    named = ", ".join(paths[:3])
    out = [f"differs only at {named}" if len(paths) <= 3 else f"differs at {named} and {len(paths) - 3} more"]
    for change in changes:
        looks = _looks(change.recorded, change.now)
        if looks is None:
            continue
        what, name, whole = looks
        path = re.sub(r"\[\d+\]", "[*]", change.path)
        if whole:
            rule = f'[tool.otel_replay.match] ignore = ["{_toml(path)}"]'
            out.append(f"{path} looks like {what}: if it means nothing, add the ignore rule {rule}")
        elif name:
            rule = f'[tool.otel_replay.match] normalise = ["{name}"]'
            out.append(f"{path} differs in {what} inside the text: if it means nothing, add {rule}")
    return list(dict.fromkeys(out))


def _toml(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _looks(old: object, new: object) -> tuple[str, str, bool] | None:
    """Return (what both values look like, the pattern's name, whether it is the whole of them), or None."""
    a, b = (str(side) if isinstance(side, str) or _is_number(side) else "" for side in (old, new))
    if not a or not b:
        return None
    for what, regex, name in _LOOKS:
        if regex.fullmatch(a) and regex.fullmatch(b):
            return what, name, True
    for what, regex, name in _LOOKS:
        if name and regex.search(a) and regex.sub("", a) == regex.sub("", b):
            return what, name, False
    return None
