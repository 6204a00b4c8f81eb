"""A request of which nothing could be kept is never answered from the record: it may have been another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, record, replay
from otel_replay.errors import Unservable
from otel_replay.limits import PAYLOAD_BYTES_MAX

LIVE: list[int] = []


@boundary("measure", kind="tool")
def measure(text: str) -> int:
    LIVE.append(len(text))
    return len(text)


def agent(letter: str) -> Any:
    return measure(letter * (PAYLOAD_BYTES_MAX + 1))


def test_it_is_refused_by_name_even_where_both_were_lost_for_the_same_reason(tmp_path: Path) -> None:
    with record("big", store=tmp_path):
        agent("a")
    LIVE.clear()
    with pytest.raises(
        Unservable, match=r"measure\[1\] cannot be served: nothing of its request could be kept"
    ) as caught:
        with replay("big", store=tmp_path):
            agent("b")
    assert "larger than 64 MB" in str(caught.value)
    assert LIVE == []


def test_it_runs_live_where_the_plan_says_so(tmp_path: Path) -> None:
    with record("big", store=tmp_path):
        agent("a")
    with replay("big", ReplayPlan().live("measure", 1), store=tmp_path) as session:
        assert agent("a") == PAYLOAD_BYTES_MAX + 1
    assert session.report.verdict == "passed", session.report.text()
