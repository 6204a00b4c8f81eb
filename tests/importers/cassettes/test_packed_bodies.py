"""Cassettes whose answers stand under a content-encoding: packed, kept unpacked under the old header, or cut short."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import httpx
import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
import zstandard

from otel_replay import instrument, replay
from otel_replay.errors import IncompleteRecording
from otel_replay.instruments import uninstrument
from otel_replay.sources import load

PLAIN = json.dumps({"forecast": "Böen, 17 °C", "days": list(range(40))}).encode()


def _bare(data: bytes) -> bytes:
    engine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


PACKED = {
    "gzip": gzip.compress(PLAIN),
    "deflate": zlib.compress(PLAIN),
    "deflate, bare": _bare(PLAIN),
    "br": brotli.compress(PLAIN),
    "zstd": zstandard.ZstdCompressor().compress(PLAIN),
    "gzip, br": brotli.compress(gzip.compress(PLAIN)),
}


@pytest.fixture(autouse=True)
def httpx_instrumented() -> Iterator[None]:
    instrument("httpx")
    yield
    uninstrument()


def _cassette(folder: Path, coding: str, body: Any, form: str) -> Path:
    headers = {"Content-Encoding": [coding], "Content-Type": ["application/json"]}
    request: dict[str, Any] = {"method": "GET", "uri": "http://weather.test/today", "headers": {}, "body": None}
    answer = {"status": {"code": 200, "message": "OK"}, "headers": headers, "body": body}
    if form == "vcrpy":
        file = folder / "calls.yaml"
        file.write_text(yaml.safe_dump({"version": 1, "interactions": [{"request": request, "response": answer}]}))
    else:
        file = folder / "calls.yml"
        asked = {**request, "method": "get", "body": {"encoding": "UTF-8", "string": ""}}
        one = {"request": asked, "response": answer, "recorded_at": "Mon, 01 Jun 2026 10:00:00 GMT"}
        file.write_text(yaml.safe_dump({"http_interactions": [one], "recorded_with": "VCR 6.2.0"}))
    return file


def _body(content: bytes, form: str) -> Any:
    if form == "vcrpy":
        return {"string": content}
    return {"encoding": "ASCII-8BIT", "base64_string": base64.b64encode(content).decode()}


@pytest.mark.parametrize("form", ["vcrpy", "ruby"])
@pytest.mark.parametrize("coding", PACKED)
def test_a_packed_answer_is_read_and_served(tmp_path: Path, coding: str, form: str) -> None:
    file = _cassette(tmp_path, coding.removesuffix(", bare"), _body(PACKED[coding], form), form)
    with replay(file):
        assert httpx.get("http://weather.test/today").content == PLAIN
    answer: Any = load(file).envelopes[0].outcome.value.tree()
    assert answer["body"] == json.loads(PLAIN)


@pytest.mark.parametrize("coding", PACKED)
def test_an_answer_kept_unpacked_under_its_old_header_is_served(tmp_path: Path, coding: str) -> None:
    file = _cassette(tmp_path, coding.removesuffix(", bare"), {"string": PLAIN.decode()}, "vcrpy")
    with replay(file):
        assert httpx.get("http://weather.test/today").content == PLAIN


@pytest.mark.parametrize("coding", PACKED)
def test_a_packed_answer_that_was_cut_short_is_refused_by_name(tmp_path: Path, coding: str) -> None:
    file = _cassette(tmp_path, coding.removesuffix(", bare"), {"string": PACKED[coding][:-9]}, "vcrpy")
    with pytest.raises(IncompleteRecording, match="not one whole stream"), replay(file):
        httpx.get("http://weather.test/today")


def test_an_unknown_coding_is_named(tmp_path: Path) -> None:
    file = _cassette(tmp_path, "compress", {"string": PLAIN}, "vcrpy")
    with pytest.raises(IncompleteRecording, match="compress is not known here"), replay(file):
        httpx.get("http://weather.test/today")
