"""The common fixture in one go: a whole run of ours, one span a line, as `export` and `promote` write it.

A short way beside the plain one (`open_source` and `genai.recordings`): it reads the exact form of each line and
nothing else, and gives the same recording, or None for whatever is not as common as that: another spelling, a span of
somebody else, an envelope that is not whole, a crossing that is missing or twice. The plain way then says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from otel_replay import jsonform, run_digest, semconv
from otel_replay.envelope import NOT_WHOLE, Envelope, Recording, Run
from otel_replay.limits import IMPORT_SPAN_BYTES_MAX

_IDS = re.compile(r"[0-9a-f]{32} [0-9a-f]{16} (?:[0-9a-f]{16})?")
_MEMBERS = frozenset(
    (
        *("traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
        *("attributes", "events", "status"),
    )
)
_ELSEWHERE = frozenset((semconv.ENVELOPE_PARTS, semconv.ENVELOPE_PART, semconv.ENVELOPE_BLOBS, f"{semconv.ENVELOPE}.1"))
"""Attributes that tell of an exact form which goes on in other attributes or other spans."""


def recording(path: Path, source: str) -> Recording | None:
    """Return the one whole run that the file holds, or None where the plain way is to look. Never raises."""
    try:
        with path.open("rb") as file:
            return _recording(list(iter(lambda: file.readline(IMPORT_SPAN_BYTES_MAX), b"")), source)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _recording(lines: list[bytes], source: str) -> Recording | None:
    run: Run | None = None
    envelopes: dict[int, Envelope] = {}
    spans: set[str] = set()
    names: set[tuple[str, str]] = set()
    total = 0
    for line in lines:
        span = _span(line)
        facts = {pair["key"]: pair["value"] for pair in span["attributes"]}
        spans.add(span["spanId"])
        ids = {
            "trace_id": span["traceId"],
            "span_id": span["spanId"],
            "parent_span_id": span.get("parentSpanId", ""),
        }
        names.add((facts[semconv.RUN_ID]["stringValue"], span["traceId"]))
        if facts[semconv.KIND]["stringValue"] == semconv.KIND_RUN:
            if run is not None:
                return None
            run = jsonform.run_from_json(_exact(facts), **ids)
            continue
        text = _exact(facts)
        envelope = jsonform.envelope_from_json(text, **ids)
        if envelope.lane or envelope.run_id != facts[semconv.RUN_ID]["stringValue"] or envelope.grade == "insufficient":
            return None
        envelopes[envelope.seq] = envelope
        # The content opens the exact form, and the run's id comes after it. Where that were found too far on, the
        # digest of the run would not be met.
        total += int.from_bytes(sha256(text[: text.rindex(b',"run_id":')]).digest(), "big")
    if run is None or not _is_whole(run, envelopes, len(spans) - 1, total) or names != {(run.run_id, run.trace_id)}:
        return None
    return Recording(run, tuple(envelopes[seq] for seq in sorted(envelopes)), source=source)


def _is_whole(run: Run, envelopes: Mapping[int, Envelope], lines: int, total: int) -> bool:
    return (
        bool(run.end_ns)
        and not run.lane
        and not run.lanes
        and run.crossings == len(envelopes) == lines
        and envelopes.keys() == set(range(1, lines + 1))
        and run.digest == run_digest.text(total)
        and not any(note.startswith(NOT_WHOLE) for note in run.notes)
    )


def _span(line: bytes) -> dict[str, Any]:
    """Return the one span of a line of ours. Raises ValueError, KeyError or TypeError for another line."""
    document = orjson.loads(line)
    ((group,),) = (document["resourceSpans"],)
    ((scope_group,),) = (group["scopeSpans"],)
    ((span,),) = (scope_group["spans"],)
    if len(document) != 1 or scope_group["scope"]["name"] != semconv.SCOPE_NAME or not span.keys() <= _MEMBERS:
        raise ValueError("not a line as this package writes it")
    if not _IDS.fullmatch(f"{span['traceId']} {span['spanId']} {span.get('parentSpanId', '')}"):
        raise ValueError("ids in another spelling")
    found: dict[str, Any] = span
    return found


def _exact(facts: Mapping[str, Any]) -> bytes:
    """Return the exact form that attributes carry whole. Raises ValueError, KeyError or TypeError where they don't."""
    parts = [part["stringValue"] for part in facts[semconv.ENVELOPE]["arrayValue"]["values"]]
    text = "".join(parts).encode("ascii")
    encoding, digest = facts[semconv.ENVELOPE_ENCODING], facts[semconv.ENVELOPE_SHA256]
    if encoding["stringValue"] != "json" or digest["stringValue"] != sha256(text).hexdigest():
        raise ValueError("an exact form that is not whole, or not JSON")
    if not _ELSEWHERE.isdisjoint(facts):
        raise ValueError("an exact form that goes on elsewhere")
    return text
