"""HTTP requests and responses of httpx, httpx2 and requests, as they hang on the exceptions of client libraries.

Kept: status, headers as a list of pairs in wire order, the body if it was read, the request, redirects, and what
the object tells about itself. Not kept: the connection, an unread stream, event hooks. The libraries are looked up
only where the program has imported them. Source: `__getstate__` of httpx, `__attrs__` of requests.
"""

from __future__ import annotations

import http.cookiejar
import sys
from datetime import timedelta
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Tree, decodes, family
from otel_replay.encodings.standard import bytes_from, bytes_tree
from otel_replay.errors import Unservable

_HTTPX = ("httpx", "httpx2")
_KINDS = ("Request", "Response", "PreparedRequest")


def _library_base(cls: type) -> Any:
    """Return the class of httpx, httpx2 or requests that `cls` is or extends, or None."""
    for base in cls.__mro__:
        top = base.__module__.partition(".")[0]
        if base.__name__ in _KINDS and top in (*_HTTPX, "requests"):
            module = sys.modules.get(top)
            if module is not None and vars(module).get(base.__name__) is base:
                return base
    return None


def _top(base: type) -> str:
    return base.__module__.partition(".")[0]


@family(40)
def _pick_http(cls: type) -> EncodeFn | None:
    base = _library_base(cls)
    if base is None or (base.__name__ == "Request" and _top(base) == "requests"):
        return None
    if _top(base) == "requests":
        return _requests_response if base.__name__ == "Response" else _requests_request
    return _httpx_message


# httpx and httpx2 ------------------------------------------------------------------------------------------

_APART = frozenset(("headers", "url", "extensions", "stream", "is_closed", "_decoder", "_content", "_request", "_text"))


def _httpx_message(value: Any, to: Encoder) -> Tree:
    held = vars(value)
    response = "status_code" in held
    tree: dict[str, Tree] = {"$": "http-response" if response else "http-request", "t": names.name_of(type(value))}
    state = {name: item for name, item in held.items() if name not in _APART and not callable(item)}
    if response:
        tree["status"] = state.pop("status_code")
        took = getattr(held.get("stream"), "elapsed", None)  # where httpx2 has it; httpx has it in the state
        if isinstance(took, timedelta):
            state["_elapsed"] = took
    else:
        tree["method"] = to.value(state.pop("method"))
        tree["url"] = to.value(str(held["url"]))
    tree["headers"] = [[key.decode("latin-1"), item.decode("latin-1")] for key, item in held["headers"].raw]
    tree["body"] = bytes_tree(held["_content"]) if type(held.get("_content")) is bytes else None
    if response:
        tree["request"] = to.value(held.get("_request"), ".request")
    told = {name: item for name, item in held["extensions"].items() if type(item) in (bytes, str, int, float, dict)}
    return {**tree, "extensions": to.mapping(told), "state": to.mapping(state)}


def _headers(tree: dict[str, Tree], to: Decoder) -> list[tuple[bytes, bytes]]:
    return [(key.encode("latin-1"), item.encode("latin-1")) for key, item in to.part(tree, "headers", list)]


def _resolve(tree: dict[str, Tree]) -> tuple[Any, Any]:
    cls = names.resolve(tree.get("t"), lambda found: _library_base(found) is not None, "request or response")
    return cls, _library_base(cls)


@decodes("http-response", "http-request")
def _from_httpx(tree: dict[str, Tree], to: Decoder) -> object:
    cls, base = _resolve(tree)
    response = tree["$"] == "http-response"
    if _top(base) not in _HTTPX or (base.__name__ == "Response") is not response:
        raise Unservable(f"the record says that {names.readable(cls)} is an {tree['$']}, and here it is not")
    library = vars(sys.modules[_top(base)])
    state: dict[str, Any] = to.decoded(tree, "state", dict)
    state["headers"] = library["Headers"](_headers(tree, to))
    if tree.get("body") is not None:
        state["_content"] = bytes_from(to.part(tree, "body", dict), to)
    if response:
        state["status_code"] = to.part(tree, "status", int)
        state.setdefault("default_encoding", "utf-8")
        state["_request"] = _request(tree, base, to)
    else:
        state["method"] = to.decoded(tree, "method", str)
        state["url"] = library["URL"](to.decoded(tree, "url", str))
    made = object.__new__(cls)
    base.__setstate__(made, {})
    # Past the setters: they are the library's business while a response is still read.
    vars(made).update(state)
    made.extensions = to.decoded(tree, "extensions", dict)
    return made


