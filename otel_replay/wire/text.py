"""What a value may be in Python but not on the wire: carried as marked text, and read back as it was.

| value | on the wire | why |
| --- | --- | --- |
| text with lone surrogates | `otel-replay:text:` + the text as ASCII JSON | OTLP strings are UTF-8 |
| int beyond 64 bits | `otel-replay:int:` + decimal digits | OTLP ints are int64 |
| nesting beyond `DEPTH_MAX` | `otel-replay:value:` + the value as OTLP/JSON | protobuf readers stop at 100 messages |
| text that begins with `otel-replay:` and a name above | as `otel-replay:text:` | so that each form has one meaning |

Bytes that arrive in a string field and are not UTF-8 become lone surrogates (Python's `surrogateescape`), so that
they too come back as text and are never the end of their key or span.
"""

from __future__ import annotations

import json
from typing import Final

from ..errors import ImportFault

DEPTH_MAX: Final = 24
"""Levels of arrays and maps written natively: maps take three protobuf messages a level, readers allow 100."""
PREFIX: Final = "otel-replay:"
TEXT_MARK: Final = "otel-replay:text:"
INT_MARK: Final = "otel-replay:int:"
VALUE_MARK: Final = "otel-replay:value:"
_MARKS: Final = (TEXT_MARK, INT_MARK, VALUE_MARK)
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_INT_DIGITS_MAX: Final = 4_000


def to_wire(text: str) -> str:
    """Return `text` in a form that UTF-8 can hold. The inverse is `from_wire`."""
    if text.startswith(PREFIX) and text.startswith(_MARKS):
        return TEXT_MARK + json.dumps(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return TEXT_MARK + json.dumps(text)
    return text


def from_wire(text: str) -> str:
    """Return what `to_wire` was given; marked text that is not ours is returned as it stands."""
    if not text.startswith(TEXT_MARK):
        return text
    try:
        inner = json.loads(text[len(TEXT_MARK) :])
    except (ValueError, RecursionError):
        return text
    # Only what `to_wire` would have written so is unwrapped: everything else is somebody's own text.
    return inner if isinstance(inner, str) and to_wire(inner) == text else text


def decode(data: bytes) -> str:
    """Return the text of a protobuf string field, whatever its bytes are."""
    return from_wire(data.decode("utf-8", "surrogateescape"))


def encode(text: str) -> bytes:
    """Return the bytes of a protobuf string field."""
    return to_wire(text).encode()


def int_to_wire(number: int) -> str:
    """Return the marked text of an int that int64 cannot hold."""
    if number.bit_length() > _INT_DIGITS_MAX * 3:
        raise ImportFault(f"an int of {number.bit_length()} bits is too long for an attribute")
    return f"{INT_MARK}{number}"


def int_from_wire(text: str) -> int | None:
    """Return the int of a text written by `int_to_wire`, or None where it is another text."""
    digits = text[len(INT_MARK) :]
    if not text.startswith(INT_MARK) or len(digits) > _INT_DIGITS_MAX:
        return None
    try:
        number = int(digits)
    except ValueError:
        return None
    if INT64_MIN <= number <= INT64_MAX or str(number) != digits:
        return None
    return number
