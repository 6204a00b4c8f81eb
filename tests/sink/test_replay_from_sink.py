"""A run recorded through OTLP into the sink replays as the one in the embedded store does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from otel_replay import open_store, replay
from otel_replay.sink import Sink

from .recorded import SIZES, agent, arrived, recorded


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_comes_through_the_sink_replays_as_what_was_embedded(
    start: Callable[..., Sink], tmp_path: Path, protocol: str
) -> None:
    behind = tmp_path / "behind"
    sink = start(span_sink="otel_replay.api:open_sink", span_sink_args=(str(behind),))
    address = sink.grpc_address if protocol == "grpc" else sink.http_address
    embedded = recorded(agent, tmp_path / "embedded", protocol, address)
    through = arrived(behind, embedded.run.run_id, len(SIZES))
    assert through.complete
    assert through.envelopes == embedded.envelopes
    reports = []
    for store in (behind, tmp_path / "embedded"):
        with replay("run", store=store) as session:
            session.answer(agent())
        reports.append(session.report.json())
    assert reports[0] == reports[1]
    with open_store(behind) as store_behind:
        names = store_behind.arrow("SELECT name FROM spans WHERE run_id IS NULL").column("name").to_pylist()
    assert names == ["request"], "the program's own spans arrive too"


def test_a_run_that_comes_by_two_roads_is_counted_once(start: Callable[..., Sink], tmp_path: Path) -> None:
    store = tmp_path / "store"
    sink = start(span_sink="otel_replay.api:open_sink", span_sink_args=(str(store),))
    embedded = recorded(agent, store, "grpc", sink.grpc_address)  # the journal is sealed into the very same store
    both = arrived(store, embedded.run.run_id, len(SIZES))
    assert both.envelopes == embedded.envelopes
    sink.stop()
    with open_store(store) as opened:
        assert opened.arrow("SELECT count(*) AS n FROM crossings").column("n").to_pylist() == [len(SIZES)]
        assert opened.arrow("SELECT crossings FROM runs").column("crossings").to_pylist() == [len(SIZES)]
