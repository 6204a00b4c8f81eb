"""Acknowledged means durable: killed, stopped, full and broken sinks lose nothing that they acknowledged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from otel_replay.sink import Sink
from otel_replay.sink.segment import MAGIC, TRACES, Damage, frame, read_segment
from otel_replay.wire.protobuf import request_from_spans

from .conftest import BODY, PROTOBUF, a_span, request
from .file_sink import kept, wait_for
from .processes import running


def test_sigterm_drains_and_exits_cleanly(tmp_path: Path) -> None:
    with running(tmp_path, "seal_seconds=60") as sink:
        for n in range(5):
            assert request(sink.http_address, request_from_spans([a_span(n)]), Content_Type=PROTOBUF).status == 200
        assert kept(tmp_path / "out") == []
        assert sink.end() == 0
    assert kept(tmp_path / "out") == [a_span(n) for n in range(5)]
    assert list((tmp_path / "wal").iterdir()) == []


def test_requests_during_the_drain_are_told_to_come_back(start: Callable[..., Sink]) -> None:
    sink = start()
    sink._intake.stopping = True
    answer = request(sink.http_address, BODY, Content_Type=PROTOBUF)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert request(sink.http_address, None, "/readyz", "GET").status == 503
    assert request(sink.http_address, None, "/healthz", "GET").status == 200


def test_two_sinks_on_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    with running(tmp_path, "seal_seconds=60") as one, running(tmp_path, "seal_seconds=60") as two:
        for n in range(6):
            address = (one if n % 2 else two).http_address
            assert request(address, request_from_spans([a_span(n)]), Content_Type=PROTOBUF).status == 200
        one.kill(group=True)
        found = wait_for(3, tmp_path / "out")  # the living one adopts what the dead one had accepted
        assert sorted(cast(int, span.get("n")) for span in found) == [1, 3, 5]
        assert two.end() == 0
    assert Counter(span.get("n") for span in kept(tmp_path / "out")) == Counter(range(6))


def test_a_store_that_is_down_holds_up_nothing_and_loses_nothing(start: Callable[..., Sink], tmp_path: Path) -> None:
    sink = start(wal_bytes_max=3_000)
    (tmp_path / "out" / "down").parent.mkdir()
    (tmp_path / "out" / "down").touch()
    accepted = []
    for n in range(40):
        answer = request(sink.http_address, request_from_spans([a_span(n)]), Content_Type=PROTOBUF)
        if answer.status == 200:
            accepted.append(n)
            continue
        assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
        assert b"wait for conversion" in answer.body
    assert 5 < len(accepted) < 40
    deadline = time.monotonic() + 20
    while not sink.metrics.total("conversion_troubles_total") and time.monotonic() < deadline:
        time.sleep(0.05)
    (tmp_path / "out" / "down").unlink()
    assert [span.get("n") for span in wait_for(len(accepted), tmp_path / "out")] == accepted
    assert sink.metrics.total("conversion_troubles_total") >= 1


def test_a_segment_that_the_store_cannot_take_is_set_aside_and_the_next_goes_on(
    start: Callable[..., Sink], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "broken").touch()
    sink = start()
    request(sink.http_address, request_from_spans([a_span(1)]), Content_Type=PROTOBUF)
    deadline = time.monotonic() + 20
    while not sink.metrics.total("quarantined_total") and time.monotonic() < deadline:
        time.sleep(0.05)
    (tmp_path / "out" / "broken").unlink()
    request(sink.http_address, request_from_spans([a_span(2)]), Content_Type=PROTOBUF)
    assert wait_for(1, tmp_path / "out") == [a_span(2)]
    (aside,) = (tmp_path / "wal" / "quarantine").iterdir()
    assert len(list(read_segment(aside, Damage(), 10**6))) == 1


def test_a_failing_disk_is_temporary_trouble_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    with running(tmp_path, "seal_seconds=60", file_bytes_max=4_000) as sink:
        statuses = []
        for n in range(30):
            body = request_from_spans([a_span(n, attributes=(("n", n), ("pad", "x" * 500)))])
            answer = request(sink.http_address, body, Content_Type=PROTOBUF)
            statuses.append(answer.status)
            if answer.status != 200:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert 503 in statuses
        assert statuses[-3:].count(200) >= 1, "it goes on in a fresh segment"
        sink.kill(group=True)
    with running(tmp_path):
        wait_for(statuses.count(200), tmp_path / "out")
    found = [span.get("n") for span in kept(tmp_path / "out")]
    assert found == [n for n, status in enumerate(statuses) if status == 200]


def test_a_converter_that_dies_is_started_again(start: Callable[..., Sink], tmp_path: Path) -> None:
    sink = start()
    request(sink.http_address, request_from_spans([a_span(1)]), Content_Type=PROTOBUF)
    wait_for(1, tmp_path / "out")
    process = sink._converter._process
    assert process is not None
    process.kill()
    request(sink.http_address, request_from_spans([a_span(2)]), Content_Type=PROTOBUF)
    assert wait_for(2, tmp_path / "out") == [a_span(1), a_span(2)]
    assert sink.metrics.total("converter_restarts_total") == 1


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_tail_costs_only_itself(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s.open"
    whole = [b"".join(frame(TRACES, text)) for text in (b"one", b"two" * 9, b"three" * 9)]
    path.write_bytes(MAGIC + b"".join(whole)[:-cut])
    damage = Damage()
    assert list(read_segment(path, damage, 1000)) == [(TRACES, b"one"), (TRACES, b"two" * 9)]
    assert (damage.tail_bytes, damage.middle_bytes) == (len(whole[2]) - cut, 0)


def test_damage_in_the_middle_is_stepped_over_and_told(tmp_path: Path) -> None:
    path = tmp_path / "s.wal"
    whole = [b"".join(frame(TRACES, text)) for text in (b"one", b"two" * 9, b"three" * 9)]
    broken = bytearray(MAGIC + b"".join(whole))
    broken[len(MAGIC) + len(whole[0]) + 15] ^= 1
    path.write_bytes(broken)
    damage = Damage()
    assert list(read_segment(path, damage, 1000)) == [(TRACES, b"one"), (TRACES, b"three" * 9)]
    assert (damage.tail_bytes, damage.middle_bytes) == (0, len(whole[1]))
