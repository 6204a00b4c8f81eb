"""Requests and responses in the vendor's own wire form, rebuilt from what a convention has kept.

Everything that the record does not hold but the form demands is invented, and every invention is named, so that an
answer served from here is never mistaken for the recorded bytes. Forms: OpenAI's and Anthropic's API references.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from otel_replay.envelope import Envelope
from otel_replay.errors import Unservable
from otel_replay.importers.genai import _messages, _vendor
from otel_replay.importers.genai._call import Call, Message

CHUNKS_UNKNOWN = "streamed: one aggregated answer, chunk boundaries unknown"
_FINISH = {"tool_call": "tool_calls", "tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length",
           "STOP": "stop", "function_call": "tool_calls"}  # fmt: skip
_STOP = {"stop": "end_turn", "tool_calls": "tool_use", "tool_call": "tool_use", "length": "max_tokens"}


def response_body(envelope: Envelope) -> dict[str, Any]:
    """Return the vendor's response as wire JSON: what an instrument turns into the SDK's own object.

    Raises Unservable where the crossing has no recorded answer.
    """
    outcome = envelope.outcome
    if outcome.kind not in ("returned", "streamed") or outcome.lost_reason:
        reason = outcome.lost_reason or f"it {outcome.kind}"
        raise Unservable(f"{envelope.address} has no recorded answer: {reason}", address=envelope.address)
    tree = outcome.value.tree()
    if not isinstance(tree, dict):
        raise Unservable(f"{envelope.address} was answered with no response body", address=envelope.address)
    return tree


class Invented:
    """Collects what is not in the record, as one note."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def give(self, name: str, value: Any) -> Any:
        """Return `value`, and remember that `name` was invented."""
        self.names.append(name)
        return value

    def note(self) -> list[str]:
        return [f"invented: {', '.join(self.names)}"] if self.names else []


def invented_id(prefix: str, call: Call) -> str:
    """Return an id that looks like the vendor's and is the same at each import: made from the span's ids."""
    seed = f"{call.span.trace_id}:{call.span.span_id}".encode()
    return f"{prefix}{hashlib.sha256(seed).hexdigest()[:24]}"


def request_of(call: Call, boundary: str) -> dict[str, Any] | None:
    """Return the request in the boundary's wire form, or None where its messages were not recorded."""
    if call.request is not None:
        return _completed(call, _text_arguments(call.request))
    if not call.messages:
        return None
    found: dict[str, Any] = {"model": call.model} if call.model else {}
    if boundary == _vendor.ANTHROPIC:
        system, messages = _messages.to_anthropic(call.messages, call.notes)
        found.update({"system": system} if system is not None else {})
        found["messages"] = messages
    elif boundary == _vendor.OPENAI_RESPONSES:
        found["input"] = _responses_input(call.messages, call.notes)
    elif boundary == _vendor.OPENAI_EMBEDDINGS:
        texts = [_messages.text_of(message) or "" for message in call.messages]
        found["input"] = texts[0] if len(texts) == 1 else texts
    else:
        found["messages"] = _messages.to_openai(call.messages, call.notes)
    found.update(call.params)
    if boundary == _vendor.OPENAI_CHAT and "max_tokens" in call.params:
        call.notes.append("max_tokens may have been max_completion_tokens: the record has one name for both")
    if call.tools:
        found["tools"] = _tools(call.tools, boundary)
    if call.streamed:
        found["stream"] = True
    _arguments_note(call, call.messages)
    return found


