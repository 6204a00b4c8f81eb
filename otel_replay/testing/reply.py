"""What a played model answers: neutral values that the server writes in the form of whichever vendor was called.

    ModelServer([reply.tool_call("place_order", {"symbol": "ACME", "qty": 3}), reply.text("Done.")])

`text`, `tool_call`, `tool_calls`, `message` and `embedding` are written as JSON, or as a stream when the request says
`"stream": true`. `stream`, `raw_sse`, `json_body`, `error`, `reset` and `hang` say exactly what goes over the wire.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asks for. `arguments` is an object, or text sent as it stands (also broken JSON).

    An empty `id` is filled in by the server.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One answer of the model. `pieces` are the text in the portions that a stream sends it in."""

    pieces: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    signature: str = ""
    finish: str = ""
    interleaved: bool = False
    delay_s: float = 0.0
    between_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Vectors, one for each input; of an empty list the server makes its own from the inputs' text."""

    vectors: tuple[tuple[float, ...], ...] = ()
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Body:
    """A whole answer given by hand: status, headers and bytes."""

    status: int
    content: bytes
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Error:
    """An error in the vendor's form."""

    status: int
    message: str = ""
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RawSse:
    """A stream given by hand, each part in a write of its own; at the end the connection closes as `ending` says."""

    parts: tuple[bytes, ...]
    reset_at_end: bool = False
    delay_s: float = 0.0
    between_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a stream given by hand, framed by the server."""

    events: tuple[Mapping[str, Any], ...]
    delay_s: float = 0.0
    between_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset before a byte of an answer."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer for `seconds` (or until the server closes), then a closed connection."""

    seconds: float
    delay_s: float = 0.0


Reply: TypeAlias = Message | Embedding | Body | Error | RawSse | Events | Reset | Hang


def text(words: str) -> Message:
    """Return an answer of plain text. A stream sends it word by word."""
    return Message(pieces=_by_word(words))


def tool_call(name: str, arguments: Mapping[str, Any] | str, *, id: str = "") -> Message:
    """Return an answer that asks for one tool."""
    return Message(tool_calls=(ToolCall(name, arguments, id),))


def tool_calls(*calls: ToolCall | tuple[str, Mapping[str, Any]], interleaved: bool = False) -> Message:
    """Return an answer that asks for several tools at once.

    With `interleaved`, a stream mixes the portions of the calls' arguments, as vendors do for parallel calls.
    """
    asked = tuple(call if isinstance(call, ToolCall) else ToolCall(*call) for call in calls)
    return Message(tool_calls=asked, interleaved=interleaved)


def message(
    words: str = "",
    *,
    tool_calls: Iterable[ToolCall] = (),
    thinking: str = "",
    signature: str = "",
    finish: str = "",
) -> Message:
    """Return an answer of any parts. `finish` overrides the vendor's finish or stop reason.

    Thinking goes with its signature in Anthropic's form, as a reasoning summary in the Responses API, and is left out
    of chat completions, which have no field for it.
    """
    return Message(_by_word(words), tuple(tool_calls), thinking, signature, finish)


def stream(items: Sequence[str | Mapping[str, Any]], *, between_s: float = 0.0) -> Message | Events:
    """Return a stream of exactly these portions of text, or of exactly these events (mappings, in vendor's form).

    Events are framed as `event:` (where they have a `type`) and `data:` lines; chat completions end with `[DONE]`.

    Raises TypeError when texts and events are mixed.
    """
    texts = tuple(item for item in items if isinstance(item, str))
    events = tuple(item for item in items if not isinstance(item, str))
    if texts and events:
        raise TypeError("stream() takes portions of text or events, not both")
    return Events(events, between_s=between_s) if events else Message(pieces=texts, between_s=between_s)


def raw_sse(content: bytes, split_at: Sequence[int] = (), *, reset_at_end: bool = False) -> RawSse:
    """Return a stream of these bytes, written in parts that end at the given offsets (in bytes).

    With `reset_at_end` the connection is reset after the last part, so that the client sees a stream torn off.
    """
    cuts = [0, *sorted(split_at), len(content)]
    parts = tuple(content[start:end] for start, end in itertools.pairwise(cuts) if end > start)
    return RawSse(parts, reset_at_end)


def json_body(content: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Body:
    """Return an answer of these bytes as `application/json`, whatever they are."""
    return Body(status, content, (("content-type", "application/json"), *(headers or {}).items()))


def embedding(vectors: Sequence[Sequence[float]] = ()) -> Embedding:
    """Return these vectors, one for each input; none given, the server makes small ones from the inputs' text."""
    return Embedding(tuple(tuple(vector) for vector in vectors))


def error(status: int, message: str = "", *, code: str = "", retry_after_s: float | None = None) -> Error:
    """Return an error in the vendor's form; `retry_after_s` becomes the `retry-after` header."""
    headers = () if retry_after_s is None else (("retry-after", f"{retry_after_s:g}"),)
    return Error(status, message, code, headers)


def reset() -> Reset:
    """Return a connection reset in place of an answer."""
    return Reset()


def hang(seconds: float = 60.0) -> Hang:
    """Return no answer at all, so that the client's own timeout ends the call."""
    return Hang(seconds)


def after(seconds: float, answer: Reply) -> Reply:
    """Return the same answer, begun `seconds` later."""
    return replace(answer, delay_s=seconds)


def _by_word(words: str) -> tuple[str, ...]:
    if not words:
        return ()
    first, *rest = words.split(" ")
    return tuple(piece for piece in (first, *(" " + word for word in rest)) if piece)
