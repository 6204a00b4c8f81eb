"""The httpx2 library."""

from __future__ import annotations

from otel_replay.instruments import _httpx_client
from otel_replay.instruments._patch import Patches


def install() -> Patches:
    """Replace the library's methods. Returns what undoes it."""
    return _httpx_client.install("httpx2")
