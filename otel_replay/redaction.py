"""Secrets leave before anything is hashed, written or compared. On by default, the same in record, import and replay.

The encoded bytes only detect: one scan in linear time says that nothing is there, and the very same payload comes
back. On a hit the tree is redacted (redaction_tree.py) and written back as orjson writes it. A placeholder reads
`[redacted:openai-key#1]`: the rule, and the number of the secret by first occurrence within one crossing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import orjson
import re2

from otel_replay import redaction_chunks as _chunks
from otel_replay import redaction_rules as _rules
from otel_replay.envelope import Envelope, Outcome, Payload, Redaction
from otel_replay.errors import UsageError
from otel_replay.paths import Path, PathRule, show
from otel_replay.redaction_settings import bound_to_an_end, compiled_rule, imported, path_scan, rule_text, typed
from otel_replay.redaction_text import PLACEHOLDER, Pattern
from otel_replay.redaction_tree import Function, Known, Masker, RuleSet, Scope

__all__ = ["PLACEHOLDER", "Known", "Redacted", "Redactor", "Scope", "current", "find_placeholders", "use"]

T = TypeVar("T")
_MADE: Final = object()
_UNANCHORED: Final = re2._re2.RE2.Anchor.UNANCHORED
_MISS: Final = (-1, -1)
BETWEEN: Final = b"\n\0\n"
"""Stands between payloads that are scanned together: nothing that a rule looks for goes over it."""


class Redacted(Generic[T]):
    """A value that went through a Redactor. Only a Redactor makes one: nothing unredacted can be hashed or sent."""

    __slots__ = ("value",)

    def __init__(self, value: T, made: object = None) -> None:
        if made is not _MADE:
            raise TypeError("only a Redactor makes a Redacted value: call redactor.redact(payload)")
        self.value = value

    def __repr__(self) -> str:
        return f"Redacted({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Redacted) and other.value == self.value

    def __hash__(self) -> int:
        return hash(("redacted", self.value))


class Redactor:
    """The rules in force. Immutable: `with_rule` gives a new one. Own rules add to the built-in ones."""

    __slots__ = ("_detector", "_match", "_rules", "enabled")

    def __init__(self, rules: RuleSet | None = None, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._rules = rules or RuleSet()
        more = [pattern.regex.pattern.decode() for pattern in self._rules.patterns]
        more += [rule for path in self._rules.paths if (rule := path_scan(path))]
        self._detector = _rules.detector(tuple(more), defaults=self._rules.defaults)
        self._match = self._detector._regexp.Match

    # Making one ----------------------------------------------------------------------------------------------

    @classmethod
    def default(cls) -> Redactor:
        """Return the redactor with the built-in rules."""
        return cls()

    @classmethod
    def from_project(cls, table: Mapping[str, object]) -> Redactor:
        """Return the redactor of `[tool.otel_replay.redaction]`.

        Keys: `enabled` (bool), `paths` (list of paths), `patterns` (table of name = regex), `keep` (paths or regexes
        that are never redacted), `functions` (list of "module:name", modules that the program has imported).
        Raises UsageError that names the bad rule.
        """
        unknown = set(table) - {"enabled", "paths", "patterns", "keep", "functions", "defaults"}
        if unknown:
            raise UsageError(f"[tool.otel_replay.redaction] has no key {sorted(unknown)[0]!r}")
        made = cls(enabled=typed(table, "enabled", bool, True))
        for path in typed(table, "paths", list, []):
            made = made.with_rule(path=path)
        for name, pattern in typed(table, "patterns", dict, {}).items():
            made = made.with_rule(pattern=pattern, name=name)
        for keep in typed(table, "keep", list, []):
            made = made.keeping(keep)
        for spec in typed(table, "functions", list, []):
            made = made.with_rule(function=imported(spec), name=str(spec).partition(":")[2])
        return made

    def with_rule(
        self, *, path: str | None = None, pattern: str | None = None, function: Function | None = None, name: str = ""
    ) -> Redactor:
        """Return a redactor with one rule more: of `path`, `pattern` (RE2; group 1, if any, is the secret), `function`.

        A function is called with the path and value of each leaf. It returns None to leave it, True to put a
        placeholder, or the value to put there. Raises UsageError where not exactly one is given or it is malformed.
        """
        if sum(part is not None for part in (path, pattern, function)) != 1:
            raise UsageError("a redaction rule is one of path=, pattern= or function=")
        rules = self._copied()
        if path is not None:
            rules.paths = (*rules.paths, PathRule(rule_text(path, "path")))
        elif pattern is not None:
            regex = compiled_rule(rule_text(pattern, "pattern"), name)
            label = _rules.rule_name(name or "pattern")
            rules.patterns = (*rules.patterns, Pattern(label, regex, min(regex.groups, 1)))
        elif function is not None:
            if not callable(function):
                raise UsageError(f"the redaction function {function!r} cannot be called")
            label = _rules.rule_name(name or getattr(function, "__name__", "function"))
            rules.functions = (*rules.functions, (label, function))
        return Redactor(rules, enabled=self.enabled)

    def keeping(self, rule: str) -> Redactor:
        """Return a redactor that never redacts what stands at the path `rule`, or secrets that the regex matches."""
        rules = self._copied()
        if rule_text(rule, "keep").startswith("$"):
            rules.keep_paths = (*rules.keep_paths, PathRule(rule))
        else:
            rules.keep_patterns = (*rules.keep_patterns, compiled_rule(rule, "keep"))
        return Redactor(rules, enabled=self.enabled)

    def _copied(self) -> RuleSet:
        rules = RuleSet()
        for slot in RuleSet.__slots__:
            setattr(rules, slot, getattr(self._rules, slot))
        return rules

    # Using it ------------------------------------------------------------------------------------------------

    def scope(self, known: Known | None = None) -> Scope:
        """Return the numbering of one crossing. Hand the same `Known` to all crossings of a run."""
        return Scope(known)

    def redact(
        self, payload: Payload, scope: Scope | None = None, root: str = "$"
    ) -> tuple[Redacted[Payload], tuple[Redaction, ...]]:
        """Return the payload redacted, and what was found. Where nothing was found it is the same object."""
        if not self.enabled:
            return Redacted(payload, _MADE), ()
        if not self._suspicious(payload, scope):
            return Redacted(payload, _MADE), ()
        masker = self._masker(scope, root)
        return Redacted(self._payload(payload, masker), _MADE), tuple(masker.hits)

    def scan(self, more: Sequence[str] = ()) -> Callable[[bytes], bool] | None:
        """Return what tells in one pass whether bytes hold anything to redact, or anything that `more` matches.

        The bytes may be several payloads with `BETWEEN` between them. None where rules must see each payload by
        itself: a function, or an own pattern that is bound to the start or the end of a text.
        """
        own = [pattern.regex.pattern.decode() for pattern in self._rules.patterns]
        if self._rules.functions or any(bound_to_an_end(pattern) for pattern in own):
            return None
        parts = [f"(?:{pattern})" for pattern in more]
        if self.enabled:
            parts.append(f"(?:{self._detector.pattern.decode()})")
        match = _rules.scan("|".join(parts))._regexp.Match if parts else None
        return lambda raw: match is not None and match(_UNANCHORED, raw, 0, len(raw))[0] != _MISS

    def redact_text(self, text: str, scope: Scope | None = None, root: str = "$") -> tuple[str, tuple[Redaction, ...]]:
        """Return a plain text (a span name, exception text, a header, a URL) redacted in place."""
        if not self.enabled or not self._dirty(text.encode("utf-8", "surrogatepass"), scope):
            return text, ()
        masker = self._masker(scope, root)
        masker.scope.reserve(text)
        return self._stable(lambda value: masker.text(value), text, masker), tuple(masker.hits)

    def redact_many(
        self, payloads: Iterable[Payload], scope: Scope | None = None
    ) -> tuple[tuple[Redacted[Payload], ...], tuple[Redaction, ...]]:
        """Redact the parts of one crossing, request first, with one numbering."""
        parts = tuple(payloads)
        scope = scope or Scope()
        for part in parts:
            scope.reserve(part.text)
        done = [self.redact(part, scope) for part in parts]
        return tuple(part for part, _ in done), tuple(hit for _, hits in done for hit in hits)

    def redact_chunks(
        self, pieces: Sequence[str], scope: Scope | None = None
    ) -> tuple[list[str], tuple[Redaction, ...]]:
        """Redact a text that came in pieces. They are joined first, so that a split secret goes whole.

        As many pieces come back; a piece that holds no part of a secret comes back as it was. The placeholder stands
        in the piece where the secret began.
        """
        joined = "".join(pieces).encode("utf-8", "surrogatepass")
        if not self.enabled or not self._dirty(joined, scope):
            return list(pieces), ()
        masker = self._masker(scope, "$")
        masker.scope.reserve("".join(pieces))
        return _chunks.redact_pieces(pieces, masker), tuple(masker.hits)

    def redact_stream(
        self, payloads: Sequence[Payload], scope: Scope | None = None, root: str = "chunk"
    ) -> tuple[tuple[Redacted[Payload], ...], tuple[Redaction, ...]]:
        """Redact the chunks of one stream: texts that grow from chunk to chunk are joined across them first."""
        if not self.enabled:
            return tuple(Redacted(payload, _MADE) for payload in payloads), ()
        scope = scope or Scope()
        for payload in payloads:
            scope.reserve(payload.text)
        hits: list[Redaction] = []
        trees = _chunks.split_secrets(payloads, lambda text: self._dirty(text, scope), self._masker(scope, root), hits)
        if not trees and not any(map(self._odd, payloads)):
            # One scan of all chunks costs less than a scan of each.
            everything = "\n".join([payload.text for payload in payloads])
            if not self._dirty(everything.encode("utf-8", "surrogatepass"), scope):
                return tuple(Redacted(payload, _MADE) for payload in payloads), ()
        out = []
        for index, payload in enumerate(payloads):
            if index in trees:
                payload = dataclasses.replace(payload, text=orjson.dumps(trees[index]).decode())
            redacted, found = self.redact(payload, scope, f"{root}[{index}]")
            out.append(redacted)
            hits += found
        return tuple(out), tuple(hits)

    def redact_outcome(self, outcome: Outcome, scope: Scope | None = None) -> tuple[Outcome, tuple[Redaction, ...]]:
        """Redact what came of a crossing: its value, its chunks, and what was sent into the stream."""
        scope = scope or Scope()
        chunks, hits = self.redact_stream([chunk.value for chunk in outcome.chunks], scope)
        value, more = self.redact(outcome.value, scope, "outcome")
        found = [*hits, *more]
        made = []
        for index, (chunk, redacted) in enumerate(zip(outcome.chunks, chunks, strict=True)):
            sent = chunk.sent
            if sent is not None:
                wrapped, inside = self.redact(sent, scope, f"sent[{index}]")
                sent, found = wrapped.value, [*found, *inside]
            made.append(dataclasses.replace(chunk, value=redacted.value, sent=sent))
        by = outcome.ended_by
        if by is not None and by.sent is not None:
            wrapped, inside = self.redact(by.sent, scope, "sent last")
            by, found = dataclasses.replace(by, sent=wrapped.value), [*found, *inside]
        end, inside = self.redact_text(outcome.end, scope, "end") if outcome.end else ("", ())
        if not found and not inside:
            return outcome, ()
        made_of = {"value": value.value, "chunks": tuple(made), "end": end, "ended_by": by}
        return dataclasses.replace(outcome, **made_of), (*found, *inside)  # type: ignore[arg-type]

    def redact_crossing(self, envelope: Envelope, known: Known | None = None) -> tuple[Envelope, Redacted[Payload]]:
        """Return the envelope as `redact_envelope` does, and its request ready for the key, for one scan of both."""
        made = self.redact_envelope(envelope, known)
        return made, Redacted(made.request, _MADE)

    def redact_envelope(self, envelope: Envelope, known: Known | None = None) -> Envelope:
        """Return the envelope with every part redacted under one numbering; the same object where nothing was found."""
        scope = Scope(known)
        outcome = envelope.outcome
        parts = [envelope.request, outcome.value, *(chunk.value for chunk in outcome.chunks)]
        if not self.enabled or (len(parts) == 2 and self._clean(envelope, scope)):
            return envelope
        for part in parts:
            scope.reserve(part.text)
        request, hits = self.redact(envelope.request, scope, "request")
        outcome, more = self.redact_outcome(outcome, scope)
        found = [*hits, *more]
        changed = envelope.changed
        if changed is not None:
            wrapped, inside = self.redact(changed, scope, "changed")
            changed, found = wrapped.value, [*found, *inside]
        pins = envelope.pins
        if pins:
            written, inside = self.redact(Payload("json", orjson.dumps(pins, default=str).decode()), scope, "pins")
            pins, found = (written.value.tree() if inside else pins), [*found, *inside]  # type: ignore[assignment]
        texts = []
        for label, text in (("run_name", envelope.run_name), *(("note", note) for note in envelope.notes)):
            clean, inside = self.redact_text(text, scope, label)
            texts.append(clean)
            found += inside
        if not found:
            return envelope
        return dataclasses.replace(
            envelope,
            request=request.value,
            outcome=outcome,
            changed=changed,
            pins=pins,
            run_name=texts[0],
            notes=tuple(texts[1:]),
            redactions=(*envelope.redactions, *found),
            grade="exact, redacted" if envelope.grade == "exact" else envelope.grade,
        )

    def _clean(self, envelope: Envelope, scope: Scope) -> bool:
        """True where one scan of each part says that there is nothing: the common case, without any further work."""
        if envelope.changed is not None or envelope.outcome.end or envelope.notes:
            return False
        if self._suspicious(envelope.request, scope) or self._suspicious(envelope.outcome.value, scope):
            return False
        rest = orjson.dumps([envelope.run_name, envelope.pins] if envelope.pins else envelope.run_name, default=str)
        return not self._dirty(rest, scope)

    # Inside --------------------------------------------------------------------------------------------------

    def _masker(self, scope: Scope | None, root: str) -> Masker:
        scope = scope or Scope()
        return Masker(self._rules, scope, lambda raw: self._dirty(raw, scope), root)

    def _dirty(self, raw: bytes, scope: Scope | None) -> bool:
        if self._rules.functions or self._match(_UNANCHORED, raw, 0, len(raw))[0] != _MISS:
            return True
        known = scope.known.regex if scope is not None else None
        return known is not None and known.search(raw) is not None

    def _suspicious(self, payload: Payload, scope: Scope | None) -> bool:
        try:
            raw = payload.text.encode()
        except UnicodeEncodeError:
            return True
        return self._odd(payload) or self._dirty(raw, scope)

    @staticmethod
    def _odd(payload: Payload) -> bool:
        """True for a payload in which the scan does not see everything."""
        return bool(payload.reason) or (payload.encoding == "typed-json" and '"base64":"' in payload.text)

    def _payload(self, payload: Payload, masker: Masker) -> Payload:
        masker.scope.reserve(payload.text)
        reason = masker.text(payload.reason) if payload.reason else ""
        tree = payload.tree()
        before = len(masker.hits)
        raw = payload.text.encode("utf-8", "surrogatepass")
        tree = self._stable(lambda value: masker.whole(value, raw), tree, masker)
        if len(masker.hits) == before:
            return payload if reason == payload.reason else dataclasses.replace(payload, reason=reason)
        return Payload(payload.encoding, orjson.dumps(tree).decode(), reason)

    @staticmethod
    def _stable(step: Callable[[Any], Any], value: Any, masker: Masker) -> Any:
        """Repeat while the walk teaches new secrets: one seen late may stand bare earlier."""
        for _ in range(4):
            taught, hits = masker.scope.known.regex, len(masker.hits)
            value = step(value)
            if masker.scope.known.regex is taught or len(masker.hits) == hits:
                return value
        return value


def find_placeholders(tree: object, path: Path = ()) -> list[tuple[str, str]]:
    """Return (path, placeholder) for each placeholder in a JSON tree, keys included, in order."""
    if isinstance(tree, str):
        return [(show(path), found.group()) for found in PLACEHOLDER.finditer(tree)]
    out: list[tuple[str, str]] = []
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            out += find_placeholders(item, (*path, index))
    elif isinstance(tree, dict):
        transparent = "$" in tree
        for key, item in tree.items():
            out += [(show((*path, key)), found.group()) for found in PLACEHOLDER.finditer(key)]
            out += find_placeholders(item, path if transparent and key in ("v", "text") else (*path, key))
    return out


_current: Redactor | None = None


def current() -> Redactor:
    """Return the redactor of this process: the one set by `use`, else the built-in rules."""
    global _current
    if _current is None:
        _current = Redactor.default()
    return _current


@contextmanager
def _restoring(before: Redactor | None) -> Iterator[Redactor]:
    try:
        yield current()
    finally:
        global _current
        _current = before


def use(redactor: Redactor) -> Any:
    """Make `redactor` the one of this process. As a context manager it gives the former one back at the end."""
    global _current
    before, _current = _current, redactor
    return _restoring(before)
