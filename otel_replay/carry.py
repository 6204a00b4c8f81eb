"""While a session is active, threads and jobs carry its scope; they lose it by default.

Only our own scope is carried, never the program's other context variables: recording must not change what it sees.
Everything patched here is put back when the last session ends.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from asyncio import base_events
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any

from otel_replay import session as _session
from otel_replay.session import Scope
from otel_replay.strand import Strand

_users = 0
_lock = threading.Lock()
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit
_run_until_complete = base_events.BaseEventLoop.run_until_complete


def _begin(scope: Scope) -> Strand:
    alive = tuple(child for child in scope.strand.children if not child.done())
    strand = scope.session.new_strand(scope.strand, scope.crossing)
    strand.alive_at_birth = alive
    return strand


def _enter(scope: Scope, strand: Strand) -> Scope:
    return Scope(scope.session, scope.crossing, strand, threading.get_ident())


@functools.wraps(_start)
def _carrying_start(self: threading.Thread) -> None:
    scope = _session.handed_over()
    if scope is None:
        _start(self)
        return
    strand = _begin(scope)
    run = self.run
    ended: list[bool] = []
    strand.until = lambda: bool(ended)

    def carried() -> None:
        token = _session.set_scope(_enter(scope, strand))
        before = _session.set_job(strand)
        try:
            run()
        finally:
            _session.set_job(before)
            _session.reset_scope(token)
            ended.append(True)
            self.__dict__.pop("run", None)

    self.run = carried  # type: ignore[method-assign]
    _start(self)


@functools.wraps(_submit)  # type: ignore[arg-type]
def _carrying_submit(self: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
    scope = _session.handed_over()
    if scope is None:
        return _submit(self, fn, *args, **kwargs)
    strand = _begin(scope)
    # asyncio.to_thread submits `partial(context.run, f)`: the scope must be set inside that context.
    context = getattr(fn.func, "__self__", None) if isinstance(fn, functools.partial) else None

    def carried() -> Any:
        inside = _enter(scope, strand)
        if isinstance(context, Context):
            context.run(_session.set_scope, inside)
        token = _session.set_scope(inside)
        before = _session.set_job(strand)
        try:
            return fn(*args, **kwargs)
        finally:
            _session.set_job(before)
            _session.reset_scope(token)

    # The pool may start a worker thread in here, which outlives the job: it must not carry the job's scope.
    with _session.outside():
        future = _submit(self, carried)
    strand.until = future.done
    return future


@functools.wraps(_run_until_complete)
def _continuing_run(self: base_events.BaseEventLoop, future: Any) -> Any:
    scope = _session.handed_over()
    if scope is not None:
        if not asyncio.isfuture(future):
            future = asyncio.ensure_future(future, loop=self)
            future._log_destroy_pending = False  # as run_until_complete itself does for a task that it made
        if isinstance(future, asyncio.Task):
            _session.continue_in(future, scope.strand)
    return _run_until_complete(self, future)


def _carrying_pool(method: Any) -> Any:
    """Return a ThreadPool's method whose jobs carry the scope of who handed them in, each in a strand of its own."""

    @functools.wraps(method)
    def carrying(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        scope = _session.handed_over()
        return method(self, func if scope is None else functools.partial(_job, scope, func), *args, **kwargs)

    return carrying


def _job(scope: Scope, func: Any, /, *args: Any, **kwargs: Any) -> Any:
    if scope.session.closed:
        return func(*args, **kwargs)
    strand = _begin(scope)
    ended: list[bool] = []
    strand.until = lambda: bool(ended)
    token = _session.set_scope(_enter(scope, strand))
    before = _session.set_job(strand)
    try:
        return func(*args, **kwargs)
    finally:
        _session.set_job(before)
        _session.reset_scope(token)
        ended.append(True)


def _pool_outside(init: Any) -> Any:
    """Return a ThreadPool's `__init__` whose workers, which outlive the run, carry no scope of their own."""

    @functools.wraps(init)
    def outside(self: Any, *args: Any, **kwargs: Any) -> None:
        with _session.outside():
            init(self, *args, **kwargs)

    return outside


_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")


def _patch_pools(on: bool) -> None:
    pool: Any = getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", None)
    if pool is None:
        return
    for name in (*_POOL_METHODS, "__init__"):
        method = getattr(pool, name)
        if on and not hasattr(method, "__wrapped__"):
            setattr(pool, name, _pool_outside(method) if name == "__init__" else _carrying_pool(method))
        elif not on and hasattr(method, "__wrapped__"):
            if name == "__init__":
                pool.__init__ = method.__wrapped__
            else:
                delattr(pool, name)


def install() -> None:
    """Make threads, executors and event loops carry scopes; counted, so that sessions may overlap."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            threading.Thread.start = _carrying_start  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = _carrying_submit  # type: ignore[method-assign, assignment]
            base_events.BaseEventLoop.run_until_complete = _continuing_run  # type: ignore[method-assign]
        _patch_pools(True)


def uninstall() -> None:
    """Undo one `install`; the last one puts the originals back, where nobody patched over us meanwhile."""
    global _users
    with _lock:
        _users -= 1
        if _users:
            return
        _patch_pools(False)
        if threading.Thread.start is _carrying_start:
            threading.Thread.start = _start  # type: ignore[method-assign]
        if ThreadPoolExecutor.submit is _carrying_submit:
            ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign]
        if base_events.BaseEventLoop.run_until_complete is _continuing_run:
            base_events.BaseEventLoop.run_until_complete = _run_until_complete  # type: ignore[method-assign]
