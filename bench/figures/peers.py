"""What others pay to record one crossing, 1 KB in and 1 KB out: each in its own environment, in turns with us.

Whatever could not be had or run is a line of its own, with the reason.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from typing import Any

from bench.measure import Figure
from bench.peers.environments import PEERS, run_inside


def measured() -> list[Figure]:
    figures: list[Figure] = []
    ours: dict[str, list[float]] = {"memory": [], "disk": []}
    for name in PEERS:
        try:
            found = json.loads(run_inside(name, "-m", "bench.peers.inside", name).strip().splitlines()[-1])
        except (RuntimeError, subprocess.SubprocessError, ValueError) as fault:
            figures.append(
                Figure("peers", f"{name}: not measured", float("nan"), "", detail={"reason": str(fault)[:300]})
            )
            continue
        figures += _figures(name, found, ours)
    if ours["memory"]:
        for kind, ratios in ours.items():
            what = f"otel_replay, {kind}: median of the runs beside each peer"
            figures.insert(0, Figure("peers", what, statistics.median(ratios), "x", detail={"beside_each": ratios}))
    return figures


def _figures(name: str, found: dict[str, Any], ours: dict[str, list[float]]) -> list[Figure]:
    times, versions = found["times"], found["versions"]
    base = times["base"]["cpu_us"]
    start = times["plain"]["cpu_us"] if "plain" in times else 0.0  # of an HTTP exchange, what recording adds to it
    ratios = {way: (time["cpu_us"] - start) / base for way, time in times.items() if way not in ("base", "plain")}
    figures = []
    version = next(iter(versions.values()))
    for way, ratio in ratios.items():
        who, _, kind = way.partition(", ")
        if who == "ours":
            if not start:
                ours[kind].append(ratio)
            continue
        detail = {"versions": versions, "base_us": base, **times[way]}
        if f"ours, {kind.partition(',')[0]}" in times:
            detail["ours_in_the_same_run"] = ratios[f"ours, {kind.partition(',')[0]}"]
        what = f"{name.partition('-0.')[0]} {version}, {kind}{', what it adds to an HTTP exchange' if start else ''}"
        figures.append(Figure("peers", what, ratio, "x", detail=detail))
    return figures
