"""OpenAI's wire forms. Source: the vendor's API reference (chat completions, responses, embeddings, errors)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.testing._wire import Call, argument_portions, arguments_text, completion_tokens, portions, vector_of
from otel_replay.testing.reply import Embedding, Error, Message

ERROR_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def error(reply: Error) -> dict[str, Any]:
    kind = ERROR_TYPES.get(reply.status, "server_error" if reply.status >= 500 else "invalid_request_error")
    message = reply.message or f"played error {reply.status}"
    return {"error": {"message": message, "type": kind, "param": None, "code": reply.code or None}}


# Chat completions ----------------------------------------------------------------------------------------


def _chat_usage(call: Call, message: Message) -> dict[str, int]:
    out = completion_tokens(message)
    return {"prompt_tokens": call.prompt_tokens, "completion_tokens": out, "total_tokens": call.prompt_tokens + out}


def _chat_finish(message: Message) -> str:
    return message.finish or ("tool_calls" if message.tool_calls else "stop")


def chat(call: Call, message: Message) -> dict[str, Any]:
    """Return a `chat.completion` object."""
    spoken: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
    if message.tool_calls:
        spoken["tool_calls"] = [
            {
                "id": asked.id or call.id("call_", index),
                "type": "function",
                "function": {"name": asked.name, "arguments": arguments_text(asked)},
            }
            for index, asked in enumerate(message.tool_calls)
        ]
    choice = {"index": 0, "message": spoken, "logprobs": None, "finish_reason": _chat_finish(message)}
    return {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion",
        "created": call.created_s,
        "model": call.model,
        "choices": [choice],
        "usage": _chat_usage(call, message),
        "system_fingerprint": "fp_played",
    }


def chat_stream(call: Call, message: Message) -> Iterator[dict[str, Any]]:
    """Give the `chat.completion.chunk` objects: role, text, tool-call deltas, finish, and usage where asked for."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    head = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": call.created_s,
        "model": call.model,
        "system_fingerprint": "fp_played",
    }
    yield chunk({"role": "assistant", "content": None if message.tool_calls else "", "refusal": None})
    for piece in message.pieces:
        yield chunk({"content": piece})
    begun: set[int] = set()
    for index, portion in _all_portions(message):
        delta: dict[str, Any] = {"index": index, "function": {"arguments": portion}}
        if index not in begun:
            begun.add(index)
            asked = message.tool_calls[index]
            delta |= {"id": asked.id or call.id("call_", index), "type": "function"}
            delta["function"] = {"name": asked.name, "arguments": ""}
            yield chunk({"tool_calls": [delta]})
            delta = {"index": index, "function": {"arguments": portion}}
        if portion:
            yield chunk({"tool_calls": [delta]})
    yield chunk({}, _chat_finish(message))
    if call.wants_usage:
        yield {**head, "choices": [], "usage": _chat_usage(call, message)}


def _all_portions(message: Message) -> Iterator[tuple[int, str]]:
    """Give the argument portions; a call without arguments still comes once, with an empty portion."""
    yield from argument_portions(message)
    yield from ((index, "") for index, asked in enumerate(message.tool_calls) if not arguments_text(asked))


# Responses -----------------------------------------------------------------------------------------------


def _output_items(call: Call, message: Message) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if message.thinking:
        summary = [{"type": "summary_text", "text": message.thinking}]
        items.append({"id": call.id("rs_"), "type": "reasoning", "summary": summary})
    if message.text:
        content = [{"type": "output_text", "text": message.text, "annotations": [], "logprobs": []}]
        spoken = {"id": call.id("msg_"), "type": "message", "status": "completed", "role": "assistant"}
        items.append({**spoken, "content": content})
    for index, asked in enumerate(message.tool_calls):
        items.append(
            {
                "id": call.id("fc_", index),
                "type": "function_call",
                "status": "completed",
                "call_id": asked.id or call.id("call_", index),
                "name": asked.name,
                "arguments": arguments_text(asked),
            }
        )
    return items


def response(call: Call, message: Message) -> dict[str, Any]:
    """Return a completed `response` object."""
    out = completion_tokens(message)
    usage = {
        "input_tokens": call.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": len(message.thinking) // 4},
        "total_tokens": call.prompt_tokens + out,
    }
    return _response(call, "completed", _output_items(call, message), usage)


def _response(call: Call, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": call.id("resp_"),
        "object": "response",
        "created_at": call.created_s,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": call.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def response_stream(call: Call, message: Message) -> Iterator[dict[str, Any]]:
    """Give the `response.*` events in their order, numbered from 0."""
    for number, event in enumerate(_response_events(call, message)):
        yield {**event, "sequence_number": number}


def _response_events(call: Call, message: Message) -> Iterator[dict[str, Any]]:
    begun = _response(call, "in_progress", [], None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_output_items(call, message)):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            yield from _text_item_events(item, place, message.pieces)
        elif item["type"] == "function_call":
            opened = {**item, "arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            for portion in portions(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": portion}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        else:
            yield from _reasoning_item_events(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response(call, message)}


def _text_item_events(
    item: dict[str, Any], place: Mapping[str, Any], pieces: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    opened = {**item, "content": [], "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": place["output_index"], "item": opened}
    spot = {**place, "content_index": 0}
    (part,) = item["content"]
    yield {"type": "response.content_part.added", **spot, "part": {**part, "text": ""}}
    for piece in pieces:
        yield {"type": "response.output_text.delta", **spot, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **spot, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **spot, "part": part}


def _reasoning_item_events(item: dict[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    opened = {**item, "summary": []}
    yield {"type": "response.output_item.added", "output_index": place["output_index"], "item": opened}
    spot = {**place, "summary_index": 0}
    (part,) = item["summary"]
    yield {"type": "response.reasoning_summary_part.added", **spot, "part": {**part, "text": ""}}
    for portion in portions(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", **spot, "delta": portion}
    yield {"type": "response.reasoning_summary_text.done", **spot, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **spot, "part": part}


# Embeddings ----------------------------------------------------------------------------------------------


def embeddings(call: Call, reply: Embedding, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return an embeddings list, as numbers or, where `encoding_format` is base64, as little-endian float32."""
    asked = request.get("input", "")
    inputs = asked if isinstance(asked, list) else [asked]
    vectors = reply.vectors or tuple(vector_of(str(item)) for item in inputs)
    packed = request.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else list(vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": call.prompt_tokens, "total_tokens": call.prompt_tokens}
    return {"object": "list", "data": data, "model": call.model, "usage": usage}


def _packed(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
