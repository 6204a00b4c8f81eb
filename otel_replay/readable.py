"""Envelope -> the readable attributes, name, kind, status and event that OpenTelemetry's conventions ask of a span.

One way only: people and other tools read these, replay never does. They follow the GenAI semantic conventions
(open-telemetry/semantic-conventions-genai, `gen-ai-spans.md`) and the exception conventions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from otel_replay import semconv
from otel_replay.envelope import Envelope, Payload
from otel_replay.readable_parts import input_messages, instructions, output_messages
from otel_replay.readable_streams import whole
from otel_replay.span import Event, KeyValue

_TAG = "$"
_INSTRUCTIONS = "gen_ai.system_instructions"
_SAMPLING = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}


def untagged(tree: object) -> Any:
    """Return a JSON tree in which tagged values stand as the plain value people expect to read. Loses types."""
    if isinstance(tree, dict):
        tag = tree.get(_TAG)
        if tag is None:
            return {key: untagged(value) for key, value in tree.items()}
        if tag == "lost":
            return f"<lost: {tree.get('reason', '')}>"
        if tag == "dict" and isinstance(tree.get("v"), list):
            return {str(untagged(pair[0])): untagged(pair[1]) for pair in tree["v"] if isinstance(pair, list)}
        if tag == "exception":
            return {"type": tree.get("t"), "args": untagged(tree.get("args"))}
        return untagged(tree.get("v", {key: value for key, value in tree.items() if key != _TAG}))
    if isinstance(tree, list):
        return [untagged(item) for item in tree]
    return tree


def _readable(payload: Payload) -> Any:
    """Return the tree of `payload` without tags. Plain "json" holds none, so it is not walked."""
    return payload.tree() if payload.encoding == "json" else untagged(payload.tree())


def _readable_text(payload: Payload) -> str:
    """Return what `_text(_readable(payload))` does; a payload's text is already what orjson writes."""
    if payload.encoding == "json" and not payload.text.startswith('"'):
        return payload.text
    return _text(_readable(payload))


def _text(tree: object) -> str:
    return tree if isinstance(tree, str) else orjson.dumps(tree).decode()


def exception_type(payload: Payload) -> tuple[str, str]:
    """Return (qualified class name, message) of an exception's payload; ("", "") where it is none."""
    tree = payload.tree()
    if not isinstance(tree, dict):
        return "", ""
    name = str(tree.get("t", "")).replace(":", ".").removeprefix("builtins.")
    args = untagged(tree.get("args", []))
    if isinstance(args, list) and len(args) == 1:
        return name, _text(args[0])
    return name, _text(args) if args else ""


def span_name(envelope: Envelope) -> str:
    """Return the conventional span name: `chat gpt-4o`, `execute_tool search`, else the boundary's name."""
    if envelope.kind == "tool":
        return f"execute_tool {envelope.boundary}"
    if envelope.kind == "model":
        request = envelope.request.tree()
        model = request.get("model") if isinstance(request, dict) else None
        return f"chat {model}" if isinstance(model, str) else envelope.boundary
    return envelope.boundary


def span_kind(envelope: Envelope) -> int:
    """Return the OTLP span kind: client for what leaves the process, else internal."""
    return 3 if envelope.kind in ("model", "http", "mcp") else 1


def _failure(envelope: Envelope) -> Payload | None:
    outcome = envelope.outcome
    if outcome.kind == "raised" or (outcome.kind == "streamed" and outcome.end == "raised"):
        return outcome.value
    return None


def span_status(envelope: Envelope) -> tuple[int, str]:
    """Return (OTLP status code, description): error where the crossing raised; a cancellation is no error."""
    failure = _failure(envelope)
    if failure is None:
        return 0, ""
    return 2, exception_type(failure)[1]


def error_event(envelope: Envelope) -> Event | None:
    """Return the `exception` event of a crossing that raised."""
    failure = _failure(envelope)
    if failure is None:
        return None
    name, message = exception_type(failure)
    return Event(envelope.end_ns, "exception", (("exception.type", name), ("exception.message", message)))


def _response_body(envelope: Envelope) -> Mapping[str, Any]:
    """Return the vendor's response as a dict where the outcome looks like one: a dict, an SDK's model, or a stream."""
    if envelope.outcome.kind == "streamed":
        return whole(_readable(chunk.value) for chunk in envelope.outcome.chunks)
    body = _readable(envelope.outcome.value) if envelope.outcome.kind == "returned" else None
    if not isinstance(body, dict):
        return {}
    inner = body.get("body")
    # What an instrument keeps is the HTTP answer; the vendor's response is its body.
    return inner if {"status", "headers", "form"} <= set(body) and isinstance(inner, dict) else body


