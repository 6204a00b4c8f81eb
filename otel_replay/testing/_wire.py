"""What the vendors' forms share: ids, portions and SSE frames."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from otel_replay.testing.reply import Message, ToolCall

CREATED_S = 1_790_000_000
"""When an answer says that it was made, unless the server has a salt: played answers are the same on every day."""
PORTION_CHARS = 12
"""Length of the portions that a stream cuts tool arguments and thinking into."""


@dataclass(frozen=True, slots=True)
class Call:
    """What an answer is rendered from: the request's own facts and the seed of its ids."""

    model: str
    seed: str
    prompt_tokens: int
    wants_usage: bool = False
    created_s: int = CREATED_S

    def id(self, prefix: str, part: object = "") -> str:
        """Return an id of this answer: equal for the same request, asked for the same number of times."""
        return prefix + hashlib.sha256(f"{self.seed}/{prefix}/{part}".encode()).hexdigest()[:24]


def arguments_text(call: ToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def completion_tokens(message: Message) -> int:
    """Return a count that stands for the answer's tokens: a quarter of its characters, at least 1."""
    chars = len(message.text) + len(message.thinking)
    return 1 + (chars + sum(len(arguments_text(call)) for call in message.tool_calls)) // 4


def portions(text: str) -> list[str]:
    return [text[start : start + PORTION_CHARS] for start in range(0, len(text), PORTION_CHARS)]


def vector_of(text: str) -> tuple[float, ...]:
    """Return a small vector that stands for `text`: the same on every day."""
    return tuple(byte / 256 for byte in hashlib.sha256(text.encode()).digest()[:8])


def argument_portions(message: Message) -> Iterator[tuple[int, str]]:
    """Give (index of the call, portion of its arguments): call by call, or in turns where `interleaved`."""
    cut = [portions(arguments_text(call)) for call in message.tool_calls]
    if not message.interleaved:
        for index, parts in enumerate(cut):
            yield from ((index, part) for part in parts)
        return
    for turn in range(max((len(parts) for parts in cut), default=0)):
        yield from ((index, parts[turn]) for index, parts in enumerate(cut) if turn < len(parts))


def frame(event: Mapping[str, Any], *, named: bool) -> bytes:
    """Return one server-sent event, with its `type` on an `event:` line where `named`."""
    head = f"event: {event['type']}\n" if named and "type" in event else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()
