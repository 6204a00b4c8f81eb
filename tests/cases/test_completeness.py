"""What did not come through: each kind is named by `show`, refused by `replay`, and let in only where that is said.

A run is exported as OTLP JSON Lines, damaged as pipelines damage it, and read back from the file and from a store.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner

from otel_replay import boundary, codec, open_store, record, replay
from otel_replay.cli import cli
from otel_replay.envelope import Outcome, Payload
from otel_replay.errors import IncompleteRecording, ReplayError
from otel_replay.exporting import export_bytes, spans_of
from tests.replay import workers

from .conftest import Lab

Spans: TypeAlias = list[dict[str, Any]]
ENVELOPE = "otel_replay.envelope"


@boundary("look", kind="tool")
def look(number: int) -> str:
    return f"found {number}"


def agent() -> list[str]:
    return [look(number) for number in (1, 2, 3)]


def attribute(span: dict[str, Any], key: str) -> Any:
    return next((a["value"] for a in span["attributes"] if a["key"] == key), None)


def address_of(span: dict[str, Any]) -> str:
    value = attribute(span, "otel_replay.address")
    return str(value["stringValue"]) if value else ""


def the(spans: Spans, address: str) -> dict[str, Any]:
    return next(span for span in spans if address_of(span) == address)


def pieces(spans: Spans, address: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = attribute(the(spans, address), ENVELOPE)["arrayValue"]["values"]
    return found


# How pipelines damage spans -------------------------------------------------------------------------------------
def dropped(spans: Spans) -> None:
    spans.remove(the(spans, "look[2]"))


def dropped_at_the_end(spans: Spans) -> None:
    spans.remove(the(spans, "look[3]"))


def envelope_evicted(spans: Spans) -> None:
    span = the(spans, "look[2]")
    before = len(span["attributes"])
    span["attributes"] = [a for a in span["attributes"] if a["key"] != ENVELOPE]
    span["droppedAttributesCount"] = before - len(span["attributes"])


def all_evicted(spans: Spans) -> None:
    span = the(spans, "look[2]")
    span["droppedAttributesCount"] = len(span["attributes"])
    span["attributes"] = []


def truncated(spans: Spans) -> None:
    pieces(spans, "look[2]")[-1]["stringValue"] = pieces(spans, "look[2]")[-1]["stringValue"][:-9]


def shortened(spans: Spans) -> None:
    pieces(spans, "look[2]").pop()


def scrubbed(spans: Spans) -> None:
    pieces(spans, "look[2]")[0]["stringValue"] = "[Scrubbed due to 'session']"


def altered(spans: Spans) -> None:
    piece = pieces(spans, "look[2]")[0]
    piece["stringValue"] = piece["stringValue"].replace("found 2", "found 7")


def run_span_lost(spans: Spans) -> None:
    spans.remove(next(span for span in spans if not address_of(span)))


DAMAGE = [
    pytest.param(dropped, r"1 of 3 crossings are missing: 2", id="dropped"),
    pytest.param(dropped_at_the_end, r"1 of 3 crossings are missing: 3", id="dropped at the end"),
    pytest.param(all_evicted, r"1 of 3 crossings are missing: 2", id="all its attributes evicted"),
    pytest.param(envelope_evicted, r"look\[2\]: (missing|truncated)", id="its envelope evicted"),
    pytest.param(truncated, r"look\[2\]: truncated", id="truncated"),
    pytest.param(shortened, r"look\[2\]: (truncated|missing)", id="a piece lost"),
    pytest.param(scrubbed, r"look\[2\]: scrubbed", id="scrubbed"),
    pytest.param(altered, r"look\[2\]: scrubbed", id="altered"),
    pytest.param(
        run_span_lost, r"the run (never closed|was interrupted)|run's own span is not here", id="run span lost"
    ),
]


def damaged_file(lab: Lab, damage: Callable[[Spans], None]) -> Path:
    """Return the run as a file after `damage`, one span a line."""
    documents = [json.loads(line) for line in export_bytes(spans_of("run", store=lab.store), "otlp-json").splitlines()]
    spans: Spans = [document["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for document in documents]
    around = copy.deepcopy(documents[0])
    damage(spans)
    file = Path("damaged.otlp.jsonl")
    with file.open("w") as out:
        for span in spans:
            around["resourceSpans"][0]["scopeSpans"][0]["spans"] = [span]
            out.write(json.dumps(around) + "\n")
    return file


def shown(*words: str) -> str:
    done = CliRunner().invoke(cli, ["show", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(params=["file", "store"])
def place(request: pytest.FixtureRequest, lab: Lab) -> Callable[[Callable[[Spans], None]], tuple[str, str]]:
    """Return what puts a damaged run somewhere: (its name there, the store to look in)."""

    def put(damage: Callable[[Spans], None]) -> tuple[str, str]:
        file = damaged_file(lab, damage)
        if request.param == "file":
            return str(file), str(lab.store)
        other = f"other-{len(list(Path().iterdir()))}"
        done = CliRunner().invoke(cli, ["import", str(file), "--store", other], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        with open_store(other) as store:
            return store.runs(limit=1)[0].run_id, other

    return put


@pytest.mark.parametrize(("damage", "said"), DAMAGE)
def test_what_is_missing_is_named_refused_and_let_in(
    lab: Lab, place: Any, damage: Callable[[Spans], None], said: str
) -> None:
    lab.record(agent)
    name, store = place(damage)
    text = shown(name, "--store", store)
    assert ", INCOMPLETE, " in text
    with pytest.raises(IncompleteRecording, match=said) as caught:
        replay(name, store=store)
    assert "--allow-incomplete" in str(caught.value)
    said_by_show = [line.removeprefix("  ! ") for line in text.splitlines() if line.startswith("  ! ")]
    assert said_by_show
    assert all(reason in str(caught.value) for reason in said_by_show)
    session = replay(name, store=store, allow_incomplete=True)
    if damage is run_span_lost:
        with session:
            assert agent() == ["found 1", "found 2", "found 3"]
    else:  # what is there is served, what is not is refused by its name: nothing takes its place
        with pytest.raises(ReplayError, match=r"look\[[23]\]"), session:
            agent()
        assert session.report.counts()["served"] >= 1
    assert any("incomplete recording" in note for note in session.report.notes)


# What is whole all the same -------------------------------------------------------------------------------------
def unharmed(_spans: Spans) -> None:
    """Leave all as it was."""


def twice(spans: Spans) -> None:
    spans.insert(3, copy.deepcopy(the(spans, "look[2]")))


def twice_and_one_of_them_cut(spans: Spans) -> None:
    twice(spans)
    pieces(spans, "look[2]").pop()


def last_first(spans: Spans) -> None:
    spans.reverse()


@pytest.mark.parametrize("damage", [unharmed, twice, twice_and_one_of_them_cut, last_first])
def test_what_came_twice_or_in_another_order_is_whole(lab: Lab, place: Any, damage: Callable[[Spans], None]) -> None:
    lab.record(agent)
    name, store = place(damage)
    assert ", complete, " in shown(name, "--store", store)
    assert "3 crossings" in shown(name, "--store", store)
    with replay(name, store=store):
        agent()


# Two that differ, late ones, other processes ---------------------------------------------------------------------
def test_two_that_differ_are_named(lab: Lab, place: Any) -> None:
    lab.record(agent)
    second = next(envelope for envelope in lab.envelopes() if envelope.address == "look[2]")
    other = codec.to_span(dataclasses.replace(second, outcome=Outcome("returned", Payload(text='"found 7"'))))

    def contradicted(spans: Spans) -> None:
        document = json.loads(export_bytes([other], "otlp-json"))
        spans += document["resourceSpans"][0]["scopeSpans"][0]["spans"]

    name, store = place(contradicted)
    with pytest.raises(IncompleteRecording, match=r"look\[2\]|another digest"):
        replay(name, store=store)


def test_a_crossing_after_the_end_of_the_run_is_kept_and_said(lab: Lab, place: Any) -> None:
    go = threading.Event()

    def late() -> None:
        go.wait(5)
        look(9)

    with record("run", store=lab.store):
        agent()
        thread = threading.Thread(target=late)
        thread.start()
    go.set()
    thread.join()
    name, store = place(unharmed)
    assert "after the run's end" in shown(name, "--store", store)
    with pytest.raises(IncompleteRecording, match=r"look\[4\].*after the run's end"):
        replay(name, store=store)
    with replay(name, store=store, allow_incomplete=True):
        agent()
        thread = threading.Thread(target=look, args=(9,))
        thread.start()
        thread.join()


def one_of_a_lane_lost(spans: Spans) -> None:
    spans.remove(the(spans, "~1/search[1]"))


def end_of_a_lane_lost(spans: Spans) -> None:
    (lane,) = (span for span in spans if not address_of(span) and attribute(span, "otel_replay.run.lane"))
    spans.remove(lane)


def lane_lost(spans: Spans) -> None:
    one_of_a_lane_lost(spans)
    end_of_a_lane_lost(spans)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (one_of_a_lane_lost, r"lane ~1: crossings 1 are missing"),
        (end_of_a_lane_lost, r"lane ~1 never closed"),
        (lane_lost, r"lane ~1 never closed"),
    ],
)
def test_what_another_process_lost_is_named(
    lab: Lab, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Spans], None], said: str
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    with record("run", store=lab.store):
        look(1)
        assert workers.run_workers(["a"], "fork") == 0
    name, store = place(damage)
    assert re.search(said, shown(name, "--store", store))
    with pytest.raises(IncompleteRecording, match=said):
        replay(name, store=store)
