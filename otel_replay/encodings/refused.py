"""Values that no encoding can keep, each with the reason in words: what they hold is outside of the value."""

from __future__ import annotations

import io
import socket
import threading
import types
import weakref
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.core import EncodeFn, Encoder, Lost, Tree, family

_REASONS: tuple[tuple[tuple[Any, ...], str], ...] = (
    ((socket.socket,), "holds an open connection and cannot be kept"),
    ((io.IOBase,), "is an open file or stream and cannot be kept"),
    (
        (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event, threading.Semaphore),
        "is a lock of this process and cannot be kept",
    ),
    ((threading.Thread,), "is a running thread and cannot be kept"),
    (
        (types.GeneratorType, types.AsyncGeneratorType),
        "is a generator: its steps are still to come, so it cannot be kept",
    ),
    ((types.CoroutineType,), "is a coroutine that was not awaited and cannot be kept"),
    ((types.ModuleType,), "is a module and is not kept as a value"),
    ((types.TracebackType, types.FrameType, types.CodeType), "belongs to the running interpreter and cannot be kept"),
    ((types.MethodType, types.MethodWrapperType), "is bound to an object and cannot be found again by name"),
    ((weakref.ref, weakref.ProxyType, weakref.CallableProxyType), "is a weak reference and cannot be kept"),
    ((Awaitable,), "is awaitable: its result is still to come, so it cannot be kept"),
    ((Iterator, AsyncIterator), "is an iterator: its items are still to come, so it cannot be kept"),
)


@family(90)
def _pick_refused(cls: type) -> EncodeFn | None:
    for kinds, reason in _REASONS:
        if issubclass(cls, kinds):
            return _refusal(reason)
    return None


def _refusal(reason: str) -> EncodeFn:
    def refuse(value: object, _: Encoder) -> Tree:
        raise Lost(f"{names.readable(type(value))} {reason}")

    return refuse
