"""The clients that Stainless generates (OpenAI, Anthropic): one crossing a call, at the client's `request` method.

Every form of a call (`create`, `parse`, stream helpers, raw and streaming responses, subclasses, `with_options`) goes
through that one method. The outcome is the HTTP answer; in replay the SDK is handed a response built from it and makes
its own types, so that they are exact whatever the form, and the SDK's own errors come from the same bytes.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from otel_replay import originals
from otel_replay.crossing import Crossing, Spec, is_cancellation
from otel_replay.instruments import _http, _httpx_parts
from otel_replay.instruments._cross import attempt_noted, cross, inner_crossing, muted, spec_of
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._served_body import Portions, ServedBody
from otel_replay.instruments._stream import Tap
from otel_replay.wire import exchange as _exchange

_SAMPLING = (
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "n", "stop",
    "stop_sequences", "frequency_penalty", "presence_penalty", "reasoning_effort", "service_tier", "logit_bias",
)  # fmt: skip
_OWN_HEADERS = ("x-stainless-", "x-openai-internal", "idempotency-key")
_ID_SEGMENT = re.compile(r"\d|[_%]|^[A-Za-z0-9-]{20,}$")


@dataclass(frozen=True)
class Vendor:
    """One SDK: its package, how its endpoints are called, and the events that a whole answer would have come in."""

    package: str
    names: Mapping[str, str]
    events_of: Callable[[str, Mapping[str, Any], Mapping[str, Any]], list[bytes]]


def boundary_name(vendor: Vendor, url: str) -> tuple[str, str]:
    """Return (boundary name, kind) of an endpoint's path. Ids in a path are no part of the name."""
    path = url.partition("?")[0].strip("/")
    path = path.removeprefix("v1/")
    known = vendor.names.get(path)
    if known is not None:
        return known, "model"
    words = [part for part in path.split("/") if part and not _ID_SEGMENT.search(part)]
    return ".".join([vendor.package, *words]) if words else vendor.package, "http"


def request_of(options: Any) -> Any:
    """Return what the call asks for, in wire form: the JSON body, and beside it what else the caller gave."""
    body = options.json_data
    extra = getattr(options, "extra_json", None)
    if extra:
        body = {**body, **extra} if isinstance(body, Mapping) else extra
    found: dict[str, Any] = dict(body) if isinstance(body, Mapping) else {} if body is None else {"body": body}
    if not found or "model" not in found:
        found = {"method": options.method.upper(), "url": options.url, **found}
    if options.params:
        found["extra_query"] = dict(options.params)
    headers = options.headers if isinstance(options.headers, Mapping) else {}
    kept = {name: value for name, value in headers.items() if _is_asked(name, value)}
    if kept:
        found["extra_headers"] = kept
    for name in ("files", "content"):
        if getattr(options, name, None) is not None:
            found[name] = getattr(options, name)
    return found


def _is_asked(name: str, value: object) -> bool:
    low = name.lower()
    return isinstance(value, str) and not low.startswith(_OWN_HEADERS) and low not in ("accept", "content-type")


def pins_of(vendor: Vendor) -> Callable[[Crossing], Mapping[str, object]]:
    """Return what reads the pins of a crossing: what explains its outcome beyond the request."""

    def pins(crossing: Crossing) -> Mapping[str, object]:
        asked: Any = crossing.facts.get("asked") or {}
        found: dict[str, object] = {"model": asked["model"]} if "model" in asked else {}
        answered: Any = crossing.facts.get("answered") or {}
        if isinstance(answered.get("model"), str):
            found["model_answered"] = answered["model"]
        if answered.get("system_fingerprint"):
            found["system_fingerprint"] = answered["system_fingerprint"]
        sampling = {name: asked[name] for name in _SAMPLING if name in asked}
        if sampling:
            found["sampling"] = sampling
        if asked.get("tools"):
            raw = orjson.dumps(asked["tools"], option=orjson.OPT_SORT_KEYS, default=str)
            found["tools_sha256"] = hashlib.sha256(raw).hexdigest()
        found["sdk"] = f"{vendor.package} {crossing.facts.get('version', '')}".strip()
        return found

    return pins


