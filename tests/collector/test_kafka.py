"""Agents -> Collector -> a real Kafka -> Collector -> sink: whole, once, through the death of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otel_replay import record, replay
from tests.sink.processes import running
from tests.sink.recorded import SIZES, agent, arrived, provider, recorded
from tests.sink.test_trouble import agent as many_calls
from tests.sink.test_trouble import is_whole_and_once

from .broker import Broker
from .conftest import Collector


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as started:
        yield started


def _into(store: Path) -> tuple[str, str]:
    return 'span_sink="otel_replay.api:open_sink"', f'span_sink_args=["{store}"]'


def test_envelopes_of_each_size_come_through_kafka(
    collector: Callable[..., Collector], broker: Broker, tmp_path: Path
) -> None:
    store = tmp_path / "behind"
    with running(tmp_path, *_into(store)) as sink:
        collector("kafka-consumer.yaml", KAFKA_BROKER=broker.address, SINK_ENDPOINT=sink.grpc_address)
        producer = collector("kafka-producer.yaml", KAFKA_BROKER=broker.address)
        embedded = recorded(agent, tmp_path / "embedded", "grpc", f"127.0.0.1:{producer.grpc_port}")
        through = arrived(store, embedded.run.run_id, len(SIZES))
    assert through.complete
    assert through.envelopes == embedded.envelopes
    with replay(embedded.run.run_id, store=store) as session:
        session.answer(agent())
    assert session.report.count("served") == len(SIZES)


@pytest.mark.parametrize("dies", ["broker", "producer", "consumer", "sink"])
def test_each_part_is_killed_while_an_agent_records(
    collector: Callable[..., Collector], broker: Broker, tmp_path: Path, dies: str
) -> None:
    store = tmp_path / "behind"
    with running(tmp_path, *_into(store)) as sink:
        to_sink = {"KAFKA_BROKER": broker.address, "SINK_ENDPOINT": sink.grpc_address}
        consumer = collector("kafka-consumer.yaml", **to_sink)
        producer = collector("kafka-producer.yaml", KAFKA_BROKER=broker.address)
        address = f"127.0.0.1:{producer.grpc_port}"
        with provider("grpc", address) as made, record("run", store=tmp_path / "own", tracer_provider=made) as run:
            answer = many_calls(0.02)
            made.force_flush()  # acknowledged by the first Collector: on its disk, in the topic or further
            if dies == "broker":
                broker.kill()
                run.answer(answer)
            elif dies == "producer":
                producer.kill()
                collector("kafka-producer.yaml", KAFKA_BROKER=broker.address, OTLP_GRPC_ADDRESS=address)
                run.answer(answer)
            elif dies == "consumer":
                consumer.kill()
                run.answer(answer)
            else:
                sink.kill(group=True)
                run.answer(answer)
        if dies == "broker":
            broker.start()
        elif dies == "consumer":
            collector("kafka-consumer.yaml", **to_sink)
        if dies == "sink":
            with running(tmp_path, *_into(store), f'grpc_address="{sink.grpc_address}"'):
                is_whole_and_once(store, run.id)
        else:
            is_whole_and_once(store, run.id)
