"""The OpenAI SDK, and through it every OpenAI-compatible server."""

from __future__ import annotations

from importlib import import_module

from otel_replay.instruments import _events
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._stainless import Calls, Vendor, wrapped

__all__ = ["install", "wrapped"]

VENDOR = Vendor(
    "openai",
    {
        "chat/completions": "openai.chat.completions",
        "responses": "openai.responses",
        "embeddings": "openai.embeddings",
        "completions": "openai.completions",
    },
    _events.events_of,
)


def install() -> Patches:
    """Replace the SDK's methods. Returns what undoes it."""
    patches = Patches()
    version = str(getattr(import_module("openai"), "__version__", ""))
    Calls(VENDOR, patches, version).install(import_module("openai._base_client"))
    return patches
