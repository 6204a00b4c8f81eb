"""LangChain's chat models: each call of a provider is a crossing under the name of the model's class.

Where the client beneath is instrumented (OpenAI, Anthropic, Google GenAI, LiteLLM), its crossing is the exact one and
the model makes none; any other model (a local one, a gateway's, one of your own) is recorded here, with all that lies
beneath it. The methods that ask the provider are replaced, so callbacks, caches and rate limits are LangChain's own in
a replay too. Ids that LangChain draws for messages are drawn anew.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from importlib import import_module
from types import ModuleType
from typing import Any

from otel_replay.boundary import athrough, through
from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments import _framework, active
from otel_replay.instruments._cross import cross, muted
from otel_replay.instruments._patch import Patches
from otel_replay.session import peek_scope
from otel_replay.streams import LiveAsyncSource, LiveSource, ServedSource, adrive, drive

_CLIENTS = {"openai": "openai", "anthropic": "anthropic", "litellm": "litellm", "google.genai": "google_genai"}
_PARTNERS = {
    "langchain_openai": "openai",
    "langchain_anthropic": "anthropic",
    "langchain_litellm": "litellm",
    "langchain_google_genai": "google_genai",
}
"""Partner packages that make their client only when it is first asked for."""


def _made_by(model: Any) -> set[str]:
    """Return the instruments of the clients that `model` asks."""
    found = {_PARTNERS.get(base.__module__.partition(".")[0], "") for base in type(model).__mro__}
    for held in vars(model).values():
        where = held.__name__ if isinstance(held, ModuleType) else type(held).__module__
        found |= {name for top, name in _CLIENTS.items() if where == top or where.startswith(top + ".")}
    return found


def asked_of(model: Any, messages: Any, stop: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a call asks for: the messages without the ids that were drawn for them, and what was bound to it."""
    from otel_replay.instruments.langchain import without_made_ids

    names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    named = next((name for name in names if isinstance(name, str) and name), None)
    return {
        **({"model": named} if named else {}),
        "messages": without_made_ids(list(messages)),
        **({"stop": stop} if stop is not None else {}),
        **given,
    }


class Models:
    """The shells of the methods that ask a provider, put on a class when a model of it is first used."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._seen: weakref.WeakSet[type] = weakref.WeakSet()
        self._shells: tuple[tuple[str, Callable[[Any], Any]], ...] = (
            ("_generate", self._whole),
            ("_agenerate", self._whole_later),
            ("_stream", self._streamed),
            ("_astream", self._streamed_later),
            ("_stream_chat_model_events", self._streamed),
            ("_astream_chat_model_events", self._streamed_later),
        )

    def gate(self, original: Any) -> Any:
        """Return `original` with a look at its model's class before each call."""

        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._patches.on and type(model) not in self._seen:
                self._prepared(type(model))
            return original(model, *args, **kwargs)

        return call

    def _prepared(self, cls: type) -> None:
        self._seen.add(cls)
        try:
            for name, make in self._shells:
                owner = next((base for base in cls.__mro__ if name in vars(base)), None)
                if owner is not None and not getattr(vars(owner)[name], "__otel_replay__", False):
                    self._patches.replace(owner, name, make)
        except Exception as fault:
            scope = peek_scope()
            if scope is None:
                return
            if scope.session.raises_when_late:
                raise
            scope.session.faults.note("instrument", fault)

    def _enter(self, model: Any, messages: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
        if not self._patches.covers(model) or muted():
            return None

        def describe() -> tuple[Spec, object] | None:
            if self._patches.only is None and not active().keys().isdisjoint(_made_by(model)):
                return None
            given = {name: value for name, value in kwargs.items() if name not in ("run_manager", "stop")}
            spec = _framework.spec_of(type(model).__name__, "model")
            spec.mutes, spec.pins = True, _pins
            return spec, asked_of(model, messages, kwargs.get("stop", args[0] if args else None), given)

        crossing = cross(describe)
        if crossing is not None:
            crossing.facts["model"] = model
        return crossing

    def _whole(self, original: Any) -> Any:
        def _generate(model: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(model, messages, args, kwargs)
            if crossing is None:
                return original(model, messages, *args, **kwargs)
            if crossing.served is not None:
                crossing.served.wait()
                return crossing.served.give()
            return through(crossing, lambda: original(model, messages, *args, **kwargs))

        return _generate

    def _whole_later(self, original: Any) -> Any:
        async def _agenerate(model: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(model, messages, args, kwargs)
            if crossing is None:
                return await original(model, messages, *args, **kwargs)
            if crossing.served is not None:
                await crossing.served.wait_async()
                return crossing.served.give()
            return await athrough(crossing, lambda: original(model, messages, *args, **kwargs))

        return _agenerate

    def _streamed(self, original: Any) -> Any:
        def _stream(model: Any, messages: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            crossing = self._enter(model, messages, args, kwargs)
            if crossing is None:
                yield from original(model, messages, *args, **kwargs)
            elif crossing.served is not None:
                yield from drive(ServedSource(crossing))
            else:
                yield from drive(LiveSource(crossing, iter(original(model, messages, *args, **kwargs))))

        return _stream

    def _streamed_later(self, original: Any) -> Any:
        async def _astream(model: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            crossing = self._enter(model, messages, args, kwargs)
            source: Any
            if crossing is None:
                source = original(model, messages, *args, **kwargs)
            elif crossing.served is not None:
                source = adrive(ServedSource(crossing))
            else:
                source = adrive(LiveAsyncSource(crossing, original(model, messages, *args, **kwargs)))
            if not hasattr(source, "aclose"):
                async for chunk in source:
                    yield chunk
                return
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    yield chunk

        return _astream


def _pins(crossing: Crossing) -> dict[str, object]:
    model = crossing.facts.get("model")
    kind = type(model)
    found: dict[str, object] = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        value = getattr(model, name, None)
        if type(value) in (int, float):
            found.setdefault("sampling", {})
            sampling: Any = found["sampling"]
            sampling[name] = value
    return found


def install(patches: Patches) -> None:
    """Replace what every call of a chat model goes through."""
    base = import_module("langchain_core.language_models.chat_models").BaseChatModel
    models = Models(patches)
    for name in ("_convert_input", "_generate_with_cache", "_agenerate_with_cache"):
        patches.replace(base, name, models.gate)
