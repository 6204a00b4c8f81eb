"""The standard library's `http.client`, and so `urllib.request`: one crossing a request, at `HTTPConnection.request`.

What builds its request by hand (`putrequest`, as `xmlrpc.client` does) is not seen.
"""

from __future__ import annotations

import http.client
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.instruments import _http, _httplib
from otel_replay.instruments._patch import Patches

_PENDING = "_otel_replay_crossing"
_AT_REQUEST = "shape: raised by request()"
"""Callers treat what `request` raises and what `getresponse` raises in different ways."""


def install() -> Patches:
    """Replace the library's methods. Returns what undoes it."""
    patches = Patches()
    patches.replace(http.client.HTTPConnection, "request", lambda original: _request(original, patches))
    patches.replace(http.client.HTTPConnection, "getresponse", lambda original: _getresponse(original, patches))
    return patches


def url_of(connection: Any, target: str) -> str:
    """Return the full address of a request's target."""
    if target.startswith(("http://", "https://")):
        return target
    scheme = "https" if isinstance(connection, getattr(http.client, "HTTPSConnection", ())) else "http"
    tunnel = getattr(connection, "_tunnel_host", None)
    host, port = (tunnel, connection._tunnel_port) if tunnel else (connection.host, connection.port)
    shown = f"[{host}]" if ":" in host else host
    usual = 443 if scheme == "https" else 80
    return f"{scheme}://{shown}{'' if port in (None, usual) else f':{port}'}{target}"


def _request(original: Any, patches: Patches) -> Any:
    def request(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, *, encode_chunked: bool = False
    ) -> Any:
        given = {} if headers is None else headers

        def describe() -> tuple[Spec, object]:
            pairs = [(str(name), _text(value)) for name, value in given.items()]
            return _http.described(method, url_of(self, url), pairs, _httplib.body_bytes(body))

        setattr(self, _PENDING, None)
        crossing = _http.enter(describe, "http.client") if patches.covers(self) else None
        if crossing is None:
            return original(self, method, url, body, given, encode_chunked=encode_chunked)
        setattr(self, _PENDING, (crossing, method))
        if crossing.served is not None:
            if _AT_REQUEST in crossing.notes:
                _httplib.served_response(crossing, method)
            return None
        token = crossing.open()
        try:
            return original(self, method, url, body, given, encode_chunked=encode_chunked)
        except BaseException as fault:
            setattr(self, _PENDING, None)
            crossing.notes.append(_AT_REQUEST)
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)

    return request


def _getresponse(original: Any, patches: Patches) -> Any:
    def getresponse(self: Any) -> Any:
        pending: tuple[Crossing, str] | None = getattr(self, _PENDING, None)
        if pending is None:
            return original(self)
        setattr(self, _PENDING, None)
        crossing, method = pending
        if crossing.served is not None:
            return _httplib.served_response(crossing, method)
        token = crossing.open()
        try:
            response = original(self)
        except BaseException as fault:
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)
        _httplib.see(crossing, response, exact=True)
        return response

    return getresponse


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
