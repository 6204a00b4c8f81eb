"""The main job: seven incidents, replayed from their committed recordings with the real client."""

from __future__ import annotations

import contextlib
import json
import socket
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from bench.incidents import ALL, cleanup, payout, trade, trip
from bench.incidents._common import client, fixture, opening
from bench.incidents.record import record_into
from otel_replay import ReplayPlan, replay
from otel_replay.errors import Diverged, IncompleteRecording
from otel_replay.exporting import export_bytes, spans_of
from otel_replay.testing import ModelServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.incidents._common import Incident, Tool
    from otel_replay import ReplaySession

EACH = pytest.mark.parametrize("incident", ALL, ids=[incident.NAME for incident in ALL])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextlib.contextmanager
def cut_point(incident: Incident, tool: Tool, plan: ReplayPlan, url: str, source: Path) -> Iterator[ReplaySession]:
    """Replay the incident with `tool` in the place of the one that did the damage."""
    with replay(source, plan) as session:
        incident.run_agent(url, tool)
        yield session


def verdict(incident: Incident, tool: Tool, plan: ReplayPlan, source: Path | None = None) -> str:
    """Return "" where the cut-point is safe, else what its assertion says.

    Live model calls reach a played model whose ids and times are other ones than on the day, as a real one's would be.
    """
    incident.prepare(Path.cwd())
    with ModelServer(incident.model, salt="another day") as server:
        try:
            with cut_point(incident, tool, plan, server.url, source or fixture(incident.NAME)) as session:
                incident.assert_safe(session)
        except AssertionError as failed:
            return str(failed)
    return ""


# Full replay ---------------------------------------------------------------------------------------------


@EACH
def test_full_replay_is_the_same_twenty_times_and_reaches_no_model(incident: Incident) -> None:
    server = ModelServer(incident.model)
    server.close()
    reports = set()
    for _ in range(20):
        with replay(fixture(incident.NAME)) as session:
            session.answer(incident.run_agent(server.url, incident.unguarded))
        reports.add(tuple(session.report.forms().items()))
    assert len(reports) == 1
    assert server.count == 0
    assert session.report.verdict == "passed"
    assert session.report.counts() == {"served": session.report.recorded}


@EACH
def test_full_replay_asks_nothing_of_a_model_that_is_there(incident: Incident) -> None:
    with ModelServer(incident.model) as server:
        with replay(fixture(incident.NAME)):
            incident.run_agent(server.url, incident.unguarded)
        assert server.count == 0


@EACH
def test_full_replay_serves_the_tool_instead_of_running_it(incident: Incident) -> None:
    """The fixed tool in a full replay does what was recorded, so nothing is proved and nothing is done."""
    with replay(fixture(incident.NAME)) as session:
        incident.run_agent("http://127.0.0.1:9/v1", incident.guarded)
        with pytest.raises(AssertionError):
            incident.assert_safe(session)


# Cut-points ----------------------------------------------------------------------------------------------


@EACH
def test_cut_point_fails_on_the_tool_as_it_was(incident: Incident) -> None:
    said = verdict(incident, incident.unguarded, incident.plan())
    assert said
    assert said.split()[0] in ("spent", "refunded", "billed", "wrote", "the", "deleted", "booked")


@EACH
@pytest.mark.parametrize("variant", ["guarded", "benign"])
def test_cut_point_passes_on_the_fix(incident: Incident, variant: str) -> None:
    assert verdict(incident, getattr(incident, variant), incident.plan()) == ""


@EACH
def test_cut_point_passes_on_a_fix_that_adds_a_boundary(incident: Incident) -> None:
    plan = incident.plan().new(incident.CHECK)
    assert verdict(incident, incident.guarded_with_check, plan) == ""


@EACH
def test_an_added_boundary_that_the_plan_does_not_name_is_a_divergence(incident: Incident) -> None:
    with pytest.raises(Diverged, match=incident.CHECK):
        verdict(incident, incident.guarded_with_check, incident.plan())


@EACH
def test_the_fix_and_its_rewritten_form_do_the_same(incident: Incident, tmp_path: Path) -> None:
    def outcomes(variant: str) -> list[Any]:
        found = []
        for number, arguments in enumerate((incident.WRONG, incident.RIGHT)):
            folder = tmp_path / f"{variant}-{number}"
            folder.mkdir()
            with contextlib.chdir(folder):
                incident.prepare(folder)
                found.append(getattr(incident, variant)(**arguments))
        return found

    fixed = outcomes("guarded")
    assert outcomes("benign") == fixed
    as_it_was = outcomes("unguarded")
    assert as_it_was[0] != fixed[0]
    assert as_it_was[1] == fixed[1]


# The recording decides -----------------------------------------------------------------------------------


@EACH
def test_another_recording_changes_the_verdict(incident: Incident, tmp_path: Path) -> None:
    """The tool's arguments come from the model's recorded answer: a right answer makes the unguarded tool safe."""
    good_day = with_arguments(incident, incident.RIGHT)
    record_into(tmp_path / "store", good_day)
    again = tmp_path / "again"
    again.mkdir()
    with contextlib.chdir(again), ModelServer(good_day.model) as server:
        incident.prepare(again)
        with replay(incident.NAME, incident.plan(), store=tmp_path / "store") as session:
            incident.run_agent(server.url, incident.unguarded)
            incident.assert_safe(session)


