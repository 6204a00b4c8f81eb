"""Find secrets in one text and say which bytes go: an edit is (start, end, replacement) over the UTF-8 bytes.

Everything outside the edits stays byte for byte. The order decides where forms overlap: private keys, then JWT
signatures, vendor tokens, own patterns, the forms of running text, header lines, and values known from before.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import re2

from otel_replay import redaction_rules as rules

PLACEHOLDER: Final = re.compile(r"\[redacted:([a-z0-9][a-z0-9-]*)#(\d+)\]")
_PLACEHOLDER_BYTES: Final = re.compile(PLACEHOLDER.pattern.encode())

Edit = tuple[int, int, bytes]


class Hit(NamedTuple):
    start: int
    end: int
    rule: str


class Pattern(NamedTuple):
    """A compiled form: `group` is the part that is secret."""

    rule: str
    regex: re2._Regexp
    group: int
    check: object = None


class Numbers(Protocol):
    """What gives out placeholders: the same for the same secret."""

    def placeholder(self, rule: str, secret: str) -> str: ...


_TOKEN_UNION: Final = rules.compiled(
    f"{rules.LEFT}(" + "|".join(f"{token.prefix}{token.tail}{{{token.least},}}" for token in rules.TOKENS) + ")"
)
_TOKENS: Final = tuple((rules.compiled(f"{t.prefix}{t.tail}{{{t.least},}}"), t) for t in rules.TOKENS)
_TEXT_PATTERNS: Final = tuple(Pattern(r.rule, rules.compiled(r.pattern), 1, r.check) for r in rules.TEXT_RULES)
_JWT: Final = next(pattern for pattern in _TEXT_PATTERNS if pattern.rule == "jwt-signature")
_HEADER_LINE: Final = rules.compiled(rules.HEADER_TEXT)
_KEY_BEGIN: Final = re.compile(rules.PRIVATE_KEY_BEGIN.encode())
_KEY_END: Final = re.compile(rules.PRIVATE_KEY_BEGIN.replace("BEGIN", "END").encode())
_KEY_CHARS: Final = re.compile(rb"""[A-Za-z0-9+/=\s\\:,\-|>.@"'#()\[\]<]*""")
_KEY_WORD: Final = re.compile(rb"[A-Za-z0-9+/=]{16,}")
_KEY_GAP: Final = re.compile(
    rb"""(?:\s|\\+[nrt]|["',+|>#]|(?<![^\s])\d{1,6}[\t :|.)]"""
    rb"""|(?:Proc-Type|DEK-Info|Version|Comment|Hash): ?[^\r\n\\]*)*"""
)
_KEY_TOKEN: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
KEY_BYTES_MAX: Final = 64 * 1024


def private_keys(text: bytes) -> Iterator[Hit]:
    """Yield each private key with its markers. Where the END is missing, what can be key lines is its body."""
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        end = _marked_end(text, begin.end()) or _end_of_lines(text, begin.end())
        if end > begin.end():
            yield Hit(begin.start(), end, "private-key")
        at = max(end, begin.end())


