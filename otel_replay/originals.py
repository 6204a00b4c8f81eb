"""The clock and the randomness of the recorder itself, saved before anybody can freeze or seed them.

A program under test may freeze `time.time` or call `random.seed(42)`: our times must not stop and our ids
must not repeat, nor may we take a single number from the program's own generators.
"""

from __future__ import annotations

import os
import struct
import sys
import time

monotonic_ns = time.monotonic_ns
monotonic = time.monotonic
sleep = time.sleep
_time_ns = time.time_ns
_urandom = os.urandom


def now_ns() -> int:
    """Return the time in Unix nanoseconds, whatever the program's clock has been made to say.

    freezegun replaces names, so a saved function does. time-machine changes the functions themselves, in C, and has
    a way past it.
    """
    machine = sys.modules.get("time_machine")
    if machine is not None and machine.traveller_stack:
        try:
            real: int = machine.escape_hatch.time.time_ns()
        except RuntimeError:  # it ended this very moment
            return _time_ns()
        return real
    return _time_ns()


def random_hex(byte_count: int) -> str:
    """Return `byte_count` random bytes from the operating system as hex text; never from `random`."""
    return _urandom(byte_count).hex()


def new_run_id() -> str:
    """Return a fresh run id: 32 hex characters, random so that any prefix tells runs apart."""
    return random_hex(16)


def new_trace_id() -> int:
    """Return a non-zero 128-bit trace id."""
    return int.from_bytes(_urandom(16), "big") or 1


_span_ids: list[int] = []
_SPAN_IDS_AT_ONCE = 64


def new_span_id() -> int:
    """Return a non-zero 64-bit span id."""
    try:
        return _span_ids.pop() or 1
    except IndexError:
        # One call of the system for many: each costs as much as the rest of a small crossing's span.
        fresh = struct.unpack(f"{_SPAN_IDS_AT_ONCE}Q", _urandom(8 * _SPAN_IDS_AT_ONCE))
        _span_ids.extend(fresh[1:])
        return fresh[0] or 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_span_ids.clear)  # a child must not use its parent's
