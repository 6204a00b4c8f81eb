"""LiteLLM: one crossing a call, whatever provider, SDK or transport answers beneath it; its own retries are inside.

Kept is what the caller saw: LiteLLM's own answer, chunks or exception, with the hidden parameters that cost tracking
reads. A replay needs no key and no provider, and LiteLLM's callbacks and cache do not run in it.

The functions are replaced wherever a module holds them, so that `from litellm import completion` from before is
covered. What has no name here (`litellm.responses`, files, batches) is recorded by the client or transport beneath, and
so is the list of prices that LiteLLM fetches at its first use, unless LITELLM_LOCAL_MODEL_COST_MAP is set.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import Unservable
from otel_replay.instruments import _events, _litellm_streams
from otel_replay.instruments._cross import cross, muted, spec_of
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._stainless import Vendor, pins_of

FUNCTIONS = ("completion", "text_completion", "embedding", "image_generation", "rerank")
_HOW = (
    "api_key", "api_base", "base_url", "api_version", "organization", "timeout", "stream_timeout", "client", "aclient",
    "max_retries", "num_retries", "litellm_call_id", "litellm_trace_id", "litellm_logging_obj", "logger_fn",
    "shared_session", "extra_headers", "headers", "ssl_verify", "acompletion", "aembedding", "aimg_generation",
    "atext_completion", "arerank", "router", "deployment_id",
)  # fmt: skip
"""How a call reaches its provider, and what LiteLLM adds: none of it is asked for."""
_ROUTER = ("model_info", "metadata", "litellm_metadata", "specific_deployment", "model_group", "fallbacks")
_DEPTH_MAX = 32


def _plain(value: Any, depth: int = 0) -> Any:
    """Return `value` with models as what they say: a message that LiteLLM answered asks like the dict of it."""
    if depth > _DEPTH_MAX:
        return value
    if isinstance(value, type):
        schema = getattr(value, "model_json_schema", None)
        return {"class": value.__qualname__, **({"schema": schema()} if schema is not None else {})}
    if isinstance(value, Mapping):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item, depth + 1) for item in value]
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value


def _by_name(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        given = dict(signature.bind_partial(*args, **kwargs).arguments)
    except TypeError:
        return {"args": list(args), **kwargs}  # the call itself is going to say so
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given.update(given.pop(parameter.name, {}))
    return given


def asked_of(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call asks for, by name. Left out is what is None, and what says how to connect."""
    given = _by_name(signature, args, kwargs)
    # A router draws one of its deployments: what it adds names the draw.
    of_router = isinstance(given.get("metadata"), Mapping) and "model_group" in given["metadata"]
    return {
        name: _plain(value)
        for name, value in given.items()
        if value is not None and name not in _HOW and not (of_router and name in _ROUTER)
    }


class _Calls:
    def __init__(self, patches: Patches, streams: dict[str, type]) -> None:
        self._patches = patches
        self._streams = streams
        self._version = version("litellm")
        self._pins = pins_of(Vendor("litellm", {}, _events.events_of))

    def _enter(self, name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> Crossing | None:
        if not self._patches.on or muted():
            return None
        held: dict[str, Any] = {}

        def describe() -> tuple[Spec, object]:
            held["asked"] = asked_of(signature, args, kwargs)
            return spec_of(f"litellm.{name}", "model", mutes=True, pins=self._pins), held["asked"]

        crossing = cross(describe)
        if crossing is not None:
            crossing.facts.update(asked=held["asked"], version=self._version, retries_within=True)
        return crossing

    def _ended(self, crossing: Crossing, result: Any) -> Any:
        """End the crossing, or keep it open while the stream that was returned is read."""
        kind = type(result).__name__
        if self._streams.get(kind) is not type(result):
            with crossing.session.faults.contained("instrument"):
                crossing.facts["answered"] = _answered(result)
            if hasattr(result, "__next__") or hasattr(result, "__anext__"):
                crossing.abandon(f"a stream of the class {kind} cannot be kept")
            else:
                crossing.returned(result)
            return result
        with crossing.session.faults.contained("instrument"):
            _litellm_streams.keep(crossing, result)
            return result
        crossing.abandon("the recorder failed to keep the stream")
        return result

    def _give(self, crossing: Crossing, litellm: Any) -> Any:
        """Return what was recorded. Raises it, or Unservable."""
        served = crossing.served
        assert served is not None
        if served.outcome.kind == "streamed":
            return _litellm_streams.serve(crossing, self._streams)
        value = served.give()
        asked: Any = crossing.facts["asked"]
        if crossing.name.startswith("litellm.completion") and isinstance(value, Mapping):
            value = litellm.ModelResponse(**value)  # an override, or a rebuilt record: the body alone
        if asked.get("stream") is True:
            raise Unservable(f"{crossing.address} asks for a stream, and its record holds one whole answer")
        return value

    def sync(self, name: str, signature: inspect.Signature, original: Any, litellm: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(name, signature, args, kwargs)
            if crossing is None:
                return original(*args, **kwargs)
            if crossing.served is not None:
                if crossing.served.outcome.kind != "streamed":
                    crossing.served.wait()
                return self._give(crossing, litellm)
            token = crossing.open()
            try:
                result = original(*args, **kwargs)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            return self._ended(crossing, result)

        return call

    def later(self, name: str, signature: inspect.Signature, original: Any, litellm: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(name, signature, args, kwargs)
            if crossing is None:
                return await original(*args, **kwargs)
            if crossing.served is not None:
                if crossing.served.outcome.kind != "streamed":
                    await crossing.served.wait_async()
                return self._give(crossing, litellm)
            token = crossing.open()
            try:
                result = await original(*args, **kwargs)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            return self._ended(crossing, result)

        return call


def _answered(result: Any) -> dict[str, Any]:
    return {name: getattr(result, name, None) for name in ("model", "system_fingerprint")}


def _signature(litellm: Any, name: str) -> inspect.Signature:
    """Return the signature that names a function's arguments; that of its synchronous twin where it has none."""
    found = inspect.signature(getattr(litellm, name))
    if any(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in found.parameters.values()):
        return found
    return inspect.signature(getattr(litellm, name.removeprefix("a"), getattr(litellm, name)))


def _replace_everywhere(patches: Patches, original: Any, shell: Any) -> None:
    """Put `shell` in the place of `original` in each module that holds it under some name."""
    for module in list(sys.modules.values()):
        names = [name for name, value in list(getattr(module, "__dict__", {}).items()) if value is original]
        for name in names:
            patches.replace(module, name, lambda _original: shell)


def install() -> Patches:
    """Replace the library's functions and the steps of its streams. Returns what undoes it."""
    litellm = import_module("litellm")
    patches = Patches()
    calls = _Calls(patches, _litellm_streams.replaced(patches))
    for name in FUNCTIONS:
        for spelling, make_shell in ((name, calls.sync), (f"a{name}", calls.later)):
            original = getattr(litellm, spelling, None)
            if original is None:
                patches.missing.append(f"litellm.{spelling}")
                continue
            shell = make_shell(name, _signature(litellm, spelling), original, litellm)
            _replace_everywhere(patches, original, shell)
    return patches
