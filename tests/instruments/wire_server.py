"""A server that writes what it is told byte for byte: bodies cut short, resets, odd framing, odd spellings."""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import threading
import time
from collections.abc import Iterator

OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n"
RESET, WAIT = object(), object()
_PACKED = gzip.compress(b"hello world" * 50, mtime=0)


def _chunks(*parts: bytes) -> list[bytes]:
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]


ANSWERS: dict[str, list[object]] = {
    "/short": [OK + b"content-length: 100\r\n\r\n" + b"x" * 40],
    "/reset": [RESET],
    "/hangup": [],
    "/garbage": [b"NOT HTTP AT ALL\r\n\r\n"],
    "/reset-in-body": [OK + b"content-length: 100\r\n\r\n" + b"x" * 40, RESET],
    "/chunk-cut": [CHUNKED + b"\r\n5\r\nhello\r\n", b"8\r\nwor"],
    "/chunk-malformed": [CHUNKED + b"\r\n5\r\nhello\r\n", b"ZZ\r\nwor"],
    "/slow": [WAIT, OK + b"content-length: 2\r\n\r\nok"],
    "/slow-body": [OK + b"content-length: 10\r\n\r\nabc", WAIT],
    "/gzip-broken": [OK + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nabcde"],
    "/gzip-cut": [OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % (len(_PACKED) - 6) + _PACKED[:-6]],
    "/spelling": [
        b"HTTP/1.1 200 Fine By Me\r\nconnection: close\r\nX-CasE: One\r\nX-Dup: 1\r\nx-dup: 2\r\n",
        b"content-length: 2\r\n\r\nok",
    ],
    "/http10": [b"HTTP/1.0 203 Old\r\nX-A: b\r\n\r\nold body"],
    "/latin": [OK + b"content-type: text/plain\r\nx-l: \xe9\r\ncontent-length: 3\r\n\r\n\xe9\xe8\xe0"],
    "/events": [
        CHUNKED + b"content-type: text/event-stream\r\n\r\n",
        *_chunks(b"data: a\r", b"\ndata: b\r\n\r", b"\n", b"\n\ndata: \xe2\x82", b"\xac\n\n", b": ping\n\ndata: end"),
        b"0\r\n\r\n",
    ],
    "/parts": [
        CHUNKED + b"\r\n",
        *_chunks(b"one\r", b"\ntwo\nth", b"ree\r\n", b"\xe2\x82", b"\xac\x85\x0b x\x0c", b"\n"),
        b"0\r\nX-Trailer: t\r\n\r\n",
    ],
    "/empty": [b"HTTP/1.1 204 No Content\r\nconnection: close\r\nx: y\r\n\r\n"],
    "/failing": [b"HTTP/1.1 500 Oops\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfail"],
}


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Serve ANSWERS on a port of the loopback; yields the address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            asked = b""
            while b"\r\n\r\n" not in asked:
                received = connection.recv(65536)
                if not received:
                    return
                asked += received
            for part in ANSWERS[asked.split(b" ")[1].decode()]:
                if part is RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                if part is WAIT:
                    time.sleep(1.0)
                else:
                    assert isinstance(part, bytes)
                    connection.sendall(part)
                    time.sleep(0.03)  # so that the client sees each by itself

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
