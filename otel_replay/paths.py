"""Paths into a JSON tree, as rules and reports write them: `$.args.password`, `$..id`, `$.items[*].name`, `$["a b"]`.

A path is a tuple of keys (str) and list positions (int). Tags of typed JSON are transparent: the members of a
tuple stand at `[0]`, the fields of a dataclass at `.name`, and JSON text inside a string goes on as if it were a tree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from otel_replay.errors import UsageError

Path: TypeAlias = tuple[str | int, ...]

_STEP: Final = re.compile(
    r"""(\.\.?)(\*|[^.\[\]"']+)|\[(\*|-?\d+)\]|\[(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\]|(\.\.)(?=\[)"""
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]+")
_ANY: Final = object()
_DEEP: Final = object()


def show(path: Path) -> str:
    """Return the path as text; keys that are no plain words stand in brackets and quotes."""
    out = ["$"]
    for step in path:
        if isinstance(step, int):
            out.append(f"[{step}]")
        elif _PLAIN.fullmatch(step):
            out.append(f".{step}")
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            out.append(f'["{escaped}"]')
    return "".join(out)


class PathRule:
    """A written path that may hold `*`, `[*]` and `..`; `matches(path)` tells whether a concrete path is meant."""

    __slots__ = ("steps", "text")

    def __init__(self, text: str) -> None:
        """Raises UsageError for a path that cannot be read."""
        self.text = text
        self.steps = _parse(text)

    def matches(self, path: Path) -> bool:
        """True where the rule names exactly this path."""
        return _match(self.steps, path)

    def __repr__(self) -> str:
        return f"PathRule({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathRule) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> tuple[object, ...]:
    if not text.startswith("$"):
        raise UsageError(f"the path {text!r} does not begin with '$'; write '$.args.password' or '$..password'")
    steps: list[object] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            steps_are = "steps are .name, ..name, [0], [*]"
            raise UsageError(f"the path {text!r} cannot be read from {text[at:]!r} on; {steps_are}")
        dots, name, index, double, single, deep = found.groups()
        if dots == ".." or deep:
            steps.append(_DEEP)
        if name is not None:
            steps.append(_ANY if name == "*" else name)
        elif index is not None:
            steps.append(_ANY if index == "*" else int(index))
        elif double is not None or single is not None:
            steps.append(re.sub(r"\\(.)", r"\1", double) if double is not None else single)
        at = found.end()
    if not steps or steps[-1] is _DEEP:
        raise UsageError(f"the path {text!r} names nothing; write what stands there, as in '$.args.password'")
    return tuple(steps)


def _match(steps: tuple[object, ...], path: Path) -> bool:
    """Match by the set of positions in `steps` that could come next: linear for each step of the path."""
    states = {0}
    for step in path:
        following = set()
        for state in states:
            if state == len(steps):
                continue
            wanted = steps[state]
            if wanted is _DEEP:
                following.add(state)
                state += 1
                wanted = steps[state]
            if wanted is _ANY or wanted == step:
                following.add(state + 1)
        states = following
        if not states:
            return False
    return len(steps) in states
