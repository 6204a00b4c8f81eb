"""What may differ between a recorded request and a live one: declared, merged, and always reportable.

Built in are only things that no program means: trace headers, the client's own bookkeeping headers, multipart
boundaries. All else is declared by an instrument, in code, or in `[tool.otel_replay.match]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import orjson
import re2

from otel_replay.errors import UsageError
from otel_replay.paths import Path, PathRule

NAMED_PATTERNS: Final[Mapping[str, str]] = {
    "rfc3339": r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "uuid": r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
    "unix_seconds": r"\b1[5-9]\d{8}(?:\.\d+)?\b",
    "unix_millis": r"\b1[5-9]\d{11}\b",
    "hex32": r"\b[0-9a-f]{32}\b",
}
"""Patterns that `normalise` knows by name. `multipart_boundary` is always on."""

TRACE_HEADERS: Final = (
    "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled",
    "x-b3-flags", "uber-trace-id", "sentry-trace", "x-amzn-trace-id", "x-cloud-trace-context", "grpc-trace-bin",
    "x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-tags", "x-datadog-origin",
)  # fmt: skip
CLIENT_HEADERS: Final = (
    "date", "x-stainless-retry-count", "x-stainless-read-timeout", "x-stainless-timeout", "x-stainless-lang",
    "x-stainless-package-version", "x-stainless-os", "x-stainless-arch", "x-stainless-runtime",
    "x-stainless-runtime-version", "x-stainless-async", "x-stainless-helper-method", "x-stainless-raw-response",
    "user-agent", "idempotency-key", "content-length", "connection", "accept-encoding", "amz-sdk-invocation-id",
    "amz-sdk-request", "x-amz-date", "x-goog-api-client",
)  # fmt: skip
"""What client libraries add of themselves: versions, attempts, times. None of it is what the agent asked for."""

JSON_FIELDS: Final = (
    "$..function.arguments", "$..function_call.arguments", "$..tool_calls[*].arguments",
    "$..input[*].arguments", "$..output[*].arguments",
)  # fmt: skip
MODEL_ID_PATHS: Final = (
    "$..tool_calls[*].id", "$..tool_call_id", "$..tool_use_id", "$..call_id", "$..previous_response_id",
    "$..item_id", "$..response_id", "$..messages[*].id", "$..messages[*].content[*].id", "$[*].content[*].id",
    "$..input[*].id", "$..output[*].id",
)  # fmt: skip
"""Where a model's own ids stand in the history that goes back to it. Never inside tool arguments."""


_UNANCHORED: Final = re2._re2.RE2.Anchor.UNANCHORED
_KEYS: Final = ("ignore", "normalise", "json_fields", "id_paths", "ignore_headers")


@dataclass(frozen=True)
class MatchRules:
    """What is left out or compared loosely. Empty rules still know the built-in headers and boundaries."""

    ignore: tuple[str, ...] = ()
    normalise: tuple[str, ...] = ()
    """Names of NAMED_PATTERNS, or regular expressions of RE2."""
    json_fields: tuple[str, ...] = JSON_FIELDS
    id_paths: tuple[str, ...] = ()
    ignore_headers: tuple[str, ...] = (*TRACE_HEADERS, *CLIENT_HEADERS)
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for path in (*self.ignore, *self.json_fields, *self.id_paths):
            PathRule(path)
        for name in self.normalise:
            _pattern(name)

    @classmethod
    def of(cls, table: Mapping[str, object], source: str = "") -> MatchRules:
        """Return the rules of a table with `ignore`, `normalise`, `json_fields`, `id_paths`, `ignore_headers`.

        What a table declares adds to the built-in rules. Raises UsageError that names the bad rule.
        """
        parts: dict[str, tuple[str, ...]] = {}
        for key, value in table.items():
            if key not in _KEYS:
                raise UsageError(f"match rules have no key {key!r}; known are {', '.join(_KEYS)}")
            if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
                raise UsageError(f"the match rule {key} is a list of texts, not {value!r}")
            parts[key] = tuple(value)
        declared = cls(parts.get("ignore", ()), parts.get("normalise", ()), parts.get("json_fields", ()),
                       parts.get("id_paths", ()), parts.get("ignore_headers", ()), source)  # fmt: skip
        return DEFAULT.merged(declared)

    def merged(self, other: MatchRules) -> MatchRules:
        """Return both together, each rule once."""
        return _merged(self, other, ", ".join(_joined((self.source,), (other.source,))).strip(", "))

    def describe(self) -> list[str]:
        """Return each rule as a line for the report, in a fixed order."""
        lines = [f"ignored: {path}" for path in self.ignore]
        lines += [f"ignored header: {name}" for name in self.ignore_headers]
        lines += [f"normalised: {name}" for name in ("multipart_boundary", *self.normalise)]
        lines += [f"compared as JSON: {path}" for path in self.json_fields]
        return lines + [f"compared up to renaming of ids: {path}" for path in self.id_paths]

    # Compiled forms, made once ---------------------------------------------------------------------------------

    @cached_property
    def ignored_paths(self) -> tuple[PathRule, ...]:
        return tuple(map(PathRule, self.ignore))

    @cached_property
    def json_paths(self) -> tuple[PathRule, ...]:
        return tuple(map(PathRule, self.json_fields))

    @cached_property
    def ids(self) -> tuple[PathRule, ...]:
        return tuple(map(PathRule, self.id_paths))

    @cached_property
    def headers(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.ignore_headers)

    @cached_property
    def patterns(self) -> tuple[tuple[str, re2._Regexp], ...]:
        return tuple(
            (name if name in NAMED_PATTERNS else "pattern", _pattern(name))
            for name in self.normalise
            if name != "multipart_boundary"
        )

    @cached_property
    def scan(self) -> str:
        """A regular expression for whatever in encoded bytes a rule could change."""
        parts = [r"\[redacted:", r"(?i:boundary=|content-disposition|headers\")", r"\"_meta\""]
        for rule in (*self.ignored_paths, *self.json_paths):
            names = [step for step in rule.steps if isinstance(step, str)]
            parts.append(re2.escape(orjson.dumps(names[-1]).decode()) if names else "(?s:.)")
        if self.patterns:
            # Escapes hide from a pattern what it would find in the text.
            parts += [
                r"\\",
                *(f"(?:{NAMED_PATTERNS.get(name, name)})" for name in self.normalise if name != "multipart_boundary"),
            ]
        return "|".join(dict.fromkeys(parts))

    @cached_property
    def _scan(self) -> Callable[..., list[tuple[int, int]]]:
        options = _quiet()
        options.never_capture = True
        return re2.compile(self.scan.encode(), options)._regexp.Match  # type: ignore[no-any-return]

    def special(self, raw: bytes) -> bool:
        """True where a rule could apply to this encoded text; no false "no"."""
        return self._scan(_UNANCHORED, raw, 0, len(raw))[0][0] >= 0

    def is_id(self, path: Path) -> bool:
        """True where a generated id stands: at a declared path that does not lead through tool arguments."""
        for at, step in enumerate(path[:-1]):
            if step == "arguments" or (step == "input" and not isinstance(path[at + 1], int)):
                return False
        return any(rule.matches(path) for rule in self.ids)


