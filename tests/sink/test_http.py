"""OTLP/HTTP to the letter: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_replay.sink import Sink
from otel_replay.span import LogRecord
from otel_replay.wire import logs
from otel_replay.wire.json import json_line
from otel_replay.wire.protobuf import request_from_spans

from .conftest import BODY, JSON, PROTOBUF, Answer, a_span, request
from .file_sink import kept, wait_for

PLAIN = json_line([a_span(0)])
HALF = len(PLAIN) // 2
RAW_DEFLATE = zlib.compressobj(wbits=-15)
CASES = [
    ("plain", "", PLAIN, 200),
    ("identity", "identity", PLAIN, 200),
    ("gzip", "gzip", gzip.compress(PLAIN), 200),
    ("x-gzip", "x-gzip", gzip.compress(PLAIN), 200),
    ("upper case", "GZIP", gzip.compress(PLAIN), 200),
    ("two members", "gzip", gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:]), 200),
    ("padded with zeros", "gzip", gzip.compress(PLAIN) + b"\0" * 5, 200),
    ("deflate of zlib", "deflate", zlib.compress(PLAIN), 200),
    ("bare deflate", "deflate", RAW_DEFLATE.compress(PLAIN) + RAW_DEFLATE.flush(), 200),
    ("zstd", "zstd", zstandard.compress(PLAIN), 200),
    ("two zstd frames", "zstd", zstandard.compress(PLAIN[:HALF]) + zstandard.compress(PLAIN[HALF:]), 200),
    ("gzip cut", "gzip", gzip.compress(PLAIN)[:-9], 400),
    ("gzip cut by one", "gzip", gzip.compress(PLAIN)[:-1], 400),
    ("deflate cut", "deflate", zlib.compress(PLAIN)[:-3], 400),
    ("zstd cut", "zstd", zstandard.compress(PLAIN)[:-3], 400),
    ("garbage after gzip", "gzip", gzip.compress(PLAIN) + b"tail", 400),
    ("not gzip", "gzip", PLAIN, 400),
    ("not zstd", "zstd", PLAIN, 400),
    ("empty gzip", "gzip", b"", 400),
    ("brotli", "br", gzip.compress(PLAIN), 415),
    ("two encodings", "gzip, gzip", gzip.compress(gzip.compress(PLAIN)), 415),
    ("identity in the list", "identity, gzip, ", gzip.compress(PLAIN), 200),
    ("undeclared gzip", "", gzip.compress(PLAIN), 400),
]
SHARED = Path(__file__).parents[3] / "shared" / "cases" / "rx01"


@pytest.mark.parametrize(("name", "encoding", "body", "expected"), CASES, ids=[case[0] for case in CASES])
def test_compressed_bodies(shared: tuple[Sink, Path], name: str, encoding: str, body: bytes, expected: int) -> None:
    answer = request(shared[0].http_address, body, Content_Type=f"{JSON}; charset=utf-8", Content_Encoding=encoding)
    assert answer.status == expected, answer.text
    if expected == 415:
        assert answer.headers["Accept-Encoding"] == "gzip, deflate, zstd, identity"
    if expected != 200:
        assert orjson.loads(answer.body)["message"]
        assert "traceId" not in answer.text, "bytes of the body must not be echoed"


def _shared_cases() -> list[dict[str, str]]:
    return json.loads((SHARED / "requests.json").read_text()) if SHARED.exists() else []


@pytest.mark.parametrize("case", _shared_cases() or [{"file": "", "expect": "200"}], ids=lambda case: case["file"])
def test_recorded_requests_of_the_field(shared: tuple[Sink, Path], case: dict[str, str]) -> None:
    body = (SHARED / case["file"]).read_bytes() if case["file"] else PLAIN
    answer = request(
        shared[0].http_address,
        body,
        Content_Type=case.get("content-type") or JSON,
        Content_Encoding=case.get("content-encoding") or "",
    )
    assert str(answer.status) == str(case["expect"])[:3], answer.text


def test_both_members_of_a_joined_body_are_kept(start: Callable[..., Sink], tmp_path: Path) -> None:
    spans = [a_span(n) for n in range(20)]
    plain = request_from_spans(spans)
    body = gzip.compress(plain[:100]) + gzip.compress(plain[100:])
    answer = request(start().http_address, body, Content_Type=PROTOBUF, Content_Encoding="gzip")
    assert (answer.status, answer.body) == (200, b"")
    assert wait_for(20, tmp_path / "out") == spans


@pytest.mark.parametrize(
    ("method", "path", "content_type", "expected", "headers"),
    [
        ("POST", "/v1/metrics", PROTOBUF, 404, {}),
        ("POST", "/", PROTOBUF, 404, {}),
        ("GET", "/v1/traces", "", 405, {"Allow": "POST"}),
        ("PUT", "/v1/traces", PROTOBUF, 405, {"Allow": "POST"}),
        ("DELETE", "/v1/logs", "", 405, {"Allow": "POST"}),
        ("POST", "/metrics", PROTOBUF, 405, {"Allow": "GET, HEAD"}),
        ("POST", "/v1/traces", "text/plain", 415, {"Accept": "application/x-protobuf, application/json"}),
        ("POST", "/v1/traces", "", 415, {"Accept": "application/x-protobuf, application/json"}),
        ("POST", "/v1/traces?x=1", PROTOBUF, 200, {}),
        ("GET", "/nothing", "", 404, {}),
    ],
)
def test_wrong_paths_methods_and_types(
    shared: tuple[Sink, Path], method: str, path: str, content_type: str, expected: int, headers: dict[str, str]
) -> None:
    body = None if method == "GET" else BODY
    answer = request(shared[0].http_address, body, path, method, Content_Type=content_type)
    assert answer.status == expected
    assert {name: answer.headers[name] for name in headers} == headers


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\x05ab", b"hello"], ids=["varint", "cut", "text"])
def test_bytes_that_are_no_request_are_refused_for_good(shared: tuple[Sink, Path], body: bytes) -> None:
    answer = request(shared[0].http_address, body, Content_Type=PROTOBUF)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == PROTOBUF
    assert answer.headers["Retry-After"] is None
    assert b"not an OTLP trace request" in answer.body


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"spans":[]}', b"{", b'{"resourceSpans":5}'])
def test_json_that_is_no_request_is_refused_for_good(shared: tuple[Sink, Path], body: bytes) -> None:
    answer = request(shared[0].http_address, body, Content_Type=JSON)
    assert answer.status == 400, answer.text
    assert orjson.loads(answer.body)["code"] == 3


def test_empty_requests_are_fine(shared: tuple[Sink, Path]) -> None:
    assert request(shared[0].http_address, b"", Content_Type=PROTOBUF).status == 200
    answer = request(shared[0].http_address, b"{}", Content_Type=JSON)
    assert (answer.status, answer.body) == (200, b"{}")


def test_one_bad_span_is_refused_alone(start: Callable[..., Sink], tmp_path: Path) -> None:
    good, bad = a_span(1), a_span(2, span_id="00" * 8, name="nobody")
    sink = start()
    answer = request(sink.http_address, request_from_spans([good, bad, a_span(3)]), Content_Type=PROTOBUF)
    told = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, told.rejected_spans) == (200, 1)
    assert told.error_message == "resource_spans[0].scope_spans[0].spans[1]: 'nobody': span id is all zeros"

    tree = orjson.loads(json_line([good, a_span(4)]))
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["kind"] = "SPAN_KIND_NONE"
    answer = request(sink.http_address, orjson.dumps(tree), Content_Type=JSON)
    told_json = orjson.loads(answer.body)["partialSuccess"]
    assert (answer.status, told_json["rejectedSpans"]) == (200, "1")
    assert "'span 1'" in told_json["errorMessage"]
    assert wait_for(3, tmp_path / "out") == [good, a_span(3), a_span(4)]


def test_unknown_fields_are_kept(start: Callable[..., Sink], tmp_path: Path) -> None:
    span = a_span(1, unknown=b"\xfa\x07\x03abc")
    request(start().http_address, request_from_spans([span]), Content_Type=PROTOBUF)
    assert wait_for(1, tmp_path / "out") == [span]


def test_log_events_are_kept(start: Callable[..., Sink], tmp_path: Path) -> None:
    record = LogRecord(
        5,
        "ab" * 16,
        "cd" * 8,
        "gen_ai.client.inference.operation.details",
        ("a", 1),
        (("k", "v"),),
        observed_time_ns=6,
        severity_number=9,
        severity_text="INFO",
        flags=1,
    )
    answer = request(start().http_address, logs.request_from_logs([record]), "/v1/logs", Content_Type=PROTOBUF)
    assert answer.status == 200
    found = wait_for(1, tmp_path / "out")
    assert [logs.log_from_span(span) for span in found] == [record]
    assert found[0].parent_span_id == "cd" * 8


def _bomb(encoding: str) -> bytes:
    zeros = b"\0" * (32 * 1024 * 1024)
    if encoding == "gzip":
        return gzip.compress(zeros)
    return zlib.compress(zeros) if encoding == "deflate" else zstandard.compress(zeros)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_stopped_at_the_bound(shared: tuple[Sink, Path], encoding: str) -> None:
    answer = request(shared[0].http_address, _bomb(encoding), Content_Type=PROTOBUF, Content_Encoding=encoding)
    assert answer.status == 413
    assert b"unfolds to more than the limit" in answer.body
    assert shared[0].metrics.total("memory_bytes") == 0


def test_a_body_beyond_the_limit_is_refused_for_good(shared: tuple[Sink, Path]) -> None:
    answer = request(shared[0].http_address, b"\0" * (4 * 1024 * 1024 + 1), Content_Type=PROTOBUF)
    assert (answer.status, answer.headers["Retry-After"]) == (413, None)


def _talk(address: str, data: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


def _chunked(body: bytes) -> bytes:
    cut = len(body) // 2
    chunks = [b"%x;ext=1\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:])]
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\nTrailer: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (_chunked(BODY), b"200"),
        (b"\r\n", b"411"),
        (b"Content-Length: -1\r\n\r\n", b"400"),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", b"400"),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", b"400"),
        (b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", b"400"),
        (b"Content-Length: 50\r\n\r\nshort", b"400"),
        (b"Content-Length: 99999999999\r\n\r\n", b"413"),
    ],
)
def test_framing(shared: tuple[Sink, Path], rest: bytes, expected: bytes) -> None:
    answer = _talk(shared[0].http_address, HEAD + rest)
    assert answer.split(b" ", 2)[1] == expected, answer


LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)


def test_go_on_is_said_only_to_whom_is_listened_to(shared: tuple[Sink, Path]) -> None:
    expecting = HEAD + b"Expect: 100-continue\r\n"
    assert _talk(shared[0].http_address, expecting + LENGTH + BODY).count(b"HTTP/1.1 100 ") == 1
    chunked = _talk(shared[0].http_address, expecting + _chunked(BODY))
    assert (chunked.count(b"HTTP/1.1 100 "), chunked.count(b"HTTP/1.1 200 ")) == (1, 1)
    for refused in (
        expecting + b"Content-Length: 99999999999\r\n\r\n",
        expecting.replace(b"x-protobuf", b"xml") + LENGTH,
        expecting.replace(b"traces", b"metrics") + LENGTH,
    ):
        answer = _talk(shared[0].http_address, refused)
        assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 415 ", b"HTTP/1.1 404 ")), answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"X: " + b"a" * 3_000_000 + b"\r\n" + LENGTH + BODY, 431),
        (HEAD + b"X: a\r\n" * 200 + LENGTH + BODY, 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"this is no request line\r\n\r\n", 400),
        (b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"BREW /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"TRACE /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    ],
)
def test_a_head_that_is_refused_is_told_in_the_form_of_every_answer(
    shared: tuple[Sink, Path], data: bytes, status: int
) -> None:
    head, _, body = _talk(shared[0].http_address, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert orjson.loads(body)["message"]


def test_the_body_of_a_request_that_takes_none_is_no_request(shared: tuple[Sink, Path]) -> None:
    inner = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    outer = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner)
    assert _talk(shared[0].http_address, outer + inner).count(b"HTTP/1.1 ") == 1
    empty = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    assert _talk(shared[0].http_address, empty + inner).count(b"HTTP/1.1 200 ") == 2


def test_a_request_line_may_name_the_server(shared: tuple[Sink, Path]) -> None:
    named = HEAD.replace(b"/v1/traces", b"http://sink.example:4318/v1/traces?x=1")
    assert _talk(shared[0].http_address, named + LENGTH + BODY).startswith(b"HTTP/1.1 200 ")


def test_older_clients_are_answered_and_let_go(shared: tuple[Sink, Path]) -> None:
    one = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + LENGTH + BODY
    assert _talk(shared[0].http_address, one + one).count(b" 200 ") == 1


@pytest.mark.parametrize("signal", ["metrics", "profiles"])
def test_what_is_not_taken_is_named(shared: tuple[Sink, Path], signal: str) -> None:
    path = "/v1/metrics" if signal == "metrics" else "/v1development/profiles"
    answer = request(shared[0].http_address, BODY, path, Content_Type=PROTOBUF)
    assert answer.status == 404
    assert f"{signal} are not taken; this is an OTLP receiver for POST /v1/traces" in answer.text


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 3000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n2dc6c0\r\n"]
)
def test_slow_senders_keep_no_others_out(start: Callable[..., Sink], framing: bytes) -> None:
    """They hold memory for what they sent, not for what they said they would; and not for ever."""
    sink = start(memory_bytes_max=4 * 1024 * 1024, message_bytes_max=4 * 1024 * 1024, body_seconds=1.0)
    host, _, port = sink.http_address.rpartition(":")
    slow = [socket.create_connection((host, int(port)), 10) for _ in range(8)]
    for connection in slow:
        connection.sendall(HEAD + framing + b"\0" * 1000)
    time.sleep(0.3)
    assert request(sink.http_address, BODY, Content_Type=PROTOBUF).status == 200
    time.sleep(1.0)
    for connection in slow:
        connection.sendall(b"\0")
        answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in answer
        connection.close()


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
@pytest.mark.parametrize("more", [0, 1])
def test_the_limit_is_exact(start: Callable[..., Sink], encoding: str, more: int) -> None:
    limit = 1024 * 1024
    sink = start(message_bytes_max=limit)
    size = len(request_from_spans([a_span(0, name="n" * (limit - 1000))])) - (limit - 1000)
    whole = request_from_spans([a_span(0, name="n" * (limit - size + more))])
    assert len(whole) == limit + more
    body = {"": whole, "gzip": gzip.compress(whole), "zstd": zstandard.compress(whole)}[encoding]
    answer = request(sink.http_address, body, Content_Type=PROTOBUF, Content_Encoding=encoding)
    assert answer.status == (413 if more else 200)


def test_a_connection_is_kept_for_the_next_request(shared: tuple[Sink, Path]) -> None:
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    answer = _talk(shared[0].http_address, one + one + one)
    assert answer.count(b"HTTP/1.1 200") == 3


def test_bearer_tokens(start: Callable[..., Sink], tmp_path: Path) -> None:
    address = start(tokens=("old", "new")).http_address
    for given in ("", "Bearer", "Bearer wrong", "Basic new", "Bearer newer", "Bearer \xff"):
        answer = request(address, BODY, Content_Type=PROTOBUF, Authorization=given)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), given
    assert request(address, None, "/metrics", "GET").status == 401
    assert request(address, None, "/healthz", "GET").status == 200
    assert kept(tmp_path / "out") == []
    for given in ("Bearer old", "bearer new"):
        assert request(address, BODY, Content_Type=PROTOBUF, Authorization=given).status == 200


def test_health_readiness_and_metrics(start: Callable[..., Sink], tmp_path: Path) -> None:
    sink = start()
    request(sink.http_address, request_from_spans([a_span(1), a_span(2)]), Content_Type=PROTOBUF)
    wait_for(2, tmp_path / "out")
    assert request(sink.http_address, None, "/healthz", "GET").text == "ok\n"
    assert request(sink.http_address, None, "/readyz", "GET").text == "ready\n"
    shown = request(sink.http_address, None, "/metrics", "GET").text
    assert 'otel_replay_sink_accepted_total{signal="traces"} 2' in shown.splitlines()
    assert 'otel_replay_sink_requests_total{answer="ok",signal="traces",transport="http"} 1' in shown.splitlines()
    assert "otel_replay_sink_ready 1" in shown.splitlines()
    head: Answer = request(sink.http_address, None, "/healthz", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_a_span_of_twenty_megabytes_passes(start: Callable[..., Sink], tmp_path: Path) -> None:
    large = replace(a_span(1), attributes=(("otel_replay.envelope", ("x" * 1900,) * 11_000),))
    body = gzip.compress(request_from_spans([large, a_span(2)]), 1)
    answer = request(start().http_address, body, Content_Type=PROTOBUF, Content_Encoding="gzip")
    assert answer.status == 200
    assert wait_for(2, tmp_path / "out") == [large, a_span(2)]
