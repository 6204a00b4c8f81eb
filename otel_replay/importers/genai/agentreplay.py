"""AgentReplay's tool and model events -> crossings. It keeps each payload in a canonical form that cannot be undone.

Keys named `id`, `created`, `seed`, `session_id` and a few more are left out wherever they stand, UUIDs and times in
texts are replaced, tuples are lists, and what is not JSON is its `repr()`. So nothing here is exact; what is known to
be replaced is not served; and a request that has one of the keys that are always left out is never taken for equal.
Source: gadda00/agentreplay, `src/agentreplay/hashing.py` (`canonicalize`), `interceptors/http.py` (tools), `llm.py`.
"""

from __future__ import annotations

import re
from typing import Any

from otel_replay.importers.genai import _fields
from otel_replay.importers.genai._call import Call, Fault, Source

NAME = "AgentReplay"
MODEL = "llm"
"""How the boundary of a client of one's own is called: AgentReplay keeps no name for it."""
DROPPED = ("request_id", "id", "created", "system_fingerprint", "x_request_id", "x_trace_id", "x_span_id",
           "session_id", "seed", "user-agent", "User-Agent")  # fmt: skip
_PLACEHOLDERS = ("<uuid>", "<iso8601>")
_REPR = re.compile(r"<[\w.]+ (?:object )?at 0x[0-9a-f]+>|[A-Za-z_][\w.]*\(.*\)\Z", re.DOTALL)
_REPLACED = "AgentReplay replaced ids and times in it (<uuid>, <iso8601>)"


def matches(source: Source) -> bool:
    """True where the span stands for a tool's or model's event."""
    return "agentreplay.name" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call that the event tells of."""
    is_model = source.text("agentreplay.call_type") == "llm"
    call = Call(span=source.span, convention=NAME, role="tool", kind="model" if is_model else "tool")
    call.name = MODEL if is_model else source.text("agentreplay.name")
    asked, answered = source.read("agentreplay.request"), source.read("agentreplay.response")
    damage = source.text("cassette.damage")
    if damage:
        call.damage.append(damage)
    call.notes.append(
        f"keys that AgentReplay always leaves out are missing where they stood: {', '.join(DROPPED[:3])} ..."
    )
    call.origin = {"rebuilt": True, "defaults": True, "dropped": list(DROPPED)}
    if asked.present:
        _asked(call, asked.value, is_model=is_model)
    if answered.present:
        _model(call, source, answered.value) if is_model else _tool(call, answered.value)
    return call


def _asked(call: Call, value: Any, *, is_model: bool) -> None:
    held = value if isinstance(value, dict) else {}
    if is_model:
        call.model = str(held.get("model") or "")
        request = {name: item for name, item in held.items() if not (name == "tools" and item is None)}
    else:
        args, kwargs = held.get("args"), held.get("kwargs")
        request = dict(kwargs) if isinstance(kwargs, dict) else {}
        if isinstance(args, list) and args:
            request = {"*args": args, **request}
    replaced = [name for name, item in request.items() if _holds(item, _PLACEHOLDERS)]
    if replaced:
        call.damage.append(f"the request cannot be compared: {_REPLACED}: {', '.join(map(str, replaced))[:100]}")
    call.arguments = _fields.Field("the request", request, True)


def _tool(call: Call, answered: Any) -> None:
    held = answered if isinstance(answered, dict) else {}
    error = held.get("error")
    if isinstance(error, str) and error:
        kind, _, message = error.partition(": ")
        call.fault = Fault(kind, message)
        call.notes.append("the exception's module and arguments are not in the record, only its class and text")
        return
    _served(call, held.get("value"))


def _model(call: Call, source: Source, answered: Any) -> None:
    client = source.text("agentreplay.client")
    if isinstance(answered, dict) and isinstance(answered.get("choices"), list) and client == "openai":
        call.role, call.kind, call.provider = "model", "", "openai"
        call.request, call.response = dict(call.arguments.value), dict(answered)  # type: ignore[call-overload]
        call.origin = {"dropped": list(DROPPED)}
        call.streamed = call.request.get("stream") is True
    elif isinstance(answered, dict) and answered.get("streamed") is True:
        call.damage.append("a stream without the ids of its chunks, which AgentReplay leaves out")
    _served(call, answered)


def _served(call: Call, value: Any) -> None:
    if _holds(value, _PLACEHOLDERS):
        call.damage.append(_REPLACED)
    elif isinstance(value, str) and _REPR.match(value):
        call.damage.append(f"only the repr of what was returned was kept: {value[:60]!r}")
    call.result = _fields.Field("the result", value, True)


def _holds(value: Any, marks: tuple[str, ...], depth: int = 0) -> bool:
    if isinstance(value, str):
        return any(mark in value for mark in marks)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 200 and any(_holds(item, marks, depth + 1) for item in inner)
