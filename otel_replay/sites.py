"""Call sites: where in the program's own code a number was drawn or the clock read.

A site is module, function, what was called and the text of the line: `agent:plan:uuid.uuid4:run_id = uuid.uuid4()`.
Line numbers are not in it, so that code may move. Calls that the standard library and installed packages make by
themselves are theirs and have no site; where the program handed them the function (`default_factory=uuid4`), the
site is the program's line that led there.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sysconfig
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType

_STDLIB = sysconfig.get_paths()["stdlib"]
_OWN = os.path.dirname(__file__) + os.sep
_KNOWN_MAX = 10_000
_known: dict[tuple[int, int, str], tuple[CodeType, Site]] = {}
_is_project: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Site:
    """`text` names the site. `names` are what the program calls the value there: a secret's name makes it one."""

    text: str
    names: tuple[str, ...] = ()


def is_project(path: str) -> bool:
    """True where the code in the file `path` is the program's own: not ours, Python's or an installed package's."""
    found = _is_project.get(path)
    if found is None:
        theirs = "site-packages" in path or "dist-packages" in path or path.startswith(("<frozen", _STDLIB, _OWN))
        found = _is_project[path] = not theirs
    return found


def site_of(frame: FrameType | None, called: str, known_as: Collection[str]) -> Site | None:
    """Return the site of a call of `called` ("random.choice") that `frame` made; None where it is a library's own.

    A library that names one of `known_as` calls it on its own account, any other was handed the function.
    """
    while frame is not None:
        code = frame.f_code
        if not _is_generated(code):
            if is_project(code.co_filename):
                return _site(frame, called)
            if any(name in code.co_names for name in known_as):
                return None
        frame = frame.f_back
    return None


def _is_generated(code: CodeType) -> bool:
    """True for the `__init__` that dataclasses and attrs write: a default factory is called in the class's name."""
    path = code.co_filename
    return (path == "<string>" and code.co_name.startswith("__")) or path.startswith("<attrs generated")


def _site(frame: FrameType, called: str) -> Site:
    code = frame.f_code
    key = (id(code), frame.f_lasti, called)
    found = _known.get(key)
    if found is not None:
        return found[1]
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    line = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip() or str(frame.f_lineno)
    module = frame.f_globals.get("__name__", "")
    site = Site(f"{module}:{_function(code)}:{called}:{line}", tuple(dict.fromkeys(_names(frame))))
    _known[key] = (code, site)  # the code is held, so that its id is not given away
    return site


def _function(code: CodeType) -> str:
    """Return the function's name. A comprehension is a function of its own up to Python 3.11, and none after."""
    name: str = getattr(code, "co_qualname", code.co_name)
    for inner in ("<listcomp>", "<setcomp>", "<dictcomp>"):
        while name == inner or name.endswith(f".<locals>.{inner}"):
            name = name.removesuffix(inner).removesuffix(".<locals>.") or "<module>"
    return name


def _names(frame: FrameType) -> Iterator[str]:
    """Yield the names that the statement gives to the value that is made in it: targets, keywords, keys."""
    code = frame.f_code
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    first = max(code.co_firstlineno, 1)
    try:
        block = lines if code.co_name == "<module>" else inspect.getblock(lines[first - 1 :])
        first = 1 if code.co_name == "<module>" else first
        tree = ast.parse(textwrap.dedent("".join(block)))
    except Exception:  # noqa: BLE001 - whatever stands where the source should be; the value is then judged by itself
        return
    at = frame.f_lineno - first + 1
    column = _column(frame, block)
    function = code.co_name if code.co_name.isidentifier() else ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
            if _covers(node.value, at, column):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (name for target in targets for name in _target(target))
        elif isinstance(node, ast.keyword) and node.arg and _covers(node.value, at, column):
            yield node.arg
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _covers(value, at, column):
                    yield key.value
        elif isinstance(node, (ast.Return, ast.Yield)) and function and _covers(node.value, at, column):
            yield function


def _column(frame: FrameType, block: list[str]) -> int | None:
    """Return where on its line the call begins, as the dedented source counts; None where Python doesn't say."""
    line, _end, column, _end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line != frame.f_lineno or column is None or not block:
        return None
    text = "".join(block)
    dedent = len(text.splitlines()[0]) - len(textwrap.dedent(text).splitlines()[0])
    return column - dedent


def _covers(node: ast.expr | None, line: int, column: int | None) -> bool:
    if node is None or not node.lineno <= line <= (node.end_lineno or node.lineno):
        return False
    if column is None:
        return True
    return (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno or line, node.end_col_offset or 0)


def _target(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        yield node.slice.value
    elif isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _target(part)