def _request(tree: dict[str, Tree], base: Any, to: Decoder) -> object:
    request = to.value(tree.get("request"))
    if request is not None and _library_base(type(request)) is None:
        raise Unservable(f"the recorded request of a {base.__name__} is no request")
    return request


@family(41)
def _pick_headers(cls: type) -> EncodeFn | None:
    return _httpx_headers if _is_headers(cls) else None


def _is_headers(cls: type) -> bool:
    top = _top(cls)
    module = sys.modules.get(top) if top in _HTTPX and cls.__name__ == "Headers" else None
    return module is not None and vars(module).get("Headers") is cls


def _httpx_headers(value: Any, to: Encoder) -> Tree:
    pairs: list[Tree] = [[key.decode("latin-1"), item.decode("latin-1")] for key, item in value.raw]
    return {"$": "http-headers", "t": names.name_of(type(value)), "headers": pairs}


@decodes("http-headers")
def _from_httpx_headers(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), _is_headers, "headers of httpx")
    return cls(_headers(tree, to))


# requests --------------------------------------------------------------------------------------------------

_REQUESTS_STATE = ("encoding", "reason", "elapsed", "history")


def _cookies(jar: Any, to: Encoder) -> Tree:
    return [to.mapping(vars(cookie)) for cookie in jar]


def _pairs(headers: Any, to: Encoder) -> Tree:
    return [[to.value(key), to.value(item)] for key, item in (headers or {}).items()]


def _body(body: Any, to: Encoder) -> Tree:
    return to.value(body if type(body) in (bytes, str) else None)


def _requests_response(value: Any, to: Encoder) -> Tree:
    held = vars(value)
    return {
        "$": "requests-response",
        "t": names.name_of(type(value)),
        "status": held["status_code"],
        "url": to.value(held["url"]),
        "headers": _pairs(held["headers"], to),
        "body": _body(held["_content"], to),
        "cookies": _cookies(held["cookies"], to),
        "state": to.mapping({name: held[name] for name in _REQUESTS_STATE}),
        "request": to.value(held.get("request"), ".request"),
    }


def _requests_request(value: Any, to: Encoder) -> Tree:
    held = vars(value)
    return {
        "$": "requests-request",
        "t": names.name_of(type(value)),
        "method": to.value(held["method"]),
        "url": to.value(held["url"]),
        "headers": None if held["headers"] is None else _pairs(held["headers"], to),
        "body": _body(held["body"], to),
    }


@decodes("requests-response", "requests-request")
def _from_requests(tree: dict[str, Tree], to: Decoder) -> object:
    cls, base = _resolve(tree)
    response = tree["$"] == "requests-response"
    if _top(base) != "requests" or base.__name__ != ("Response" if response else "PreparedRequest"):
        raise Unservable(f"the record says that {names.readable(cls)} is a {tree['$']}, and here it is not")
    made = object.__new__(cls)
    base.__init__(made)
    made.url = to.decoded(tree, "url", str, type(None))
    if tree.get("headers") is not None:
        pairs = [to.value(pair) for pair in to.part(tree, "headers", list)]
        made.headers = type(vars(sys.modules["requests"])["Response"]().headers)(pairs)
    if not response:
        made.method = to.decoded(tree, "method", str, type(None))
        made.body = to.decoded(tree, "body", bytes, str, type(None))
        return made
    made.status_code = to.part(tree, "status", int, type(None))
    body = to.decoded(tree, "body", bytes, type(None))
    made._content, made._content_consumed = (False, True) if body is None else (body, True)
    vars(made).update({name: to.decoded(tree, "state", dict)[name] for name in _REQUESTS_STATE})
    for cookie in to.part(tree, "cookies", list):
        made.cookies.set_cookie(_cookie(to.value(cookie)))
    made.request = _request(tree, base, to)
    return made


def _cookie(state: dict[str, Any]) -> http.cookiejar.Cookie:
    cookie = object.__new__(http.cookiejar.Cookie)
    vars(cookie).update(state)
    return cookie