def with_arguments(incident: Incident, arguments: Any) -> Any:
    """Return the incident with a model that gives the tool `arguments`."""
    return SimpleNamespace(**{**vars(incident), "model": partial(incident.model, arguments=arguments)})


def test_an_overridden_answer_of_the_model_changes_the_verdict() -> None:
    with ModelServer(partial(trade.model, arguments=trade.RIGHT)) as server:
        messages = opening(trade.ROLE, trade.TASK)
        right = client(server.url).chat.completions.create(model="demo-1", messages=messages)
    plan = trade.plan().override("agent", 1, right)
    assert verdict(trade, trade.unguarded, plan) == ""
    assert verdict(trade, trade.unguarded, trade.plan()) == "spent 912,500.00 dollars where 5,000 were asked for"


# What single incidents show ------------------------------------------------------------------------------


def test_a_guard_that_ends_the_run_early_leaves_the_rest_not_reached() -> None:
    with (
        ModelServer(payout.model) as server,
        cut_point(payout, payout.guarded, payout.plan(), server.url, fixture(payout.NAME)) as session,
    ):
        payout.assert_safe(session)
    assert session.report.verdict == "passed"
    not_reached = [line.address for line in session.report.lines if line.section == "not reached"]
    assert not_reached == ["pay[1]", "agent[4]"]
    assert server.count == 1


def test_new_ids_of_the_live_model_are_no_drift() -> None:
    """After the live model call the conversation holds its new tool-call id; the rest is served all the same."""
    with ModelServer(payout.model, salt="another day") as server:
        with replay(fixture(payout.NAME), payout.plan()) as session:
            answer = payout.run_agent(server.url, payout.unguarded)
        assert server.count == 1
    assert answer == "Nordic Paper has its 9,400 euros."
    assert session.report.counts() == {"served": 5, "live": 2}


def test_the_production_file_is_gone_or_still_there() -> None:
    for tool, is_there in ((cleanup.unguarded, False), (cleanup.guarded, True)):
        Path(tool.__name__).mkdir()
        with contextlib.chdir(tool.__name__):
            verdict(cleanup, tool, cleanup.plan())
            assert Path(cleanup.WRONG["path"]).exists() == is_there


def test_a_recorded_exception_is_raised_again_in_full_replay() -> None:
    with replay(fixture(cleanup.NAME)) as session:
        cleanup.run_agent("http://127.0.0.1:9/v1", cleanup.unguarded)
        with pytest.raises(PermissionError) as raised:
            session.captured_result("disk_usage", 1)
    assert (raised.value.errno, raised.value.filename) == (13, "/")


def test_retries_and_sub_agents_come_back_in_their_places() -> None:
    with replay(fixture(trip.NAME)) as session:
        trip.run_agent("http://127.0.0.1:9/v1", trip.unguarded)
        assert session.captured_result("route", 1) == ["flights", "hotels"]
        for occurrence in (1, 2):
            with pytest.raises(trip.SeatTaken, match=f"try {occurrence}"):
                session.captured_result("hold_seat", occurrence)
        assert session.captured_result("hold_seat", 3) == "AY 12 held"
    names = [call.address.partition("[")[0] for call in session.call_log]
    assert names.count("agent") == 4
    assert names.count("search") == 2


def test_the_trip_recorded_with_the_second_sub_agent_faster_replays_thirty_times(tmp_path: Path) -> None:
    answer = record_into(tmp_path / "store", trip)
    reports = set()
    for _ in range(30):
        with replay(trip.NAME, store=tmp_path / "store") as session:
            assert trip.run_agent("http://127.0.0.1:9/v1", trip.unguarded) == answer
        reports.add(session.report.json())
    assert len(reports) == 1


# The fixtures --------------------------------------------------------------------------------------------


@EACH
def test_fixture_is_otlp_as_the_collector_writes_it_and_names_no_machine(incident: Incident) -> None:
    text = fixture(incident.NAME).read_text()
    spans = 0
    for line in text.splitlines():
        data = json_format.Parse(line, TracesData())
        spans += sum(len(scoped.spans) for resource in data.resource_spans for scoped in resource.scope_spans)
        assert set(json.loads(line)) == {"resourceSpans"}
    with replay(fixture(incident.NAME)) as session:
        incident.run_agent("http://127.0.0.1:9/v1", incident.unguarded)
    assert spans == session.report.recorded + 1
    assert socket.gethostname() not in text
    assert str(Path(__file__).parents[2]) not in text


@EACH
def test_fixture_read_and_exported_again_is_the_same_file(incident: Incident) -> None:
    path = fixture(incident.NAME)
    assert export_bytes(spans_of(str(path)), "otlp-json") == path.read_bytes()


def test_fixture_that_was_changed_by_hand_is_not_served(tmp_path: Path) -> None:
    changed = tmp_path / "changed.otlp.jsonl"
    changed.write_text(fixture(trade.NAME).read_text().replace("5000", "5001"))
    with pytest.raises(IncompleteRecording, match="digest does not match"):
        replay(changed)
