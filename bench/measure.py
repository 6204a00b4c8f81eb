"""Measuring: variants take turns in one process, each round all of them, and the medians of the rounds are compared.

CPU time is that of the calling thread, unless a figure says that it is the process's. A figure is a ratio wherever
it can be: absolute times move with the load of the machine, ratios of one interleaved run hardly do.
"""

from __future__ import annotations

import json
import math
import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

LARGE = False
"""Also the sizes that take minutes: `python -m bench --large`."""
RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "opentelemetry-sdk",
    "protobuf",
    "orjson",
    "google-re2",
    "duckdb",
    "pyarrow",
    "agent-chronicle",
    "agent-timetravel",
    "vcrpy",
)


@dataclass(frozen=True, slots=True)
class Time:
    """Microseconds a call: the medians of the rounds."""

    cpu_us: float
    wall_us: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `goal` is the upper bound of `value`, with `at_least` the lower one; None: no goal."""

    name: str
    what: str
    value: float
    unit: str
    goal: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    at_least: bool = False

    @property
    def reached(self) -> str:
        if self.goal is None:
            return ""
        return "yes" if (self.value >= self.goal if self.at_least else self.value <= self.goal) else "no"


def interleaved(
    variants: Mapping[str, Callable[[], object]],
    *,
    calls: int,
    rounds: int = 11,
    clock: Callable[[], int] = time.thread_time_ns,
) -> dict[str, Time]:
    """Return the time a call of each variant. Each round runs `calls` of each, one variant after the other."""
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    wall: dict[str, list[float]] = {name: [] for name in variants}
    for call in variants.values():
        call()
    for _ in range(rounds):
        for name, call in variants.items():
            turns = range(calls)
            wall_start, cpu_start = time.perf_counter_ns(), clock()
            for _turn in turns:
                call()
            cpu_end, wall_end = clock(), time.perf_counter_ns()
            cpu[name].append((cpu_end - cpu_start) / calls / 1000)
            wall[name].append((wall_end - wall_start) / calls / 1000)
    return {name: Time(statistics.median(cpu[name]), statistics.median(wall[name])) for name in variants}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds within which the median of such values lies, 95 times in 100, by drawing them again."""
    rng = seeded()
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[-51]


def seeded() -> random.Random:
    """Return numbers that are the same on every measurement."""
    return random.Random(7)


def machine() -> dict[str, object]:
    """Return what a figure must name to mean anything: machine, load, commit and versions."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--short", "otel_replay") else ""),
        "versions": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    return done.stdout.strip()


def keep(group: str, figures: list[Figure]) -> Path:
    """Write the figures of one group, with the machine, to bench/results/; return the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{group}.json"
    found = [{**asdict(figure), "reached": figure.reached} for figure in figures]
    for figure in found:
        if math.isnan(figure["value"]):
            figure["value"] = None  # it could not be measured; the reason stands in its detail
    path.write_text(json.dumps({"machine": machine(), "figures": found}, indent=1, default=str) + "\n")
    return path


def kept(group: str) -> list[Figure]:
    """Return the figures of a group as they were kept last, or none."""
    path = RESULTS / f"{group}.json"
    found = json.loads(path.read_text())["figures"] if path.exists() else []
    for figure in found:
        del figure["reached"]
        figure["value"] = math.nan if figure["value"] is None else figure["value"]
    return [Figure(**figure) for figure in found]


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table."""
    rows = ["| # | what | measured | goal | reached |", "| --- | --- | --- | --- | --- |"]
    for figure in figures:
        measured = "" if math.isnan(figure.value) else f"{_short(figure.value)}{figure.unit}"
        sign = "at least " if figure.at_least else ""
        goal = "" if figure.goal is None else f"{sign}{_short(figure.goal)}{figure.unit}"
        rows.append(f"| {figure.name} | {figure.what} | {measured} | {goal} | {figure.reached} |")
    return "\n".join(rows)


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
