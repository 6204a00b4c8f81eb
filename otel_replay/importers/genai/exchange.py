"""HTTP exchanges of a cassette -> crossings, named and formed as our own instruments would have recorded them.

An exchange that the OpenAI or Anthropic SDK made (its `user-agent` or `x-stainless-*` headers tell; where a cassette
holds no headers, the vendor's own host) is the SDK's crossing; every other is the transport's. `pins["import"]` keeps
what turns the one into the other. Attributes: see `importers/shapes/exchanges.py`.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from otel_replay.envelope import Attempt, Envelope, Recording
from otel_replay.importers.genai import _fields, _outcome, _vendor
from otel_replay.importers.genai._call import Call, Source
from otel_replay.wire import exchange
from otel_replay.wire.packing import CODINGS, left_plain, packing_of, unpacked

NAME = "HTTP cassette"
SCOPES = ("vcrpy", "agent-replay", "agentreplay")
_AGENT = re.compile(r"(?:Async)?(?:Azure)?(OpenAI|Anthropic)/")
_HOSTS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
_ENDPOINTS = {
    "openai": {"chat/completions": _vendor.OPENAI_CHAT, "responses": _vendor.OPENAI_RESPONSES,
               "embeddings": _vendor.OPENAI_EMBEDDINGS, "completions": _vendor.OPENAI_COMPLETIONS},
    "anthropic": {"messages": _vendor.ANTHROPIC},
}  # fmt: skip
_TRIED_AGAIN = (408, 409, 429)
_SDK_UNKNOWN = ["extra_headers", "extra_query"]


def matches(source: Source) -> bool:
    """True where the span stands for an exchange of a cassette."""
    return source.scope in SCOPES and "http.request.method" in source.attributes


def read(source: Source) -> Call | None:
    """Return the call that the exchange stands for."""
    method, url = source.text("http.request.method"), source.text("url.full")
    headers = _headers(source, "request")
    form, body = exchange.body_to(_bytes(source, "request"))
    packing = packing_of(headers)
    request: dict[str, Any] = {"method": method, "url": url}
    if packing:
        plain, packed = unpacked(_bytes(source, "request"), packing)
        request |= {"encoded": packed} if packed else {}
        form, body = exchange.body_to(plain)
    request |= {"form": form, "body": body}
    call = Call(span=source.span, convention=NAME, role="tool", kind="http")
    call.name = transport_name(method, url)
    call.origin = {"unknown": _listed(source, "cassette.unknown")}
    vendor = _sdk_of(url, headers)
    if vendor and form != "base64" and not packing:
        _as_sdk(call, vendor, request)
    else:
        call.arguments = _fields.Field("the request", request, True)
    _answer(call, source)
    if call.kind == "model":
        _of_model(call)
    call.notes.extend(_listed(source, "cassette.lost"))
    call.exact = not call.notes
    return call


def transport_name(method: str, url: str) -> str:
    """Return the boundary's name that our transports give to such a call."""
    host = (urlsplit(url).hostname or "unknown").replace("[", "").replace("]", "")
    return f"http {method.upper()} {host}"


def _bytes(source: Source, side: str) -> bytes:
    value = source.span.get(f"http.{side}.body")
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value) if isinstance(
        value, bytes) else b""  # fmt: skip


def _headers(source: Source, side: str) -> list[tuple[str, str]]:
    value = source.read(f"http.{side}.headers").value
    pairs = [pair for pair in value if isinstance(pair, list) and len(pair) == 2] if isinstance(value, list) else []
    return [(str(name), str(item)) for name, item in pairs]


def _listed(source: Source, key: str) -> list[str]:
    value = source.attributes.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []


def _sdk_of(url: str, headers: list[tuple[str, str]]) -> str:
    """Return "openai" or "anthropic" where that SDK made the request, else ""."""
    named = {name.lower(): value for name, value in headers}
    agent = _AGENT.match(named.get("user-agent", ""))
    if agent:
        return agent[1].lower()
    parts = urlsplit(url)
    if "x-stainless-lang" in named:
        return "anthropic" if parts.path.endswith("/messages") else "openai"
    return _HOSTS.get(parts.hostname or "", "") if "user-agent" not in named else ""


def _as_sdk(call: Call, vendor: str, request: dict[str, Any]) -> None:
    """Make the call the SDK's own: its boundary, and the JSON body as its request."""
    parts = urlsplit(request["url"])
    path = parts.path.strip("/")
    body = request["body"]
    name = next((name for end, name in _ENDPOINTS[vendor].items() if path.endswith(end)), "")
    if name and isinstance(body, dict) and "model" in body:
        call.kind, call.name = "model", name
        call.provider, call.model = vendor, str(body["model"])
        asked = body
    else:
        path = path.removeprefix("v1/")
        words = [word for word in path.split("/") if word and not re.search(r"\d|[_%]|^[A-Za-z0-9-]{20,}$", word)]
        call.name = ".".join([vendor, *words])
        asked = {"method": request["method"], "url": f"/{path}", **(body if isinstance(body, dict) else {})}
    call.arguments = _fields.Field("the request", asked, True)
    call.origin["unknown"] = [*call.origin["unknown"], *_SDK_UNKNOWN]
    call.origin["exchange"] = {key: request[key] for key in ("method", "url", "form")}


