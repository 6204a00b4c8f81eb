"""Requests of every form: matched again in a replay, whatever their boundary is, and refused where they differ."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
import requests

from otel_replay import instrument

from .conftest import Lab


class Played:
    """A server that answers with bytes, one send each, and then closes the connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.count = 0
        self.parts: list[bytes] = []
        self.hangs = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        self.count += 1
        with connection:
            got = b""
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while b"\r\n\r\n" not in got:
                more = connection.recv(65536)
                if not more:
                    return
                got += more
            for part in self.parts:
                if part == b"hang":
                    self.hangs.wait(10)
                else:
                    connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    def close(self) -> None:
        self.hangs.set()
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Played]:
    played = Played()
    yield played
    played.close()


def _sent(kind: str) -> dict[str, Any]:
    forms: dict[str, dict[str, Any]] = {
        "bytes": {"content": b"\x00\xff"},
        "form": {"data": {"a": "1", "b": "é"}},
        "json": {"json": {"b": 1, "a": [None, 2.5]}},
        "generator": {"content": iter([b"ab", b"cd"])},
        "files": {"data": {"k": "v"}, "files": {"f": ("n.bin", b"\x00\x01\xff", "application/x"), "g": b"two"}},
    }
    return forms[kind]


@pytest.mark.parametrize("library", [httpx, httpx2, requests])
@pytest.mark.parametrize("kind", ["bytes", "form", "json", "generator", "files"])
def test_requests_of_every_form_are_matched_again_and_other_ones_refused(
    lab: Lab, server: Played, library: Any, kind: str
) -> None:
    from otel_replay import Diverged

    instrument(library.__name__)
    server.parts = [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]

    def ask(change: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given) -> bytes:
        given = change(_sent(kind))
        if library is requests and "content" in given:
            given["data"] = given.pop("content")
        content: bytes = library.post(server.url, **given).content
        return content

    assert lab.record(ask) == lab.replay(ask) == b"ok"
    assert server.count == 1
    if kind == "generator":
        return

    def other(given: dict[str, Any]) -> dict[str, Any]:
        if kind == "bytes":
            return {"content": b"\x00\xfe"}
        if kind == "files":
            return {**given, "files": {**given["files"], "g": b"three"}}
        name = "json" if kind == "json" else "data"
        return {name: {**given[name], "b": "other"}}

    with pytest.raises(Diverged):
        lab.replay(lambda: ask(other))
    assert server.count == 1