def _model_response(body: Mapping[str, Any], *, content: bool) -> list[KeyValue]:
    found: list[KeyValue] = []
    if isinstance(body.get("model"), str):
        found.append((semconv.GEN_AI_RESPONSE_MODEL, body["model"]))
    if isinstance(body.get("id"), str):
        found.append((semconv.GEN_AI_RESPONSE_ID, body["id"]))
    usage = body.get("usage")
    if isinstance(usage, dict):
        for names, key in (
            (("prompt_tokens", "input_tokens"), semconv.GEN_AI_INPUT_TOKENS),
            (("completion_tokens", "output_tokens"), semconv.GEN_AI_OUTPUT_TOKENS),
        ):
            count = next((usage[name] for name in names if isinstance(usage.get(name), int)), None)
            if count is not None:
                found.append((key, count))
    choices = [choice for choice in body.get("choices") or [] if isinstance(choice, dict)]
    reasons = tuple(str(choice["finish_reason"]) for choice in choices if choice.get("finish_reason"))
    if isinstance(body.get("stop_reason"), str):
        reasons = (body["stop_reason"],)
    if reasons:
        found.append((semconv.GEN_AI_FINISH_REASONS, reasons))
    outputs = output_messages(body) if content else []
    if outputs:
        found.append((semconv.GEN_AI_OUTPUT_MESSAGES, orjson.dumps(outputs).decode()))
    return found


def _http_attributes(envelope: Envelope, *, content: bool) -> list[KeyValue]:
    """Return what the HTTP conventions ask of a client's span; the address is content, since a query may hold any."""
    request = untagged(envelope.request.tree())
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return []
    found: list[KeyValue] = [("http.request.method", request["method"])]
    url = request.get("url")
    if isinstance(url, str):
        parts = urlsplit(url) if "[" not in url else None
        if parts is not None and parts.hostname:
            found.append(("server.address", parts.hostname))
        if content:
            found.append(("url.full", url))
    outcome = envelope.outcome
    head = outcome.chunks[0].value if outcome.chunks else outcome.value
    answer = untagged(head.tree())
    if isinstance(answer, dict) and type(answer.get("status")) is int:
        found.append(("http.response.status_code", answer["status"]))
    failure = _failure(envelope)
    if failure is not None:
        found.append((semconv.ERROR_TYPE, exception_type(failure)[0]))
    return found


def _mcp_attributes(envelope: Envelope) -> list[KeyValue]:
    """Return which request of the protocol it was: what a server's span in another trace is joined by."""
    sent = envelope.pins.get("mcp")
    method = sent.get("method") if isinstance(sent, Mapping) else None
    number = sent.get("request_id") if isinstance(sent, Mapping) else None
    if not isinstance(method, str) or not isinstance(number, str):
        return []
    found: list[KeyValue] = [(semconv.MCP_METHOD, method)] if method else []
    found.append((semconv.JSONRPC_ID, number))
    if method == "tools/call":
        found.append((semconv.GEN_AI_TOOL_NAME, envelope.boundary))
    return found


def genai_attributes(envelope: Envelope, *, content: bool) -> list[KeyValue]:
    """Return the `gen_ai.*` attributes of a model or tool crossing; without messages and arguments unless `content`.

    Never raises for odd payloads: what does not look like the vendor's form is left out.
    """
    if envelope.kind == "http":
        return _http_attributes(envelope, content=content)
    if envelope.kind == "mcp":
        return _mcp_attributes(envelope)
    if envelope.kind not in ("model", "tool"):
        return []
    found: list[KeyValue] = []
    if envelope.kind == "tool":
        found += [(semconv.GEN_AI_OPERATION, "execute_tool"), (semconv.GEN_AI_TOOL_NAME, envelope.boundary)]
        if content:
            found.append((semconv.GEN_AI_TOOL_ARGUMENTS, _readable_text(envelope.request)))
            if envelope.outcome.kind == "returned":
                found.append((semconv.GEN_AI_TOOL_RESULT, _readable_text(envelope.outcome.value)))
    else:
        request = _readable(envelope.request)
        found.append((semconv.GEN_AI_OPERATION, "chat"))
        if isinstance(request, dict):
            if isinstance(request.get("model"), str):
                found.append((semconv.GEN_AI_REQUEST_MODEL, request["model"]))
            for name, key in _SAMPLING.items():
                if isinstance(request.get(name), (int, float)):
                    found.append((key, request[name]))
            inputs = input_messages(request) if content else []
            if inputs:
                found.append((semconv.GEN_AI_INPUT_MESSAGES, orjson.dumps(inputs).decode()))
            system = instructions(request) if content else []
            if system:
                found.append((_INSTRUCTIONS, orjson.dumps(system).decode()))
        found += _model_response(_response_body(envelope), content=content)
    failure = _failure(envelope)
    if failure is not None:
        found.append((semconv.ERROR_TYPE, exception_type(failure)[0]))
    return found
