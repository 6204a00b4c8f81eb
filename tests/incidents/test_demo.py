"""The demo tells the truth, or says that it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import demo
from bench.incidents import trade

ROOT = Path(__file__).parents[2]


def test_demo_goes_as_told_and_is_quick() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "bench.demo"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 0
    for told in (
        'The agent answers: "Bought 5000 ACME for 912,500.00 dollars." The model was asked 2 times.',
        "place_order[1]",
        "the model was asked 0 times",
        "AssertionError: spent 912,500.00 dollars where 5,000 were asked for",
        "replay of trade-notional: FAILED",
        "No damage.",
        "What next",
    ):
        assert told in " ".join(done.stdout.split()), told


@pytest.mark.parametrize(
    ("part", "instead", "says"),
    [("unguarded", trade.guarded, "the agent answered"), ("guarded", trade.unguarded, "spent 912,500.00")],
)
def test_demo_fails_when_something_goes_otherwise(
    part: str,
    instead: object,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(trade, part, instead)
    assert demo.main() == 1
    assert says in capsys.readouterr().err
