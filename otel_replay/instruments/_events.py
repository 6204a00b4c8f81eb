"""The event stream that a whole answer would have come in: for records that hold one aggregated answer.

Forms: OpenAI's and Anthropic's API references on streaming. Portions are as large as they can be, since where they
were cut is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from otel_replay.errors import Unservable


def events_of(boundary: str, body: Mapping[str, Any], asked: Mapping[str, Any]) -> list[bytes]:
    """Return the framed events of `body`. Raises Unservable for an endpoint whose stream form is not known."""
    if boundary == "openai.chat.completions":
        return [*map(_frame, _chat(body, asked)), b"data: [DONE]\n\n"]
    if boundary == "openai.responses":
        return [_frame(event) for event in _responses(body)]
    if boundary == "anthropic.messages":
        return [_frame(event) for event in _messages(body)]
    raise Unservable(f"{boundary} was asked for a stream, and its record holds one whole answer")


def _frame(event: Mapping[str, Any]) -> bytes:
    kind = event.get("type")
    line = f"event: {kind}\n" if isinstance(kind, str) else ""
    return f"{line}data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def _chat(body: Mapping[str, Any], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = {key: value for key, value in body.items() if key not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"
    found: list[dict[str, Any]] = []
    for choice in body.get("choices") or []:
        message = dict(choice.get("message") or {})
        calls = message.pop("tool_calls", None)
        if calls:
            message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        index = choice.get("index", 0)
        delta = {"role": message.pop("role", "assistant"), **message}
        found.append({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        last = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        found.append({**head, "choices": [last]})
    options = asked.get("stream_options")
    if isinstance(options, Mapping) and options.get("include_usage") and body.get("usage"):
        found.append({**head, "choices": [], "usage": body["usage"]})
    return found


def _responses(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    opened = {**body, "output": [], "status": "in_progress"}
    found: list[dict[str, Any]] = [{"type": "response.created", "response": opened}]
    for index, item in enumerate(body.get("output") or []):
        at = {"output_index": index, "item_id": item.get("id", "")}
        empty = {**item, "status": "in_progress"}
        if item.get("type") == "message":
            empty["content"] = []
        elif item.get("type") == "function_call":
            empty["arguments"] = ""
        found.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if item.get("type") == "message":
            for place, part in enumerate(item.get("content") or []):
                found += _part(part, {**at, "content_index": place})
        elif item.get("type") == "function_call":
            words = item.get("arguments", "")
            found.append({"type": "response.function_call_arguments.delta", **at, "delta": words})
            done = {"type": "response.function_call_arguments.done", **at, "arguments": words}
            found.append({**done, "name": item.get("name", "")})
        found.append({"type": "response.output_item.done", "output_index": index, "item": item})
    found.append({"type": "response.completed", "response": dict(body)})
    return [{**event, "sequence_number": number} for number, event in enumerate(found)]


def _part(part: Mapping[str, Any], at: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = [{"type": "response.content_part.added", **at, "part": {**part, "text": ""}}]
    if part.get("type") == "output_text":
        words = part.get("text", "")
        found.append({"type": "response.output_text.delta", **at, "delta": words, "logprobs": []})
        found.append({"type": "response.output_text.done", **at, "text": words, "logprobs": []})
    found.append({"type": "response.content_part.done", **at, "part": dict(part)})
    return found


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    usage = dict(body.get("usage") or {})
    opened = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": opened}]
    for index, block in enumerate(body.get("content") or []):
        empty, deltas = _block(block)
        found.append({"type": "content_block_start", "index": index, "content_block": empty})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
    spent = {"output_tokens": usage.get("output_tokens", 0)}
    return [*found, {"type": "message_delta", "delta": stop, "usage": spent}, {"type": "message_stop"}]


def _block(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the block as it opens, the deltas that fill it)."""
    if block.get("type") == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
    if block.get("type") == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block.get("thinking", "")}]
        deltas.append({"type": "signature_delta", "signature": block.get("signature", "")})
        return {**block, "thinking": "", "signature": ""}, deltas
    if block.get("type") == "tool_use":
        spelt = json.dumps(block.get("input", {}), ensure_ascii=False)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": spelt}]
    return dict(block), []
