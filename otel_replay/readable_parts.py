"""The vendors' messages in the form of the GenAI conventions: `{"role", "parts": [{"type", ...}]}`, to be read only.

Parts: `text` {content}, `reasoning` {content}, `tool_call` {id, name, arguments}, `tool_call_response` {id, response},
`blob` {mime_type, modality, content}, `uri` {uri, modality}, `file` {file_id}. A part that is none of these stays as
the vendor made it: the conventions allow it. Source: semantic-conventions-genai, `gen-ai-input-messages.json` and
`gen-ai-output-messages.json`; OpenAI chat completions and Responses, Anthropic messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Part: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]


def input_messages(request: Mapping[str, Any]) -> list[Message]:
    """Return what a request tells the model: its `messages`, or the `input` of the Responses API. [] for neither."""
    messages = request.get("messages")
    if isinstance(messages, list):
        return [message_of(message) for message in messages if isinstance(message, dict)]
    given = request.get("input")
    if isinstance(given, str):
        return [{"role": "user", "parts": [_text(given)]}]
    return [message_of(item) for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def instructions(request: Mapping[str, Any]) -> list[Part]:
    """Return what stands beside the messages as the system's own: Anthropic's `system`, Responses' `instructions`."""
    given = request.get("system", request.get("instructions"))
    return parts_of(given) if isinstance(given, (str, list)) and given else []


def output_messages(body: Mapping[str, Any]) -> list[Message]:
    """Return what a response says: of chat completions' choices, Anthropic's message, or the Responses API's output."""
    if body.get("type") == "message":
        return [message_of(body)]
    choices = body.get("choices")
    if isinstance(choices, list):
        held = [choice.get("message") for choice in choices if isinstance(choice, dict)]
        return [message_of(message, "assistant") for message in held if isinstance(message, dict)]
    output = body.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in items for part in message_of(item, "assistant")["parts"]]
    return [{"role": "assistant", "parts": parts}] if parts else []


def message_of(message: Mapping[str, Any], role: str = "") -> Message:
    """Return one message, or one item of the Responses API, as a message of the conventions."""
    role = str(message.get("role") or role)
    content = message.get("content")
    if role == "tool":
        return {"role": role, "parts": [_result(message.get("tool_call_id"), content)]}
    if "role" not in message and isinstance(message.get("type"), str):
        return _item(message, role)
    parts = [_text(content)] if isinstance(content, str) else parts_of(content)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append({"type": "refusal", "content": refusal})
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            parts.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    return {"role": role, "parts": parts}


def _item(item: Mapping[str, Any], role: str) -> Message:
    """Return an item without a role: a call, its result, reasoning, or what else there may be."""
    part = _part(item)
    is_result = part["type"] == "tool_call_response"
    return {"role": "tool" if is_result else role or "assistant", "parts": [part]}


def parts_of(content: object) -> list[Part]:
    """Return the parts of a message's content: text, or a list of the vendor's blocks."""
    if isinstance(content, str):
        return [_text(content)]
    blocks = content if isinstance(content, list) else ()
    return [_text(block) if isinstance(block, str) else _part(block) for block in blocks
            if isinstance(block, (str, dict))]  # fmt: skip


def _part(block: Mapping[str, Any]) -> Part:
    make = _MADE.get(block["type"]) if isinstance(block.get("type"), str) else None
    made = make(block) if make is not None else None
    return made if made is not None else dict(block)


def _text(content: str) -> Part:
    return {"type": "text", "content": content}


def _call(identity: object, name: object, arguments: object) -> Part:
    part = {"type": "tool_call", "id": identity, "name": name, "arguments": arguments}
    if isinstance(arguments, str) and arguments and not _is_json(arguments):
        part["arguments_note"] = "not JSON: kept as they came"
    return part


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _result(identity: object, response: object) -> Part:
    return {"type": "tool_call_response", "id": identity, "response": response}


def _of_text(block: Mapping[str, Any]) -> Part | None:
    return _text(block["text"]) if isinstance(block.get("text"), str) else None


def _of_thinking(block: Mapping[str, Any]) -> Part | None:
    return {"type": "reasoning", "content": block["thinking"]} if isinstance(block.get("thinking"), str) else None


def _of_reasoning(block: Mapping[str, Any]) -> Part | None:
    held = block.get("summary") or block.get("content")
    texts = [one["text"] for one in held if isinstance(one, dict) and isinstance(one.get("text"), str)] if isinstance(
        held, list) else []  # fmt: skip
    return {"type": "reasoning", "content": "\n".join(texts)} if texts else None


def _of_refusal(block: Mapping[str, Any]) -> Part | None:
    return {"type": "refusal", "content": block["refusal"]} if isinstance(block.get("refusal"), str) else None


def _of_address(block: Mapping[str, Any]) -> Part | None:
    """OpenAI's image: an address, or the picture itself in a data address."""
    held = block.get("image_url")
    address = held.get("url") if isinstance(held, dict) else held
    if isinstance(address, str):
        return _addressed(address, "image")
    return _of_file(block)


def _addressed(address: str, modality: str) -> Part:
    head, comma, data = address.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return _blob(head[5:-7], modality, data)
    return {"type": "uri", "modality": modality, "uri": address}


def _blob(mime_type: str, modality: str, content: str) -> Part:
    return {"type": "blob", "mime_type": mime_type, "modality": modality, "content": content}


def _of_audio(block: Mapping[str, Any]) -> Part | None:
    held = block.get("input_audio")
    if not isinstance(held, dict) or not isinstance(held.get("data"), str):
        return None
    return _blob(f"audio/{held.get('format') or 'wav'}", "audio", held["data"])


def _of_file(block: Mapping[str, Any]) -> Part | None:
    held = block.get("file")
    identity = (held if isinstance(held, dict) else block).get("file_id")
    return {"type": "file", "file_id": identity} if isinstance(identity, str) else None


def _of_source(block: Mapping[str, Any]) -> Part | None:
    """Anthropic's image or document."""
    held, modality = block.get("source"), "image" if block["type"] == "image" else "document"
    if not isinstance(held, dict):
        return None
    if isinstance(held.get("data"), str):
        return _blob(str(held.get("media_type") or ""), modality, held["data"])
    if isinstance(held.get("url"), str):
        return _addressed(held["url"], modality)
    return {"type": "file", "file_id": held["file_id"]} if isinstance(held.get("file_id"), str) else None


_MADE: Final[Mapping[str, Callable[[Mapping[str, Any]], Part | None]]] = {
    "text": _of_text,
    "input_text": _of_text,
    "output_text": _of_text,
    "refusal": _of_refusal,
    "thinking": _of_thinking,
    "reasoning": _of_reasoning,
    "tool_use": lambda block: _call(block.get("id"), block.get("name"), block.get("input")),
    "tool_result": lambda block: _result(block.get("tool_use_id"), block.get("content")),
    "function_call": lambda item: _call(item.get("call_id"), item.get("name"), item.get("arguments")),
    "function_call_output": lambda item: _result(item.get("call_id"), item.get("output")),
    "image_url": _of_address,
    "input_image": _of_address,
    "input_audio": _of_audio,
    "file": _of_file,
    "input_file": _of_file,
    "image": _of_source,
    "document": _of_source,
}
