"""httpx and httpx2: one crossing a request, at the client's `_send_single_request`, whatever the transport beneath.

Redirects are requests of their own, as on the wire. Cookies, default encoding and redirects are the client's business
in replay too: it is handed the response that its transport would have given.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from otel_replay.crossing import Crossing, Spec
from otel_replay.errors import Unservable
from otel_replay.instruments import _http, _httpx_parts
from otel_replay.instruments._patch import Patches
from otel_replay.instruments._served_body import Portions, ServedBody
from otel_replay.wire import exchange as _exchange


def install(library: str) -> Patches:
    """Replace the methods of `library`. Returns what undoes it."""
    module = import_module(library)
    patches = Patches()
    sends = _Sends(library, patches)
    patches.replace(module.Client, "_send_single_request", sends.sync_shell)
    patches.replace(module.AsyncClient, "_send_single_request", sends.async_shell)
    return patches


def _body(request: Any) -> bytes | None:
    """Return a request's body where reading it does not use it up."""
    if hasattr(request, "_content"):
        content: bytes = request._content
        return content
    kind = type(request.stream).__name__
    if kind in ("ByteStream", "MultipartStream"):
        return b"".join(request.stream)
    return None


class _Sends:
    def __init__(self, library: str, patches: Patches) -> None:
        self._library = library
        self._patches = patches

    def _enter(self, client: Any, request: Any) -> Crossing | None:
        if not self._patches.covers(client):
            return None

        def describe() -> tuple[Spec, object]:
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
            return _http.described(request.method, str(request.url), headers, _body(request))

        return _http.enter(describe, self._library)

    def _see(self, crossing: Crossing, response: Any, *, is_async: bool) -> None:
        with crossing.session.faults.contained("instrument"):
            headers = _httpx_parts.headers_of(response)
            more = _httpx_parts.facts_of(response)

            def exact() -> bool:
                return _httpx_parts.reads_packed(response)

            recorder = _http.recorder_of(crossing, response.status_code, headers, exact=exact, **more)
            _httpx_parts.tap(response, recorder, is_async=is_async)
            return
        crossing.abandon("the recorder failed to keep the answer")

    def _made(
        self,
        client: Any,
        request: Any,
        value: Any,
        body: ServedBody | Portions | None,
        *,
        is_async: bool,
        took_ns: int,
    ) -> Any:
        """Return the response as the client's transport would have given it, with what the client adds to one."""
        if body is not None:
            # Events were unpacked when they were kept; another body that was not read to its end was not.
            packed = not _http.is_events(_exchange.head_from(value)[1])
        else:
            body, packed = Portions(_exchange.raw_parts(value)), True
        response = _httpx_parts.streaming(
            self._library, value, body, request, is_async=is_async, packed=packed, took_ns=took_ns
        )
        client.cookies.extract_cookies(response)
        response.default_encoding = client._default_encoding
        return response

    @staticmethod
    def _whole(crossing: Crossing, value: Any) -> Any:
        if not _exchange.is_answer(value):
            raise Unservable(f"{crossing.address}: the record holds no HTTP answer where one was expected")
        return value

    def sync_shell(self, original: Any) -> Any:
        def send(client: Any, request: Any) -> Any:
            crossing = self._enter(client, request)
            if crossing is None:
                return original(client, request)
            served = crossing.served
            if served is not None:
                if served.outcome.kind == "streamed":
                    body = ServedBody(crossing)
                    return self._made(client, request, body.head, body, is_async=False, took_ns=served.took_ns)
                served.wait()
                value = self._whole(crossing, served.give())
                return self._made(client, request, value, None, is_async=False, took_ns=served.took_ns)
            token = crossing.open()
            try:
                with _http.spoken_for(request.headers):
                    response = original(client, request)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            self._see(crossing, response, is_async=False)
            return response

        return send

    def async_shell(self, original: Any) -> Any:
        async def send(client: Any, request: Any) -> Any:
            crossing = self._enter(client, request)
            if crossing is None:
                return await original(client, request)
            served = crossing.served
            if served is not None:
                if served.outcome.kind == "streamed":
                    body = ServedBody(crossing)
                    return self._made(client, request, body.head, body, is_async=True, took_ns=served.took_ns)
                await served.wait_async()
                value = self._whole(crossing, served.give())
                return self._made(client, request, value, None, is_async=True, took_ns=served.took_ns)
            token = crossing.open()
            try:
                with _http.spoken_for(request.headers):
                    response = await original(client, request)
            except BaseException as fault:
                crossing.raised(fault)
                raise
            finally:
                crossing.close(token)
            self._see(crossing, response, is_async=True)
            return response

        return send
