"""A recording and a replay are each good for one run: begun again, they say so and leave the run that stands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_replay import boundary, record, replay
from otel_replay.errors import UsageError
from otel_replay.session import active_sessions


@boundary("double", kind="tool")
def double(number: int) -> int:
    return number * 2


@pytest.mark.parametrize("nested", [False, True], ids=["after", "inside"])
def test_a_recording_is_begun_once(nested: bool, tmp_path: Path) -> None:
    run = record("twice", store=tmp_path)
    with run:
        assert double(2) == 4
        if nested:
            with pytest.raises(UsageError, match="begun before"):
                run.__enter__()
            assert double(3) == 6
    if not nested:
        with pytest.raises(UsageError, match="begun before"), run:
            pass
    assert not active_sessions()
    with replay("twice", store=tmp_path) as session:
        assert double(2) == 4
        if nested:
            assert double(3) == 6
    assert session.report.verdict == "passed"


@pytest.mark.parametrize("nested", [False, True], ids=["after", "inside"])
def test_a_replay_is_begun_once(nested: bool, tmp_path: Path) -> None:
    with record("twice", store=tmp_path):
        assert double(2) == 4
    session = replay("twice", store=tmp_path)
    with session:
        if nested:
            with pytest.raises(UsageError, match="begun before"):
                session.__enter__()
        assert double(2) == 4
    if not nested:
        with pytest.raises(UsageError, match="begun before"), session:
            pass
    assert not active_sessions()
    assert session.report.verdict == "passed"
