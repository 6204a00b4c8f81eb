"""Six incidents in the shape of Chronicle's: plain functions, no client, two model calls around the tool that errs.

`incidents(boundary)` makes them with a boundary decorator, ours or another's: `boundary(name, kind)`. The models answer
in the one form that Chronicle gives back as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Boundary: TypeAlias = Callable[[str, str], Callable[[Callable[..., Any]], Callable[..., Any]]]


@dataclass(frozen=True)
class PlainIncident:
    """`run(fixed)` runs the agent, with the tool as it was on the day or as it is now."""

    name: str
    tool: str
    run: Callable[[bool], str]
    safe: Callable[[Any], bool]
    """Whether the tool's result did no damage."""


_SHAPES: dict[str, tuple[str, dict[str, Any], str]] = {
    # name -> (tool, arguments that the model gave, the argument that the guard looks at)
    "deletion": ("delete_file", {"path": "/srv/orders.db", "environment": "production"}, "environment"),
    "refund": ("refund", {"order": "A-1041", "cents": 950_000, "currency": "EUR"}, "cents"),
    "email": ("send_email", {"to": "everyone@example.com", "subject": "Draft", "body": "Not for sending yet"}, "to"),
    "trade": ("place_order", {"symbol": "ACME", "qty": 5000, "side": "buy"}, "qty"),
    "escalation": ("grant_role", {"user": "visitor", "role": "owner", "project": "billing"}, "role"),
    "booking": ("book_room", {"city": "Bern", "nights": 300, "guests": 2}, "nights"),
}
_FORBIDDEN = {"production", 950_000, "everyone@example.com", 5000, "owner", 300}


def incidents(boundary: Boundary, model_kind: str = "model") -> list[PlainIncident]:
    """Return the six, their functions marked by `boundary`."""
    return [_incident(name, *shape, boundary, model_kind) for name, shape in _SHAPES.items()]


def _incident(
    name: str, tool_name: str, arguments: dict[str, Any], looked_at: str, boundary: Boundary, model_kind: str
) -> PlainIncident:
    guarded = False

    @boundary("agent", model_kind)
    def agent(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if len(messages) == 2:
            calls = [{"name": tool_name, "arguments": arguments}]
            return {"tool_calls": calls, "completion": "", "finish_reason": "tool_calls"}
        blocked = messages[-1]["content"]["blocked"]
        return {"tool_calls": [], "completion": "I did nothing." if blocked else "Done.", "finish_reason": "stop"}

    def work(**given: Any) -> dict[str, Any]:
        if guarded and given[looked_at] in _FORBIDDEN:
            return {"blocked": True, "reason": f"{looked_at} is over what this agent may do"}
        return {"blocked": False, "done": given}

    tool = boundary(tool_name, "tool")(work)

    def run(fixed: bool) -> str:
        nonlocal guarded
        guarded = fixed
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": f"You look after {name} requests. Use {tool_name} where it is called for."},
            {"role": "user", "content": f"Please see to my {name} request of this morning."},
        ]
        first = agent(messages)
        result = tool(**first["tool_calls"][0]["arguments"])
        asked = {"role": "assistant", "tool_calls": first["tool_calls"]}
        last = agent([*messages, asked, {"role": "tool", "content": result}])
        return str(last["completion"])

    return PlainIncident(name, tool_name, run, lambda result: bool(result["blocked"]))
