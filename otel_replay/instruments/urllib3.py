"""urllib3, and with it requests: one crossing a call of `HTTPConnectionPool.urlopen`, its own retries inside."""

from __future__ import annotations

import functools
import http.client
import inspect
from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.envelope import Attempt
from otel_replay.instruments import _http, _httplib
from otel_replay.instruments._patch import Patches
from otel_replay.payload import register
from otel_replay.wire import exchange as _exchange
from otel_replay.wire.packing import packing_of


def install() -> Patches:
    """Replace the library's methods. Returns what undoes it."""
    patches = Patches()
    module = import_module("urllib3.connectionpool")
    _register(module)
    patches.replace(module.HTTPConnectionPool, "urlopen", lambda original: _urlopen(original, patches))
    return patches


def wrapped(patches: Patches, client: Any) -> None:
    """Cover the connection pools of one pool manager, or of one session of requests."""
    manager = import_module("urllib3.poolmanager").PoolManager
    patches.follow(manager, "_new_pool")
    if isinstance(client, manager):
        for key in list(client.pools.keys()):
            patches.cover(client.pools[key])
    if hasattr(client, "get_adapter"):
        sessions, adapters = import_module("requests.sessions"), import_module("requests.adapters")
        patches.follow(sessions.Session, "get_adapter")
        patches.follow(adapters.HTTPAdapter, "get_connection_with_tls_context")
        patches.follow(adapters.HTTPAdapter, "get_connection")


def _register(module: Any) -> None:
    """Let pools and connections be kept by their address: urllib3's exceptions hold them. None is connected again."""
    connection = import_module("urllib3.connection")
    for cls in (module.HTTPConnectionPool, module.HTTPSConnectionPool, connection.HTTPConnection,
                connection.HTTPSConnection):  # fmt: skip
        register(cls, to_state=lambda held: [held.host, held.port], from_state=functools.partial(_unconnected, cls))


def _unconnected(cls: Any, address: Any) -> Any:
    host, port = address
    return cls(str(host), port if isinstance(port, int) else None)


def _url_of(pool: Any, url: str) -> str:
    if url.startswith(("http://", "https://")):
        return url
    host = f"[{pool.host}]" if ":" in pool.host and not pool.host.startswith("[") else pool.host
    usual = 443 if pool.scheme == "https" else 80
    return f"{pool.scheme}://{host}{'' if pool.port in (None, usual) else f':{pool.port}'}{url}"


def _urlopen(original: Any, patches: Patches) -> Any:
    signature = inspect.signature(original)

    def urlopen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not patches.covers(self):
            return original(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return original(self, *args, **kwargs)
        bound.apply_defaults()
        asked = bound.arguments

        def describe() -> tuple[Spec, object]:
            headers = asked["headers"] if asked["headers"] is not None else self.headers
            pairs = [(_text(name), _text(value)) for name, value in headers.items()]
            return _http.described(
                asked["method"], _url_of(self, asked["url"]), pairs, _httplib.body_bytes(asked["body"])
            )

        crossing = _http.enter(describe, "urllib3")
        if crossing is None:
            return original(self, *args, **kwargs)
        if crossing.served is not None:
            return _made(self, crossing, asked)
        token = crossing.open()
        try:
            response = original(self, *args, **kwargs)
        except BaseException as fault:
            crossing.raised(fault)
            raise
        finally:
            crossing.close(token)
        _see(crossing, response, asked)
        return response

    return urlopen


def _see(crossing: Crossing, response: Any, asked: Any) -> None:
    with crossing.session.faults.contained("instrument"):
        history = getattr(response.retries, "history", ())
        crossing.facts["attempts"] = [Attempt(str(step.status or type(step.error).__name__)) for step in history]
        inner = response._fp
        if response._body is None and isinstance(inner, http.client.HTTPResponse) and inner.fp is not None:
            _httplib.see(crossing, inner, exact=None)
            return
        original = response._original_response
        more = _httplib.facts_of(original) if original is not None else {}
        headers = list(response.headers.items())
        content = response._body or b""
        packing = packing_of(headers) if asked["decode_content"] else ""
        if packing and all(coding in response.CONTENT_DECODERS for coding in packing.split(", ")):
            crossing.returned(_exchange.answer_to(response.status, headers, content, encoded=packing, **more))
        else:
            crossing.returned(_http.answer(response.status, headers, [content], exact=True, **more))
        return
    crossing.abandon("the recorder failed to keep the answer")


def _made(pool: Any, crossing: Crossing, asked: Any) -> Any:
    """Return the recorded answer as urllib3 would have made it of its connection's answer."""
    inner = _httplib.served_response(crossing, asked["method"])
    kind = pool.ResponseCls if hasattr(pool, "ResponseCls") else import_module("urllib3.response").HTTPResponse
    given = {
        "body": inner,
        "headers": import_module("urllib3._collections").HTTPHeaderDict(inner.msg.items()),
        "status": inner.status,
        "version": inner.version,
        "version_string": "HTTP/1.0" if inner.version == 10 else "HTTP/1.1",
        "reason": inner.reason,
        "preload_content": asked["preload_content"],
        "decode_content": asked["decode_content"],
        "original_response": inner,
        "enforce_content_length": getattr(inner, _httplib.BROKEN, False),
        "pool": pool,
        "request_method": asked["method"],
        "request_url": asked["url"],
    }
    known = inspect.signature(import_module("urllib3.response").HTTPResponse.__init__).parameters
    response = kind(**{name: value for name, value in given.items() if name in known})
    retry = import_module("urllib3.util.retry").Retry
    response.retries = retry.from_int(asked["retries"], redirect=asked["redirect"], default=pool.retries)
    return response


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
