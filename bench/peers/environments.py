"""One virtual environment a peer, kept in a cache folder: the peer, and what we need ourselves, from the registry."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-replay" / "peers"
PEERS = {
    "chronicle-0.5.0": ["agent-chronicle==0.5.0"],
    "chronicle": ["agent-chronicle", "agentplane-control-plane"],
    "langfuse": ["langfuse"],
    "logfire": ["logfire"],
    "mlflow": ["mlflow"],
    "openinference": ["openinference-instrumentation"],
    "traceloop": ["traceloop-sdk", "httpx"],
    "agent-timetravel": ["agent-timetravel", "opentelemetry-exporter-otlp-proto-common"],
    "vcrpy": ["vcrpy", "httpx"],
}


def python_of(name: str, wanted: list[str] | None = None) -> Path:
    """Return the interpreter of the peer's environment, made now where it is not there.

    Raises CalledProcessError where the registry lacks it.
    """
    packages = PEERS[name] if wanted is None else wanted
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    stamp = hashlib.sha256("\n".join([*packages, *ours, sys.version]).encode()).hexdigest()
    home = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two benches at once would take it from under each other
        if not (home / "stamp").exists() or (home / "stamp").read_text() != stamp:
            (home / "stamp").unlink(missing_ok=True)
            if not (home / "bin" / "python").exists():
                subprocess.run([sys.executable, "-m", "venv", home], check=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages, *ours], check=True)
            (home / "stamp").write_text(stamp)
    return home / "bin" / "python"


def run_inside(name: str, *words: str, wanted: list[str] | None = None, timeout_s: float = 900) -> str:
    """Run `python WORDS` in the peer's environment with this checkout on its path; return what it printed."""
    python = python_of(name, wanted)
    # A peer that would call home finds nobody there.
    environment = dict(os.environ, PYTHONPATH=str(ROOT), no_proxy="*", OTEL_SDK_DISABLED="false")
    done = subprocess.run(
        [str(python), *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
