"""`@boundary`: marks where the agent's code meets what can differ. Thin shells around `enter_call`.

Each shell is of the kind of what it wraps (function, coroutine function, generator function, async generator
function), so that frameworks that ask `inspect` get the same answer as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from importlib import import_module
from types import GeneratorType
from typing import Any, ParamSpec, TypeVar, cast

from otel_replay import carry, semconv
from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import UsageError
from otel_replay.session import enter_call, on_handed_over, on_unscoped
from otel_replay.settings import run_wanted
from otel_replay.streams import LiveAsyncSource, LiveSource, ServedSource, adrive, drive

if run_wanted():
    # By name, since the wiring stands above: it begins the run at the first crossing that has none.
    on_unscoped.append(lambda: import_module("otel_replay.auto").session_here())
    on_handed_over.append(lambda: import_module("otel_replay.auto").handed_over())
    carry.install()

P = ParamSpec("P")
R = TypeVar("R")
AWAITABLE = "shape: awaitable"
FUTURE = "shape: future"
GENERATOR = "shape: generator"
ASYNC_GENERATOR = "shape: async generator"


def boundary(
    name: str, *, kind: str = "custom", side_effects: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a callable as the boundary `name`. With nothing active, a call of it stays a plain call.

    Serves functions, coroutine functions, generators, async generators, methods (static and class methods too) and
    callable objects. `kind` is one of model, tool, router, http, mcp, clock, random, custom. A boundary with
    `side_effects` runs live in a replay only where the plan names it. Raises UsageError for an unknown kind or an
    empty name.
    """
    if kind not in semconv.KINDS:
        raise UsageError(f"boundary {name!r}: unknown kind {kind!r}; known are {', '.join(semconv.KINDS)}")
    if not isinstance(name, str) or not name or set(name) & set("/[]~"):
        raise UsageError(f"a boundary needs a name without any of / [ ] ~, not {name!r}")

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        return cast("Callable[P, R]", shell_of(fn, Spec(_clean(name), kind, side_effects, binder(fn))))

    return decorate


def _clean(name: str) -> str:
    """Half a surrogate pair can stand in no span name and no protobuf string; it is written out."""
    return name.encode("utf-8", "backslashreplace").decode()


def shell_of(fn: Any, spec: Spec) -> Any:
    """Return `fn` behind the shell of its own kind."""
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(shell_of(fn.__func__, spec))
    if not callable(fn):
        raise UsageError(f"boundary {spec.name!r} wraps something that cannot be called: {type(fn).__name__}")
    call = fn if inspect.isroutine(fn) or isinstance(fn, functools.partial) else type(fn).__call__.__get__(fn)
    if inspect.iscoroutinefunction(call) or _awaited(getattr(call, "__code__", None)):
        return _coroutine_shell(fn, spec)
    if inspect.isasyncgenfunction(call):
        return _async_generator_shell(fn, spec)
    if inspect.isgeneratorfunction(call):
        return _generator_shell(fn, spec)
    return _function_shell(fn, spec)


def _awaited(code: Any) -> bool:
    """True for a generator's code that `types.coroutine` made something to await."""
    return bool(getattr(code, "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE)


def _wrapping(fn: Any, shell: Any) -> Any:
    shell = functools.update_wrapper(shell, fn)
    shell.__otel_replay__ = True
    with contextlib.suppress(TypeError, ValueError):  # `getfullargspec`, which some frameworks ask, unwraps nothing
        shell.__signature__ = inspect.signature(fn)
    return shell


def _function_shell(fn: Callable[..., Any], spec: Spec) -> Callable[..., Any]:
    def shell(*args: Any, **kwargs: Any) -> Any:
        crossing = enter_call(spec, args, kwargs)
        if crossing is None:
            return fn(*args, **kwargs)
        if crossing.served is not None:
            return _served(crossing)
        token = crossing.open()
        try:
            result = fn(*args, **kwargs)
        except BaseException as fault:
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)
        if type(result) in _PLAIN:
            crossing.returned(result)
            return result
        return _later(crossing, result)

    return cast("Callable[..., Any]", _wrapping(fn, shell))


_PLAIN = frozenset({dict, list, str, int, float, bool, tuple, type(None)})


def _later(crossing: Crossing, result: Any) -> Any:
    """End the crossing of a plain function, or keep it open where what it returned only runs later."""
    kind = type(result)  # and no attribute of it: asking for one may run code of the program's
    if inspect.iscoroutine(result) or (kind is GeneratorType and _awaited(result.gi_code)):
        crossing.notes.append(AWAITABLE)
        return athrough(crossing, lambda: result)
    if inspect.isgenerator(result):
        crossing.notes.append(GENERATOR)
        return drive(LiveSource(crossing, result))
    if inspect.isasyncgen(result):
        crossing.notes.append(ASYNC_GENERATOR)
        return adrive(LiveAsyncSource(crossing, result))
    if asyncio.isfuture(result):
        crossing.notes.append(FUTURE)
        result.add_done_callback(functools.partial(_future_done, crossing))
        return result
    crossing.returned(result)
    return result


def _future_done(crossing: Crossing, future: asyncio.Future[Any]) -> None:
    """End the crossing of a function that returned a future. Called before whoever awaits it goes on."""
    if future.cancelled():
        crossing.raised(asyncio.CancelledError())
        return
    fault = getattr(future, "_exception", None)  # asked by `exception()`, it would count as retrieved
    if isinstance(fault, BaseException):
        crossing.raised(fault)
    else:
        crossing.returned(future.result())


def through(crossing: Crossing, call: Callable[[], Any]) -> Any:
    """Run `call` as the body of `crossing`, and end it as the call ends."""
    token = crossing.open()
    try:
        result = call()
    except BaseException as fault:
        crossing.raised(fault)
        raise
    finally:
        crossing.close(token)
    crossing.returned(result)
    return result


async def athrough(crossing: Crossing, call: Callable[[], Awaitable[Any]]) -> Any:
    """As `through`, for what is awaited."""
    token = crossing.open()
    try:
        result = await call()
    except BaseException as fault:
        crossing.raised(fault)
        raise
    finally:
        crossing.close(token)
    crossing.returned(result)
    return result


def _served(crossing: Crossing) -> Any:
    """Hand out what a plain function returned in the record."""
    served = crossing.served
    assert served is not None
    notes = crossing.notes
    if ASYNC_GENERATOR in notes:
        return adrive(ServedSource(crossing))
    if GENERATOR in notes or served.outcome.kind == "streamed":
        return drive(ServedSource(crossing))
    if AWAITABLE in notes:
        return _served_later(crossing)
    if FUTURE in notes:
        return asyncio.ensure_future(_served_later(crossing))
    served.wait()
    return served.give()


async def _served_later(crossing: Crossing) -> Any:
    assert crossing.served is not None
    await crossing.served.wait_async()
    return crossing.served.give()


def _coroutine_shell(fn: Callable[..., Awaitable[Any]], spec: Spec) -> Callable[..., Awaitable[Any]]:
    async def shell(*args: Any, **kwargs: Any) -> Any:
        crossing = enter_call(spec, args, kwargs)
        if crossing is None:
            return await fn(*args, **kwargs)
        if crossing.served is not None:
            await crossing.served.wait_async()
            return crossing.served.give()
        token = crossing.open()
        try:
            result = await fn(*args, **kwargs)
        except BaseException as fault:
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)
        crossing.returned(result)
        return result

    return cast("Callable[..., Awaitable[Any]]", _wrapping(fn, shell))


