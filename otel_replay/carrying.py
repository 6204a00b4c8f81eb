"""A text as attributes of spans, and the attributes read back: cut into short parts, over attributes and over spans.

Backends cut strings, cap the number of attributes and refuse large ones; a list of short strings passes them all. What
is more than one span may hold goes on part spans beneath it.

Law: `carried` of what `envelope_attributes` made is the text; `assemble` undoes `part_spans`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import orjson

from otel_replay import limits, semconv
from otel_replay.span import KeyValue, Span, Value

Encoding: TypeAlias = Literal["json", "hex", "zstd"]

_CARRIER = re.compile(re.escape(semconv.ENVELOPE) + r"(\.\d+)?")


def envelope_attributes(
    text: str,
    encoding: Encoding,
    part_bytes: int,
    attribute_bytes: int | None = limits.ENVELOPE_ATTRIBUTE_BYTES_MAX,
) -> list[KeyValue]:
    """Return the attributes that carry `text`: its encoding, length and digest, and then the text itself.

    The text is a list of parts of at most `part_bytes`. What is more than `attribute_bytes` goes on in
    `otel_replay.envelope.1`, `.2` and so on; with None it all stands in one attribute.
    """
    parts = _pieces(text, part_bytes)
    each = len(parts) if attribute_bytes is None else max(attribute_bytes // part_bytes, 1)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    found: list[KeyValue] = [
        (semconv.ENVELOPE_ENCODING, encoding),
        (semconv.ENVELOPE_BYTES, len(text)),
        # A limit on the length of values cuts a long text, but not a list of short ones.
        (semconv.ENVELOPE_SHA256, digest if part_bytes >= len(digest) else _pieces(digest, part_bytes)),
        (semconv.ENVELOPE, parts[:each]),
    ]
    for number, at in enumerate(range(each, len(parts), each), 1):
        found.append((f"{semconv.ENVELOPE}.{number}", parts[at : at + each]))
    return found


def _pieces(text: str, size: int) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def part_spans(attributes: list[KeyValue]) -> list[list[KeyValue]]:
    """Move an exact form that is too large for one span out of `attributes`; return the attributes of its part spans.

    Empty where it fits. `assemble` puts the parts back.
    """
    carried = [pair for pair in attributes if _CARRIER.fullmatch(pair[0])]
    if len(carried) <= limits.ENVELOPE_ATTRIBUTES_MAX:
        return []
    facts = dict(attributes)
    of_run = (semconv.SCHEMA, semconv.RUN_ID, semconv.RUN_LANE)
    kept: list[KeyValue] = [(key, facts[key]) for key in of_run if key in facts]
    kept += [(semconv.KIND, semconv.KIND_PART), (semconv.ENVELOPE_SHA256, facts[semconv.ENVELOPE_SHA256])]
    groups = [
        carried[at : at + limits.ENVELOPE_ATTRIBUTES_MAX]
        for at in range(0, len(carried), limits.ENVELOPE_ATTRIBUTES_MAX)
    ]
    attributes[:] = [pair for pair in attributes if not _CARRIER.fullmatch(pair[0])]
    attributes.append((semconv.ENVELOPE_PARTS, len(groups)))
    return [
        [
            *kept,
            (semconv.ENVELOPE_PART, number),
            *(
                (f"{semconv.ENVELOPE}.{at}" if at else semconv.ENVELOPE, value)
                for at, (_key, value) in enumerate(group)
            ),
        ]
        for number, group in enumerate(groups)
    ]


def is_part(span: Span) -> bool:
    """True where `span` carries a part of another span's envelope."""
    return span.get(semconv.KIND) == semconv.KIND_PART


def assemble(spans: Sequence[Span]) -> list[Span]:
    """Return `spans` with envelopes that travelled in part spans put back on their crossing, the part spans gone.

    Where a part is not there, the crossing stays as it is: its envelope is missing, and reads as such.
    """
    parts: dict[tuple[Value, str | None], dict[int, str]] = {}
    if not any(map(is_part, spans)):
        return list(spans)
    for span in spans:
        number = span.get(semconv.ENVELOPE_PART)
        if is_part(span) and isinstance(number, int):
            key = (span.get(semconv.RUN_ID), joined(span.get(semconv.ENVELOPE_SHA256)))
            parts.setdefault(key, {})[number] = carried(dict(span.attributes)) or ""
    whole: list[Span] = []
    for span in spans:
        if is_part(span):
            continue
        count = span.get(semconv.ENVELOPE_PARTS)
        found = parts.get((span.get(semconv.RUN_ID), joined(span.get(semconv.ENVELOPE_SHA256))), {})
        if isinstance(count, int) and 0 < count == len(found):
            text = "".join(found[number] for number in sorted(found))
            more: KeyValue = (semconv.ENVELOPE, _pieces(text, limits.ENVELOPE_PART_BYTES_MAX))
            kept = tuple(pair for pair in span.attributes if pair[0] != semconv.ENVELOPE_PARTS)
            span = replace(span, attributes=(*kept, more))
        whole.append(span)
    return whole


def carried(facts: Mapping[str, Value]) -> str | None:
    """Return the text that a span's own attributes carry, or None."""
    text = joined(facts.get(semconv.ENVELOPE))
    number = 1
    while text is not None and (more := joined(facts.get(f"{semconv.ENVELOPE}.{number}"))) is not None:
        text, number = text + more, number + 1
    return text


def part_size(value_length_limit: int | None) -> int:
    """Return the longest part allowed under a span attribute value length limit (None: no limit)."""
    if value_length_limit is None or value_length_limit <= 0:
        return limits.ENVELOPE_PART_BYTES_MAX
    return min(value_length_limit, limits.ENVELOPE_PART_BYTES_MAX)


def joined(value: Value) -> str | None:
    """Return the joined parts; also where a backend turned the list into JSON text."""
    if isinstance(value, str):
        if not value.startswith("["):
            return value
        try:
            listed = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
        value = tuple(listed) if isinstance(listed, list) else None
    if isinstance(value, tuple):
        try:
            return "".join(value)  # type: ignore[arg-type]
        except TypeError:
            return None
    return None
