"""Options with units: times like `30d` and sizes like `10GB`."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)", re.ASCII)


def age(text: str) -> float:
    """Return the seconds of a time such as 12h, 30d or 8w."""
    found = _NUMBER.fullmatch(str(text).strip())
    if found is None or found[2] not in _SECONDS:
        raise click.BadParameter(f"{text!r} is no age: write 12h, 30d or 8w")
    return float(found[1]) * _SECONDS[found[2]]


def size(text: str) -> int:
    """Return the bytes of a size such as 500MB or 10GiB."""
    found = _NUMBER.fullmatch(str(text).strip())
    if found is None or found[2].upper() not in _BYTES:
        raise click.BadParameter(f"{text!r} is no size: write 500MB or 10GB")
    return int(float(found[1]) * _BYTES[found[2].upper()])


def bytes_text(count: int) -> str:
    """Return a size for people: `1.3 MB`."""
    value = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{count} bytes"
