"""Where bytes come from: files, folders, globs, streams, compressed ones, and live Jaeger and Tempo servers."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from otel_replay.errors import ImportFault
from otel_replay.importers import documents, open_source
from otel_replay.importing import as_dict, import_source

DATA = Path(__file__).parent / "data"
LINES = (DATA / "im01_otlp_file_exporter.jsonl").read_bytes()
JAEGER = (DATA / "im01_jaeger_api.json").read_bytes()
TEMPO_V1 = (DATA / "im02_tempo_v1_batches_base64.json").read_bytes()
TEMPO_V2 = (DATA / "im11_tempo_partial.json").read_bytes()
TRACE = "b535a7bc6f52887645b6ba5e5e1a585c"
NAMES = ["agent run", "ChatCompletion", "search"]


class Pipe(io.RawIOBase):
    """A stream that can't seek and hands out little by little, like standard input."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, into: Any) -> int:
        part, self.data = self.data[: min(len(into), 7)], self.data[min(len(into), 7) :]
        into[: len(part)] = part
        return len(part)


def names(source: Any, **options: Any) -> list[str]:
    return [span.name for span in open_source(source, **options).spans]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("give", [bytes, io.BytesIO, Pipe], ids=["bytes", "file", "pipe"])
def test_any_stream_in_any_packing(pack: Any, give: Any) -> None:
    assert names(give(pack(LINES))) == NAMES


def test_gzip_members_and_zstd_frames_in_a_row() -> None:
    first, rest = LINES.split(b"\n", 1)
    assert names(gzip.compress(first + b"\n") + gzip.compress(rest)) == NAMES
    assert names(zstandard.compress(first + b"\n") + zstandard.compress(rest)) == NAMES


def test_a_gzip_that_breaks_off_keeps_what_came() -> None:
    many = b"".join(LINES.replace(b"2fdf7c31ca050687", b"%016x" % n) for n in range(1, 3000))
    result = open_source(gzip.compress(many)[:-40_000])
    assert len(result.spans) > 3
    assert any(problem.kind == "partial" and "broken" in problem.what for problem in result.problems)


def test_bom_blank_lines_and_a_bad_line() -> None:
    first, rest = LINES.split(b"\n", 1)
    result = open_source(b"\xef\xbb\xbf\n" + first + b"\n{not json}\n\n" + rest)
    assert [span.name for span in result.spans] == NAMES
    (problem,) = result.problems
    assert (problem.kind, problem.count) == ("skipped", 1)
    assert problem.where[0].startswith("line 3")


def test_utf_16_as_windows_shells_write_it() -> None:
    assert names(JAEGER.decode().encode("utf-16")) == NAMES


