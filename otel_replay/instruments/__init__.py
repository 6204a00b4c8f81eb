"""Record client libraries as people have them: `instrument("openai")`, `instrument("all")`, `wrap(client)`.

An instrument is inert until a session is active: outside `record()`, `replay()` and a mode it changes nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar
from weakref import WeakValueDictionary

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
    "mcp": ("mcp.client.session", "mcp"),
    "autogen": ("autogen_core.tools", "autogen-core"),
    "crewai": ("crewai.tools.base_tool", "crewai"),
}
"""Instrument -> (the module whose import brings the library, its distribution's name; "" for the standard library)."""
ALIASES = {"requests": "urllib3", "urllib": "http_client", "http.client": "http_client"}
"""Libraries that stand on another one."""

CLIENTS = {
    "openai._base_client.BaseClient": "openai",
    "anthropic._base_client.BaseClient": "anthropic",
    "google.genai.client.Client": "google_genai",
    "httpx._client.BaseClient": "httpx",
    "httpx2._client.BaseClient": "httpx2",
    "requests.sessions.Session": "urllib3",
    "urllib3._request_methods.RequestMethods": "urllib3",
    "aiohttp.client.ClientSession": "aiohttp",
    "http.client.HTTPConnection": "http_client",
    "langchain_core.tools.base.BaseTool": "langchain",
    "langchain_core.language_models.chat_models.BaseChatModel": "langchain",
}
"""What `wrap` takes: class -> the instrument that covers its objects."""

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
            _on[name].only = None
        return tuple(sorted(active()))


def uninstrument(*names: str) -> tuple[str, ...]:
    """Undo `instrument` for these libraries ("all" or no name: for all). Returns those still instrumented."""
    with _lock:
        for name in list(_on) if not names or "all" in names else names:
            patches = _on.pop(ALIASES.get(name, name), None)
            if patches is not None:
                patches.undo()
        return tuple(sorted(active()))


def installed() -> dict[str, str]:
    """Return {instrument: version of its library} for each known library that is installed."""
    found = {}
    for name, (_library, distribution) in KNOWN.items():
        told = _version(distribution)
        if told is not None:
            found[name] = told
    return found


def active() -> dict[str, Patches]:
    """Return what is instrumented now. A library of which only single objects are wrapped is not among it."""
    return {name: patches for name, patches in _on.items() if patches.only is None}


@contextmanager
def borrowed(name: str) -> Iterator[Patches]:
    """Instrument a library for the length of the block, and leave it as it was."""
    before = _on.get(name)
    only = before.only if before is not None else None
    instrument(name)
    try:
        yield _on[name]
    finally:
        if before is None:
            uninstrument(name)
        else:
            before.only = only


def wrap(client: T) -> T:
    """Record this one client object, and copies made of it (`with_options`), and return it; no other of its library.

    Takes the clients in `CLIENTS`. `uninstrument` ends it, and `instrument` of the library covers all. Raises
    UsageError for any other object.
    """
    kinds = [f"{base.__module__}.{base.__qualname__}" for base in type(client).__mro__]
    found = next((CLIENTS[kind] for kind in kinds if kind in CLIENTS), None)
    if found is None:
        raise UsageError(f"no instrument knows how to wrap a {kinds[0]}. {_instead(kinds)}")
    with _lock:
        module = _module(found)
        if found not in _on:
            _on[found] = module.install()
            _on[found].only = WeakValueDictionary()
        wrapped = getattr(module, "wrapped", None)
        if wrapped is not None:
            wrapped(_on[found], client)
        _on[found].cover(client)
    return client


def _instead(kinds: list[str]) -> str:
    tops = {kind.partition(".")[0] for kind in kinds}
    for name, (library, _distribution) in KNOWN.items():
        if library.partition(".")[0] in tops:
            return f"Next: instrument({name!r}) covers all of its library"
    return f"Known are {', '.join(CLIENTS)}. Next: mark its methods with @boundary"


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