@lru_cache(maxsize=256)
def _merged(first: MatchRules, second: MatchRules, source: str) -> MatchRules:
    """Rules that were merged before are the same object: its compiled forms are made once for all replays."""
    return MatchRules(
        _joined(first.ignore, second.ignore),
        _joined(first.normalise, second.normalise),
        _joined(first.json_fields, second.json_fields),
        _joined(first.id_paths, second.id_paths),
        _joined(first.ignore_headers, second.ignore_headers),
        source,
    )


def _joined(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _pattern(name: str) -> re2._Regexp:
    if name == "multipart_boundary":
        return re2.compile(r"[^\x00-\x{10FFFF}]")
    try:
        regex = re2.compile(NAMED_PATTERNS.get(name, name), _quiet())
    except re2.error as error:
        raise UsageError(
            f"the match rule normalise {name!r} is neither a named pattern ({', '.join(NAMED_PATTERNS)}) "
            f"nor a regular expression: {error}"
        ) from error
    if regex.match("") is not None:
        raise UsageError(f"the match rule normalise {name!r} matches the empty text, so everything would be equal")
    return regex


DEFAULT: Final = MatchRules(source="built in")
MODEL: Final = MatchRules(id_paths=MODEL_ID_PATHS, source="built in for model")
HTTP: Final = MatchRules(json_fields=(*JSON_FIELDS, "$.body", "$.content"), source="built in for http")


class MatchBook:
    """The rules of a project and its instruments, by instrument, kind and boundary."""

    __slots__ = ("_cache", "_parts")

    def __init__(self) -> None:
        self._parts: list[tuple[str, str, MatchRules]] = [("kind", "model", MODEL), ("kind", "http", HTTP)]
        self._cache: dict[tuple[str, str, str], MatchRules] = {}

    @classmethod
    def from_project(cls, table: Mapping[str, object]) -> MatchBook:
        """Return the rules of `[tool.otel_replay.match]` and its tables `kind.X`, `boundary.X` and `instrument.X`.

        Raises UsageError that names the bad rule.
        """
        book = cls()
        general = {key: value for key, value in table.items() if key not in ("kind", "boundary", "instrument")}
        if general:
            book.declare(MatchRules.of(general, "pyproject.toml"))
        for level in ("instrument", "kind", "boundary"):
            tables = table.get(level, {})
            if not isinstance(tables, Mapping):
                raise UsageError(f"[tool.otel_replay.match] {level} is a table of tables, not {tables!r}")
            for name, inner in tables.items():
                if not isinstance(inner, Mapping):
                    raise UsageError(f"[tool.otel_replay.match.{level}] {name} is a table, not {inner!r}")
                book.declare(MatchRules.of(inner, f"pyproject.toml ({level} {name})"), level, name)
        return book

    def declare(self, rules: MatchRules, level: str = "", name: str = "") -> None:
        """Add rules for everything, or for one `instrument`, `kind` or `boundary` of that name."""
        if level not in ("", "instrument", "kind", "boundary"):
            raise UsageError(f"match rules are declared for an instrument, a kind or a boundary, not for a {level!r}")
        self._parts.append((level, name, rules))
        self._cache.clear()

    def rules(self, boundary: str = "", kind: str = "", instrument: str = "") -> MatchRules:
        """Return the rules for a crossing: built-in, and each declaration that names it."""
        key = (boundary, kind, instrument)
        found = self._cache.get(key)
        if found is None:
            names = {"": "", "instrument": instrument, "kind": kind, "boundary": boundary}
            found = DEFAULT
            for level, name, rules in self._parts:
                if names[level] == name:
                    found = found.merged(rules)
            self._cache[key] = found
        return found
