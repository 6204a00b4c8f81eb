"""A Call -> the payloads and the outcome of its envelope, and the grade that they earn."""

from __future__ import annotations

import ast
import re
from typing import Any

import orjson

from otel_replay.envelope import Outcome, Payload, lost
from otel_replay.importers.genai import _vendor
from otel_replay.importers.genai._call import Call, Fault

_STATUS_TEXT = re.compile(r"Error code: (\d{3})(?: - (.*))?$", re.DOTALL)
_BY_STATUS = {
    400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
    409: "ConflictError", 422: "UnprocessableEntityError", 429: "RateLimitError",
}  # fmt: skip
_BY_CLASS = {name: status for status, name in _BY_STATUS.items()}
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
    """Return (module:Class, known). The class is named, never imported from here."""
    known = vendor in ("openai", "anthropic")
    if name.isdigit():
        status = int(name)
    if "." in name:
        module, _, last = name.rpartition(".")
        return f"{module}:{last}", True
    if _NAME.match(name) and name not in ("_OTHER", "timeout"):
        if name in _BY_CLASS or name.startswith("API"):
            return (f"{vendor}:{name}", True) if known else (name, False)
        return f"builtins:{name}", name in dir(__builtins__) or name.endswith(("Error", "Exception"))
    if known and name == "timeout":
        return f"{vendor}:APITimeoutError", True
    if known and status is not None:
        fallback = "InternalServerError" if status >= 500 else "APIStatusError"
        return f"{vendor}:{_BY_STATUS.get(status, fallback)}", True
    return "builtins:Exception", False


def raised(fault: Fault, vendor: str, notes: list[str]) -> Outcome:
    """Return the outcome of a failed call: class, message, and status and body where the text gives them."""
    found = _STATUS_TEXT.search(fault.message)
    status = (
        int(found.group(1)) if found else int(fault.type) if fault.type.isdigit() and len(fault.type) == 3 else None
    )
    name, known = _class_of(fault.type, vendor, status)
    if status is None and name.partition(":")[0] in ("openai", "anthropic"):
        status = _BY_CLASS.get(name.partition(":")[2])
    tree: dict[str, Any] = {"$": "exception", "t": name, "args": [fault.message]}
    if status is not None:
        tree["status"] = status
        body = _body(found.group(2)) if found and found.group(2) else None
        if body is not None:
            tree["body"] = body
        else:
            notes.append("lost: the body of the error response")
    if not known:
        notes.append(f"the exception's class is not in the record ({fault.type or 'no type'}); {name} stands for it")
    return Outcome("raised", Payload("typed-json", orjson.dumps(tree).decode()))


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
    return f"{what} was captured" + (f": set {call.setting}" if call.setting else "")


def outcome_of(call: Call, response: object, vendor: str, reason: str) -> Outcome:
    """Return the outcome. Of a call that may not be served the value is kept for looking at, and the kind is lost."""
    if call.fault is not None:
        outcome = raised(call.fault, vendor, call.notes)
    else:
        outcome = Outcome("returned", payload(response))
        if outcome.value.lost and not reason:
            reason = outcome.value.reason
    if reason:
        return Outcome("lost", outcome.value, end=reason)
    return outcome


def vendor_name(call: Call) -> str:
    """Return the vendor whose exceptions a model call raises."""
    return _vendor.vendor_of(call) if call.role == "model" else ""
