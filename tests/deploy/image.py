"""Do what a Dockerfile does in a folder, as far as this machine can without building an image, and start what it made.

COPY brings only what the file names, RUN of the build stage runs as written, in the folder instead of the root. Then
ENTRYPOINT and CMD start from what the second stage copies, and the HEALTHCHECK must be content.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PORTS = {"4317": "24317", "4318": "24318"}
"""The image's ports are likely in use on a machine; these stand for them."""


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """(instruction, rest) of every step, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def moved(text: str, root: Path) -> str:
    """`text` with the image's folders below `root`, and its ports moved."""
    text = re.sub(r"(?<![\w.])/(app|data|src)\b", lambda found: f"{root}/{found[1]}", text)
    for port, other in PORTS.items():
        text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{other}").replace(f"127.0.0.1:{port}", f"127.0.0.1:{other}")
    return text


def build(steps: list[tuple[str, str]], root: Path) -> None:
    """Run the steps of the build stage below `root`."""
    work = root
    for name, rest in steps:
        if name == "WORKDIR":
            work = Path(moved(rest, root))
            work.mkdir(parents=True)
        elif name == "COPY":
            *sources, target = rest.split()
            place = work / target
            for source in sources:
                if Path(source).is_dir():
                    shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, place)
        elif name == "RUN":
            subprocess.run(["sh", "-ec", moved(rest, root)], cwd=work, check=True, env={**os.environ, "PIP_QUIET": "1"})


def main(dockerfile: Path) -> None:
    """Build and start. Raises where a step fails or the sink is never ready."""
    steps = instructions(dockerfile)
    second = [at for at, (name, _) in enumerate(steps) if name == "FROM"][1]
    image = {name: rest for name, rest in steps[second:] if name not in ("RUN", "FROM")}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build(steps[1:second], root)
        assert image["COPY"] == "--from=build /app /app"
        shutil.rmtree(root / "src")  # the second stage does not have it
        path, *others = re.findall(r"(\w+)=(\S+)", image["ENV"])
        environment = {**os.environ, **dict(others), "PATH": f"{root}/app/bin:{os.environ['PATH']}"}
        assert path == ("PATH", "/app/bin:$PATH")
        command = [moved(part, root) for part in json.loads(image["ENTRYPOINT"]) + json.loads(image["CMD"])]
        health = [moved(part, root) for part in json.loads(image["HEALTHCHECK"].partition("CMD ")[2])]
        program = root / "app" / "bin" / command[0]
        assert program.exists(), f"{command[0]} is not in the image"
        sink = subprocess.Popen([str(program), *command[1:]], env=environment, cwd=root)
        try:
            deadline = time.monotonic() + 60
            while subprocess.run(health, env=environment, stderr=subprocess.DEVNULL).returncode:
                assert sink.poll() is None, "the sink ended"
                assert time.monotonic() < deadline, "the sink did not become ready"
                time.sleep(0.2)
        finally:
            sink.terminate()
        assert sink.wait(60) == 0
        assert (root / "data" / "store").is_dir()
        size = sum(file.stat().st_size for file in (root / "app").rglob("*") if file.is_file())
        print(f"built, started, healthy, ended cleanly; /app has {size // 1_000_000} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
