"""Running sinks for tests: real sockets, a real converter process, spans kept in files."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from otel_replay.sink import Sink, SinkConfig
from otel_replay.span import Resource, Scope, Span
from otel_replay.wire.protobuf import request_from_spans

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


def a_span(n: int, **changes: Any) -> Span:
    """Span number `n`: ids and attributes tell it from all others."""
    facts: dict[str, Any] = {
        "trace_id": f"{n + 1:032x}",
        "span_id": f"{n + 1:016x}",
        "name": f"span {n}",
        "start_ns": 1_790_000_000_000_000_000 + n,
        "end_ns": 1_790_000_000_000_000_001 + n,
        "attributes": (("n", n), ("text", "é🙂"), ("ratio", 1.0)),
        "resource": Resource((("service.name", "sink-tests"),)),
        "scope": Scope("tests.sink", "1"),
    }
    return Span(**(facts | changes))


BODY = request_from_spans([a_span(0)])


class Answer:
    """Status, headers and body of one HTTP answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def request(
    address: str, body: bytes | None = None, path: str = "/v1/traces", method: str = "POST", **headers: str
) -> Answer:
    """Send one request on a connection of its own."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        connection.request(method, path, body, named)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def config(folder: Path, **changes: Any) -> SinkConfig:
    """A sink for tests on free ports of this machine, that writes below `folder`."""
    facts: dict[str, Any] = {
        "span_sink": "tests.sink.file_sink:make",
        "span_sink_args": (str(folder / "out"),),
        "wal_folder": str(folder / "wal"),
        "grpc_address": "127.0.0.1:0",
        "http_address": "127.0.0.1:0",
        "seal_seconds": 0.1,
        "drain_seconds": 20.0,
        "log_format": "none",
    }
    return SinkConfig(**(facts | changes))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    """Start sinks in this process; they are stopped at the end of the test."""
    with ExitStack() as stack:

        def begin(**changes: Any) -> Sink:
            return stack.enter_context(Sink(config(tmp_path, **changes)))

        yield begin


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sink, Path]]:
    """One sink for all tests of a file that only look at answers, and the folder of its spans."""
    folder = tmp_path_factory.mktemp("sink")
    with Sink(config(folder, message_bytes_max=4 * 1024 * 1024)) as sink:
        yield sink, folder / "out"
