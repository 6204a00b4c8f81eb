"""Types by key knowledge: what Jaeger (lists, maps) and Zipkin (everything) turned into text.

Only keys whose type a convention fixes are touched; everything else stays the text that it is. JSON text that a
convention itself defines as text (`llm.invocation_parameters`, `gen_ai.tool.call.arguments`) stays text, too.
"""

from __future__ import annotations

import re

from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import INT64_MAX, parsed_text
from otel_replay.span import Value
from otel_replay.wire import text as wire_text

_LISTS = re.compile(
    r"otel_replay\.envelope"
    r"|gen_ai\.(?:.+\.)?messages|gen_ai\.system_instructions|gen_ai\.tool\.definitions"
    r"|gen_ai\.response\.finish_reasons|gen_ai\.request\.(?:stop_sequences|encoding_formats)"
    r"|llm\.(?:input_messages|output_messages|tools|chat\.stop_sequences)"
)
_INTS = re.compile(
    r"otel_replay\.(?:schema|seq|end_seq|strand|run\.crossings|envelope\.bytes)"
    r"|gen_ai\.usage\.(?:.+_)?tokens|gen_ai\.usage\..+\.(?:.+_)?tokens"
    r"|gen_ai\.request\.(?:max_tokens|seed|choice\.count)"
    r"|llm\.token_count\..+|llm\.usage\.total_tokens|server\.port"
)
_FLOATS = re.compile(r"gen_ai\.request\.(?:temperature|top_p|frequency_penalty|presence_penalty)")
_BOOLS = re.compile(r"gen_ai\.request\.stream|gen_ai\.is_streaming")
_INT_TEXT = re.compile(r"-?[0-9]{1,19}")


def lists_only(key: str, value: str, report: Report) -> Value:
    """Return the list or map that the text of a key known to hold one spells (Jaeger keeps the scalars' types)."""
    if _LISTS.fullmatch(key):
        return parsed_text(value, report, key)
    if value.startswith(wire_text.PREFIX):
        number = wire_text.int_from_wire(value)
        return wire_text.from_wire(value) if number is None else number
    return value


def all_types(key: str, value: str, report: Report) -> Value:
    """Return `value` in the type that its key fixes (Zipkin keeps no type at all)."""
    if _INTS.fullmatch(key) and _INT_TEXT.fullmatch(value) and abs(int(value)) <= INT64_MAX:
        return int(value)
    if _FLOATS.fullmatch(key):
        try:
            return float(value)
        except ValueError:
            return value
    if _BOOLS.fullmatch(key) and value in ("true", "false"):
        return value == "true"
    return lists_only(key, value, report)