def split_keys(pieces: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where, in the joined pieces, private keys stand: a piece may be a line without its end, or part of one."""
    text = b"".join(pieces)
    starts = list(accumulate((len(piece) for piece in pieces), initial=0))
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        at = begin.end()
        end = _marked_end(text, at)
        if not end:
            end, of_lines = _end_of_lines(text, at), _end_of_pieces(pieces, starts, at)
            # A word that follows the last piece of the key reads as if it went on in it.
            follows = text[of_lines:end]
            if end < of_lines or (of_lines in starts and len(follows) < 16 and follows.isalpha()):
                end = of_lines
        if end > at:
            yield begin.start(), end
        at = max(end, at)


def _end_of_pieces(pieces: Sequence[bytes], starts: list[int], at: int) -> int:
    """Return where the key ends that goes on at `at` of the joined pieces, if each piece ends its line."""
    first = bisect_left(starts, at) - 1
    end = _end_of_lines(b"\n".join(pieces), at + first)
    last = bisect_left([start + index for index, start in enumerate(starts)], end) - 1
    return end - last


def _marked_end(text: bytes, at: int) -> int:
    """Return the end of the END marker of the key whose BEGIN ends at `at`; 0 where none belongs to it."""
    marker = _KEY_END.search(text, at, at + KEY_BYTES_MAX)
    if marker is None:
        return 0
    between = text[at : marker.start()]
    return marker.end() if _KEY_CHARS.fullmatch(between) and _KEY_WORD.search(between) else 0


def _end_of_lines(text: bytes, at: int) -> int:
    """Return where what can be lines of a key ends."""
    full_line = False
    while True:
        gap = _KEY_GAP.match(text, at)
        start = gap.end() if gap else at
        word = _KEY_TOKEN.match(text, start)
        if word is None:
            return at
        length = word.end() - start
        last_line = full_line and (length >= 16 or word.group().endswith(b"=") or re.search(rb"[0-9+/]", word.group()))
        if length < 40 and not last_line:
            return at
        if length < 16 and not full_line:
            return at
        full_line = length >= 40
        at = word.end()


def tokens(text: bytes) -> Iterator[Hit]:
    """Yield each vendor token."""
    for found in _TOKEN_UNION.finditer(text):
        start, end = found.span(1)
        word = text[start:end]
        for regex, token in _TOKENS:
            if regex.fullmatch(word) and (token.check is None or token.check(word.decode())):
                yield Hit(start, end, token.rule)
                break


def matches(pattern: Pattern, text: bytes) -> Iterator[Hit]:
    """Yield where `pattern` finds a secret that its check accepts."""
    for found in pattern.regex.finditer(text):
        start, end = found.span(pattern.group)
        if start < end and (pattern.check is None or pattern.check(text[start:end].decode("utf-8", "replace"))):  # type: ignore[operator]
            yield Hit(start, end, pattern.rule)


def header_lines(text: bytes) -> Iterator[Hit]:
    """Yield the secret parts of `Name: value` lines whose name is a header that carries secrets."""
    for found in _HEADER_LINE.finditer(text):
        name = found.group(1).decode().lower()
        start, end = found.span(2)
        value = text[start:end]
        for hit in header_value(name, value):
            part = value[hit.start : hit.end].decode("utf-8", "replace")
            if rules.looks_random(part) or (_starts_line(text, found.start(1)) and rules.is_word(part)):
                yield Hit(start + hit.start, start + hit.end, hit.rule)


def _starts_line(text: bytes, at: int) -> bool:
    return at == 0 or text[at - 1 : at] in (b"\n", b"\r")


_COOKIE: Final = re.compile(rb"\s*([^=;\s]+)\s*=\s*([^;]*[^;\s])|\s*([^;\s]+)")
_SCHEME: Final = re.compile(rb"\s*([A-Za-z][A-Za-z0-9-]*)\s+(\S.*?)\s*", re.DOTALL)


def header_value(name: str, value: bytes) -> list[Hit]:
    """Return what is secret in a header's value: cookie values, credentials after their scheme, or all of it."""
    rule = rules.rule_name(name)
    if name in rules.COOKIE_HEADERS:
        return list(_cookies(value))
    scheme = _SCHEME.fullmatch(value) if "authorization" in name else None
    start, end = scheme.span(2) if scheme else (len(value) - len(value.lstrip()), len(value.rstrip()))
    text = value[start:end].decode("utf-8", "replace")
    if start >= end or not rules.is_value(text) or rules.is_prose(text):
        return []
    return [Hit(start, end, rule)]


def _cookies(value: bytes) -> Iterator[Hit]:
    for found in _COOKIE.finditer(value):
        name, text = found.group(1), found.group(2) or found.group(3)
        attribute = (name or text).decode("utf-8", "replace").lower()
        if attribute in rules.COOKIE_ATTRIBUTES or _PLACEHOLDER_BYTES.search(text):
            continue
        if name or rules.looks_random(text.decode("utf-8", "replace")):
            yield Hit(*found.span(2 if name else 3), "cookie")


def choose(text: bytes, groups: Iterator[Hit]) -> list[Hit]:
    """Return the hits that stand, in text order: the first in rank keeps its place, unless a later one holds it whole.

    Nothing touches a placeholder, and a JWT keeps its header and claims whatever else would take the whole of it.
    """
    held = [Hit(found.start(), found.end(), "") for found in _PLACEHOLDER_BYTES.finditer(text)]
    starts, ends = [hit.start for hit in held], [hit.end for hit in held]
    for hit in groups:
        if text.startswith(b"eyJ", hit.start) and text.startswith(b"[redacted:jwt-signature", hit.end):
            continue
        # What is held is in order and without overlaps: the held hits that this one touches stand side by side.
        first, last = bisect_right(ends, hit.start), bisect_left(starts, hit.end)
        over = held[first:last]
        if any(not other.rule or other.rule in ("jwt-signature", "private-key") for other in over):
            continue
        if all(hit.start <= other.start and other.end <= hit.end for other in over):
            held[first:last], starts[first:last], ends[first:last] = [hit], [hit.start], [hit.end]
    return [hit for hit in held if hit.rule]


def find(
    text: bytes, own: tuple[Pattern, ...] = (), known: re2._Regexp | None = None, defaults: bool = True
) -> list[Hit]:
    """Return every secret of a plain text, in order and without overlaps."""

    def ranked() -> Iterator[Hit]:
        if not defaults:
            yield from (hit for pattern in own for hit in matches(pattern, text))
            return
        if b"PRIVATE KEY" in text:
            yield from private_keys(text)
        yield from matches(_JWT, text)
        yield from tokens(text)
        for pattern in (*own, *_TEXT_PATTERNS):
            yield from matches(pattern, text)
        yield from header_lines(text)
        if known is not None:
            for found in known.finditer(text):
                start, end = found.span(1)
                yield Hit(start, end, "known")

    return choose(text, ranked())


def signatures(text: bytes) -> list[Hit]:
    """Return the signatures of the JWTs in a text."""
    return list(matches(_JWT, text))


def apply(text: bytes, edits: list[Edit]) -> bytes:
    """Return `text` with the edits made; they are in order and do not overlap."""
    out: list[bytes] = []
    at = 0
    for start, end, new in edits:
        out += (text[at:start], new)
        at = end
    out.append(text[at:])
    return b"".join(out)
