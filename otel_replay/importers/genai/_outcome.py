"""A Call -> the payloads and the outcome of its envelope, and the grade that they earn."""

from __future__ import annotations

import ast
import builtins
import re
from functools import lru_cache
from importlib import metadata
from typing import Any

import orjson

from otel_replay.envelope import Outcome, Payload, lost
from otel_replay.importers.genai import _vendor
from otel_replay.importers.genai._call import Call, Fault
from otel_replay.payload import encode

_STATUS_TEXT = re.compile(r"Error code: (\d{3})(?: - (.*))?$", re.DOTALL)
_BY_STATUS = {
    400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
    409: "ConflictError", 422: "UnprocessableEntityError", 429: "RateLimitError",
}  # fmt: skip
_BY_CLASS = {name: status for status, name in _BY_STATUS.items()}
_STATUS = re.compile(r"[1-5]\d\d\Z")
_NAME = re.compile(r"[A-Za-z_][\w.]*\Z")


def payload(value: object) -> Payload:
    """Return JSON `value` as a payload; what JSON cannot keep exactly (ints over 64 bit, lone surrogates) is lost."""
    try:
        return Payload("json", orjson.dumps(value).decode())
    except (TypeError, ValueError, RecursionError) as fault:
        return lost(f"cannot be written as JSON: {fault}")


