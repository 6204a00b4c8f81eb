"""Ask a running Jaeger or Tempo for traces, over their HTTP APIs.

Source: Jaeger, `/api/traces/{id}`, `/api/traces?service=`, `/api/v3/traces`; Tempo, `/api/traces/{id}`,
`/api/v2/traces/{id}`, `/api/search`. Answers are read by the same shapes as files: what is fetched here is bytes.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

from otel_replay.errors import ImportFault
from otel_replay.importers.documents import loads
from otel_replay.importers.shapes._common import rows, table, text
from otel_replay.importers.sources import Input

TIMEOUT_SECONDS = 30.0
SEARCH_BYTES_MAX = 16 * 1024 * 1024
TRACES_MAX = 1_000
"""Traces fetched for one search; more are refused, since a narrower search is meant."""
_ERROR_BYTES_MAX = 2_000
_HOW = (
    "give the address of a trace (…/api/traces/ID, Tempo also …/api/v2/traces/ID, Jaeger also …/trace/ID and "
    "…/api/v3/traces/ID) or of a search (Jaeger …/api/traces?service=NAME, Tempo …/api/search?q=…)"
)


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never carries headers (tokens) to another host or down to plain http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check(newurl)
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and _origin(newurl) != _origin(req.full_url):
            new.headers = {"Accept": "application/json"}
        return new


def _origin(address: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(address)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _check(address: str) -> None:
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ImportFault(f"{shown(address)}: only http and https addresses are read")


def shown(address: str) -> str:
    """Return an address without the user and password that it may hold."""
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _basic(address: str) -> dict[str, str]:
    """Return the header that a user and password in an address stand for."""
    user, at, _ = urllib.parse.urlsplit(address).netloc.rpartition("@")
    if not at:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(urllib.parse.unquote(user).encode()).decode()}


def fetch(address: str, headers: Mapping[str, str]) -> BinaryIO:
    """GET `address` as JSON and return the open answer. Raises ImportFault with the status and what was said."""
    _check(address)
    asked = {"Accept": "application/json", **_basic(address), **headers}
    request = urllib.request.Request(shown(address), headers=asked)  # noqa: S310 - checked
    opener = urllib.request.build_opener(_SameHost)
    try:
        return cast(BinaryIO, opener.open(request, timeout=TIMEOUT_SECONDS))
    except urllib.error.HTTPError as fault:
        with fault:
            said = fault.read(_ERROR_BYTES_MAX).decode("utf-8", "replace").strip()
        answered = f"{shown(address)} answered {fault.code} {fault.reason}"
        raise ImportFault(f"{answered}: {said[:300]}{_hint(fault)}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as fault:
        raise ImportFault(f"{shown(address)} cannot be reached: {fault}") from None


def _hint(fault: urllib.error.HTTPError) -> str:
    return {
        401: " (a token or header is missing)",
        403: " (the token may not read this)",
        404: " (no such trace, or another path)",
        422: " (the trace is larger than the server returns; Tempo's /api/v2/traces returns a part of it)",
    }.get(fault.code, "")


def inputs(address: str, headers: Mapping[str, str]) -> Iterator[Input]:
    """Name what an address stands for: one answer, or each trace that a Tempo search found."""
    _check(address)
    parts = urllib.parse.urlsplit(address)
    path = parts.path.rstrip("/")
    if path.endswith("/api/search"):
        yield from _searched(address, parts, headers)
        return
    if "/api/" not in path and "/trace/" in path:
        head, _, trace_id = path.rpartition("/trace/")
        parts = parts._replace(path=f"{head}/api/traces/{trace_id}", query="raw=true", fragment="")
        address = urllib.parse.urlunsplit(parts)
    elif path in ("", "/search"):
        if "service=" not in parts.query:
            raise ImportFault(f"{shown(address)} names no trace: {_HOW}")
        head = path.removesuffix("/search")
        address = urllib.parse.urlunsplit(parts._replace(path=f"{head}/api/traces", fragment=""))
    yield Input(shown(address), lambda: fetch(address, headers))


def _searched(address: str, parts: urllib.parse.SplitResult, headers: Mapping[str, str]) -> Iterator[Input]:
    with fetch(address, headers) as answer:
        data = answer.read(SEARCH_BYTES_MAX + 1)
    if len(data) > SEARCH_BYTES_MAX:
        raise ImportFault(f"{shown(address)} answered more than {SEARCH_BYTES_MAX} bytes: search more narrowly")
    try:
        found = table(loads(data))
    except ValueError as fault:
        raise ImportFault(f"{shown(address)} did not answer JSON: {fault}") from None
    ids = [text(table(trace).get("traceID")) for trace in rows(found.get("traces"))]
    if not ids:
        raise ImportFault(f"{shown(address)} found no traces")
    if len(ids) > TRACES_MAX:
        raise ImportFault(f"{shown(address)} found {len(ids)} traces, {TRACES_MAX} are read: search more narrowly")
    head = parts.path.rstrip("/").removesuffix("/api/search")
    for trace_id in ids:
        quoted = urllib.parse.quote(trace_id, safe="")
        path = urllib.parse.urlunsplit(parts._replace(path=f"{head}/api/v2/traces/{quoted}", query="", fragment=""))
        old = urllib.parse.urlunsplit(parts._replace(path=f"{head}/api/traces/{quoted}", query="", fragment=""))
        yield Input(shown(path), lambda new=path, old=old: _either(new, old, headers), len(ids) == 1)  # type: ignore[misc]


def _either(new: str, old: str, headers: Mapping[str, str]) -> BinaryIO:
    """Ask Tempo's v2 (which says what is partial), and its v1 where the server is too old for it."""
    try:
        return fetch(new, headers)
    except ImportFault as fault:
        if " answered 404 " not in str(fault):
            raise
        return fetch(old, headers)
