"""Google's wire forms of the Gemini API. Source: the vendor's API reference (generateContent, streaming, errors)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from otel_replay.testing._wire import Call, arguments_text, completion_tokens, vector_of
from otel_replay.testing.reply import Embedding, Error, Message

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error(reply: Error) -> dict[str, Any]:
    status = reply.code or STATUSES.get(reply.status, "UNKNOWN")
    message = reply.message or f"played error {reply.status}"
    return {"error": {"code": reply.status, "message": message, "status": status}}


def _answer(call: Call, parts: list[dict[str, Any]], output_tokens: int, finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": call.prompt_tokens,
        "candidatesTokenCount": output_tokens,
        "totalTokenCount": call.prompt_tokens + output_tokens,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": call.model,
        "responseId": call.id("resp_"),
    }


def _calls(reply: Message) -> list[dict[str, Any]]:
    """Return the parts of the calls. Raises ValueError for arguments that are no JSON, which this form cannot carry."""
    return [
        {
            "functionCall": {
                **({"id": asked.id} if asked.id else {}),
                "name": asked.name,
                "args": json.loads(arguments_text(asked) or "{}"),
            }
        }
        for asked in reply.tool_calls
    ]


def _thought(reply: Message) -> list[dict[str, Any]]:
    return [{"text": reply.thinking, "thought": True}] if reply.thinking else []


def content(call: Call, reply: Message) -> dict[str, Any]:
    """Return a `GenerateContentResponse`."""
    parts = [*_thought(reply), *([{"text": reply.text}] if reply.text else []), *_calls(reply)]
    if reply.signature and parts:
        parts[-1] = {**parts[-1], "thoughtSignature": reply.signature}
    return _answer(call, parts, completion_tokens(reply), reply.finish or "STOP")


def content_stream(call: Call, reply: Message) -> Iterator[dict[str, Any]]:
    """Give the stream's responses: one a portion of text, one with all calls, each a response of its own."""
    portions = [[part] for part in _thought(reply)] + [[{"text": piece}] for piece in reply.pieces]
    if reply.tool_calls:
        portions.append(_calls(reply))
    for number, parts in enumerate(portions or [[{"text": ""}]], 1):
        last = number >= len(portions)
        yield _answer(call, parts, completion_tokens(reply), (reply.finish or "STOP") if last else "")


def embeddings(reply: Embedding, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a `BatchEmbedContentsResponse`, or the answer of the single form."""
    requests = asked.get("requests", [asked])
    texts = [json.dumps(one.get("content", "")) for one in requests]
    vectors = reply.vectors or tuple(tuple(vector_of(text)) for text in texts)
    found = [{"values": list(vector)} for vector in vectors]
    return {"embeddings": found} if "requests" in asked else {"embedding": found[0]}
