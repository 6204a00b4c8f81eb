"""A private key in pieces: items of a list, messages, parts, events of a stream, tokens. None of it is left."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_replay.envelope import Payload
from otel_replay.redaction import Redactor

REDACTOR = Redactor.default()
KIND = "RSA PRIVATE" + " KEY"
BODY = base64.b64encode(bytes((i * 37 + i // 7) % 256 for i in range(130))).decode()
LINES = [f"-----BEGIN {KIND}-----", *(BODY[i : i + 64] for i in range(0, len(BODY), 64)), f"-----END {KIND}-----"]

Shape = Callable[[list[str]], Any]
SHAPES: dict[str, Shape] = {
    "strings": lambda pieces: pieces,
    "argument": lambda pieces: {"args": [pieces], "kwargs": {}},
    "tuple": lambda pieces: {"$": "tuple", "v": pieces},
    "messages": lambda pieces: {"messages": [{"role": "tool", "content": piece} for piece in pieces]},
    "parts": lambda pieces: [{"role": "user", "content": [{"type": "text", "text": piece} for piece in pieces]}],
    "messages of a part": lambda pieces: [{"role": "user", "content": [{"text": piece}]} for piece in pieces],
    "strings and parts": lambda pieces: [
        {"role": "user", "content": piece if at % 2 else [{"type": "text", "text": piece}]}
        for at, piece in enumerate(pieces)
    ],
    "asked and answered": lambda pieces: [
        message
        for piece in pieces
        for message in ({"role": "user", "content": piece}, {"role": "assistant", "content": "go on, please"})
    ],
    "JSON text": lambda pieces: {"arguments": json.dumps({"lines": [{"t": piece} for piece in pieces]}, indent=1)},
    "numbered": lambda pieces: {f"line{at}": piece for at, piece in enumerate(pieces)},
    "digits": lambda pieces: {str(at): piece for at, piece in enumerate(pieces)},
    "events": lambda pieces: "".join(f"data: {json.dumps(_chunk(piece))}\n\n" for piece in pieces),
    "lines of events": lambda pieces: [f"data: {json.dumps(_chunk(piece))}" for piece in pieces],
    "JSON lines": lambda pieces: "".join(json.dumps({"message": {"content": piece}}) + "\n" for piece in pieces),
    "tokens": lambda pieces: [
        {**_token(piece), "bytes": list(piece.encode()), "top_logprobs": [_token(piece)]} for piece in pieces
    ],
}  # fmt: skip
shapes = pytest.mark.parametrize("shape", SHAPES)


def _chunk(piece: str) -> Any:
    return {"choices": [{"index": 0, "delta": {"content": piece}}]}


def _token(text: str) -> Any:
    return {"token": text, "logprob": -0.1}


def redacted(tree: object) -> str:
    return REDACTOR.redact(Payload("json", orjson.dumps(tree).decode()))[0].value.text


def pieces_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@shapes
@pytest.mark.parametrize("end", [True, False], ids=["whole", "without its end"])
@pytest.mark.parametrize("line_end", ["", "\n", "\r\n"], ids=["bare", "lf", "crlf"])
def test_rd03_lines_in_items_are_joined(shape: str, end: bool, line_end: str) -> None:
    key = LINES if end else LINES[:-1]
    text = redacted(SHAPES[shape](["before it", *(line + line_end for line in key), "after it"]))
    for line in LINES[1:-1]:
        assert line[:10] not in text
        assert line[-10:] not in text
    assert "-----BEGIN" not in text
    assert text.count("[redacted:private-key#1]") == 1
    assert "before it" in text
    assert "after it" in text
    assert redacted(json.loads(text)) == text


@shapes
@pytest.mark.parametrize("size", [4, 7, 20, 50, 100])
def test_rd03_a_key_cut_anywhere_is_joined(shape: str, size: int) -> None:
    text = redacted(SHAPES[shape](pieces_of("before it\n" + "\n".join(LINES) + "\nafter it", size)))
    for start in range(len(BODY) - size):
        assert BODY[start : start + max(size // 2, 4)] not in text
    assert text.count("[redacted:private-key#1]") == 1
    tree = text.replace('"', "")
    assert "before"[:size] in tree
    assert text.rindex("fter"[-2:]) > text.index("[redacted")


@shapes
def test_rd03_public_keys_in_items_stay(shape: str) -> None:
    for what in ("PUBLIC KEY", "CERTIFICATE", "CERTIFICATE REQUEST"):
        key = [f"-----BEGIN {what}-----", *LINES[1:-1], f"-----END {what}-----"]
        tree = SHAPES[shape](["see", *key, "a PRIVATE KEY is none of this"])
        assert json.loads(redacted(tree)) == tree


@shapes
@given(cuts=st.lists(st.integers(1, 250), max_size=30, unique=True))
def test_rd03_whatever_the_cuts_are(shape: str, cuts: list[int]) -> None:
    whole = "<<<\n" + "\n".join(LINES) + "\n>>>"
    at = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in pairwise(at)]
    text = redacted(SHAPES[shape](pieces))
    assert not any(BODY[start : start + 12] in text for start in range(len(BODY) - 12))


def test_rd03_a_secret_cut_by_the_events_of_a_stream_is_joined() -> None:
    secret = "sk-proj-" + "a1B2" * 8
    for shape in ("events", "lines of events", "JSON lines", "tokens"):
        text = redacted(SHAPES[shape](["the key is ", secret[:7], secret[7:20], secret[20:], " and no more"]))
        assert secret[7:20] not in text
        assert "[redacted:openai-key#1]" in text
        assert "the key is" in text
        assert "and no more" in text


def test_rd03_tokens_leave_nothing_in_their_bytes_and_alternatives() -> None:
    text = redacted({"content": SHAPES["tokens"](pieces_of("\n".join(LINES), 5))})
    rest = json.loads(text)["content"]
    assert "".join(bytes(token["bytes"]).decode() for token in rest) == "[redacted:private-key#1]"
    assert not any(token["top_logprobs"] for token in rest)


def test_rd03_chunks_under_any_member_are_joined() -> None:
    for name in ("t", "text", "delta"):
        chunks = [Payload("json", json.dumps({name: piece})) for piece in pieces_of("\n".join(LINES), 20)]
        made, _ = REDACTOR.redact_stream(chunks)
        assert "".join(chunk.value.tree()[name] for chunk in made) == "[redacted:private-key#1]"  # type: ignore[index]
