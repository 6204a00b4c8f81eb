"""OTLP/HTTP, health, readiness and metrics, on the standard library's server.

One thread a connection: a request waits for a group commit, the gRPC server works with threads too, and by
measurement the standard server spends less on the large bodies of this trade than the asyncio ones.

Source: opentelemetry-proto `docs/specification.md` (OTLP/HTTP); RFC 9110 and 9112.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from http import HTTPStatus
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

from ..errors import UsageError
from ..originals import monotonic, sleep
from ..wire import response
from .body import ENCODINGS, BadBody, TooLarge, UnknownEncoding, decompress
from .config import SinkConfig, Tls, split_address
from .intake import SIGNALS, Intake, Refused
from .metrics import Metrics

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_TYPES: Final = {_PROTOBUF: False, "application/protobuf": False, _JSON: True}
_PATHS: Final = {f"/v1/{signal}": signal for signal in SIGNALS}
_NOT_TAKEN: Final = {
    "/v1/metrics": "metrics are not taken",
    "/v1development/profiles": "profiles are not taken",
}
_ABSOLUTE: Final = re.compile("https?://[^/]*", re.IGNORECASE)
_CHUNK_LINE_MAX: Final = 1024
_READ_BYTES: Final = 1024 * 1024
_DISCARD_BYTES_MAX: Final = 4 * 1024 * 1024
_RPC_CODES: Final = {400: 3, 401: 16, 404: 12, 405: 12, 411: 3, 413: 3, 415: 3, 429: 8, 503: 14}
_TURNED_AWAY: Final = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_STATUS: Final = {"bad": 400, "busy": 429, "unavailable": 503}


class _Answer(Exception):  # ends a request early
    def __init__(self, status: int, message: str, retry_seconds: int = 0, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


def _not_found(path: str) -> _Answer:
    what = _NOT_TAKEN.get(path, "not found")
    return _Answer(404, f"{what}; this is an OTLP receiver for POST /v1/traces and /v1/logs")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "otel-replay"
    sys_version = ""
    disable_nagle_algorithm = True
    server: HttpReceiver

    def setup(self) -> None:
        self.request.settimeout(self.server.config.idle_seconds)
        self._held = 0
        self._unread = self._asked_to_go_on = False
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: requests are counted, not logged."""

    def handle_expect_100(self) -> bool:
        """Put the "go on" off until the body is read: who is refused by the head alone need not send it."""
        self._asked_to_go_on = True
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the standard library refuses (a broken or endless head) as every other refusal is answered."""
        self.headers, self.request_version = HTTPMessage(), self.protocol_version  # none of this request's can be had
        self._unread = True
        self.server.metrics.add("requests_total", transport="http", signal="", answer=str(int(code)))
        self._send_fault(_Answer(int(code), HTTPStatus(code).description or HTTPStatus(code).phrase))

    # Methods ---------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        self._answer_to(self._get)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._answer_to(self._post)

    def _other(self) -> None:
        self._answer_to(self._post)

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _other

    def _answer_to(self, method: Any) -> None:
        self._unread = self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers
        self.server.set_busy(self.connection, True)
        try:
            method()
        except _Answer as answer:
            self.server.metrics.add("requests_total", transport="http", signal="", answer=str(answer.status))
            self._send_fault(answer)
        except Refused as refused:
            self._send_fault(_Answer(_STATUS[refused.kind], str(refused), refused.retry_seconds))
        finally:
            self._let_go()
            self._asked_to_go_on = False
            self.server.set_busy(self.connection, False)
            if self.server.intake.stopping:
                self.close_connection = True

    def _path(self) -> str:
        path = self.path.partition("?")[0]
        # A proxy may name the server in the request line.
        return _ABSOLUTE.sub("", path, count=1) or "/"

    def _get(self) -> None:
        path = self._path()
        intake = self.server.intake
        if path == "/healthz":
            self._send(200, "text/plain; charset=utf-8", b"ok\n")
        elif path == "/readyz":
            why = intake.not_ready()
            self._send(503 if why else 200, "text/plain; charset=utf-8", f"{why or 'ready'}\n".encode())
        elif path == "/metrics":
            self._authorize()
            self._send(200, "text/plain; version=0.0.4; charset=utf-8", self.server.metrics.text())
        elif path in _PATHS:
            raise _Answer(405, f"{path} takes POST", Allow="POST")
        else:
            raise _not_found(path)

    def _post(self) -> None:
        path = self._path()
        if path in ("/healthz", "/readyz", "/metrics"):
            raise _Answer(405, f"{path} takes GET", Allow="GET, HEAD")
        signal = _PATHS.get(path)
        if signal is None:
            raise _not_found(path)
        if self.command != "POST":
            raise _Answer(405, f"{path} takes POST", Allow="POST")
        self._authorize()
        is_json = self._is_json()
        if self.server.intake.stopping:
            raise Refused("unavailable", "the sink is stopping", 5)
        taken = self.server.intake.take("http", signal, self._decoded_body(), is_json=is_json)
        self._let_go()
        if is_json:
            self._send(200, _JSON, response.export_response_json(signal, taken.rejected, taken.message))
        else:
            self._send(200, _PROTOBUF, response.export_response(taken.rejected, taken.message))

    # Reading ---------------------------------------------------------------------------------------------

    def _authorize(self) -> None:
        if not self.server.intake.authorized(self.headers.get("Authorization", "")):
            raise _Answer(401, "a bearer token is required", WWW_Authenticate="Bearer")

    def _content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def _is_json(self) -> bool:
        found = self._content_type()
        if found not in _TYPES:
            accepted = ", ".join((_PROTOBUF, _JSON))
            raise _Answer(415, f"content-type {found[:60]!r} is not accepted; accepted: {accepted}", Accept=accepted)
        return _TYPES[found]

    def _hold(self, count: int) -> None:
        self.server.intake.memory.take(count)
        self._held += count

    def _let_go(self) -> None:
        self.server.intake.memory.give_back(self._held)
        self._held = 0

    def _decoded_body(self) -> bytes:
        limit = self.server.config.message_bytes_max
        named = ",".join(self.headers.get_all("Content-Encoding", [])).split(",")
        encoding = ", ".join(name.strip() for name in named if name.strip().lower() not in ("", "identity"))
        if encoding.strip().lower().removeprefix("x-") not in ("", *ENCODINGS):
            accepted = ", ".join(ENCODINGS)
            message = f"content-encoding {encoding[:40]!r} is not accepted; accepted: {accepted}"
            raise _Answer(415, message, Accept_Encoding=accepted)
        raw = self._raw_body(limit)
        self._unread = False
        try:
            return decompress(raw, encoding, limit, self._hold)
        except (BadBody, UnknownEncoding) as fault:
            raise _Answer(400, str(fault)) from None
        except TooLarge as fault:
            raise _Answer(413, str(fault)) from None

    def _raw_body(self, limit: int) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        coding = self.headers.get("Transfer-Encoding", "").strip().lower()
        if coding:
            if lengths or coding != "chunked":
                raise _Answer(400, "transfer-encoding must be chunked, without a content-length")
            return self._chunked_body(limit)
        if not lengths:
            raise _Answer(411, "content-length or chunked transfer-encoding is required")
        if len(set(lengths)) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > 18:
            raise _Answer(400, "content-length is not one number")
        length = int(lengths[0])
        if length > limit:
            raise _Answer(413, f"the body has {length} bytes, the limit is {limit}")
        self._go_on()
        return self._read_exactly(length, self._body_deadline())

    def _go_on(self) -> None:
        if self._asked_to_go_on:
            self.send_response_only(100)
            self.end_headers()

    def _body_deadline(self) -> float:
        return monotonic() + self.server.config.body_seconds

    def _read_exactly(self, length: int, deadline: float) -> bytes:
        """Read `length` bytes, and hold memory for what is here: who sends slowly keeps no others out."""
        parts = []
        left = length
        while left:
            data = self.rfile.read1(min(left, _READ_BYTES))
            if not data:
                raise _Answer(400, f"the body ends after {length - left} of {length} bytes")
            self._hold(len(data))
            parts.append(data)
            left -= len(data)
            if left and monotonic() > deadline:
                raise Refused("unavailable", f"the body did not come in {self.server.config.body_seconds:g} s", 5)
        return b"".join(parts)

    def _chunked_body(self, limit: int) -> bytes:
        parts = []
        size = 0
        self._go_on()
        deadline = self._body_deadline()
        while True:
            line = self.rfile.readline(_CHUNK_LINE_MAX)
            digits = line.partition(b";")[0].strip()
            if not line.endswith(b"\n") or not digits or len(digits) > 16 or digits.strip(b"0123456789abcdefABCDEF"):
                raise _Answer(400, "a chunk does not begin with its length")
            count = int(digits, 16)
            if count == 0:
                break
            size += count
            if size > limit:
                raise _Answer(413, f"the body has more than the limit of {limit} bytes")
            parts.append(self._read_exactly(count, deadline))
            if self.rfile.readline(3) not in (b"\r\n", b"\n"):
                raise _Answer(400, "a chunk is longer than it says")
        for _ in range(100):  # trailers
            line = self.rfile.readline(_READ_BYTES)
            if line in (b"\r\n", b"\n"):
                return b"".join(parts)
            if not line:
                break
        raise _Answer(400, "the chunked body does not end")

    # Writing ---------------------------------------------------------------------------------------------

    def _send(self, status: int, content_type: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        if self.server.intake.stopping or self.close_connection or self._unread:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_fault(self, answer: _Answer) -> None:
        """Answer with a `google.rpc.Status` in the sender's own encoding, and keep the connection usable if it is."""
        self._let_go()
        unread, self._unread = self._unread, False
        self.close_connection = self.close_connection or unread
        code = _RPC_CODES.get(answer.status, 2)
        headers = dict(answer.headers)
        if answer.retry_seconds:
            headers["Retry-After"] = str(answer.retry_seconds)
        if self._content_type() in (_PROTOBUF, "application/protobuf"):
            content_type, data = _PROTOBUF, response.status(code, str(answer), answer.retry_seconds)
        else:
            content_type, data = _JSON, response.status_json(code, str(answer), answer.retry_seconds)
        self._send(answer.status, content_type, data, headers)
        if unread:
            self._discard()

    def _discard(self) -> None:
        """Read on for a moment: closing on unread bytes resets the connection, and the answer may be lost with it."""
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(0.5)
            left = _DISCARD_BYTES_MAX
            while left > 0 and (data := self.rfile.read1(65536)):
                left -= len(data)
        except (OSError, ValueError):
            return


