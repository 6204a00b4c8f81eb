"""Anthropic's wire forms. Source: the vendor's API reference (messages, streaming, errors)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from otel_replay.testing._wire import Call, arguments_text, completion_tokens, portions
from otel_replay.testing.reply import Error, Message, ToolCall

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(reply: Error, request_id: str) -> dict[str, Any]:
    kind = reply.code or ERROR_TYPES.get(reply.status, "api_error")
    message = reply.message or f"played error {reply.status}"
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def _stop_reason(message: Message) -> str:
    return message.finish or ("tool_use" if message.tool_calls else "end_turn")


def _usage(call: Call, output_tokens: int) -> dict[str, Any]:
    return {"input_tokens": call.prompt_tokens, "output_tokens": output_tokens}


def _tool_use(call: Call, index: int, asked: ToolCall, given: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": asked.id or call.id("toolu_", index), "name": asked.name, "input": given}


def message(call: Call, reply: Message) -> dict[str, Any]:
    """Return a `message` object. Raises ValueError for arguments that are not JSON, which this form cannot carry."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": reply.signature})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for index, asked in enumerate(reply.tool_calls):
        content.append(_tool_use(call, index, asked, json.loads(arguments_text(asked) or "{}")))
    return {
        "id": call.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": content,
        "stop_reason": _stop_reason(reply),
        "stop_sequence": None,
        "usage": _usage(call, completion_tokens(reply)),
    }


def message_stream(call: Call, reply: Message) -> Iterator[dict[str, Any]]:
    """Give the stream's events: message_start, each block's start, deltas and stop, message_delta, message_stop."""
    begun = message(call, Message()) | {"stop_reason": None, "usage": _usage(call, 1)}
    yield {"type": "message_start", "message": begun}
    for index, (block, deltas) in enumerate(_blocks(call, reply)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": completion_tokens(reply)}}
    yield {"type": "message_stop"}


def _blocks(call: Call, reply: Message) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": portion} for portion in portions(reply.thinking)]
        signed = {"type": "signature_delta", "signature": reply.signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if reply.pieces:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in reply.pieces]
    for index, asked in enumerate(reply.tool_calls):
        parts = ["", *portions(arguments_text(asked))]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        yield _tool_use(call, index, asked, {}), deltas
