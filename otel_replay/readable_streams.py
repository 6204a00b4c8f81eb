"""The pieces of a streamed answer put together, to be read only: what the vendor's whole answer would have said.

Pieces are merged by the number that the vendor gives them (`index`, `output_index`), never by who came last: parallel
calls of a stream come mixed, and a first piece may hold two for one number. Sources: OpenAI's chat completion chunks
and Responses events, Anthropic's message events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def whole(pieces: Iterable[object]) -> dict[str, Any]:
    """Return the body that these pieces make up, as far as they came; {} where they are no model's answer.

    A piece is an event's data, or an instrument's record of it ({"data": ...}), or plain text. Arguments of calls
    stay the text that came, whole or not.
    """
    data = [item for piece in pieces for item in _data_of(piece)]
    texts = [item for item in data if isinstance(item, str)]
    events = [item for item in data if isinstance(item, Mapping)]
    if any(isinstance(event.get("choices"), list) for event in events):
        return _chat(events)
    kinds = {event.get("type") for event in events}
    if "message_start" in kinds:
        return _message(events)
    if any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds):
        return _response(events)
    if texts and not events:
        return {"choices": [{"index": 0, "message": {"role": "assistant", "content": "".join(texts)}}]}
    return {}


def _data_of(piece: object) -> list[Any]:
    """Return the data of a piece; of one that is kept as bytes of the wire, since it was spelt oddly, its JSON."""
    if not isinstance(piece, Mapping):
        return [piece]
    if "form" not in piece or "data" in piece:
        return [piece.get("data", piece)]
    body = piece.get("body")
    found: list[Any] = []
    for line in body.splitlines() if isinstance(body, str) else ():
        if line.startswith("data:"):
            with contextlib.suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(line[5:]))
    return found


def _number(piece: Mapping[str, Any], name: str) -> int:
    found = piece.get(name)
    return found if type(found) is int else 0


def _add(held: dict[str, Any], name: str, text: object) -> None:
    if isinstance(text, str) and text:
        held[name] = (held.get(name) or "") + text


def _chat(events: list[Mapping[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    for event in events:
        body.update({name: event[name] for name in ("id", "model", "usage", "system_fingerprint") if event.get(name)})
        for choice in event.get("choices") or ():
            if not isinstance(choice, Mapping):
                continue
            at = _number(choice, "index")
            held = choices.setdefault(at, {"index": at, "message": {"role": "assistant", "content": None}})
            if choice.get("finish_reason"):
                held["finish_reason"] = choice["finish_reason"]
            delta = choice.get("delta")
            if not isinstance(delta, Mapping):
                continue
            for name in ("content", "refusal"):
                _add(held["message"], name, delta.get(name))
            for piece in delta.get("tool_calls") or ():
                if isinstance(piece, Mapping):
                    key = (at, _number(piece, "index"))
                    call = calls.setdefault(key, {"type": "function", "function": {"name": "", "arguments": ""}})
                    _add_call(call, piece)
    for (at, _index), call in sorted(calls.items(), key=lambda item: item[0]):
        choices[at]["message"].setdefault("tool_calls", []).append(call)
    return {**body, "choices": [choices[at] for at in sorted(choices)]}


def _add_call(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    if piece.get("id"):
        call["id"] = piece["id"]
    function = piece.get("function")
    if isinstance(function, Mapping):
        for name in ("name", "arguments"):
            _add(call["function"], name, function.get(name))


def _message(events: list[Mapping[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        kind, at = event.get("type"), _number(event, "index")
        delta = event.get("delta")
        if kind == "message_start" and isinstance(event.get("message"), Mapping):
            body = dict(event["message"])
        elif kind == "content_block_start" and isinstance(event.get("content_block"), Mapping):
            blocks[at] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(delta, Mapping):
            held = blocks.setdefault(at, {})
            for name in ("text", "thinking", "signature"):
                _add(held, name, delta.get(name))
            if delta.get("type") == "input_json_delta":
                before = held.get("input")
                held["input"] = (before if isinstance(before, str) else "") + str(delta.get("partial_json", ""))
        elif kind == "message_delta" and isinstance(delta, Mapping):
            body.update({name: value for name, value in delta.items() if value is not None})
            body["usage"] = {**(body.get("usage") or {}), **(event.get("usage") or {})}
    return {**body, "content": [_block(blocks[at]) for at in sorted(blocks)]}


def _block(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("input")
    if isinstance(given, str):
        try:
            return {**block, "input": orjson.loads(given or "{}")}
        except orjson.JSONDecodeError:
            return block
    return block


def _response(events: list[Mapping[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        kind = str(event.get("type"))
        at = _number(event, "output_index")
        if isinstance(event.get("response"), Mapping):
            body = dict(event["response"])
        elif kind in ("response.output_item.added", "response.output_item.done"):
            items[at] = dict(event["item"]) if isinstance(event.get("item"), Mapping) else {}
        elif kind == "response.output_text.delta":
            held = items.setdefault(at, {"type": "message", "role": "assistant"})
            blocks = held["content"] = list(held.get("content") or [])
            number = _number(event, "content_index")
            while len(blocks) <= number:
                blocks.append({"type": "output_text", "text": ""})
            blocks[number] = dict(blocks[number])
            _add(blocks[number], "text", event.get("delta"))
        elif kind == "response.function_call_arguments.delta":
            _add(items.setdefault(at, {"type": "function_call"}), "arguments", event.get("delta"))
    if not body.get("output"):
        body["output"] = [items[at] for at in sorted(items)]
    return body
