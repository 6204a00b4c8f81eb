"""Messages: each convention's form into the middle form (GenAI parts), and from there into OpenAI's and Anthropic's.

Middle form, from the OpenTelemetry GenAI conventions (`gen-ai-input-messages.json`): `{"role", "parts": [part]}`
with parts `text`, `tool_call`, `tool_call_response`, `reasoning`, `blob`, `uri`, `file` and whatever else was there.
`arguments` is the model's own text where it was kept, else the parsed value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from otel_replay.importers.genai._call import Message

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
_OPENAI_BLOCKS = ("text", "input_text", "output_text")


def role_of(name: object) -> str:
    """Return the role as the vendors spell it; "" where there is none."""
    text = str(name or "").lower()
    return _ROLES.get(text, text)


def text_part(content: object) -> dict[str, Any]:
    return {"type": "text", "content": content}


def json_text(value: object) -> str:
    """Return `value` as compact JSON text; text stays as it is."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def call_id(value: object) -> str:
    """Return a tool call's id as text; of a list (Microsoft's agent framework: run id, call id) the last."""
    if isinstance(value, list):
        return str(value[-1]) if value else ""
    return "" if value is None else str(value)


# Into the middle form ------------------------------------------------------------------------------------


def from_parts(value: object) -> list[Message] | None:
    """Return GenAI messages as they are recorded, roles spelt right; OpenAI's form is taken too. None: not messages."""
    if isinstance(value, Mapping):
        value = value.get("messages", [value])
    if not isinstance(value, list):
        return None
    found: list[Message] = []
    for item in value:
        if not isinstance(item, Mapping):
            return None
        parts = item.get("parts")
        if not isinstance(parts, list):
            found.append(from_openai(item))
            continue
        kept = [_part(part) for part in parts]
        message: Message = {"role": role_of(item.get("role")), "parts": [part for part in kept if part is not None]}
        for name in ("finish_reason", "name"):
            if item.get(name):
                message[name] = item[name]
        found.append(message)
    return found


def _part(part: object) -> dict[str, Any] | None:
    if isinstance(part, str):
        return text_part(part)
    if not isinstance(part, Mapping):
        return None
    kept = dict(part)
    if kept.get("type") == "tool_call_response" and "response" not in kept and "result" in kept:
        kept["response"] = kept.pop("result")
    if kept.get("type") == "thinking" and "signature" not in kept and "content" in kept:
        kept["type"] = "reasoning"
    if "text" in kept and "type" not in kept:
        return text_part(kept["text"])
    return kept


def system_message(value: object) -> list[Message]:
    """Return `gen_ai.system_instructions` (a list of parts, or text) as the system message it stands for."""
    if isinstance(value, str) and value:
        return [{"role": "system", "parts": [text_part(value)]}]
    if isinstance(value, list) and value:
        return [{"role": "system", "parts": [part for part in map(_part, value) if part is not None]}]
    return []


def _content_parts(content: object) -> list[dict[str, Any]]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [text_part(content)]
    if isinstance(content, list):
        found = []
        for block in content:
            if isinstance(block, str):
                found.append(text_part(block))
            elif isinstance(block, Mapping) and block.get("type") in _OPENAI_BLOCKS:
                found.append(text_part(block.get("text", "")))
            elif isinstance(block, Mapping):
                found.append(dict(block))
        return found
    return [text_part(json_text(content))]


def from_openai(message: Mapping[str, Any]) -> Message:
    """Return a message of OpenAI's chat form (also LangChain's dump of one) in the middle form.

    Text that an export has parsed (`"arguments": {...}`) is written as JSON text again later.
    """
    role = role_of(message.get("role") or message.get("type"))
    content = message.get("content")
    if role == "tool":
        identity = call_id(message.get("tool_call_id") or message.get("id"))
        part = {"type": "tool_call_response", "id": identity, "response": content}
        return {"role": "tool", "parts": [part]}
    parts = _content_parts(content)
    parts = [anthropic_block(part) for part in parts]
    extra = message.get("additional_kwargs")
    calls = message.get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, Mapping) else None)
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            parts.append(_openai_call(call))
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        parts.append({"type": "tool_call", "id": "", "name": legacy.get("name"), "arguments": legacy.get("arguments")})
    found: Message = {"role": role, "parts": parts}
    if message.get("finish_reason"):
        found["finish_reason"] = message["finish_reason"]
    if message.get("refusal"):
        found["refusal"] = message["refusal"]
    return found


def _openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    source: Mapping[str, Any] = function if isinstance(function, Mapping) else call
    arguments = source.get("arguments", source.get("args", source.get("input")))
    return {
        "type": "tool_call",
        "id": call_id(call.get("id") or call.get("toolCallId")),
        "name": source.get("name") or call.get("toolName") or "",
        "arguments": arguments,
    }


