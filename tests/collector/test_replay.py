"""A run behind the real Collector replays as the embedded one does; one exported by the real Jaeger, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.incidents import ALL
from otel_replay import replay
from otel_replay.sink import Sink
from otel_replay.testing import ModelServer
from tests.sink.conftest import config as sink_config
from tests.sink.recorded import SIZES, agent, arrived, provider, recorded

from .conftest import Collector
from .test_jaeger import jaeger, trace


@pytest.fixture
def behind(tmp_path: Path) -> Any:
    store = tmp_path / "behind"
    with Sink(sink_config(tmp_path, span_sink="otel_replay.api:open_sink", span_sink_args=(str(store),))) as sink:
        yield sink, store


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_envelopes_of_each_size_come_through_the_collector(
    collector: Callable[..., Collector], behind: Any, tmp_path: Path, protocol: str
) -> None:
    sink, store = behind
    started = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address)
    port = started.grpc_port if protocol == "grpc" else started.http_port
    embedded = recorded(agent, tmp_path / "embedded", protocol, f"127.0.0.1:{port}")
    through = arrived(store, embedded.run.run_id, len(SIZES))
    assert through.complete
    assert through.envelopes == embedded.envelopes


@pytest.mark.parametrize("incident", ALL, ids=[incident.NAME for incident in ALL])
def test_each_incident_replays_from_behind_the_collector(
    collector: Callable[..., Collector], behind: Any, tmp_path: Path, incident: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, store = behind
    monkeypatch.chdir(tmp_path)
    started = collector("forward-everything.yaml", SINK_ENDPOINT=sink.grpc_address)
    incident.prepare(tmp_path)
    with ModelServer(incident.model) as server:
        url = server.url
        embedded = recorded(
            lambda: incident.run_agent(url, incident.unguarded),
            tmp_path / "embedded",
            "grpc",
            f"127.0.0.1:{started.grpc_port}",
        )
    through = arrived(store, embedded.run.run_id, len(embedded.envelopes))
    assert through.envelopes == embedded.envelopes
    reports = []
    for source in (store, tmp_path / "embedded"):
        with replay("run", store=source) as session:
            session.answer(incident.run_agent(url, incident.unguarded))
        reports.append(session.report.json())
    assert reports[0] == reports[1]


@pytest.mark.parametrize("storage", ["memory", "badger"])
def test_what_jaeger_exports_replays_and_the_replay_stands_beside_it(tmp_path: Path, storage: str) -> None:
    with jaeger(tmp_path, storage) as (port, address):
        embedded = recorded(agent, tmp_path / "embedded", "grpc", f"127.0.0.1:{port}")
        trace_id = embedded.run.trace_id
        assert trace(address, trace_id, len(SIZES) + 2)
        for source in (f"{address}/api/traces/{trace_id}", f"{address}/api/v3/traces/{trace_id}?raw_traces=true"):
            with provider("grpc", f"127.0.0.1:{port}") as made, made.get_tracer("test").start_as_current_span("again"):
                with replay(source, tracer_provider=made) as session:
                    session.answer(agent())
                beside = session._recorder.run.trace_id  # to look it up in Jaeger
            assert session.recording.envelopes == embedded.envelopes
            assert session.report.count("served") == len(SIZES)
            spans = trace(address, beside, len(SIZES) + 2)
            modes = [span.get("otel_replay.mode") for span in spans if span.get("otel_replay.address")]
            assert modes == ["stub"] * len(SIZES)
            linked = {link.trace_id for span in spans for link in span.links}
            assert linked == {trace_id}
