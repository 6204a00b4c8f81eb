"""A text as attributes of spans, and the attributes read back: cut into short parts, over attributes and over spans.

Backends cut strings, cap the number of attributes and refuse large ones; a list of short strings passes them all. What
is more than one span may hold goes on part spans beneath it, each known by the digest of what it is a part of: large
strings, once a run and trace however many crossings hold them, and a form that is still too large without them.

Law: `carried` of what `envelope_attributes` made is the text; `assemble` undoes `part_spans`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import orjson

from otel_replay import limits, semconv
from otel_replay.blobs import BlobMissing, Cut, cut, join, name_of
from otel_replay.span import KeyValue, Span, Value

Encoding: TypeAlias = Literal["json", "hex", "zstd"]

PART_NAME = "otel_replay.part"
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
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return [
        (semconv.ENVELOPE_ENCODING, encoding),
        (semconv.ENVELOPE_BYTES, len(text)),
        (semconv.ENVELOPE_SHA256, _short(digest, part_bytes)),
        *_carriers(text, part_bytes, attribute_bytes),
    ]


def _carriers(
    text: str, part_bytes: int, attribute_bytes: int | None = limits.ENVELOPE_ATTRIBUTE_BYTES_MAX
) -> list[KeyValue]:
    parts = _pieces(text, part_bytes)
    each = max(len(parts) if attribute_bytes is None else attribute_bytes // part_bytes, 1)
    return [(_carrier(number), parts[at : at + each]) for number, at in enumerate(range(0, len(parts) or 1, each))]


def _carrier(number: int) -> str:
    return f"{semconv.ENVELOPE}.{number}" if number else semconv.ENVELOPE


def _short(digest: str, part_bytes: int) -> Value:
    """A limit on the length of values cuts a long text, but not a list of short ones."""
    return digest if part_bytes >= len(digest) else _pieces(digest, part_bytes)


def _pieces(text: str, size: int) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def part_spans(
    attributes: list[KeyValue], part_bytes: int = limits.ENVELOPE_PART_BYTES_MAX, sent: set[str] | None = None
) -> list[list[KeyValue]]:
    """Move what is too large for one span out of `attributes`; return the attributes of the part spans that carry it.

    Large strings of a JSON form go by themselves, named by their SHA-256, each once for one `sent`; so does what is
    then left of the form where it is still too large. Empty where all of it fits. `assemble` puts the parts back.
    """
    facts = dict(attributes)
    text = carried(facts)
    if text is None or len(text) <= min(limits.BLOB_THRESHOLD_BYTES, limits.ENVELOPE_ATTRIBUTE_BYTES_MAX):
        return []
    of_run = (semconv.SCHEMA, semconv.RUN_ID, semconv.RUN_LANE)
    kept: list[KeyValue] = [*((key, facts[key]) for key in of_run if key in facts), (semconv.KIND, semconv.KIND_PART)]
    parts: list[list[KeyValue]] = []
    left = text
    if facts.get(semconv.ENVELOPE_ENCODING) == "json":
        left, cuts, blobs = cut(text)
        for name, blob in blobs.items():
            if sent is None or name not in sent:
                parts += _parts(kept, name, blob, part_bytes)
        if sent is not None:
            sent.update(blobs)
        if cuts:
            places = ";".join((name_of(left), *(f"{at},{length},{name}" for at, length, name in cuts)))
            attributes[:] = [pair for pair in attributes if not _CARRIER.fullmatch(pair[0])]
            attributes += [(semconv.ENVELOPE_BLOBS, _pieces(places, part_bytes)), *_carriers(left, part_bytes)]
    if sum(_CARRIER.fullmatch(key) is not None for key, _ in attributes) > limits.ENVELOPE_ATTRIBUTES_MAX:
        whole = _parts(kept, joined(facts[semconv.ENVELOPE_SHA256]) or "", left, part_bytes)
        attributes[:] = [pair for pair in attributes if not _CARRIER.fullmatch(pair[0])]
        attributes.append((semconv.ENVELOPE_PARTS, len(whole)))
        parts += whole
    return parts


def _parts(kept: list[KeyValue], name: str, text: str, part_bytes: int) -> list[list[KeyValue]]:
    """Return the attributes of the part spans that carry `text` under `name`."""
    carriers = _carriers(text, part_bytes)
    size = limits.ENVELOPE_ATTRIBUTES_MAX
    return [
        [
            *kept,
            (semconv.ENVELOPE_SHA256, _short(name, part_bytes)),
            (semconv.ENVELOPE_PART, number),
            *((_carrier(place), value) for place, (_, value) in enumerate(carriers[at : at + size])),
        ]
        for number, at in enumerate(range(0, len(carriers), size))
    ]


def split(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield `spans`, each followed by the part spans of what is too large for it; their ids are always the same."""
    sent: dict[tuple[Value, str], set[str]] = {}
    for span in spans:
        attributes = list(span.attributes)
        known = sent.setdefault((span.get(semconv.RUN_ID), span.trace_id), set())
        parts = part_spans(attributes, sent=known)
        yield replace(span, attributes=tuple(attributes)) if parts or len(attributes) != len(span.attributes) else span
        for number, part in enumerate(parts):
            yield Span(
                trace_id=span.trace_id,
                span_id=hashlib.sha256(f"part {number} of {span.span_id}".encode()).hexdigest()[:16],
                parent_span_id=span.span_id,
                name=PART_NAME,
                kind=1,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                attributes=tuple(part),
                resource=span.resource,
                scope=span.scope,
            )


