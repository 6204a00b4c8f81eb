"""The plots under bench/plots/: `python -m bench.drawing` draws them from bench/results/. Plain SVG, no library."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.measure import RESULTS

PLOTS = Path(__file__).parent / "plots"
_INK, _GRID, _GOOD, _BAD, _OURS = "#1f2933", "#d5dbe1", "#2f8f5b", "#d9822b", "#2563ad"
_COLOURS = ("#2563ad", "#d9822b", "#2f8f5b", "#8a4baf")
_ROW, _LEFT, _BARS, _RIGHT = 24, 500, 380, 190


def main() -> None:
    PLOTS.mkdir(exist_ok=True)
    figures = [figure for path in sorted(RESULTS.glob("*.json")) for figure in json.loads(path.read_text())["figures"]]
    with_goals = [figure for figure in figures if figure["goal"] is not None and figure["value"] is not None]
    if with_goals:
        write("goals", bars(sorted(map(_against_goal, with_goals)), "measured over goal (left of 1: reached)", 1.0))
    for kind in ("memory", "disk"):
        rows = [_peer(figure) for figure in figures if figure["name"] == "peers" and _is(figure, kind)]
        if rows:
            title = f"recording one crossing, {kind}: caller's CPU over a bare OpenTelemetry span"
            write(f"peers-{kind}", bars(sorted(rows, key=lambda row: row[1]), title, 1.0))
    for number, figure in enumerate((f for f in figures if f["name"] == "growth"), 1):
        detail = figure["detail"]
        title = figure["what"].removesuffix(": last over first")
        write(f"growth-{number}", lines(detail["curves"], title, detail["by"], detail["unit"]))


def write(name: str, svg: str) -> None:
    (PLOTS / f"{name}.svg").write_text(svg)


Row = tuple[str, float, str, str]
"""(label, value, text behind the bar, colour)"""


def _against_goal(figure: Mapping[str, Any]) -> Row:
    value, goal = figure["value"], figure["goal"]
    factor = goal / value if figure.get("at_least") else value / goal if goal else (1.0 if value <= goal else 10.0)
    text = f"{_short(value)}{figure['unit']}, goal {_short(goal)}{figure['unit']}"
    return f"{figure['name']}  {figure['what']}", factor, text, _GOOD if figure["reached"] == "yes" else _BAD


def _is(figure: Mapping[str, Any], kind: str) -> bool:
    return f", {kind}" in figure["what"] and figure["value"] is not None


def _peer(figure: Mapping[str, Any]) -> Row:
    ours = figure["what"].startswith("otel_replay")
    label = figure["what"].partition(": ")[0]
    return label, figure["value"], f"{_short(figure['value'])}x", _OURS if ours else "#8792a0"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def bars(rows: Sequence[Row], title: str, line: float) -> str:
    """Return horizontal bars on a logarithmic axis that holds `line`, from which each bar starts."""
    low = 10 ** math.floor(math.log10(min(line / 2, *(max(value, 1e-3) for _, value, _, _ in rows))))
    high = 10 ** math.ceil(math.log10(max(line * 2, *(value for _, value, _, _ in rows))))

    def x(value: float) -> float:
        return _LEFT + _BARS * (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))

    height = 60 + _ROW * len(rows)
    parts = [_text(_LEFT, 18, title, weight="bold")]
    for mark in _decades(low, high):
        colour = _INK if mark == line else _GRID
        parts.append(_line(x(mark), 28, x(mark), height - 22, colour))
        parts.append(_text(x(mark), height - 6, f"{mark:g}", anchor="middle"))
    for at, (label, value, text, colour) in enumerate(rows):
        top = 34 + at * _ROW
        start, end = sorted((x(line), x(value)))
        parts.append(_text(_LEFT - 8, top + 13, label, anchor="end"))
        parts.append(
            f'<rect x="{start:.1f}" y="{top}" width="{max(end - start, 1.5):.1f}" height="16" fill="{colour}"/>'
        )
        parts.append(_text(max(end, x(line)) + 6, top + 13, text))
    return _svg(_LEFT + _BARS + _RIGHT, height, parts)


def lines(curves: Mapping[str, Mapping[str, float]], title: str, by: str, unit: str) -> str:
    """Return lines on two logarithmic axes."""
    width, height, left, top, bottom = 560, 340, 70, 50, 50
    xs = [float(x) for curve in curves.values() for x in curve]
    ys = [y for curve in curves.values() for y in curve.values()]
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys) * 1.0001))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - math.log10(min(xs))) / (math.log10(max(xs)) - math.log10(min(xs)))
        up = (math.log10(y) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return left + across * (width - left - 30), height - bottom - up * (height - top - bottom)

    parts = [_text(left, 20, title, weight="bold"), _text(width / 2, height - 8, by, anchor="middle")]
    for mark in _decades(low, high):
        y = place(min(xs), mark)[1]
        parts += [_line(left, y, width - 30, y, _GRID), _text(left - 6, y + 4, f"{mark:g} {unit}", anchor="end")]
    for x in sorted(set(xs)):
        parts.append(_text(place(x, low)[0], height - bottom + 16, f"{x:,.10g}", anchor="middle"))
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [place(float(x), y) for x, y in curve.items()]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), value in zip(points, curve.values(), strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(_text(x, y - 7, _short(value), anchor="middle", colour=colour))
        parts.append(_text(left + 150 * number, 38, name, colour=colour))
    return _svg(width, height, parts)


def _decades(low: float, high: float) -> Iterable[float]:
    return (10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1))


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = _INK) -> str:
    how = f'text-anchor="{anchor}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    ground = f'<rect width="{width}" height="{height}" fill="white"/>'
    return f'{head} font-family="sans-serif" font-size="12">\n' + "\n".join([ground, *parts]) + "\n</svg>\n"


if __name__ == "__main__":
    main()