def anthropic_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a content block of Anthropic's (or Vercel's) as a part; others as they are."""
    kind = block.get("type")
    if kind == "tool_use":
        return {
            "type": "tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")
        }  # fmt: skip
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}
    if kind == "tool-call":  # Vercel AI SDK
        return {"type": "tool_call", "id": block.get("toolCallId"), "name": block.get("toolName"),
                "arguments": block.get("args", block.get("input"))}  # fmt: skip
    if kind == "tool-result":
        return {"type": "tool_call_response", "id": block.get("toolCallId"),
                "response": block.get("result", block.get("output"))}  # fmt: skip
    if kind == "text" and isinstance(block.get("text"), str) and "content" not in block:
        return text_part(block["text"])
    return block


def from_responses(items: Iterable[object]) -> list[Message]:
    """Return items of OpenAI's Responses form (`message`, `function_call`, `function_call_output`)."""
    found: list[Message] = []
    for item in items:
        if not isinstance(item, Mapping):
            continue
        kind = item.get("type")
        if kind == "function_call":
            part = {
                "type": "tool_call", "id": item.get("call_id"), "name": item.get("name"),
                "arguments": item.get("arguments"),
            }  # fmt: skip
            found.append({"role": "assistant", "parts": [part]})
        elif kind == "function_call_output":
            part = {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}
            found.append({"role": "tool", "parts": [part]})
        else:
            found.append(from_openai(item))
    return found


# Out of the middle form ----------------------------------------------------------------------------------


def tool_calls(message: Message) -> list[dict[str, Any]]:
    """Return the tool calls of a message in OpenAI's form, arguments as JSON text."""
    return [
        {
            "id": call_id(part.get("id")),
            "type": "function",
            "function": {
                "name": str(part.get("name") or ""),
                "arguments": "" if part.get("arguments") is None else json_text(part["arguments"]),
            },
        }
        for part in message["parts"]
        if part.get("type") == "tool_call"
    ]


def text_of(message: Message) -> str | None:
    """Return the text of a message, its text parts joined; None where it has none."""
    texts = [json_text(part.get("content", "")) for part in message["parts"] if part.get("type") == "text"]
    return "".join(texts) if texts else None


def _openai_content(message: Message, notes: list[str]) -> object:
    blocks: list[dict[str, Any]] = []
    for part in message["parts"]:
        kind = part.get("type")
        if kind == "text":
            blocks.append({"type": "text", "text": json_text(part.get("content", ""))})
        elif kind == "uri" and part.get("uri"):
            blocks.append({"type": "image_url", "image_url": {"url": part["uri"]}})
        elif kind == "blob" and isinstance(part.get("content"), str):
            url = f"data:{part.get('mime_type', 'application/octet-stream')};base64,{part['content']}"
            blocks.append({"type": "image_url", "image_url": {"url": url}})
        elif kind in ("image_url", "input_audio", "file", "refusal"):
            blocks.append(part)
        elif kind not in ("tool_call", "tool_call_response"):
            _once(notes, f"lost: a part of type {kind!r} has no place in OpenAI's chat form")
    if not blocks:
        return None
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks


def _once(notes: list[str], note: str) -> None:
    if note not in notes:
        notes.append(note)


def to_openai(messages: Iterable[Message], notes: list[str]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's chat form; what has no place there is named in `notes`."""
    found: list[dict[str, Any]] = []
    for message in messages:
        for part in message["parts"]:
            if part.get("type") == "tool_call_response":
                content = part.get("response")
                text = content if isinstance(content, (str, list)) else json_text(content)
                found.append({"role": "tool", "tool_call_id": call_id(part.get("id")), "content": text})
        calls, content = tool_calls(message), _openai_content(message, notes)
        if content is None and not calls and any(p.get("type") == "tool_call_response" for p in message["parts"]):
            continue
        wire: dict[str, Any] = {"role": message["role"], "content": content}
        if message.get("name") and message["role"] != "tool":
            wire["name"] = message["name"]
        if calls:
            wire["tool_calls"] = calls
        found.append(wire)
    return found


def _parsed(value: object) -> object:
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return {} if value is None else value


def anthropic_blocks(message: Message, notes: list[str]) -> list[dict[str, Any]]:
    """Return a message's parts as Anthropic content blocks, in their order."""
    found: list[dict[str, Any]] = []
    for part in message["parts"]:
        kind = part.get("type")
        if kind == "text":
            found.append({"type": "text", "text": json_text(part.get("content", ""))})
        elif kind == "tool_call":
            found.append({"type": "tool_use", "id": call_id(part.get("id")), "name": str(part.get("name") or ""),
                          "input": _parsed(part.get("arguments"))})  # fmt: skip
        elif kind == "tool_call_response":
            found.append({"type": "tool_result", "tool_use_id": call_id(part.get("id")),
                          "content": part.get("response")})  # fmt: skip
        elif kind in ("reasoning", "thinking"):
            thinking = part.get("content", part.get("thinking", ""))
            block = {"type": "thinking", "thinking": thinking, "signature": part.get("signature") or ""}
            if not block["signature"]:
                _once(notes, UNSIGNED)
            found.append(block)
        else:
            found.append(dict(part))
    return found


UNSIGNED = (
    "cannot go live after this call with thinking on: its thinking blocks have no signature "
    "(drop the thinking blocks, or start live earlier)"
)


def to_anthropic(messages: Iterable[Message], notes: list[str]) -> tuple[str | None, list[dict[str, Any]]]:
    """Return (system, messages) in Anthropic's form: tool results go to the user's side."""
    system: list[str] = []
    found: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            system.append(text_of(message) or "")
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = anthropic_blocks(message, notes)
        plain = len(blocks) == 1 and blocks[0]["type"] == "text" and role == "user"
        found.append({"role": role, "content": blocks[0]["text"] if plain else blocks})
    return ("\n".join(system) if system else None), found
