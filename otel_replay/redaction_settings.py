"""Redaction rules as a person writes them, in `pyproject.toml` or in code: read, checked, and refused by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import re2

from otel_replay import redaction_rules as _rules
from otel_replay.errors import UsageError
from otel_replay.paths import PathRule
from otel_replay.redaction_tree import Function


def bound_to_an_end(pattern: str) -> bool:
    return any(sign in pattern.replace("[^", "") for sign in ("^", "$", r"\A", r"\z"))


def path_scan(rule: PathRule) -> str:
    """Return what must stand in the bytes for a path rule to apply: its last name as a key; "" where it has none."""
    names = [step for step in rule.steps if isinstance(step, str)]
    return rf"\"{re2.escape(names[-1])}\\*\"" if names else "."


def compiled_rule(pattern: str, name: str) -> re2._Regexp:
    label = f"{name} = {pattern!r}" if name else repr(pattern)
    try:
        regex = _rules.compiled(pattern)
    except re2.error as error:
        raise UsageError(f"the redaction pattern {label} is no regular expression of RE2: {error}") from error
    if regex.match(b"") is not None:
        raise UsageError(f"the redaction pattern {label} matches the empty text, so it would hit everywhere")
    return regex


def rule_text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"a redaction {what} is a text, not {value!r}")
    return value


def typed(table: Mapping[str, object], key: str, kind: type, default: Any) -> Any:
    value = table.get(key, default)
    if not isinstance(value, kind):
        raise UsageError(f"[tool.otel_replay.redaction] {key} must be a {kind.__name__}, not {value!r}")
    return value


def imported(spec: object) -> Function:
    module, _, name = str(spec).partition(":")
    found = getattr(sys.modules.get(module), name, None) if name else None
    if not callable(found):
        raise UsageError(
            f"the redaction function {spec!r} was not found among the imported modules; "
            "import its module before the recording begins, and write it as 'package.module:function'"
        )
    return found  # type: ignore[no-any-return]