class Calls:
    """The shells of one SDK: what stands in the place of its client's methods."""

    def __init__(self, vendor: Vendor, patches: Patches, version: str) -> None:
        self._vendor = vendor
        self._patches = patches
        self._version = version
        self._pins = pins_of(vendor)

    def install(self, module: Any) -> None:
        """Replace the methods of the sync and async base clients in the SDK's `_base_client`."""
        for owner, is_async in ((module.SyncAPIClient, False), (module.AsyncAPIClient, True)):
            # Where the SDK first makes the body ready (Anthropic since 2.0), the call begins behind that.
            name = "_request" if hasattr(owner, "_copy_and_prepare") else "request"
            self._patches.replace(owner, name, self._arequest if is_async else self._request)
            self._patches.replace(owner, "_process_response", self._aprocess if is_async else self._process)
            self._patches.replace(owner, "_sleep_for_retry", self._retry, required=False)
        self._patches.replace(module.BaseClient, "_calculate_retry_timeout", self._wait, required=False)

    # Entering --------------------------------------------------------------------------------------------
    def _enter(self, client: Any, options: Any) -> Crossing | None:
        if not self._patches.covers(client) or muted():
            return None
        held: dict[str, Any] = {}

        def describe() -> tuple[Spec, object]:
            name, kind = boundary_name(self._vendor, options.url)
            held["asked"] = request_of(options)
            return spec_of(name, kind, mutes=True, pins=self._pins), held["asked"]

        crossing = cross(describe)
        if crossing is not None:
            crossing.facts["asked"] = copy.copy(held["asked"])
            crossing.facts["version"] = self._version
            crossing.facts["stainless"] = True
            crossing.facts["attempt_began"] = originals.now_ns()
        return crossing

    def _ended(self, crossing: Crossing, result: object) -> None:
        """The call came back: end its crossing, unless a stream goes on."""
        facts = crossing.facts
        if "answer" in facts:
            crossing.returned(facts.pop("answer"))
        elif not facts.get("stream"):
            crossing.returned(result)

    def _failed(self, crossing: Crossing, fault: BaseException) -> None:
        # An answer that the SDK itself could not parse is kept as it came: the SDK will fail on it again.
        if "answer" in crossing.facts and isinstance(fault, Exception) and not is_cancellation(fault):
            crossing.returned(crossing.facts.pop("answer"))
        else:
            crossing.raised(fault)

    def _request(self, original: Any) -> Any:
        def request(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(client, options)
            if crossing is None:
                return original(client, cast_to, options, *args, **kwargs)
            if crossing.served is not None:
                made = self._served(crossing, client, options, is_async=False)
                if not isinstance(made, _Answer):
                    return made
                cast_to, asked = _prepared(client, cast_to, options)
                return client._process_response(**made.arguments(cast_to, asked, kwargs))
            token = crossing.open()
            try:
                result = original(client, cast_to, options, *args, **kwargs)
            except BaseException as fault:
                self._failed(crossing, fault)
                raise
            finally:
                crossing.close(token)
            self._ended(crossing, result)
            return result

        return request

    def _arequest(self, original: Any) -> Any:
        async def request(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = self._enter(client, options)
            if crossing is None:
                return await original(client, cast_to, options, *args, **kwargs)
            if crossing.served is not None:
                if crossing.served.outcome.kind != "streamed":
                    await crossing.served.wait_async()
                made = self._served(crossing, client, options, is_async=True)
                if not isinstance(made, _Answer):
                    return made
                cast_to, asked = _prepared(client, cast_to, options)
                return await client._process_response(**made.arguments(cast_to, asked, kwargs))
            token = crossing.open()
            try:
                result = await original(client, cast_to, options, *args, **kwargs)
            except BaseException as fault:
                self._failed(crossing, fault)
                raise
            finally:
                crossing.close(token)
            self._ended(crossing, result)
            return result

        return request

    # Recording -------------------------------------------------------------------------------------------
    def _see(self, response: Any, retries: int, *, is_async: bool) -> None:
        """Keep the answer that the SDK is about to parse, in whatever form."""
        crossing = _ours()
        if crossing is None or crossing.served is not None or crossing.ended or "answer" in crossing.facts:
            return
        if crossing.facts.get("stream"):
            return
        with crossing.session.faults.contained("instrument"):
            headers = _httpx_parts.headers_of(response)
            more = {"retries": retries, **_httpx_parts.facts_of(response)}
            if hasattr(response, "_content"):
                content = response.content
                value = _exchange.answer_to(response.status_code, headers, content, **more)
                crossing.facts["answer"] = value
                _answered(crossing, value["body"])
                return
            head = _exchange.head_to(response.status_code, headers, **more)
            recorder = Tap(crossing, head, events=_http.is_events(headers), on_event=_event_seen)
            _httpx_parts.tap(response, recorder, is_async=is_async)

    def _process(self, original: Any) -> Any:
        def process_response(client: Any, **kwargs: Any) -> Any:
            if self._patches.on:
                self._see(kwargs["response"], kwargs.get("retries_taken", 0), is_async=False)
            return original(client, **kwargs)

        return process_response

    def _aprocess(self, original: Any) -> Any:
        async def process_response(client: Any, **kwargs: Any) -> Any:
            if self._patches.on:
                self._see(kwargs["response"], kwargs.get("retries_taken", 0), is_async=True)
            return await original(client, **kwargs)

        return process_response

    def _retry(self, original: Any) -> Any:
        """Before the SDK tries again: keep the failed attempt. Serves the async method too, whose result is awaited."""

        def sleep_for_retry(client: Any, *args: Any, **kwargs: Any) -> Any:
            crossing = _retrying()
            if crossing is not None and self._patches.on:
                response = kwargs.get("response")
                status = str(response.status_code) if response is not None else "no answer"
                crossing.facts["failed"] = (status, crossing.facts.get("attempt_began", 0), originals.now_ns())
            return original(client, *args, **kwargs)

        return sleep_for_retry

    def _wait(self, original: Any) -> Any:
        def calculate_retry_timeout(client: Any, *args: Any, **kwargs: Any) -> Any:
            seconds = original(client, *args, **kwargs)
            crossing = _retrying()
            if crossing is not None and self._patches.on:
                with crossing.session.faults.contained("instrument"):
                    now = originals.now_ns()
                    failed: Any = crossing.facts.pop("failed", ("unknown", 0, now))
                    attempt_noted(crossing, failed, seconds)
                    crossing.facts["attempt_began"] = now + int(seconds * 1e9)
            return seconds

        return calculate_retry_timeout

    # Serving ---------------------------------------------------------------------------------------------
    def _served(self, crossing: Crossing, client: Any, options: Any, *, is_async: bool) -> Any:
        """Return the recorded answer as an `_Answer`; or the value itself, where it is no HTTP answer; or raise."""
        library = _httpx_parts.library_of(client._client)
        served = crossing.served
        assert served is not None
        if served.outcome.kind == "streamed":
            body = ServedBody(crossing)
            request = _rebuilt(client, options)
            response = _httpx_parts.streaming(
                library, body.head, body, request, is_async=is_async, took_ns=served.took_ns
            )
            return _Answer(response, body.head)
        if not is_async:
            served.wait()
        value = served.give()
        if not isinstance(value, Mapping):
            return value
        if not _exchange.is_answer(value):
            value = _from_wire(value)
        request = _rebuilt(client, options)
        asked: Any = crossing.facts.get("asked")
        if asked.get("stream") is True and not _streams(value):
            portions = Portions(self._vendor.events_of(crossing.name, value["body"], asked))
            head = {"status": 200, "headers": [["content-type", "text/event-stream; charset=utf-8"]]}
            response = _httpx_parts.streaming(
                library, head, portions, request, is_async=is_async, took_ns=served.took_ns
            )
            return _Answer(response, head)
        response = _httpx_parts.whole(library, value, request)
        response.elapsed = datetime.timedelta(microseconds=served.took_ns // 1000)
        if response.is_error:  # from a cassette: what we record of a failed call is the SDK's error
            raise client._make_status_error_from_response(response) from None
        return _Answer(response, value)


@dataclass
class _Answer:
    response: Any
    value: Any

    def arguments(self, cast_to: Any, options: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the SDK's `_process_response` takes."""
        return {
            "cast_to": cast_to,
            "options": options,
            "response": self.response,
            "stream": kwargs.get("stream", False),
            "stream_cls": kwargs.get("stream_cls"),
            "retries_taken": self.value.get("retries", 0),
        }


def wrapped(patches: Patches, client: Any) -> None:
    """Cover the copies of one client with it."""
    for owner in type(client).__mro__:
        for name in ("copy", "with_options"):
            patches.follow(owner, name)


def _ours() -> Crossing | None:
    crossing = inner_crossing("model") or inner_crossing("http")
    return crossing if crossing is not None and crossing.facts.get("stainless") else None


def _retrying() -> Crossing | None:
    """Return the crossing whose attempts this client's tries are: its own, or one that speaks for it."""
    crossing = inner_crossing("model")
    return crossing if crossing is not None and crossing.facts.get("retries_within") else _ours()


def _answered(crossing: Crossing, body: object) -> None:
    if isinstance(body, Mapping):
        crossing.facts["answered"] = body


def _event_seen(crossing: Crossing, value: Mapping[str, Any]) -> None:
    """Learn from a stream's first events which model answers."""
    data = value.get("data")
    if "answered" in crossing.facts or not isinstance(data, Mapping):
        return
    inner = data.get("response", data.get("message", data))
    if isinstance(inner, Mapping) and isinstance(inner.get("model"), str):
        crossing.facts["answered"] = {name: inner.get(name) for name in ("model", "system_fingerprint")}


def _from_wire(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer around a vendor's response body: rebuilt records and overrides hold the body alone."""
    return {"status": 200, "headers": [["content-type", "application/json"]], "form": "json", "body": body}


def _streams(answer: Mapping[str, Any]) -> bool:
    """True where the answer is an event stream already, or an error told in place of one."""
    if answer["status"] >= 400 or not isinstance(answer["body"], Mapping):
        return True
    return _http.is_events([(a, b) for a, b in answer["headers"]])


def _prepared(client: Any, cast_to: Any, options: Any) -> tuple[Any, Any]:
    asked = options.model_copy() if hasattr(options, "model_copy") else copy.copy(options)
    return client._maybe_override_cast_to(cast_to, asked), asked


def _rebuilt(client: Any, options: Any) -> Any:
    """Return the request that the SDK would have sent."""
    asked = options.model_copy() if hasattr(options, "model_copy") else copy.copy(options)
    return client._build_request(asked)
