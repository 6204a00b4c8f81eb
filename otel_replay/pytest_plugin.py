"""Recordings as pytest tests.

    @pytest.mark.replay("trade-notional", live=["place_order,1"])
    def test_order_is_bounded(replay_session):
        run_agent()
        assert replay_session.captured_result("place_order", 1)["blocked"]

The mark takes what `replay` takes: a run or fixture, and `live`, `stub`, `changed`, `new`, `repeat` (lists),
`on_drift`, `hybrid`, `shuffle`, `override`, `plan`, `allow_incomplete`, `store`. A test that carries it runs inside
the replay, whether or not it asks for the fixture, and fails with the report where anything went apart. Nothing is
loaded until a test carries the mark.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from otel_replay.replaying import ReplaySession

_SESSION = pytest.StashKey[Any]()
_PLAN_WORDS = ("live", "stub", "changed", "new", "repeat", "on_drift", "hybrid", "shuffle", "override")
_OTHER_WORDS = ("plan", "allow_incomplete", "store", "run", "headers", "strict", "tracer_provider")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "replay(source, live=[], stub=[], changed=[], new=[], repeat=[], on_drift='fail', hybrid=False, shuffle=None, "
        "override={}, plan=None, allow_incomplete=False, store=None, strict=False): "
        "run the test inside a replay of a recorded run or fixture",
    )


def _open(item: pytest.Item) -> ReplaySession | None:
    mark = item.get_closest_marker("replay")
    if mark is None:
        return None
    if len(mark.args) != 1 or set(mark.kwargs) - {*_PLAN_WORDS, *_OTHER_WORDS}:
        unknown = sorted(set(mark.kwargs) - {*_PLAN_WORDS, *_OTHER_WORDS})
        pytest.fail(
            f"@pytest.mark.replay takes one source and {', '.join((*_PLAN_WORDS, *_OTHER_WORDS))}; "
            f"got {len(mark.args)} source(s){f' and unknown {unknown}' if unknown else ''}",
            pytrace=False,
        )
    from otel_replay.api import replay
    from otel_replay.auto import plan_of

    words = dict(mark.kwargs)
    options = {word: words.pop(word) for word in _PLAN_WORDS if word in words}
    words.pop("strict", None)
    plan = words.pop("plan", None)
    source = mark.args[0]
    beside = Path(item.path).parent / str(source)
    if isinstance(source, str) and "://" not in source and beside.is_file():
        source = beside  # a fixture file named relative to the test
    return replay(source, plan if plan is not None else plan_of(options), **words)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Open the replay around the test's own call; its fixtures stay outside."""
    session = item.stash.get(_SESSION, None) or _open(item)
    if session is None:
        return (yield)
    from otel_replay.errors import OtelReplayError

    item.stash[_SESSION] = session
    mark = item.get_closest_marker("replay")
    try:
        with session:
            result = yield
    except OtelReplayError as fault:
        item.add_report_section("call", "otel_replay", session.report.text())
        raise pytest.fail.Exception(f"{fault}\n\n{session.report.text()}", pytrace=False) from fault
    except BaseException:
        item.add_report_section("call", "otel_replay", session.report.text())
        raise
    if mark is not None and mark.kwargs.get("strict") and session.report.verdict == "passed on drift":
        pytest.fail(f"passed on drift, and the test is strict\n\n{session.report.text()}", pytrace=False)
    return result


@pytest.fixture
def replay_session(request: pytest.FixtureRequest) -> Any:
    """Return the session of the test's `@pytest.mark.replay`: `captured_result`, `captured_input`, `report`, ..."""
    session = _open(request.node)
    if session is None:
        pytest.fail("the fixture replay_session needs @pytest.mark.replay(...) on the test", pytrace=False)
    request.node.stash[_SESSION] = session
    return session