def _generator_shell(fn: Callable[..., Generator[Any, Any, Any]], spec: Spec) -> Callable[..., Any]:
    def shell(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        crossing = enter_call(spec, args, kwargs)
        if crossing is None:
            return (yield from fn(*args, **kwargs))
        if crossing.served is not None:
            return (yield from drive(ServedSource(crossing)))
        return (yield from drive(LiveSource(crossing, fn(*args, **kwargs))))

    return cast("Callable[..., Any]", _wrapping(fn, shell))


def _async_generator_shell(fn: Callable[..., AsyncGenerator[Any, Any]], spec: Spec) -> Callable[..., Any]:
    async def shell(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        crossing = enter_call(spec, args, kwargs)
        if crossing is None:
            source: Any = fn(*args, **kwargs)
        elif crossing.served is not None:
            source = ServedSource(crossing)
        else:
            source = LiveAsyncSource(crossing, fn(*args, **kwargs))
        # There is no `yield from` in an async generator: this is `adrive`, once more.
        sent, thrown = None, None
        while True:
            try:
                value = await (source.asend(sent) if thrown is None else source.athrow(thrown))
            except StopAsyncIteration:
                return
            try:
                sent, thrown = (yield value), None
            except GeneratorExit:
                await source.aclose()
                raise
            except BaseException as fault:  # noqa: BLE001  # handed on to the source, whatever it is
                sent, thrown = None, fault

    return cast("Callable[..., Any]", _wrapping(fn, shell))


def binder(fn: Any) -> Callable[[tuple[object, ...], Mapping[str, object]], object]:
    """Return what reads a call's arguments into {name: value}, in the signature's order, defaults filled in.

    `f(1)`, `f(x=1)` and a default of 1 give the same request. `*args` stand under "*args", unknown keywords under
    their own names. A method's `self` stands as its class, or whole where it is a value (a dataclass, a model).
    The result raises TypeError for arguments that the call itself would refuse.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return lambda args, kwargs: {"*args": list(args), **kwargs}
    parameters = list(signature.parameters.values())
    plain = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)
    names = tuple(p.name for p in parameters)
    method = bool(names) and names[0] in ("self", "cls") and "." in getattr(fn, "__qualname__", "")
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    known = frozenset(names)

    def quick(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(names):
            raise TypeError("too many arguments")
        found = dict(zip(names, args, strict=False))
        if kwargs and (not known.issuperset(kwargs) or any(name in found for name in kwargs)):
            raise TypeError("unexpected or doubled argument")
        if len(found) < len(names):
            for name in names[len(args) :]:
                if name in kwargs:
                    found[name] = kwargs[name]
                elif name in defaults:
                    found[name] = defaults[name]
                else:
                    raise TypeError(f"missing argument {name!r}")
        return found

    def full(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found: dict[str, object] = {}
        for parameter in parameters:
            value = bound.arguments[parameter.name]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                found[f"*{parameter.name}"] = list(value)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                found.update({f"**{k}" if k in found else k: v for k, v in value.items()})
            else:
                found[parameter.name] = value
        return found

    bind = quick if plain else full
    if not method:
        return bind

    def of_method(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        found = bind(args, kwargs)
        found[names[0]] = _receiver(found[names[0]])
        return found

    return of_method


def _receiver(value: object) -> object:
    kind = value if isinstance(value, type) else type(value)
    if not isinstance(value, type) and (
        hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__") or hasattr(kind, "_fields")
    ):
        return value
    return f"{kind.__module__}.{kind.__qualname__}"
