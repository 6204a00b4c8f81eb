"""Both receivers under nonsense: every answer is one of OTLP's, nothing hangs, nothing is held on to."""

from __future__ import annotations

import gzip
import http.client
import random
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_replay.sink import Sink
from otel_replay.wire.json import json_line
from otel_replay.wire.protobuf import request_from_spans

from .conftest import BODY, JSON, PROTOBUF, a_span, config, request
from .test_grpc import TRACES

GOOD = {PROTOBUF: request_from_spans([a_span(n) for n in range(3)]), JSON: json_line([a_span(n) for n in range(3)])}
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}
CORPUS = Path(__file__).parent / "corpus"
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    with Sink(config(tmp_path_factory.mktemp("fuzz"), message_bytes_max=1024 * 1024)) as started:
        yield started
        assert started.metrics.total("memory_bytes") == 0
        assert started.metrics.total("quarantined_total") == 0
        assert request(started.http_address, BODY, Content_Type=PROTOBUF).status == 200


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """`good` with a few bytes changed, cut out, doubled or put in."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        count = draw(st.integers(0, 8))
        data[at : at + count] = draw(st.binary(max_size=8)) * draw(st.sampled_from([1, 1, 1, 50]))
    return bytes(data)


@FUZZ
@given(st.data())
def test_http_bodies(sink: Sink, data: st.DataObject) -> None:
    content_type = data.draw(st.sampled_from([PROTOBUF, JSON]))
    encoding = data.draw(st.sampled_from(list(PACK)))
    body = data.draw(damaged(GOOD[content_type]))
    packed = PACK[encoding](body) if data.draw(st.booleans()) else data.draw(damaged(PACK[encoding](body)))
    path = data.draw(st.sampled_from(["/v1/traces", "/v1/logs"]))
    answer = request(sink.http_address, packed, path, Content_Type=content_type, Content_Encoding=encoding)
    assert answer.status in (200, 400, 413), answer.text
    if answer.status != 200:
        assert answer.headers["Retry-After"] is None


NAMES = (
    "resourceSpans scopeSpans spans resource scope attributes key value stringValue intValue doubleValue kvlistValue "
    "arrayValue values traceId spanId events links status code kind startTimeUnixNano schemaUrl batches"
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split(" ")), inner, max_size=4),
    max_leaves=25,
)


@FUZZ
@given(TREES)
def test_json_trees(sink: Sink, tree: object) -> None:
    try:
        body = orjson.dumps({"resourceSpans": tree})
    except TypeError:
        body = b'{"resourceSpans": 99999999999999999999}'
    assert request(sink.http_address, body, Content_Type=JSON).status in (200, 400)


@FUZZ
@given(st.data())
def test_grpc_messages(sink: Sink, data: st.DataObject) -> None:
    body = data.draw(damaged(GOOD[PROTOBUF]))
    with grpc.insecure_channel(sink.grpc_address) as channel:
        code = channel.unary_unary(TRACES).future(body, timeout=10).code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)


def test_raw_bytes_on_both_ports(sink: Sink) -> None:
    chance = random.Random(11)
    head = b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    for address in (sink.http_address, sink.grpc_address):
        host, _, port = address.rpartition(":")
        for _ in range(40):
            noise = bytearray(head + BODY) if chance.random() < 0.7 else bytearray(chance.randbytes(200))
            for _ in range(chance.randrange(6)):
                noise[chance.randrange(len(noise))] = chance.randrange(256)
            with socket.create_connection((host, int(port)), 10) as connection:
                try:
                    connection.sendall(noise)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except ConnectionError:
                    continue
    assert request(sink.http_address, BODY, Content_Type=PROTOBUF).status == 200


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_bytes_that_once_did_harm(sink: Sink, path: Path) -> None:
    content_type = JSON if path.suffix == ".json" else PROTOBUF
    assert request(sink.http_address, path.read_bytes(), Content_Type=content_type).status in (200, 400)


def test_a_sender_that_says_nothing_more_holds_no_memory_for_ever(tmp_path: Path) -> None:
    with Sink(config(tmp_path, idle_seconds=0.3)) as sink:
        host, _, port = sink.http_address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        connection.putrequest("POST", "/v1/traces")
        connection.putheader("Content-Type", PROTOBUF)
        connection.putheader("Content-Length", "100000")
        connection.endheaders()
        connection.send(b"x")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError, http.client.BadStatusLine)):
            connection.getresponse()
        assert sink.metrics.total("memory_bytes") == 0
