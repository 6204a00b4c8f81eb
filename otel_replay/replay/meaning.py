"""What a model request means, whichever of the vendor's ways to say it was taken: for requests that were rebuilt.

A convention keeps messages and tools, not the form of the request. So for the Responses API `input: "x"` is a user's
message, `instructions` is the system's, an item with ids and states is its call or result; tool arguments are
compared as JSON, and a tool by its name and parameters. Used only where the recorded request was put together from
such messages, never for one that was recorded as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from otel_replay.readable_parts import input_messages, instructions

_SAYING = ("messages", "input", "system", "instructions")
_SYSTEM = ("system", "developer")


def meaning(request: Mapping[str, object]) -> dict[str, Any]:
    """Return a model request with its messages and tools in one form, all else as it is."""
    found: dict[str, Any] = {name: value for name, value in request.items() if name not in _SAYING}
    system = instructions(request)
    messages = [{"role": "system", "parts": system}] if system else []
    found["messages"] = _joined([*messages, *input_messages(request)])
    if isinstance(found.get("tools"), list):
        found["tools"] = [_tool(tool) for tool in found["tools"]]
    return found


def _joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with neighbours of one role as one: items of the Responses API are parts of a turn."""
    made: list[dict[str, Any]] = []
    for message in messages:
        parts = [part for part in map(_part, message["parts"]) if part is not None]
        kind = parts[0]["type"] if parts else ""
        role = "tool" if kind == "tool_call_response" else "system" if message["role"] in _SYSTEM else message["role"]
        if made and made[-1]["role"] == role:
            made[-1]["parts"] += parts
        else:
            made.append({"role": role, "parts": parts})
    return made


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "text" and not part.get("content"):
        return None
    if kind == "reasoning":
        return {"type": kind, "content": part.get("content")}
    kept = {name: value for name, value in part.items() if value is not None}
    if kind == "tool_call":
        kept["arguments"] = _json(part.get("arguments"))
    elif kind == "tool_call_response":
        kept["response"] = _plain(part.get("response"))
    return kept


def _json(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _plain(value: Any) -> Any:
    """Return a tool's result as text where it is text, or a list of blocks of text."""
    if isinstance(value, list) and value and all(isinstance(item, dict) and isinstance(
            item.get("text"), str) for item in value):  # fmt: skip
        return "".join(item["text"] for item in value)
    return value


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    inner = tool["function"] if isinstance(tool.get("function"), dict) else tool
    if not isinstance(inner.get("name"), str):
        return tool
    return {"name": inner["name"], "parameters": inner.get("parameters", inner.get("input_schema"))}
