"""One HTTP exchange, 1 KB each way, with a server on this machine: plain, recorded by us, recorded by vcrpy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.base import without_journal
from otel_replay import instrument, record


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def all_of(folder: Path, provider: Any) -> Iterator[dict[str, Any]]:
    """Yield the ways; each call is one POST. The server's thread is not in the caller's CPU."""
    import httpx
    import vcr

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    client = httpx.Client()
    instrument("httpx")
    cassettes = iter(range(1_000_000))

    def post(value: Any) -> Any:
        return client.post(url, json=value).json()

    def recording(journal: bool) -> Any:
        run = record("bench", store=folder / "ours", tracer_provider=provider)
        return run if journal else without_journal(run)

    def cassette() -> Any:
        return vcr.use_cassette(str(folder / f"{next(cassettes)}.yaml"), record_mode="all")

    try:
        yield {
            "plain": (nullcontext, post),
            "ours, memory": (lambda: recording(False), post),
            "ours, disk": (lambda: recording(True), post),
            "peer, memory": (cassette, post),
            "peer, disk": (cassette, post),
        }
    finally:
        server.shutdown()
