"""The boundaries of the scenarios: a model, tools, routers. `calls` is what really ran."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from otel_replay import boundary

calls: list[str] = []
guarded = False
"""Whether `order` has the guard that the fix brings."""


@boundary("model", kind="model")
async def model(prompt: str, delay: float = 0.0) -> str:
    calls.append(f"model {prompt}")
    await asyncio.sleep(delay)
    return prompt.upper()


@boundary("search", kind="tool")
async def search(query: str, delay: float = 0.0) -> list[str]:
    calls.append(f"search {query}")
    await asyncio.sleep(delay)
    return [query, query[::-1]]


@boundary("search", kind="tool")
def search_blocking(query: str, delay: float = 0.0) -> list[str]:
    calls.append(f"search {query}")
    time.sleep(delay)
    return [query, query[::-1]]


@boundary("model", kind="model")
def model_blocking(prompt: str, delay: float = 0.0) -> str:
    calls.append(f"model {prompt}")
    time.sleep(delay)
    return prompt.upper()


@boundary("agent", kind="model")
def agent_turn(history: list[Any]) -> str:
    calls.append("agent")
    if history and "'blocked': True" in str(history[-1]):
        return "stop"
    return f"turn {len(history)}"


@boundary("order", kind="tool", side_effects=True)
def order(quantity: int) -> dict[str, Any]:
    calls.append("order")
    if guarded:
        return {"blocked": True}
    return {"blocked": False, "quantity": quantity}


@boundary("email", kind="tool", side_effects=True)
def email(text: str) -> str:
    calls.append("email")
    return f"sent {text}"


@boundary("lookup", kind="tool")
def lookup(number: int) -> str:
    calls.append(f"lookup {number}")
    return f"customer {number}"


@boundary("audit", kind="tool")
def audit(quantity: int) -> str:
    calls.append("audit")
    return f"audited {quantity}"


@boundary("start", kind="tool")
def start(version: int) -> int:
    return version