def _body(text: str) -> object:
    """Return the error body that OpenAI's client prints after the status: a Python repr of it, or text."""
    if len(text) > 1_000_000:
        return None
    try:
        value = ast.literal_eval(text.strip())
        orjson.dumps(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None


def _class_of(name: str, vendor: str, status: int | None) -> tuple[str, bool]:
    """Return (module:Class, known). The class is only named here; whoever serves it looks it up, or refuses."""
    client = vendor in ("openai", "anthropic")
    if "." in name:
        module, _, last = name.rpartition(".")
        return f"{module}:{last}", True
    if client and (name in _BY_CLASS or name.startswith("API") or name == "InternalServerError"):
        return f"{vendor}:{name}", True
    if client and name == "timeout":
        return f"{vendor}:APITimeoutError", True
    if hasattr(builtins, name):
        return f"builtins:{name}", True
    if client and status is not None:
        fallback = "InternalServerError" if status >= 500 else "APIStatusError"
        return f"{vendor}:{_BY_STATUS.get(status, fallback)}", True
    return f"unknown:{name}" if _NAME.match(name) and name != "_OTHER" else "builtins:Exception", False


def raised(fault: Fault, vendor: str, notes: list[str], server: str = "", status: int | None = None) -> Outcome:
    """Return the outcome of a failed call: class and message, and where the client's class has them status and body.

    `status` is the HTTP status where the span has it by itself.
    """
    found = _STATUS_TEXT.search(fault.message)
    status = int(found.group(1)) if found else status
    if status is None and _STATUS.match(fault.type):
        status = int(fault.type)
    name, known = _class_of(fault.type, vendor, status)
    tree: dict[str, Any] = {"$": "exception", "t": name, "args": {"$": "tuple", "v": [fault.message]}}
    module, _, last = name.partition(":")
    if module in ("openai", "anthropic"):
        status = status or _BY_CLASS.get(last)
        body = _body(found.group(2)) if found and found.group(2) else None
        if body is None and status is not None:
            notes.append("lost: the body of the error response")
        tree["state"] = _client_state(fault.message, module, status, body, server)
        notes.append("invented: the HTTP request and response on the exception")
    if not known:
        notes.append(f"the exception's class is not in the record ({fault.type or 'no type'}); {name} stands for it")
    return Outcome("raised", Payload("typed-json", _written(tree).decode()))


def _written(tree: dict[str, Any]) -> bytes:
    """Return a tagged tree as JSON; a text that was cut in the midst of a character is kept under a tag of its own."""
    try:
        return orjson.dumps(tree)
    except TypeError:
        return orjson.dumps(_tagged(tree))


def _tagged(node: Any) -> Any:
    if isinstance(node, str):
        return encode(node).tree()
    if isinstance(node, list):
        return [_tagged(item) for item in node]
    if not isinstance(node, dict):
        return node
    names = ("$", "t")  # of a tag and of a class: where such a name is not whole, there is no such class
    return {k: v.encode("utf-8", "backslashreplace").decode() if k in names else _tagged(v) for k, v in node.items()}


@lru_cache(maxsize=8)
def _http_library(client: str) -> str:
    """Return the HTTP library whose objects the installed version of `client` puts on its exceptions."""
    try:
        needs = metadata.requires(client) or []
    except metadata.PackageNotFoundError:
        needs = []
    return "httpx2" if any(need.startswith("httpx2") for need in needs) else "httpx"


def _client_state(message: str, module: str, status: int | None, body: Any, server: str) -> dict[str, Any]:
    """Return what OpenAI's and Anthropic's clients keep on their exceptions (`_exceptions.py` of both)."""
    http = _http_library(module)
    path = "/v1/messages" if module == "anthropic" else "/v1/chat/completions"
    asked: dict[str, Any] = {
        "$": "http-request", "t": f"{http}:Request", "method": "POST", "url": f"http://{server or 'recorded'}{path}",
        "headers": [], "body": {"text": ""}, "extensions": {}, "state": {},
    }  # fmt: skip
    inner = body.get("error", body) if isinstance(body, dict) and module == "openai" else body
    state: dict[str, Any] = {"request": asked, "message": message, "body": inner}
    if module == "openai":
        told = inner if isinstance(inner, dict) else {}
        state |= {name: told.get(name) for name in ("code", "param", "type")}
    if status is None:
        return state
    text = orjson.dumps(body).decode() if body is not None else ""
    state["response"] = {
        "$": "http-response", "t": f"{http}:Response", "status": status,
        "headers": [["Content-Type", "application/json"]],
        "body": {"text": text}, "request": asked, "extensions": {},
        "state": {"next_request": None, "history": [], "is_stream_consumed": True, "default_encoding": "utf-8",
                  "_num_bytes_downloaded": len(text)},
    }  # fmt: skip
    return state | {"status_code": status, "request_id": None}


def missing_of(call: Call) -> tuple[str, ...]:
    """Return what a replay would need and the record lacks: "input", "output"."""
    found = []
    if not call.has_input and call.vectors is None:
        found.append("input")
    if not call.has_output and call.fault is None:
        found.append("output")
    return tuple(found)


def reason_of(call: Call) -> str:
    """Return why the call cannot be served, or "": damage first, else what was never captured and which switch."""
    if call.damage:
        return "; ".join(dict.fromkeys(call.damage))
    missing = missing_of(call)
    if not missing:
        return ""
    what = "no content" if len(missing) == 2 else f"no {missing[0]}"
    return f"{what} was captured{advice(call)}"


def advice(call: Call) -> str:
    """Return how to have the content next time, as the end of a sentence."""
    if call.role == "structure" or not call.setting:
        return ""
    return f": {call.setting}" if call.setting.startswith("use ") else f": set {call.setting}"


def outcome_of(call: Call, response: object, reason: str) -> Outcome:
    """Return the outcome. Of a call that may not be served the value is kept for looking at, and the kind is lost."""
    if call.fault is not None:
        vendor = _vendor.vendor_of(call) if call.role == "model" else ""
        server, status = call.span.get("server.address"), call.span.get("http.response.status_code")
        outcome = raised(
            call.fault,
            vendor,
            call.notes,
            server if isinstance(server, str) else "",
            status if isinstance(status, int) and status >= 400 else None,
        )
    else:
        outcome = Outcome("returned", payload(response))
        if outcome.value.lost and not reason:
            reason = outcome.value.reason
    if reason:
        return Outcome("lost", outcome.value, end=reason)
    return outcome