def _completed(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded request, with model and tools from beside it where it lacks them."""
    if call.model and "model" not in request:
        request = {"model": call.model, **request}
    if call.tools and "tools" not in request and "contents" not in request:
        request["tools"] = call.tools
    if call.streamed and "stream" not in request and "contents" not in request:
        request["stream"] = True
    return request


def _text_arguments(tree: Any) -> Any:
    """Return a copy in which `arguments` are text again: exports parse JSON inside JSON, the wire has it as text."""
    if isinstance(tree, list):
        return [_text_arguments(item) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    call_like = "name" in tree and "arguments" in tree
    return {
        key: _messages.json_text(value)
        if call_like and key == "arguments" and isinstance(value, (dict, list))
        else _text_arguments(value)
        for key, value in tree.items()
    }


def _arguments_note(call: Call, messages: list[Message]) -> None:
    parts = [part for message in messages for part in message["parts"] if part.get("type") == "tool_call"]
    if any(not isinstance(part.get("arguments"), (str, type(None))) for part in parts):
        note = "lost: the spelling of tool call arguments (they were parsed; written again as compact JSON)"
        if note not in call.notes:
            call.notes.append(note)


def _tools(tools: list[Any], boundary: str) -> list[Any]:
    if boundary == _vendor.OPENAI_CHAT or not all(isinstance(tool, Mapping) for tool in tools):
        return tools
    flat = [tool.get("function", tool) for tool in tools]
    if boundary == _vendor.OPENAI_RESPONSES:
        return [{"type": "function", **tool} for tool in flat]
    if boundary == _vendor.ANTHROPIC:
        return [
            {("input_schema" if key == "parameters" else key): value for key, value in tool.items()} for tool in flat
        ]
    return tools


def _responses_input(messages: list[Message], notes: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in _messages.to_openai(messages, notes):
        calls = message.pop("tool_calls", [])
        if message["role"] == "tool":
            found.append({"type": "function_call_output", "call_id": message["tool_call_id"],
                          "output": message["content"]})  # fmt: skip
            continue
        if message["content"] is not None:
            found.append(message)
        found += [{"type": "function_call", "call_id": item["id"], **item["function"]} for item in calls]
    return found


def response_of(call: Call, boundary: str) -> dict[str, Any] | None:
    """Return the response in the boundary's wire form, or None where no answer was recorded."""
    if call.response is not None:
        return _recorded_response(call, boundary)
    if call.raw_blocks is not None:
        return _anthropic_message(call, call.raw_blocks, "tool_use" if _has_tool_use(call.raw_blocks) else "end_turn")
    if not call.answers:
        return None
    _arguments_note(call, call.answers)
    if boundary == _vendor.ANTHROPIC:
        answer = _one(call, call.answers)
        blocks = _messages.anthropic_blocks(answer, call.notes)
        reason = str(answer.get("finish_reason") or next(iter(call.finish_reasons), ""))
        return _anthropic_message(call, blocks, _STOP.get(reason, reason))
    if boundary == _vendor.OPENAI_RESPONSES:
        return _responses_body(call)
    return _chat_completion(call)


def _has_tool_use(blocks: list[Any]) -> bool:
    return any(isinstance(block, Mapping) and block.get("type") == "tool_use" for block in blocks)


def _recorded_response(call: Call, boundary: str) -> dict[str, Any]:
    """Return a recorded response made whole: what its form demands and the record lacks is invented and named."""
    body: dict[str, Any] = _text_arguments(call.response)
    if boundary == _vendor.ANTHROPIC and isinstance(body.get("content"), list):
        # The record is a dump of the SDK's object: what it has as null the vendor had not sent, nor does the agent.
        body["content"] = [_without_nulls(block) for block in body["content"]]
    if boundary != _vendor.OPENAI_CHAT or not isinstance(body.get("choices"), list):
        return body
    invented = Invented()
    if body.get("object") != "chat.completion":
        if body.get("object"):
            call.notes.append(f"object was {body['object']!r}: the convention rebuilt it from a stream")
            body["object"] = "chat.completion"
        else:
            body["object"] = invented.give("object", "chat.completion")
    _complete_chat(call, body, invented)
    for index, choice in enumerate(body["choices"]):
        if isinstance(choice, dict):
            if "index" not in choice:
                choice["index"] = invented.give(f"choices[{index}].index", index)
            if "finish_reason" not in choice:
                choice["finish_reason"] = invented.give(f"choices[{index}].finish_reason", "stop")
    call.notes.extend(invented.note())
    return body


def _without_nulls(block: Any) -> Any:
    return {name: item for name, item in block.items() if item is not None} if isinstance(block, dict) else block


def _complete_chat(call: Call, body: dict[str, Any], invented: Invented) -> None:
    if not body.get("id"):
        body["id"] = call.response_id or invented.give("id", invented_id("chatcmpl-", call))
    if not isinstance(body.get("created"), int):
        body["created"] = invented.give("created", call.span.start_ns // 1_000_000_000)
    if not body.get("model"):
        body["model"] = call.answered_model or invented.give("model", call.model or "unknown")
    if not body.get("usage"):
        usage = chat_usage(call.usage)
        if usage:
            body["usage"] = usage


def chat_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    """Return token counts in OpenAI's chat form; {} where none were recorded."""
    if "input" not in usage and "output" not in usage:
        return {}
    asked, answered = usage.get("input", 0), usage.get("output", 0)
    found: dict[str, Any] = {"prompt_tokens": asked, "completion_tokens": answered}
    found["total_tokens"] = usage.get("total", asked + answered)
    if "cached" in usage:
        found["prompt_tokens_details"] = {"cached_tokens": usage["cached"]}
    if "reasoning" in usage:
        found["completion_tokens_details"] = {"reasoning_tokens": usage["reasoning"]}
    return found


def _one(call: Call, answers: list[Message]) -> Message:
    """Return several recorded answer messages as the one message that they are parts of."""
    if len(answers) == 1:
        return answers[0]
    call.notes.append(f"{len(answers)} recorded answer messages are read as parts of one answer")
    merged: Message = {"role": "assistant", "parts": [part for message in answers for part in message["parts"]]}
    reasons = [message["finish_reason"] for message in answers if message.get("finish_reason")]
    if reasons:
        merged["finish_reason"] = reasons[-1]
    return merged


def _chat_completion(call: Call) -> dict[str, Any]:
    assert call.answers
    invented = Invented()
    body: dict[str, Any] = {"id": call.response_id, "object": "chat.completion", "created": None}
    body["model"] = call.answered_model
    many = isinstance(call.params.get("n"), int) and call.params["n"] > 1
    answers = call.answers if many else [_one(call, call.answers)]
    body["choices"] = [_choice(call, index, answer, invented) for index, answer in enumerate(answers)]
    _complete_chat(call, body, invented)
    body.update(call.extras)
    call.notes.extend(invented.note())
    return body


def _choice(call: Call, index: int, answer: Message, invented: Invented) -> dict[str, Any]:
    calls = _messages.tool_calls(answer)
    for position, item in enumerate(calls):
        if not item["id"]:
            name = f"choices[{index}].message.tool_calls[{position}].id"
            item["id"] = invented.give(name, invented_id("call_", call) + str(position))
    message: dict[str, Any] = {"role": "assistant", "content": _messages.text_of(answer)}
    if answer.get("refusal"):
        message["refusal"] = answer["refusal"]
    if calls:
        message["tool_calls"] = calls
    recorded = answer.get("finish_reason") or (call.finish_reasons[index] if index < len(call.finish_reasons) else "")
    reason = _FINISH.get(str(recorded), str(recorded))
    if not reason:
        reason = invented.give(f"choices[{index}].finish_reason", "tool_calls" if calls else "stop")
    return {"index": invented.give(f"choices[{index}].index", index), "message": message, "logprobs": None,
            "finish_reason": reason}  # fmt: skip


def _anthropic_message(call: Call, blocks: list[Any], reason: str) -> dict[str, Any]:
    invented = Invented()
    body: dict[str, Any] = {
        "id": call.response_id or invented.give("id", invented_id("msg_", call)),
        "type": "message",
        "role": "assistant",
        "model": call.answered_model or invented.give("model", call.model or "unknown"),
        "content": blocks,
        "stop_reason": reason or invented.give("stop_reason", "tool_use" if _has_tool_use(blocks) else "end_turn"),
        "stop_sequence": None,
    }
    usage = {"input_tokens": call.usage.get("input"), "output_tokens": call.usage.get("output")}
    if None in usage.values():
        invented.give("usage", None)
    body["usage"] = {name: count or 0 for name, count in usage.items()}
    call.notes.extend(invented.note())
    return body


def _responses_body(call: Call) -> dict[str, Any]:
    assert call.answers
    invented = Invented()
    output: list[dict[str, Any]] = []
    for answer in call.answers:
        text = _messages.text_of(answer)
        if text is not None:
            content = {"type": "output_text", "text": text, "annotations": []}
            identity = invented.give(f"output[{len(output)}].id", invented_id("msg_", call) + str(len(output)))
            output.append({"type": "message", "id": identity, "role": "assistant", "status": "completed",
                           "content": [content]})  # fmt: skip
        for item in _messages.tool_calls(answer):
            identity = invented.give(f"output[{len(output)}].id", invented_id("fc_", call) + str(len(output)))
            output.append({"type": "function_call", "id": identity, "call_id": item["id"], "status": "completed",
                           **item["function"]})  # fmt: skip
    body: dict[str, Any] = {
        "id": call.response_id or invented.give("id", invented_id("resp_", call)),
        "object": "response",
        "created_at": invented.give("created_at", call.span.start_ns // 1_000_000_000),
        "model": call.answered_model or invented.give("model", call.model or "unknown"),
        "status": "completed",
        "output": output,
        "parallel_tool_calls": invented.give("parallel_tool_calls", True),
        "tool_choice": invented.give("tool_choice", "auto"),
        "tools": _tools(call.tools or [], _vendor.OPENAI_RESPONSES),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }
    if "input" in call.usage or "output" in call.usage:
        asked, answered = call.usage.get("input", 0), call.usage.get("output", 0)
        body["usage"] = {
            "input_tokens": asked,
            "output_tokens": answered,
            "total_tokens": call.usage.get("total", asked + answered),
            "input_tokens_details": {
                "cached_tokens": call.usage.get("cached", 0),
                "cache_write_tokens": invented.give("usage.input_tokens_details.cache_write_tokens", 0),
            },
            "output_tokens_details": {"reasoning_tokens": call.usage.get("reasoning", 0)},
        }
    call.notes.extend(invented.note())
    return body