def is_part(span: Span) -> bool:
    """True where `span` carries a part of another span's envelope."""
    return span.get(semconv.KIND) == semconv.KIND_PART


def is_elsewhere(span: Span) -> bool:
    """True where the envelope of `span`, or strings of it, are in part spans."""
    return span.get(semconv.ENVELOPE_PARTS) is not None or is_cut(span)


def is_cut(span: Span) -> bool:
    """True where strings of the envelope on `span` travel in part spans."""
    return span.get(semconv.ENVELOPE_BLOBS) is not None


def cut_text(facts: Mapping[str, Value]) -> str | None:
    """Return what is left of an envelope whose strings travel in part spans, references in their places.

    None where it is another, or was changed on the way.
    """
    places, text = joined(facts.get(semconv.ENVELOPE_BLOBS)), carried(facts)
    return text if places is not None and text is not None and name_of(text) == places[:64] else None


def assemble(spans: Sequence[Span]) -> list[Span]:
    """Return `spans` with what travelled in part spans put back on their crossing, the part spans gone.

    Where a part is not there or was changed, the crossing stays as it is: its envelope is missing, and reads as such.
    """
    parts = [span for span in spans if is_part(span)]
    if not parts:
        return list(spans)
    texts = _texts_of(parts)
    return [_assembled(span, texts) for span in spans if not is_part(span)]


Texts: TypeAlias = dict[tuple[Value, str | None], list[dict[int, str]]]
"""By (run, name): the parts that each lane sent, by number. Two lanes may have cut them differently."""


def _texts_of(parts: Sequence[Span]) -> Texts:
    found: dict[tuple[Value, str | None], dict[Value, dict[int, str]]] = {}
    for span in parts:
        facts = dict(span.attributes)
        number = facts.get(semconv.ENVELOPE_PART)
        if isinstance(number, int):
            key = (facts.get(semconv.RUN_ID), joined(facts.get(semconv.ENVELOPE_SHA256)))
            lanes = found.setdefault(key, {})
            lanes.setdefault(facts.get(semconv.RUN_LANE), {})[number] = carried(facts) or ""
    return {key: list(lanes.values()) for key, lanes in found.items()}


def _assembled(span: Span, texts: Texts) -> Span:
    facts = dict(span.attributes)
    count, places = facts.get(semconv.ENVELOPE_PARTS), joined(facts.get(semconv.ENVELOPE_BLOBS))
    if count is None and places is None:
        return span
    run_id, text = facts.get(semconv.RUN_ID), carried(facts)
    if count is not None:
        sent = texts.get((run_id, joined(facts.get(semconv.ENVELOPE_SHA256))), [])
        text = next((_in_order(numbered) for numbered in sent if len(numbered) == count), None)

    def lookup(name: str) -> str:
        for numbered in texts.get((run_id, name), []):
            if name_of(blob := _in_order(numbered)) == name:
                return blob
        raise BlobMissing(name)

    try:
        if text is not None and places is not None:
            text = join(text, _cuts(places), lookup)
    except (BlobMissing, ValueError):
        return span
    if text is None:
        return span
    elsewhere = (semconv.ENVELOPE_PARTS, semconv.ENVELOPE_BLOBS)
    kept = [pair for pair in span.attributes if pair[0] not in elsewhere and not _CARRIER.fullmatch(pair[0])]
    kept.append((semconv.ENVELOPE, _pieces(text, limits.ENVELOPE_PART_BYTES_MAX)))
    return replace(span, attributes=tuple(kept))


def _in_order(numbered: Mapping[int, str]) -> str:
    return "".join(numbered[number] for number in sorted(numbered))


def _cuts(places: str) -> list[Cut]:
    """Return where strings were cut out. Raises ValueError."""
    found = []
    for place in places.split(";")[1:]:
        at, length, name = place.split(",")
        found.append(Cut(int(at), int(length), name))
    return found


def carried(facts: Mapping[str, Value]) -> str | None:
    """Return the text that a span's own attributes carry, or None."""
    texts: list[str] = []
    while (text := joined(facts.get(_carrier(len(texts))))) is not None:
        texts.append(text)
    return "".join(texts) if texts else None


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
