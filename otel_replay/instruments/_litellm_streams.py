"""LiteLLM's stream objects: recorded and served through their own methods, so that they stay of their own class.

A stream is tied to its crossing by what it holds under one name. While the provider answers, its own steps run and
are kept; in a replay an object of the same class, made without a provider, hands out the recorded chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing
from otel_replay.errors import Unservable
from otel_replay.instruments._patch import Patches
from otel_replay.streams import LiveAsyncSource, LiveSource, ServedSource

_CLASSES = (
    ("litellm.litellm_core_utils.streaming_handler", "CustomStreamWrapper"),
    ("litellm.text_completions.streaming_iterator", "TextCompletionStreamWrapper"),
    ("litellm.utils", "TextCompletionStreamWrapper"),
)
_HELD = "_otel_replay"
_PLAIN = (str, int, float, bool, type(None))
_DEPTH_MAX = 32


def replaced(patches: Patches) -> dict[str, type]:
    """Replace the steps of LiteLLM's streams. Returns their classes by name."""
    found: dict[str, type] = {}
    for where, kind in _CLASSES:
        try:
            cls = getattr(import_module(where), kind, None)
        except ImportError:
            continue
        if cls is None or kind in found:
            continue
        found[kind] = cls
        for name, make in (("__next__", _next), ("__anext__", _anext), ("close", _close), ("aclose", _aclose)):
            patches.replace(cls, name, make, required=name.startswith("__"))
    return found


def keep(crossing: Crossing, stream: Any) -> None:
    """Keep what `stream` will hand out as chunks of `crossing`, after a first one that tells what it is."""
    crossing.chunk({"stream": type(stream).__name__, "state": _state(stream)})
    crossing.facts["stream"] = True
    vars(stream)[_HELD] = _Held(crossing)


def serve(crossing: Crossing, classes: dict[str, type]) -> Any:
    """Return a stream that hands out what was recorded. Raises Unservable where the record holds none."""
    held = _Held(crossing)
    head: Any = held.source.send(None) if held.source is not None else None
    cls = classes.get(head.get("stream", "")) if isinstance(head, dict) else None
    if cls is None or not isinstance(head.get("state"), dict):
        raise Unservable(f"{crossing.address}: the record holds no stream of LiteLLM where one was expected")
    stream: Any = object.__new__(cls)
    vars(stream).update(head["state"], chunks=[])
    vars(stream)[_HELD] = held
    return stream


def _state(stream: Any) -> dict[str, Any]:
    """Return what can be kept of a stream's attributes: plain values, the conversation aside."""
    kept = {name: value for name, value in vars(stream).items() if name not in ("messages", "chunks")}
    return {name: value for name, value in kept.items() if _is_plain(value)}


def _is_plain(value: Any, depth: int = 0) -> bool:
    if type(value) is dict and depth < _DEPTH_MAX:
        return all(type(key) is str and _is_plain(item, depth + 1) for key, item in value.items())
    if type(value) is list and depth < _DEPTH_MAX:
        return all(_is_plain(item, depth + 1) for item in value)
    return type(value) in _PLAIN


class _Held:
    """What ties a stream object to its crossing. Dropped with the stream, it ends the crossing."""

    def __init__(self, crossing: Crossing) -> None:
        self.crossing = crossing
        self.source = ServedSource(crossing) if crossing.served is not None else None
        self.stepping = False
        self.last: Any = None

    def __del__(self) -> None:
        if self.source is not None:
            self.crossing.give_up_serving()
        else:
            self.crossing.stream_end("dropped")


class _Inner:
    """One stream object with a method of its own, as the iterator that a source steps or closes.

    LiteLLM puts the usage on the last chunk when the stream is over: that stands as the stream's end value.
    """

    def __init__(self, held: _Held, stream: Any, call: Callable[..., Any]) -> None:
        self._held = held
        self._stream = stream
        self._call = call

    def _over(self) -> None:
        self._held.crossing.stream_end("exhausted", getattr(self._held.last, "_hidden_params", None))

    def __next__(self) -> Any:
        try:
            self._held.last = self._call(self._stream)
        except StopIteration:
            self._over()
            raise
        return self._held.last

    async def __anext__(self) -> Any:
        try:
            self._held.last = await self._call(self._stream)
        except StopAsyncIteration:
            self._over()
            raise
        return self._held.last

    def __iter__(self) -> Any:
        return self

    def __aiter__(self) -> Any:
        return self

    def close(self) -> None:
        self._call(self._stream)

    async def aclose(self) -> None:
        await self._call(self._stream)


def _next(original: Any) -> Any:
    def __next__(stream: Any) -> Any:
        held = _held(stream)
        if held is None:
            return original(stream)
        if held.source is not None:
            try:
                return _noted(stream, held, held.source.send(None))
            except StopIteration:
                _over(held)
                raise
        held.stepping = True
        try:
            return LiveSource(held.crossing, _Inner(held, stream, original)).send(None)
        finally:
            held.stepping = False

    return __next__


def _anext(original: Any) -> Any:
    async def __anext__(stream: Any) -> Any:
        held = _held(stream)
        if held is None:
            return await original(stream)
        if held.source is not None:
            try:
                return _noted(stream, held, await held.source.asend(None))
            except StopAsyncIteration:
                _over(held)
                raise
        held.stepping = True
        try:
            return await LiveAsyncSource(held.crossing, _Inner(held, stream, original)).asend(None)
        finally:
            held.stepping = False

    return __anext__


def _close(original: Any) -> Any:
    def close(stream: Any) -> None:
        held = _held(stream)
        if held is None:
            original(stream)
        elif held.source is not None:
            held.source.close()
        else:
            LiveSource(held.crossing, _Inner(held, stream, original)).close()

    return close


def _aclose(original: Any) -> Any:
    async def aclose(stream: Any) -> None:
        held = _held(stream)
        if held is None:
            await original(stream)
        elif held.source is not None:
            await held.source.aclose()
        else:
            await LiveAsyncSource(held.crossing, _Inner(held, stream, original)).aclose()

    return aclose


def _held(stream: Any) -> _Held | None:
    """Return what ties a stream to its crossing; None where it is not ours, has ended, or is amid a step of its own."""
    held: _Held | None = vars(stream).get(_HELD)
    if held is None or (held.source is None and (held.stepping or held.crossing.ended)):
        return None
    return held


def _noted(stream: Any, held: _Held, chunk: Any) -> Any:
    """LiteLLM's own streams list what they have handed out."""
    held.last = chunk
    chunks = vars(stream).get("chunks")
    if isinstance(chunks, list):
        chunks.append(chunk)
    return chunk


def _over(held: _Held) -> None:
    served = held.crossing.served
    hidden = getattr(held.last, "_hidden_params", None)
    if served is not None and isinstance(hidden, dict):
        found = served.value(served.outcome.value)
        hidden.update(found if isinstance(found, dict) else {})
