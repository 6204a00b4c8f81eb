"""Record client libraries as people have them: `instrument("openai")`, `instrument("all")`, `wrap(client)`.

An instrument is inert until a session is active: outside `record()`, `replay()` and a mode it changes nothing.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from otel_replay.errors import UsageError
from otel_replay.instruments._patch import Patches

T = TypeVar("T")

KNOWN: dict[str, tuple[str, str]] = {
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "httpx": ("httpx", "httpx"),
    "httpx2": ("httpx2", "httpx2"),
    "urllib3": ("urllib3", "urllib3"),
    "aiohttp": ("aiohttp", "aiohttp"),
    "http_client": ("http.client", ""),
    "langchain": ("langchain_core.tools.base", "langchain-core"),
    "langgraph": ("langgraph.pregel.main", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "google_genai": ("google.genai", "google-genai"),
    "litellm": ("litellm", "litellm"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai-slim"),
}
"""Instrument -> (the module whose import brings the library, its distribution's name; "" for the standard library)."""
ALIASES = {"requests": "urllib3", "urllib": "http_client", "http.client": "http_client"}
"""Libraries that stand on another one."""

_on: dict[str, Patches] = {}
_lock = threading.RLock()


def instrument(*names: str) -> tuple[str, ...]:
    """Instrument these libraries, or with "all" every known one that is installed. Returns those now instrumented.

    Once is enough, and again does nothing. Import order does not matter, and clients that exist already are covered.
    Raises UsageError for an unknown name, and for one named explicitly that is not installed.
    """
    with _lock:
        for name in _wanted(tuple(ALIASES.get(name, name) for name in names)):
            if name not in _on:
                _on[name] = _module(name).install()
        return tuple(sorted(_on))


def uninstrument(*names: str) -> tuple[str, ...]:
    """Undo `instrument` for these libraries ("all" or no name: for all). Returns those still instrumented."""
    with _lock:
        for name in list(_on) if not names or "all" in names else names:
            patches = _on.pop(ALIASES.get(name, name), None)
            if patches is not None:
                patches.undo()
        return tuple(sorted(_on))


def installed() -> dict[str, str]:
    """Return {instrument: version of its library} for each known library that is installed."""
    found = {}
    for name, (_library, distribution) in KNOWN.items():
        told = _version(distribution)
        if told is not None:
            found[name] = told
    return found


def active() -> dict[str, Patches]:
    """Return what is instrumented now."""
    return dict(_on)


def wrap(client: T) -> T:
    """Instrument the library that `client` is of, and return `client` itself. Raises UsageError for an unknown one."""
    for base in type(client).__mro__:
        top = base.__module__.partition(".")[0]
        for name, (library, _distribution) in KNOWN.items():
            if top in (library.partition(".")[0], *(alias for alias, real in ALIASES.items() if real == name)):
                instrument(name)
                return client
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    raise UsageError(f"no instrument knows {kind}; known are {', '.join(KNOWN)}. Next: mark its methods with @boundary")


def _version(distribution: str) -> str | None:
    if not distribution:
        return sys.version.partition(" ")[0]
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _wanted(names: tuple[str, ...]) -> list[str]:
    unknown = [name for name in names if name != "all" and name not in KNOWN]
    if unknown or not names:
        raise UsageError(f"unknown instrument {unknown[:1] or names}; known are all, {', '.join(KNOWN)}")
    there = installed()
    absent = [name for name in names if name != "all" and name not in there]
    if absent:
        raise UsageError(
            f"instrument({absent[0]!r}): its library is not installed. Next: install {KNOWN[absent[0]][1]}"
        )
    return list(there) if "all" in names else list(dict.fromkeys(names))


def _module(name: str) -> Any:
    return import_module(f"otel_replay.instruments.{name}")
