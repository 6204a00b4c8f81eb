"""The Anthropic SDK."""

from __future__ import annotations

from importlib import import_module

from otel_replay.instruments import _events
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._stainless import Calls, Vendor, wrapped

__all__ = ["install", "wrapped"]

VENDOR = Vendor("anthropic", {"messages": "anthropic.messages"}, _events.events_of)


def install() -> Patches:
    """Replace the SDK's methods. Returns what undoes it."""
    patches = Patches()
    version = str(getattr(import_module("anthropic"), "__version__", ""))
    Calls(VENDOR, patches, version).install(import_module("anthropic._base_client"))
    return patches
