"""The clock and the randomness of the recorder itself, saved before anybody can freeze or seed them.

A program under test may freeze `time.time` or call `random.seed(42)`: our times must not stop and our ids
must not repeat, nor may we take a single number from the program's own generators.
"""

from __future__ import annotations

import os
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


def new_span_id() -> int:
    """Return a non-zero 64-bit span id."""
    return int.from_bytes(_urandom(8), "big") or 1