def test_folder_and_glob_read_in_order_and_name_what_they_skip(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number, line in enumerate(LINES.splitlines()):
        (tmp_path / "a" / f"traces-{number}.json").write_bytes(line)
    (tmp_path / "readme.txt").write_text("not a trace")
    (tmp_path / ".hidden.json").write_text("{")
    result = open_source(tmp_path)
    assert [span.name for span in result.spans] == NAMES
    (problem,) = result.problems
    assert problem.what == "a file that cannot be read"
    assert "readme.txt" in problem.where[0]
    assert names(str(tmp_path / "**" / "traces-*.json")) == NAMES


def test_nothing_there_is_said(tmp_path: Path) -> None:
    for source, words in (
        (tmp_path / "no.json", "there is no file"),
        (tmp_path, "holds no files"),
        (str(tmp_path / "*.json"), "holds no files"),
        (b"", "it is empty"),
        (b"PK\x03\x04zip", "ZIP archive"),
        ("file:///etc/passwd", "only http and https"),
        (42, "cannot read from int"),
    ):
        with pytest.raises(ImportFault, match=words):
            names(source)


def test_format_forces_and_unknown_formats_are_named() -> None:
    assert names(JAEGER, format="jaeger") == NAMES
    with pytest.raises(ImportFault, match="no format is called 'jagger'; there are"):
        open_source(JAEGER, format="jagger")
    with pytest.raises(ImportFault):
        names(JAEGER, format="otlp-proto")


def test_streaming_hands_out_spans_once_and_tells_at_the_end() -> None:
    told: list[tuple[int, int]] = []
    result = open_source(LINES, progress=lambda at, count: told.append((at, count)))
    assert [span.name for span in result] == NAMES
    assert (result.format, result.problems) == ("otlp-json", [])
    assert told == [(len(LINES), 3)]
    with pytest.raises(ImportFault, match="streamed already"):
        next(iter(result))


@pytest.mark.parametrize("name", [
    "torture.otlp.jsonl", "torture.jaeger_api_traces.json", "torture.zipkin_v2.json", "torture.tempo_api_v1.json",
    "torture.tempo_api_v2.json", "torture.jaeger_api_v3.json", "torture.grafana_explore_export.json",
    "im01_jaeger_list.json", "im01_jaeger_bare_trace.json", "im01_python_console_exporter.txt",
])  # fmt: skip
def test_a_document_read_in_pieces_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = open_source(DATA / name)
    expected = (whole.spans, whole.format, whole.notes)
    monkeypatch.setattr(documents, "WHOLE_BYTES_MAX", 100)
    monkeypatch.setattr(documents, "_CHUNK", 64)
    monkeypatch.setattr(documents, "_OVERLAP", 48)
    pieces = open_source(DATA / name)
    assert (pieces.spans, pieces.format, pieces.notes) == expected


# Live ----------------------------------------------------------------------------------------------------


JAEGER_PATHS = [
    (f"/api/traces/{TRACE}", ""),
    (f"/api/traces/{TRACE}", "raw=true"),
    ("/api/traces", "service=demo-agent"),
    ("/api/traces", "service=demo-agent&limit=20"),
]


class Backend(BaseHTTPRequestHandler):
    """Answers as Jaeger and Tempo do, with the sample files; asks for a token."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        path, _, query = self.path.partition("?")
        if path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", self.server.elsewhere)  # type: ignore[attr-defined]
            self.end_headers()
            return
        if path == "/seen":
            self.answer(200, b'{"hello": 1}')
        elif self.headers.get("Authorization") != ("Basic bWU6czNjcmV0" if path == "/basic" else "Bearer t0ken"):
            self.answer(401, b"who are you?")
        elif path == "/basic" or (path, query) in JAEGER_PATHS:
            self.answer(200, JAEGER)
        elif path == "/tempo/api/search":
            self.answer(200, json.dumps({"traces": [{"traceID": TRACE}]}).encode())
        elif path == f"/tempo/api/v2/traces/{TRACE}":
            self.answer(200, TEMPO_V2)
        elif path == "/old/api/search":
            self.answer(200, json.dumps({"traces": [{"traceID": TRACE}]}).encode())
        elif path == f"/old/api/traces/{TRACE}":
            self.answer(200, TEMPO_V1)
        elif path == "/api/traces/toolarge":
            self.answer(422, b"trace exceeds max size")
        else:
            self.answer(404, b"trace not found")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def backend() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Backend) as server:
        server.asked = []  # type: ignore[attr-defined]
        server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        server.elsewhere = f"http://localhost:{server.server_port}/seen"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


TOKEN = {"Authorization": "Bearer t0ken"}


@pytest.mark.parametrize(("path", "found"), [
    (f"/api/traces/{TRACE}", "jaeger"), (f"/trace/{TRACE}", "jaeger"), ("/api/traces?service=demo-agent", "jaeger"),
    ("/?service=demo-agent", "jaeger"), ("/search?service=demo-agent&limit=20", "jaeger"),
    (f"/tempo/api/v2/traces/{TRACE}", "tempo"), ("/tempo/api/search?q={}", "tempo"), ("/old/api/search", "tempo"),
])  # fmt: skip
def test_live_jaeger_and_tempo(backend: Any, path: str, found: str) -> None:
    result = open_source(backend.url + path, headers=TOKEN)
    assert [span.name for span in result.spans] == NAMES
    assert result.format == found
    assert {span.trace_id for span in result.spans} == {TRACE}


@pytest.mark.parametrize(("path", "headers", "words"), [
    (f"/api/traces/{TRACE}", {}, "401 .*who are you.*token or header"),
    ("/api/traces/nosuch", TOKEN, "404 .*not found.*no such trace"),
    ("/api/traces/toolarge", TOKEN, "422 .*api/v2/traces"),
    ("", TOKEN, "names no trace: give the address"),
])  # fmt: skip
def test_live_faults_say_what_to_do(backend: Any, path: str, headers: dict[str, str], words: str) -> None:
    with pytest.raises(ImportFault, match=words):
        names(backend.url + path, headers=headers)


def test_a_token_does_not_follow_a_redirect_to_another_host(backend: Any) -> None:
    with pytest.raises(ImportFault) as fault:
        names(backend.url + "/elsewhere", headers=TOKEN)
    assert backend.asked == [("/elsewhere", "Bearer t0ken"), ("/seen", None)]
    assert "hello" in str(fault.value)
    backend.elsewhere = "file:///etc/passwd"
    with pytest.raises(ImportFault):
        names(backend.url + "/elsewhere", headers=TOKEN)


def test_user_and_password_of_an_address_are_sent_and_never_shown(backend: Any) -> None:
    address = backend.url.replace("//", "//me:s3cret@")
    assert names(address + "/basic") == NAMES
    with pytest.raises(ImportFault) as fault:
        names(address + "/api/traces/1")
    assert "s3cret" not in str(fault.value)


def test_nobody_listens_and_no_password_in_the_message() -> None:
    with pytest.raises(ImportFault, match="cannot be reached") as fault:
        names("http://me:s3cret@127.0.0.1:9/api/traces/1")
    assert "s3cret" not in str(fault.value)


def test_a_name_that_is_no_utf8_is_read_and_shown(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.json")
    shutil.copyfile(DATA / "im01_otlp.json", tmp_path / name)
    (tmp_path / os.fsdecode(b"\xfe.json")).write_text('{"x":')
    found = open_source(tmp_path)
    assert len(found.spans) == 3
    assert [f"{tmp_path}/\\xfe.json" in where for problem in found.problems for where in problem.where] == [True]
    imported = as_dict(import_source(str(tmp_path / name), None))
    assert orjson.loads(orjson.dumps(imported))["source"] == f"{tmp_path}/\\xff.json"
