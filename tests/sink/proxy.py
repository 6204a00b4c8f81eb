"""A TCP proxy that a test cuts: it refuses, drops what is under way, or swallows answers."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal

Mode = Literal["pass", "cut", "swallow"]


class Proxy:
    """Forwards to `address` (`host:port`) until told otherwise.

    `cut` resets every connection, old and new. `swallow` lets requests through and resets the connection instead of
    giving the answer back: the receiver has the data, and the sender doesn't know.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = (host, int(port))
        self._mode: Mode = "pass"
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_connections = self.swallowed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: Mode) -> None:
        """From now on; connections that are open meet it too."""
        with self._lock:
            self._mode = mode
            if mode == "cut":
                for connection in self._open:
                    self._reset(connection)
                self._open.clear()

    def close(self) -> None:
        self.set("cut")
        self._listener.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reset(self, connection: socket.socket) -> None:
        self.cut_connections += 1
        with contextlib.suppress(OSError):
            # Linger zero: the other end sees a reset, as of a cable or a load balancer, not an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._mode == "cut":
                    self._reset(near)
                    continue
                try:
                    far = socket.create_connection(self._to)
                except OSError:
                    self._reset(near)
                    continue
                self._open += [near, far]
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        while True:
            try:
                data = source.recv(65_536)
                if answers and data and self._mode == "swallow" and _is_answer(data):
                    with self._lock:
                        self.swallowed += 1
                        self._reset(target)
                    return
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return


def _is_answer(data: bytes) -> bool:
    """True for what may hold an answer: HTTP/1.1's first line, or a HEADERS frame (type 1) of HTTP/2."""
    if data.startswith(b"HTTP/1.1 "):
        return True
    at = 0
    while at + 9 <= len(data):
        if data[at + 3] == 1:
            return True
        at += 9 + int.from_bytes(data[at : at + 3], "big")
    return False
