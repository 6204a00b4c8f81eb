"""What the benches say of what they measured: figures kept and read back, the table, the plots. Nothing is timed."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import __main__ as command
from bench import drawing, measure
from bench.measure import Figure

FIGURES = [
    Figure("R1", "a crossing", 0.7, "x", 0.75, {"cpu_us": 16.0}),
    Figure("S3", "spans a second", 120_000.0, " spans/s", 150_000, at_least=True),
    Figure("R6", "lost", 0, "", 0),
    Figure("peers", "someone 1.0, memory", 2.0, "x"),
]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_figures_are_read_back_as_they_were_kept(results: Path) -> None:
    measure.keep("some", FIGURES)
    assert measure.kept("some") == FIGURES
    assert measure.kept("never measured") == []


def test_what_could_not_be_measured_is_kept_without_a_number(results: Path) -> None:
    path = measure.keep("some", [Figure("peers", "gone: not measured", math.nan, "", detail={"reason": "no wheel"})])
    assert '"value": null' in path.read_text()
    (found,) = measure.kept("some")
    assert math.isnan(found.value)
    assert found.detail == {"reason": "no wheel"}
    assert "| gone: not measured |  |  |  |" in measure.table([found])


def test_the_table_says_which_goals_are_reached() -> None:
    assert measure.table(FIGURES).splitlines()[2:] == [
        "| R1 | a crossing | 0.7x | 0.75x | yes |",
        "| S3 | spans a second | 120,000 spans/s | at least 150,000 spans/s | no |",
        "| R6 | lost | 0 | 0 | yes |",
        "| peers | someone 1.0, memory | 2x |  |  |",
    ]


def test_the_interval_of_a_shift_leaves_out_zero() -> None:
    noise = [float(n % 7) - 3 for n in range(70)]
    low, high = measure.interval(noise)
    assert low <= 0 <= high
    low, high = measure.interval([value + 10 for value in noise])
    assert 0 < low <= 10 <= high


def test_bars_begin_at_the_line_and_grow_with_the_value() -> None:
    svg = drawing.bars(
        [("twice", 2.0, "2x", "red"), ("a hundred", 100.0, "100x", "red"), ("half", 0.5, "", "red")], "t", 1
    )
    bars = [shape for shape in ElementTree.fromstring(svg).iter(f"{SVG}rect") if shape.get("fill") == "red"]
    twice, hundred, half = [(float(bar.get("x", "")), float(bar.get("width", ""))) for bar in bars]
    assert twice[0] == hundred[0] == pytest.approx(half[0] + half[1], abs=0.2)
    assert hundred[1] == pytest.approx(twice[1] * math.log(100) / math.log(2), rel=0.01)


def test_lines_show_each_curve_with_its_points() -> None:
    svg = drawing.lines({"cpu <all>": {"1": 5.0, "100": 50.0}, "wall": {"1": 9.0, "100": 9.0}}, "cost", "threads", "us")
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    assert len(list(root.iter(f"{SVG}circle"))) == 4
    assert {"cpu <all>", "wall", "threads"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_the_readme_names_every_group_and_takes_the_table(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = command.README.read_text()
    for group in command.GROUPS:
        assert f"| {group}" in page or f", {group} |" in page, f"bench/README.md does not say what {group} measures"
        assert callable(import_module(f"bench.figures.{group}").measured)
    monkeypatch.setattr(command, "README", tmp_path / "README.md")
    monkeypatch.setattr(drawing, "PLOTS", tmp_path / "plots")
    monkeypatch.setattr(drawing, "RESULTS", results)
    command.README.write_text(page)
    measure.keep("recording", FIGURES)
    command.write_down()
    found = command.README.read_text()
    assert "| R1 | a crossing | 0.7x | 0.75x | yes |" in found
    assert found.partition(command.BEGIN)[0] == page.partition(command.BEGIN)[0]
    assert found.partition(command.END)[2] == page.partition(command.END)[2]
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"goals.svg", "peers-memory.svg"}
