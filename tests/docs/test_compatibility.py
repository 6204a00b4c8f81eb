"""The compatibility table says what the kept results say, for every instrument, and its tests are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from otel_replay.instruments import KNOWN
from tests.frameworks import compat

KEPT = json.loads(compat.KEPT.read_text())


def test_the_readme_holds_the_table_of_the_kept_results() -> None:
    text = compat.README.read_text()
    assert compat.put_in(text, compat.rendered(KEPT)) == text
    assert text.count(compat.BEGIN) == text.count(compat.END) == 1


def test_each_cell_counts_tests_or_says_why_there_are_none() -> None:
    assert list(KEPT) == [row.label for row in compat.ROWS]
    for label, row in KEPT.items():
        assert row["instrument"] in KNOWN, label
        assert row["versions"], label
        assert tuple(row["cells"]) == compat.COLUMNS, label
        for cell in row["cells"].values():
            assert len(cell) > 20 if isinstance(cell, str) else cell > 0, label


@pytest.mark.parametrize("row", compat.ROWS, ids=lambda row: row.label)
def test_the_files_of_a_rows_tests_are_there(row: compat.Row) -> None:
    folders = (Path(__file__).parents[1] / name for name in ("instruments", "frameworks"))
    assert any(re.fullmatch(row.module, path.stem) for folder in folders for path in folder.glob("test_*.py"))
    assert set(row.cells) == set(compat.COLUMNS)


def test_a_failed_test_and_a_missing_one_make_no_table(tmp_path: Path) -> None:
    row = compat.ROWS[0]
    case = '<testsuite><testcase classname="tests.instruments.test_openai" name="test_x">{}</testcase></testsuite>'
    path = tmp_path / "clients.xml"
    path.write_text(case.format('<failure message="no"/>'))
    (tmp_path / "clients.txt").write_text("openai==3.0.0\n")
    with pytest.raises(ValueError, match="test_x failed"):
        compat.gathered(tmp_path)
    path.write_text(case.format(""))
    with pytest.raises(ValueError, match=f"{row.label}: no test of 'record, replay' ran"):
        compat.gathered(tmp_path)
