"""A small local server that speaks the model vendors' wire forms and plays the model from a script.

    with ModelServer([reply.tool_call("lookup", {"id": 7}), reply.text("It is blue.")]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none")
        ...
    assert server.count == 2

Standard library only, on the loopback, on a free port. It serves OpenAI's chat completions, responses and embeddings,
Anthropic's messages and Google's generateContent and embeddings, as JSON or as a stream, to synchronous and
asynchronous clients, many at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from otel_replay.testing import _anthropic_wire, _google_wire, _openai_wire
from otel_replay.testing import reply as replies
from otel_replay.testing._wire import CREATED_S, Call, frame
from otel_replay.testing.reply import Body, Embedding, Error, Events, Hang, Message, RawSse, Reply, Reset

APIS = {"chat/completions": "chat", "responses": "responses", "embeddings": "embeddings", "messages": "messages"}
GOOGLE_PATH = re.compile(r"/v1(?:alpha|beta\d*)?/(?:models|tunedModels)/([^/:]+):(\w+)")
GOOGLE_APIS = {
    "generateContent": "generate_content",
    "streamGenerateContent": "generate_content",
    "embedContent": "embed_content",
    "batchEmbedContents": "embed_content",
}
REQUEST_BYTES_MAX = 64 * 1024 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: close() sends RST instead of FIN."""
EMPTY: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. `index` counts from 1 in order of arrival; header names are in lower case.

    `api` is `chat`, `responses`, `embeddings`, `messages`, `generate_content`, `embed_content`, or "" for any other
    path. `json` is None where the body is not JSON.
    """

    index: int
    method: str
    path: str
    api: str
    headers: Mapping[str, str]
    body: bytes
    json: Any

    @property
    def messages(self) -> list[Any]:
        """The conversation: `messages`, `input` (Responses API) or `contents` (Google); [] where there is none."""
        asked = self.fields.get("messages", self.fields.get("input", self.fields.get("contents")))
        return asked if isinstance(asked, list) else [] if asked is None else [asked]

    @property
    def fields(self) -> dict[str, Any]:
        """The request's JSON object; {} where the body is none."""
        return self.json if isinstance(self.json, dict) else EMPTY

    @property
    def wants_stream(self) -> bool:
        return self.fields.get("stream") is True or ":streamGenerateContent" in self.path

    @property
    def model(self) -> str:
        """The model asked for: in the body, or in Google's path."""
        found = GOOGLE_PATH.match(self.path)
        return found.group(1) if found else str(self.fields.get("model", "played-model"))


Script: TypeAlias = "Sequence[Reply | str] | Callable[[Request], Reply | str]"


class ModelServer:
    """Plays the model: `script` is a list of replies, given in order of arrival, or a function of the `Request`.

    A reply that is a plain text is `reply.text(...)`. Where a list has run out, or a function raises, the client gets
    a status 400 that says so (clients do not repeat that), and leaving the `with` raises `ScriptFault`.

    Ids in answers are the same for the same request (for its n-th repetition, too), whatever order parallel requests
    arrive in; another `salt` changes them all, and the time of creation, as a real model does from run to run.
    """

    def __init__(self, script: Script, *, salt: str = "") -> None:
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self._script = script
        self._salt = salt
        self.created_s = CREATED_S + (zlib.crc32(salt.encode()) % 10_000_000 if salt else 0)
        self._seen: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def root_url(self) -> str:
        """The address without a version, for `anthropic.Anthropic(base_url=...)` and Google's `http_options`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The address with `/v1`, for `openai.OpenAI(base_url=...)`."""
        return self.root_url + "/v1"

    @property
    def count(self) -> int:
        """How many requests have arrived, the SDKs' own retries among them."""
        return len(self.requests)

    def close(self) -> None:
        """Switch the server off: open connections are closed too, and the next call is refused. Twice is no fault."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if self.faults and error is None:
            raise ScriptFault("; ".join(self.faults))

    # What the handler asks for ---------------------------------------------------------------------------

    def take(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[Request, Reply, str]:
        """Keep the request; return it, the script's reply to it and the seed of the reply's ids."""
        parsed: Any = None
        with contextlib.suppress(ValueError):
            parsed = json.loads(body)
        with self._lock:
            api = _api_of(path)
            request = Request(len(self.requests) + 1, method, path, api, headers, body, parsed)
            self.requests.append(request)
            digest = hashlib.sha256(path.encode() + b"\n" + body).digest()
            self._seen[digest] += 1
            seed = f"{self._salt}/{digest.hex()}/{self._seen[digest]}"
        return request, self._answer(request), seed

    def _answer(self, request: Request) -> Reply:
        try:
            answer = self._script(request) if callable(self._script) else self._script[request.index - 1]
        except IndexError:
            fault = f"request {request.index} came, the script has {_length(self._script)} replies"
        except Exception as raised:  # noqa: BLE001  # a script's own fault is told to the client and on leaving
            fault = f"the script raised {raised!r} on request {request.index}"
        else:
            return replies.text(answer) if isinstance(answer, str) else answer
        with self._lock:
            self.faults.append(fault)
        return replies.error(400, fault, code="script_fault")

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than the server is open."""
        if seconds > 0:
            self._closing.wait(seconds)


