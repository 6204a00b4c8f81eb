"""What can be seen on any span, whatever its shape: no id, attributes dropped by a limit, JSON cut in its middle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from otel_replay.importers.result import Report, low_half
from otel_replay.span import Attributes, Span

_CUT_CHARS_MIN = 16
_INDEXED = re.compile(r"([A-Za-z_][\w.]*?)\.([0-9]{1,6})\.")


def checked(spans: Iterable[Span], report: Report) -> Iterator[Span]:
    """Hand the spans on, telling the report what a limit took from them."""
    for span in spans:
        if report.document_part:
            report.parts[low_half(span.trace_id)] = report.document_part
        where = f"span {span.span_id} {span.name[:80]!r}"
        if not span.trace_id.strip("0") or not span.span_id.strip("0"):
            if not (span.name or span.attributes or span.start_ns):
                report.problem("skipped", "a span that says nothing, not even its id")
                continue
            report.note("spans came without their ids: nobody can tell what belongs to them")
        if span.dropped_attributes_count:
            gaps = "; ".join(_missing_indices(span.attributes))
            report.problem(
                "lost",
                f"attributes dropped by a count limit{f' ({gaps})' if gaps else ''}; the rest is not enough to replay",
                f"{where}: {span.dropped_attributes_count} dropped",
            )
        if span.dropped_events_count:
            report.problem("lost", "events dropped by a count limit", f"{where}: {span.dropped_events_count} dropped")
        if span.dropped_links_count:
            report.problem("lost", "links dropped by a count limit", f"{where}: {span.dropped_links_count} dropped")
        for key, value in span.attributes:
            if isinstance(value, str) and is_cut_json(value):
                report.problem("lost", f"{key} was cut at {len(value)} characters, within its JSON", where)
        yield span


def is_cut_json(value: str) -> bool:
    """True for text that is the beginning of a JSON array or object and nothing else is wrong with it."""
    if len(value) < _CUT_CHARS_MIN or value[0] not in "[{" or value[-1] in "]}":
        return False
    try:
        json.loads(value)
    except json.JSONDecodeError as fault:
        return fault.pos >= len(value) or fault.msg.startswith(("Unterminated string", "Invalid \\"))
    except (ValueError, RecursionError):
        return False
    return False


def _missing_indices(attributes: Attributes) -> Iterator[str]:
    """Name the gaps of flattened lists: `llm.input_messages 0-35`."""
    seen: dict[str, set[int]] = {}
    for key, _ in attributes:
        if match := _INDEXED.match(key):
            seen.setdefault(match[1], set()).add(int(match[2]))
    for prefix, indices in seen.items():
        last = -1
        for index in sorted(indices):
            if index - last > 1:
                first = last + 1
                yield f"{prefix} {first}" if first == index - 1 else f"{prefix} {first}-{index - 1}"
            last = index
