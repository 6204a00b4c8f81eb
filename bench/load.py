"""The load that a sink is measured under: distinct spans as export requests, and a sender in a process of its own.

`python -m bench.load ADDRESS FILE CONNECTIONS` answers each line on its standard input with one JSON line: it has
then sent every request of the file once, over that many connections, and had every one acknowledged.
"""

from __future__ import annotations

import http.client
import json
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from otel_replay.span import KeyValue, Resource, Scope, Span
from otel_replay.wire.protobuf import request_from_spans

REQUEST_SPANS = 512
"""What the Collector and the SDK send at once unless told otherwise."""
_LENGTH = struct.Struct("<I")
_START_NS = 1_790_000_000_000_000_000
_WORDS = tuple("".join(random.Random(n).choices("etaoinshrdlu", k=3 + n % 6)) for n in range(3000))
_MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-5", "gemini-3-flash", "qwen3-8b")


def words(rng: random.Random, length: int) -> str:
    """Return about `length` characters of text that packs about as well as English does."""
    return " ".join(rng.choices(_WORDS, k=length // 7))[:length]


def spans(count: int, *, payload: bool = False, seed: int = 1) -> Iterator[Span]:
    """Yield spans with ten attributes (about 480 bytes each), or with 2.3 KB of messages beside them."""
    rng = random.Random(seed)
    resource = Resource((("service.name", "shop-agent"), ("service.version", "1.4.2")))
    scope = Scope("opentelemetry.instrumentation.openai", "0.50")
    trace_id = parent = ""
    for at in range(count):
        if at % 20 == 0:
            trace_id, parent = f"{rng.getrandbits(128):032x}", ""
        span_id = f"{rng.getrandbits(64):016x}"
        start_ns = _START_NS + at * 3_000_000 + rng.randrange(1_000_000)
        yield Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=parent,
            name="chat",
            kind=3,
            start_ns=start_ns,
            end_ns=start_ns + rng.randrange(2_000_000_000),
            attributes=(*_ten(rng, at), *(_messages(rng) if payload else ())),
            resource=resource,
            scope=scope,
        )
        parent = parent or span_id


def _ten(rng: random.Random, at: int) -> tuple[KeyValue, ...]:
    model = _MODELS[rng.randrange(5)]
    return (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", model),
        ("gen_ai.response.model", f"{model}-2026-08"),
        ("gen_ai.request.temperature", 0.7),
        ("gen_ai.usage.input_tokens", rng.randrange(4000)),
        ("gen_ai.usage.output_tokens", rng.randrange(800)),
        ("server.address", "api.example.com"),
        ("session.id", f"s-{at // 200}"),
        ("app.step", at % 20),
    )


def _messages(rng: random.Random) -> tuple[KeyValue, ...]:
    asked = [{"role": "user", "parts": [{"type": "text", "content": words(rng, 1500)}]}]
    told = [{"role": "assistant", "parts": [{"type": "text", "content": words(rng, 600)}]}]
    return (("gen_ai.input.messages", json.dumps(asked)), ("gen_ai.output.messages", json.dumps(told)))


def requests(found: Iterable[Span]) -> list[bytes]:
    """Return the spans as export requests of `REQUEST_SPANS` each."""
    several = iter(found)
    made = []
    while some := list(islice(several, REQUEST_SPANS)):
        made.append(request_from_spans(some))
    return made


def write(path: Path, bodies: Iterable[bytes]) -> None:
    """Write the requests for a sender."""
    path.write_bytes(b"".join(_LENGTH.pack(len(body)) + body for body in bodies))


class Sender:
    """A process that sends a file of requests to `address` when it is told."""

    def __init__(self, address: str, path: Path, connections: int = 4) -> None:
        words = [sys.executable, "-m", "bench.load", address, str(path), str(connections)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()  # it is ready

    def send(self) -> dict[str, Any]:
        """Return wall seconds, latencies and its own CPU seconds, once everything is acknowledged."""
        assert self._process.stdin is not None
        print("go", file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


# The process -----------------------------------------------------------------------------------------------


def main() -> None:
    address, path, connections = sys.argv[1:]
    with open(path, "rb") as file:
        bodies = list(_bodies(file))
    print("{}", flush=True)
    for _ in sys.stdin:
        print(json.dumps(_send(address, bodies, int(connections))), flush=True)


def _bodies(file: IO[bytes]) -> Iterator[bytes]:
    while head := file.read(_LENGTH.size):
        yield file.read(_LENGTH.unpack(head)[0])


def _send(address: str, bodies: list[bytes], connections: int) -> dict[str, Any]:
    took: list[float] = []
    failed: list[str] = []

    def post(mine: list[bytes]) -> None:
        connection = http.client.HTTPConnection(address, timeout=120)
        for body in mine:
            started = time.perf_counter()
            while True:
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status not in (429, 503):
                    break
                time.sleep(0.05)  # sooner than asked for: the figure is what the sink can take
            if answer.status != 200:
                failed.append(f"{answer.status}: {text[:200]!r}")
            took.append(time.perf_counter() - started)
        connection.close()

    started, cpu = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=post, args=(bodies[n::connections],)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - started
    took.sort()
    return {
        "wall_s": wall,
        "cpu_s": time.process_time() - cpu,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[len(took) * 99 // 100] * 1000,
        "failed": failed[:3],
        "acknowledged": len(took) - len(failed),
    }


if __name__ == "__main__":
    main()