def _answer(call: Call, source: Source) -> None:
    status = source.count("http.response.status_code") or 0
    headers = _headers(source, "response")
    content = _bytes(source, "response")
    packing = packing_of(headers)
    reason = source.text("http.response.reason")
    plain, packed = unpacked(content, packing)
    if packing and not packed and left_plain(content, packing):
        packed = packing  # the cassette kept it unpacked under its old header
    elif packing and not packed and content:
        call.damage.append(f"the answer's body is packed as {packing[:40]}, and cannot be unpacked: {_why(packing)}")
    damage = source.text("cassette.damage")
    if damage:
        call.damage.append(damage)
    more = {"encoded": packed, "reason": reason if reason != http.client.responses.get(status, "") else ""}
    value = exchange.answer_to(status, headers, plain, **more)
    call.result = _fields.Field("the answer", value, True)


def _why(packing: str) -> str:
    unknown = [coding for coding in packing.split(", ") if coding not in CODINGS]
    if unknown:
        return f"{unknown[0][:40]} is not known here"
    need = " (or the package brotli is not installed here)" if "br" in packing.split(", ") else ""
    return f"it is not one whole stream{need}; record the cassette again"


def _of_model(call: Call) -> None:
    """Take from an SDK's answer what it says of the model. The SDK itself makes its error of an answer of one."""
    value: Any = call.result.value
    body = value["body"]
    if isinstance(body, dict):
        call.answered_model = str(body.get("model") or "")
        _usage(call, body.get("usage"))


def _usage(call: Call, usage: Any) -> None:
    names = (("input", ("prompt_tokens", "input_tokens")), ("output", ("completion_tokens", "output_tokens")))
    for name, keys in names:
        count = (
            next((usage[key] for key in keys if type(usage.get(key)) is int), None) if isinstance(usage, dict) else None
        )
        if count is not None:
            call.usage[name] = count


def fold_retries(calls: list[Call], notes: list[str]) -> list[Call]:
    """Return the calls with an SDK's failed tries as attempts of the call that they belong to.

    The SDK tries again by itself: a try is one where the status asks for it and the same request follows at once.
    """
    kept: list[Call] = []
    for call in calls:
        before = kept[-1] if kept else None
        if before is not None and before.convention == call.convention == NAME and _tried_again(before, call):
            kept.pop()
            value: Any = before.result.value
            failed = Attempt(str(value["status"]), before.span.start_ns, before.span.end_ns)
            call.attempts = [*before.attempts, failed]
            notes.append(f"{call.name}: an answer of {value['status']} was tried again by the SDK, as one call")
        kept.append(call)
    return kept


def _tried_again(before: Call, call: Call) -> bool:
    value = before.result.value
    if call.kind != "model" or not isinstance(value, dict):
        return False
    again = value["status"] in _TRIED_AGAIN or value["status"] >= 500
    return again and before.name == call.name and before.arguments.value == call.arguments.value


def for_clients(recording: Recording, instrumented: Collection[str]) -> Recording:
    """Return the recording with the SDKs' crossings as their transport's, where the SDK itself is not instrumented.

    `instrumented` names the instruments that are on. With none on nothing changes: the program may yet bring them.
    """
    made = [_at_transport(envelope, instrumented) for envelope in recording.envelopes]
    if not instrumented or all(new is old for new, old in zip(made, recording.envelopes, strict=True)):
        return recording
    counts: dict[str, int] = {}
    for at, envelope in enumerate(made):
        if not envelope.parent:
            number = counts[envelope.boundary] = counts.get(envelope.boundary, 0) + 1
            made[at] = replace(envelope, address=f"{envelope.boundary}[{number}]")
    return replace(recording, envelopes=tuple(made))


def _at_transport(envelope: Envelope, instrumented: Collection[str]) -> Envelope:
    facts = envelope.pins.get("import")
    asked = facts.get("exchange") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or not isinstance(asked, dict):
        return envelope
    if envelope.boundary.partition(".")[0] in instrumented:
        return envelope
    body = envelope.request.tree()
    if envelope.kind != "model" and isinstance(body, dict):
        body = {name: value for name, value in body.items() if name not in ("method", "url")} or None
    request = _outcome.payload({**asked, "body": body})
    unknown = [name for name in facts.get("unknown", ()) if name not in _SDK_UNKNOWN]
    pins = {**envelope.pins, "import": {**facts, "unknown": unknown}}
    name = transport_name(str(asked.get("method")), str(asked.get("url")))
    return replace(envelope, boundary=name, kind="http", request=request, pins=pins, key="")
