"""Chronicle's envelopes -> crossings of the boundaries that they name; `@boundary` here takes the same names and kinds.

What it keeps is plain JSON, and of what is neither an object nor a plain value only `str()`: a text that may have been
something else is never served as a text. A model's answer that its `wrap(client)` kept whole is the SDK's own call.
Source: `chronicle/session.py` (`result_to_output`, `result_to_action_result`) and `chronicle/boundary.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_replay.importers.genai import _fields
from otel_replay.importers.genai._call import Call, Fault, Source

NAME = "Chronicle"
KINDS = {"llm": "model", "tool": "tool", "router": "router"}
_OPAQUE = re.compile(r"<[\w.]+ (?:object )?at 0x[0-9a-f]+>|<(?:class|function|module|bound method|coroutine) ")
_LOOKS = re.compile(r"[\[({<].*[\])}>]\Z|[A-Za-z_][\w.]*\(.*\)\Z", re.DOTALL)
_WORDS = ("None", "True", "False", "nan", "inf", "-inf")


def matches(source: Source) -> bool:
    """True where the span stands for an envelope of Chronicle."""
    return "chronicle.name" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call that the envelope tells of."""
    kind = KINDS.get(source.text("chronicle.kind"), "custom")
    call = Call(span=source.span, convention=NAME, role="tool", kind=kind, name=source.text("chronicle.name"))
    given = source.read("chronicle.input", must_be_json=True)
    output = source.read("chronicle.output", must_be_json=True)
    call.damage.extend(field.damage for field in (given, output) if field.damage)
    call.damage.extend(_fields.integrity_problems(source.span, source.attributes))
    held: Mapping[str, Any] = output.value if isinstance(output.value, dict) else {}
    call.model = source.text("gen_ai.request.model")
    _usage(call, held)
    if _failed(call, source, held):
        _arguments(call, given.value)
    elif kind == "model" and _is_response(held.get("value", held.get("raw_response"))):
        _as_sdk(call, given.value, held.get("value", held.get("raw_response")))
    else:
        _arguments(call, given.value)
        _result(call, held)
    return call


def _failed(call: Call, source: Source, held: Mapping[str, Any]) -> bool:
    kind = source.text("error.type")
    if source.span.status_code != 2 and not kind:
        return False
    call.fault = Fault(kind, str(held.get("error") or source.span.status_message))
    call.notes.append("the exception's module and arguments are not in the record, only its class and text")
    return True


def _arguments(call: Call, given: object) -> None:
    """Take the arguments by name; those that stand only as the repr of an object are not compared."""
    arguments = given if isinstance(given, dict) else {}
    opaque = [name for name, value in arguments.items() if _opaque(value)]
    if opaque:
        call.notes.append(f"not compared, since only their repr is in the record: {', '.join(map(str, opaque))[:200]}")
    kept = {name: value for name, value in arguments.items() if name not in opaque}
    call.arguments = _fields.Field("chronicle.input", kept, True)
    call.origin = {"rebuilt": True, "defaults": True}


def _opaque(value: object, depth: int = 0) -> bool:
    if isinstance(value, str):
        return _OPAQUE.search(value) is not None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 8 and any(_opaque(item, depth + 1) for item in inner)


def _result(call: Call, held: Mapping[str, Any]) -> None:
    llm = held.get("llm") if "value" in held else held
    if call.kind == "model" and isinstance(llm, dict) and not isinstance(held.get("raw_response"), dict):
        _of_model(call, llm)
        return
    old = "value" not in held
    value = held.get("value")
    if old:
        raw = held.get("raw_response")
        value = raw if isinstance(raw, dict) else held.get("completion")
    if call.kind == "router" and isinstance(value, dict) and set(value) == {"decision"}:
        value = value["decision"]
    elif isinstance(value, str) and _may_be_other(value, plain_too=old):
        call.damage.append(
            "Chronicle kept only str() of what was returned, and it may not have been a text: "
            f"{value[:60]!r}. Record it anew, or give it with an override"
        )
    call.result = _fields.Field("chronicle.output", value, True)


def _may_be_other(text: str, *, plain_too: bool) -> bool:
    """True where `text` can be the str() of something else: a list, an object, and in old traces a number or None."""
    stripped = text.strip()
    if _LOOKS.match(stripped):
        return True
    return plain_too and (stripped in _WORDS or _fields.spells_value(stripped))


def _of_model(call: Call, llm: Mapping[str, Any]) -> None:
    """Take a model's answer: the fields that Chronicle keeps of the dict that the agent's function returned."""
    if call.kind == "model" and "text" not in llm and not llm.get("tool_calls") and not llm.get("finish_reason"):
        text = llm.get("completion")
        if isinstance(text, str) and _may_be_other(text, plain_too=True):
            call.damage.append(f"Chronicle kept only str() of what was returned: {text[:60]!r}")
        call.result = _fields.Field("chronicle.output", text, True)
        return
    answer = {
        "completion": llm.get("text", llm.get("completion")),
        "tool_calls": llm.get("tool_calls") or [],
        "finish_reason": llm.get("finish_reason"),
    }
    call.notes.append("of the returned object only completion, tool_calls and finish_reason are in the record")
    call.result = _fields.Field("chronicle.output", answer, True)


def _is_response(value: object) -> bool:
    return isinstance(value, dict) and (
        isinstance(value.get("choices"), list)
        or (value.get("type") == "message" and isinstance(value.get("content"), list))
        or (value.get("object") == "response" and isinstance(value.get("output"), list))
    )


def _as_sdk(call: Call, given: object, response: Any) -> None:
    """A call through `wrap(client)`: what the client was asked, and its answer as the SDK's `model_dump()`."""
    call.role, call.kind = "model", ""
    call.request = dict(given) if isinstance(given, dict) else {}
    call.model = str(call.request.get("model") or call.model)
    call.response = dict(response)
    call.provider = "anthropic" if response.get("type") == "message" else "openai"
    call.api = "responses" if response.get("object") == "response" else ""
    call.streamed = call.request.get("stream") is True


def _usage(call: Call, held: Mapping[str, Any]) -> None:
    llm = held.get("llm")
    usage = (llm.get("usage") if isinstance(llm, dict) else None) or held.get("token_usage")
    for name, keys in (
        ("input", ("input_tokens", "prompt_tokens")),
        ("output", ("output_tokens", "completion_tokens")),
    ):
        counts = [usage[key] for key in keys if type(usage.get(key)) is int] if isinstance(usage, dict) else []
        if counts:
            call.usage[name] = counts[0]