class ScriptFault(AssertionError):
    """A request came that the script had no answer for, or the script itself failed."""


def _length(script: Script) -> str:
    return "no" if callable(script) else str(len(script))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, played: ModelServer) -> None:
        self.played = played
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        # A handler that plays a reset set the socket to close with RST; shutdown() would send FIN first.
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == RESET_ON_CLOSE:
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def close_connections(self) -> None:
        """End connections that clients keep in their pools: their threads would go on answering."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle of an answer are part of the play."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on standard error."""

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = int(headers.get("content-length", 0))
        if length > REQUEST_BYTES_MAX:
            self.close_connection = True
            return
        request, answer, seed = self.server.played.take(self.command, self.path, headers, self.rfile.read(length))
        self.server.played.wait(answer.delay_s)
        options = request.fields.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        prompt_tokens = 1 + len(request.body) // 4
        self._give(request, answer, Call(request.model, seed, prompt_tokens, wants_usage, self.server.played.created_s))

    do_GET = do_PUT = do_DELETE = do_PATCH = do_POST

    def _give(self, request: Request, answer: Reply, call: Call) -> None:
        match answer:
            case Message() if request.api in ("", "embeddings", "embed_content"):
                missing = Error(404, f"this server plays no conversation at {request.path}")
                self._send_json(call, 404, _error(request.api, call, missing))
            case Message() if request.wants_stream:
                self._send_events(request, call, _stream(request.api, call, answer), answer.between_s)
            case Message():
                self._send_json(call, 200, _whole(request.api, call, answer))
            case Embedding() if request.api == "embed_content":
                self._send_json(call, 200, _google_wire.embeddings(answer, request.fields))
            case Embedding():
                self._send_json(call, 200, _openai_wire.embeddings(call, answer, request.fields))
            case Error():
                self._send_json(call, answer.status, _error(request.api, call, answer), answer.headers)
            case Body():
                self._send(answer.status, answer.headers, answer.content)
            case Events():
                self._send_events(request, call, iter(answer.events), answer.between_s)
            case RawSse():
                self._send_stream(call, iter(answer.parts), answer.between_s, answer.reset_at_end)
            case Reset():
                self._reset()
            case Hang():
                self.server.played.wait(answer.seconds)
                self.close_connection = True

    def _send_json(
        self, call: Call, status: int, content: Mapping[str, Any], headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        head = (("content-type", "application/json"), *_ids(call), *headers)
        self._send(status, head, json.dumps(content).encode())

    def _send(self, status: int, headers: Sequence[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send_events(self, request: Request, call: Call, events: Iterator[Mapping[str, Any]], between_s: float) -> None:
        named = request.api != "chat"

        def frames() -> Iterator[bytes]:
            for event in events:
                yield frame(event, named=named)
            if request.api == "chat":
                yield b"data: [DONE]\n\n"

        self._send_stream(call, frames(), between_s, False)

    def _send_stream(self, call: Call, parts: Iterator[bytes], between_s: float, reset_at_end: bool) -> None:
        self.send_response(200)
        for name, value in (("content-type", "text/event-stream; charset=utf-8"), *_ids(call)):
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, part in enumerate(parts):
            if number:
                self.server.played.wait(between_s)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        if reset_at_end:
            self._reset()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.close_connection = True


def _ids(call: Call) -> tuple[tuple[str, str], ...]:
    """Return the request id under both vendors' names."""
    return (("x-request-id", call.id("req_")), ("request-id", call.id("req_")))


def _api_of(path: str) -> str:
    google = GOOGLE_PATH.match(path)
    if google is not None:
        return GOOGLE_APIS.get(google.group(2), "")
    return APIS.get(path.partition("?")[0].lstrip("/").removeprefix("v1/"), "")


def _whole(api: str, call: Call, message: Message) -> dict[str, Any]:
    if api == "generate_content":
        return _google_wire.content(call, message)
    if api == "messages":
        return _anthropic_wire.message(call, message)
    return _openai_wire.response(call, message) if api == "responses" else _openai_wire.chat(call, message)


def _stream(api: str, call: Call, message: Message) -> Iterator[dict[str, Any]]:
    if api == "generate_content":
        return _google_wire.content_stream(call, message)
    if api == "messages":
        return _anthropic_wire.message_stream(call, message)
    return (
        _openai_wire.response_stream(call, message) if api == "responses" else _openai_wire.chat_stream(call, message)
    )


def _error(api: str, call: Call, answer: Error) -> dict[str, Any]:
    if api in ("generate_content", "embed_content"):
        return _google_wire.error(answer)
    return _anthropic_wire.error(answer, call.id("req_")) if api == "messages" else _openai_wire.error(answer)
