"""The Google GenAI SDK: one crossing a request, its retries inside, whichever HTTP library carries it.

The outcome is the answer as the SDK reads it from its transport; in a replay the SDK makes its own types of it, so
that they are exact for every method, stream and chat, with sync and async clients alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib import import_module
from typing import Any

from otel_replay import originals, payload
from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import Unservable
from otel_replay.instruments import _events
from otel_replay.instruments._cross import attempt_noted, cross, inner_crossing, muted, spec_of
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._served_body import Portions, ServedBody
from otel_replay.instruments._stainless import Vendor, pins_of
from otel_replay.instruments._stream import Tap
from otel_replay.wire import exchange

_PATH = re.compile(r"(?:models|tunedModels|endpoints)/([^/:?]+):(\w+)")
_MODEL_CALLS = {
    "generateContent": "generate_content",
    "streamGenerateContent": "generate_content",
    "embedContent": "embed_content",
    "batchEmbedContents": "embed_content",
    "predict": "predict",
}
_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_ID = re.compile(r"\d")


def told(method: str, url: str, data: object, *, stream: bool) -> tuple[str, str, dict[str, Any]]:
    """Return (boundary name, kind, request) of one HTTP request of the SDK. Ids in a path are no part of the name."""
    body = dict(data) if isinstance(data, Mapping) else {"content": data} if data else {}
    found = _PATH.search(url)
    if found is not None:
        model, verb = found.groups()
        name = _MODEL_CALLS.get(verb)
        request = {"model": model, **body, **({"stream": True} if stream else {})}
        if name is not None:
            return f"google_genai.{name}", "model", request
        return f"google_genai.{_WORD.sub('_', verb).lower()}", "http", request
    path = re.sub(r"^\w+://[^/]*", "", url)
    words = [part for part in re.split(r"[/:]", path.partition("?")[0]) if part and not _ID.search(part)]
    return ".".join(["google_genai", *words[:2]]), "http", {"method": method.upper(), "path": path, **body}


class _Requests:
    def __init__(self, patches: Patches, library: Any) -> None:
        self._patches = patches
        self._answer_class = library.HttpResponse
        version = str(getattr(import_module("google.genai"), "__version__", ""))
        self._version = version
        self._pins = pins_of(Vendor("google-genai", {}, _events.events_of))

    def _enter(self, client: Any, asked: Any, stream: bool) -> Crossing | None:
        if not self._patches.covers(client) or muted():
            return None
        held: dict[str, Any] = {}

        def describe() -> tuple[Spec, object]:
            name, kind, held["asked"] = told(asked.method, asked.url, asked.data, stream=stream)
            return spec_of(name, kind, mutes=True, pins=self._pins), held["asked"]

        crossing = cross(describe)
        if crossing is not None:
            sampling = held["asked"].get("generationConfig")
            flat = {**(sampling if isinstance(sampling, Mapping) else {}), **held["asked"]}
            crossing.facts.update(asked=flat, version=self._version, google_genai=True)
        return crossing

    # Recording -------------------------------------------------------------------------------------------
    def _see(self, crossing: Crossing, answer: Any, *, stream: bool, is_async: bool) -> None:
        with crossing.session.faults.contained("instrument"):
            headers = [(str(name), str(value)) for name, value in answer.headers.items()]
            if not stream:
                body = answer.response_stream
                text = body[0] if isinstance(body, list) and body else ""
                value = exchange.answer_to(200, headers, (text or "").encode())
                _answered(crossing, value["body"])
                crossing.returned(value)
                return
            recorder = Tap(crossing, exchange.head_to(200, headers), events=False, on_event=_event_seen)
            if is_async:
                later = answer._aiter_response_stream
                answer._aiter_response_stream = lambda: _aread(recorder, later())
            else:
                now = answer._iter_response_stream
                answer._iter_response_stream = lambda: _read(recorder, now())
            return
        crossing.abandon("the recorder failed to keep the answer")

    # Serving ---------------------------------------------------------------------------------------------
    def _made(self, crossing: Crossing, *, stream: bool) -> Any:
        """Return the recorded answer as the SDK's transport would have given it; or raise what it raised."""
        served = crossing.served
        assert served is not None
        body: ServedBody | Portions
        if served.outcome.kind == "streamed":
            body = ServedBody(crossing)
            _status, headers = exchange.head_from(body.head)
        else:
            value: Any = served.give()
            if isinstance(value, Mapping) and not exchange.is_answer(value):
                value = {"status": 200, "headers": [], "form": "json", "body": value}  # an override: the body alone
            _status, headers = exchange.head_from(value)
            content = exchange.body_from(value.get("form"), value.get("body"))
            if not stream:
                return self._answer_class(dict(headers), [content.decode()])
            body = Portions([_framed(content.decode())])
        if not stream:
            raise Unservable(f"{crossing.address} asks for a whole answer, and its record holds a stream")
        answer = self._answer_class(dict(headers), object())
        answer._iter_response_stream = lambda: _served(body)
        answer._aiter_response_stream = lambda: _aserved(body)
        return answer

    def sync(self, original: Any) -> Any:
        def _request(client: Any, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            crossing = self._enter(client, http_request, stream)
            if crossing is None:
                return original(client, http_request, http_options, stream)
            if crossing.served is not None:
                if crossing.served.outcome.kind != "streamed":
                    crossing.served.wait()
                return self._made(crossing, stream=stream)
            token = crossing.open()
            try:
                answer = original(client, http_request, http_options, stream)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            self._see(crossing, answer, stream=stream, is_async=False)
            return answer

        return _request

    def later(self, original: Any) -> Any:
        async def _async_request(client: Any, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            crossing = self._enter(client, http_request, stream)
            if crossing is None:
                return await original(client, http_request, http_options, stream)
            if crossing.served is not None:
                if crossing.served.outcome.kind != "streamed":
                    await crossing.served.wait_async()
                return self._made(crossing, stream=stream)
            token = crossing.open()
            try:
                answer = await original(client, http_request, http_options, stream)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            self._see(crossing, answer, stream=stream, is_async=True)
            return answer

        return _async_request

    # Attempts --------------------------------------------------------------------------------------------
    def once(self, original: Any) -> Any:
        def _request_once(client: Any, *args: Any, **kwargs: Any) -> Any:
            _begun()
            try:
                return original(client, *args, **kwargs)
            except Exception as fault:
                _failed(fault)
                raise

        return _request_once

    def once_later(self, original: Any) -> Any:
        async def _async_request_once(client: Any, *args: Any, **kwargs: Any) -> Any:
            _begun()
            try:
                return await original(client, *args, **kwargs)
            except Exception as fault:
                _failed(fault)
                raise

        return _async_request_once


def _ours() -> Crossing | None:
    crossing = inner_crossing("model") or inner_crossing("http")
    return crossing if crossing is not None and crossing.facts.get("google_genai") else None


def _begun() -> None:
    """A try begins: keep the one that failed before it, with the wait between them."""
    crossing = _ours()
    if crossing is not None:
        with crossing.session.faults.contained("instrument"):
            now = originals.now_ns()
            failed: Any = crossing.facts.pop("failed", None)
            if failed is not None:
                attempt_noted(crossing, failed, (now - failed[2]) / 1e9)
            crossing.facts["attempt_began"] = now


def _failed(fault: Exception) -> None:
    crossing = _ours()
    if crossing is not None:
        status = str(getattr(fault, "code", "") or "no answer")
        crossing.facts["failed"] = (status, crossing.facts.get("attempt_began", 0), originals.now_ns())


def _answered(crossing: Crossing, body: object) -> None:
    if isinstance(body, Mapping):
        crossing.facts["answered"] = {"model": body.get("modelVersion")}


def _event_seen(crossing: Crossing, value: Mapping[str, Any]) -> None:
    if "answered" not in crossing.facts:
        _answered(crossing, value.get("data"))


# Streams: the SDK reads texts of JSON; they are kept as the events that they came in -----------------------------


def _framed(text: str) -> bytes:
    return b"data: " + text.encode() + b"\n\n"


def _unframed(portion: bytes) -> str:
    return portion.removeprefix(b"data: ").removesuffix(b"\n\n").decode()


def _read(recorder: Tap, inner: Iterator[str]) -> Iterator[str]:
    try:
        for portion in recorder.iterate(map(_framed, inner)):
            yield _unframed(portion)
    finally:
        recorder.closed()  # where it was not read to its end


async def _aread(recorder: Tap, inner: AsyncIterator[str]) -> AsyncIterator[str]:
    async def framed() -> AsyncIterator[bytes]:
        async for text in inner:
            yield _framed(text)

    try:
        async for portion in recorder.aiterate(framed()):
            yield _unframed(portion)
    finally:
        recorder.closed()


def _served(body: ServedBody | Portions) -> Iterator[str]:
    try:
        yield from map(_unframed, body.iterate())
    finally:
        body.close()


async def _aserved(body: ServedBody | Portions) -> AsyncIterator[str]:
    try:
        async for portion in body.aiterate():
            yield _unframed(portion)
    finally:
        body.close()


def _keep_aiohttp_answers() -> None:
    """Let recordings hold the answer of aiohttp that hangs on an error of the SDK's: read, and closed since."""
    kind: Any = import_module("aiohttp").ClientResponse
    multidict, yarl = import_module("multidict"), import_module("yarl")

    def to_state(answer: Any) -> Any:
        body = answer._body
        return {
            "method": answer.method,
            "url": str(answer.url),
            "status": answer.status,
            "reason": answer.reason,
            "headers": [[str(name), str(value)] for name, value in answer.headers.items()],
            "body": body if isinstance(body, bytes) else None,
        }

    def from_state(state: Any) -> Any:
        answer = object.__new__(kind)
        headers = multidict.CIMultiDictProxy(multidict.CIMultiDict([(a, b) for a, b in state["headers"]]))
        url = yarl.URL(state["url"])
        vars(answer).update(
            method=state["method"], _url=url, _real_url=url, status=state["status"], reason=state["reason"],
            _headers=headers, _body=state["body"], _closed=True, _released=True, _history=(), _cache={},
            _raw_headers=tuple((a.encode(), b.encode()) for a, b in state["headers"]),
            _resolve_charset=lambda *_: "utf-8",
        )  # fmt: skip
        return answer

    payload.register(kind, to_state=to_state, from_state=from_state)


def wrapped(patches: Patches, client: Any) -> None:
    """Cover the requests of one `genai.Client`."""
    patches.cover(client._api_client)


def install() -> Patches:
    """Replace the methods of the SDK's client that send requests. Returns what undoes it."""
    library = import_module("google.genai._api_client")
    patches = Patches()
    requests = _Requests(patches, library)
    patches.replace(library.BaseApiClient, "_request", requests.sync)
    patches.replace(library.BaseApiClient, "_async_request", requests.later)
    patches.replace(library.BaseApiClient, "_request_once", requests.once, required=False)
    patches.replace(library.BaseApiClient, "_async_request_once", requests.once_later, required=False)
    if "aiohttp" in sys.modules:
        _keep_aiohttp_answers()
    return patches
