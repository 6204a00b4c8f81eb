"""What an OTLP receiver answers: export responses with partial success, and `google.rpc.Status` with a retry hint.

The three small messages are written by hand, as their definitions would be a dependency of their own.

Source: opentelemetry-proto `docs/specification.md`; `google/rpc/status.proto`, `google/rpc/error_details.proto`.
"""

from __future__ import annotations

from typing import Final

import orjson

_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_REJECTED: Final = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _data(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value if value else b""


def export_response(rejected: int, message: str) -> bytes:
    """Return an ExportTraceServiceResponse or ExportLogsServiceResponse (the same on the wire) in protobuf."""
    return _data(1, _number(1, rejected) + _data(2, _utf8(message)))


def export_response_json(signal: str, rejected: int, message: str) -> bytes:
    """Return the response for `signal` ("traces" or "logs") in JSON."""
    if not (rejected or message):
        return b"{}"
    shown = _utf8(message).decode()
    return orjson.dumps({"partialSuccess": {_REJECTED[signal]: str(rejected), "errorMessage": shown}})


def status(code: int, message: str, retry_seconds: int = 0) -> bytes:
    """Return a `google.rpc.Status` in protobuf, with RetryInfo where `retry_seconds` is not 0."""
    details = b""
    if retry_seconds:
        retry_info = _data(1, _number(1, retry_seconds))
        details = _data(3, _data(1, _RETRY_INFO.encode()) + _data(2, retry_info))
    return _number(1, code) + _data(2, _utf8(message)) + details


def status_json(code: int, message: str, retry_seconds: int = 0) -> bytes:
    """Return a `google.rpc.Status` in JSON."""
    tree: dict[str, object] = {"code": code, "message": _utf8(message).decode()}
    if retry_seconds:
        tree["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{retry_seconds}s"}]
    return orjson.dumps(tree)


def _utf8(message: str) -> bytes:
    return message.encode("utf-8", "backslashreplace")