class HttpReceiver(HTTPServer):
    """The HTTP server. `start` returns at once; `stop` answers what is under way first."""

    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self, config: SinkConfig, intake: Intake, metrics: Metrics) -> None:
        self.config = config
        self.intake = intake
        self.metrics = metrics
        self._tls = _tls_context(config.tls) if config.tls else None
        self._connections: dict[socket.socket, bool] = {}
        self._lock = threading.Lock()
        host, port = split_address(config.http_address)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as fault:
            raise UsageError(f"cannot listen on {config.http_address}: {fault}") from fault
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="otel-replay-http", daemon=True)

    def server_bind(self) -> None:
        """Bind without the standard library's look-up of this machine's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    @property
    def address(self) -> str:
        """`host:port` as bound."""
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def set_busy(self, connection: socket.socket, busy: bool) -> None:
        """Note whether `connection` is in the middle of a request."""
        with self._lock:
            if connection in self._connections:
                self._connections[connection] = busy

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a new connection to a thread of its own, or turn it away where there are too many."""
        with self._lock:
            full = len(self._connections) >= self.config.connections_max
        if full:
            self.metrics.add("requests_total", transport="http", signal="", answer="503")
            threading.Thread(target=self._turn_away, args=(request,), daemon=True).start()
            return
        threading.Thread(target=self._serve, args=(request, client_address), daemon=True).start()

    def _turn_away(self, request: socket.socket) -> None:
        try:
            request.settimeout(1)
            if self._tls is None:
                request.sendall(
                    b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
        except OSError:
            pass
        finally:
            self.shutdown_request(request)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        connection = request
        with self._lock:
            self._connections[connection] = False
        try:
            if self._tls is not None:
                request.settimeout(10)
                secure = self._tls.wrap_socket(request, server_side=True)
                with self._lock:
                    del self._connections[connection]
                    self._connections[secure] = False
                connection = secure
            self.finish_request(connection, client_address)
        except (OSError, ValueError):
            pass  # a broken handshake, a reset or an idle connection: nothing was acknowledged on it
        finally:
            with self._lock:
                self._connections.pop(connection, None)
            self.shutdown_request(connection)

    def stop(self, grace_seconds: float) -> None:
        """Accept no more, let requests under way end, close the rest."""
        self.shutdown()
        self.server_close()
        deadline = monotonic() + grace_seconds
        while True:
            with self._lock:
                connections = list(self._connections.items())
            if not any(busy for _, busy in connections) or monotonic() > deadline:
                break
            sleep(0.02)
        for connection, _ in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._thread.join(1)


def _tls_context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert_file, tls.key_file)
        context.set_alpn_protocols(["http/1.1"])
        if tls.client_ca_file:
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as fault:
        raise UsageError(f"the TLS files cannot be used: {fault}") from fault
    return context
