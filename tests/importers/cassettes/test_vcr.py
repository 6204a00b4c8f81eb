"""Cassettes of vcrpy under unmodified clients, network off. What is recorded here is recorded by vcrpy itself."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import openai
import pytest
import requests
import vcr

from otel_replay import Diverged, instrument, open_store, replay
from otel_replay.importing import import_source
from otel_replay.instruments import uninstrument
from otel_replay.sources import load
from otel_replay.wire import exchange

DATA = Path(__file__).parent / "data"
OPENAI = DATA / "weather_openai.yaml"


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers JSON (twice the same cookie header), packed JSON, bytes, an event stream and an error."""

    asked: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None: ...

    def _send(self, status: int, kind: str, body: bytes, **more: str) -> None:
        self.send_response(status)
        headers = [("content-type", kind), ("content-length", str(len(body))), *more.items()]
        for name, value in [*headers, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]:
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.asked.append(self.path)
        if self.path == "/stream":
            self._send(200, "text/event-stream", b'data: {"n": 1}\n\ndata: [DONE]\n\n')
        elif self.path == "/fails":
            self._send(422, "application/json", b'{"detail": "no"}')
        else:
            self._send(200, "application/json", json.dumps({"echo": body.decode()}).encode())

    def do_GET(self) -> None:
        import gzip

        self.asked.append(self.path)
        if self.path.startswith("/packed"):
            packed = gzip.compress('{"hello": "wörld"}'.encode())
            self._send(200, "application/json", packed, content_encoding="gzip")
        else:
            self._send(200, "application/octet-stream", bytes(range(256)))


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    Answers.asked = []
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def instrumented() -> Iterator[Callable[..., object]]:
    yield instrument
    uninstrument()


def program(client: Any, base: str, *, binary: bool) -> list[object]:
    """Return all that a program can see of some calls, whichever of the two clients makes them."""
    first = client.post(f"{base}/x", json={"q": "hé", "n": 1})
    told: list[object] = [first.json(), first.status_code, first.headers["set-cookie"], sorted(first.cookies.items())]
    told.append(client.get(f"{base}/packed?a=1&b=2").json())
    told.append(client.post(f"{base}/stream", json={"stream": True}).text)
    fails = client.post(f"{base}/fails", content=b"raw") if client is httpx else client.post(f"{base}/fails", b"raw")
    told += [fails.status_code, fails.json()]
    if binary:
        told.append(client.get(f"{base}/bytes").content)
    return told


@pytest.mark.parametrize("unpack", [False, True], ids=["packed", "unpacked"])
@pytest.mark.parametrize("serializer", ["yaml", "json"])
@pytest.mark.parametrize("client", [httpx, requests], ids=["httpx", "requests"])
def test_a_cassette_serves_the_client_that_recorded_it(
    tmp_path: Path, server: Any, instrumented: Any, client: Any, serializer: str, unpack: bool
) -> None:
    if serializer == "json" and client is httpx and not unpack:
        pytest.xfail("vcrpy itself refuses bytes in a JSON cassette")
    base = f"http://127.0.0.1:{server.server_port}"
    file = tmp_path / f"calls.{serializer}"
    with vcr.use_cassette(str(file), serializer=serializer, decode_compressed_response=unpack):
        recorded = program(client, base, binary=serializer == "yaml")
    server.shutdown()
    server.server_close()
    asked = list(Answers.asked)
    instrumented("httpx", "requests")
    with replay(file) as session:
        replayed = program(client, base, binary=serializer == "yaml")
    assert replayed == recorded
    assert Answers.asked == asked
    grades = [envelope.grade for envelope in load(file).envelopes]
    assert grades == ["exact", "exact", "semantic", "exact", "exact"][: len(grades)]
    assert any("not compared: headers" in line.note for line in session.report.lines)


@pytest.mark.parametrize("client", [httpx, requests], ids=["httpx", "requests"])
def test_another_body_than_the_cassettes_is_refused(
    tmp_path: Path, server: Any, instrumented: Any, client: Any
) -> None:
    base = f"http://127.0.0.1:{server.server_port}"
    with vcr.use_cassette(str(tmp_path / "one.yaml")):
        client.post(f"{base}/x", json={"delete": 42})
    instrumented("httpx", "requests")
    with pytest.raises(Diverged, match="42.*43"), replay(tmp_path / "one.yaml"):
        client.post(f"{base}/x", json={"delete": 43})
    assert Answers.asked == ["/x"]


TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]  # fmt: skip


def agent(client: openai.OpenAI) -> list[object]:
    question: Any = {"role": "user", "content": "What's the weather in Paris?"}
    create: Any = client.chat.completions.create
    first = create(model="gpt-4o-mini", messages=[question], temperature=0.2, tools=TOOLS)
    (call,) = first.choices[0].message.tool_calls
    turn = {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "type": "function", "function": {
        "name": call.function.name, "arguments": call.function.arguments}}]}  # fmt: skip
    answered = {"role": "tool", "tool_call_id": call.id, "content": "18 °C"}
    chunks = create(model="gpt-4o-mini", messages=[question, turn, answered], stream=True)
    told = [type(first), first.created, json.loads(call.function.arguments)]
    told.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    with pytest.raises(openai.BadRequestError) as raised:
        create(model="gpt-4o-mini", messages=[{"role": "user", "content": "too long"}])
    error = raised.value
    return [*told, error.code, error.status_code, str(error), error.response.headers["content-type"]]


TOLD = [openai.types.chat.ChatCompletion, 1764547200, {"city": "Paris"}, "18 °C in Paris.", "context_length_exceeded",
        400, "Error code: 400 - context too long", "application/json"]  # fmt: skip


@pytest.mark.parametrize("instruments", [("openai",), ("httpx2", "httpx"), ("all",)], ids="+".join)
def test_an_sdks_cassette_serves_the_sdk_or_its_transport(instrumented: Any, instruments: tuple[str, ...]) -> None:
    """Today's SDK, a cassette of an older one: its bookkeeping headers differ, and are no part of what it asks."""
    instrumented(*instruments)
    with replay(OPENAI, clock="live") as session:
        assert agent(openai.OpenAI(api_key="none", max_retries=0)) == TOLD
    boundary = "http POST api.openai.com" if "httpx2" in instruments else "openai.chat.completions"
    assert [call.address for call in session.call_log] == [f"{boundary}[{n}]" for n in (1, 2, 3)]


def test_date_and_time_follow_the_answers_of_the_cassette() -> None:
    run = load(OPENAI).run
    assert (run.start_ns, run.name) == (1_764_547_200 * 10**9, "weather_openai")


def test_a_parameter_that_the_cassette_does_not_hold_is_a_difference(instrumented: Any) -> None:
    instrumented("openai")
    client = openai.OpenAI(api_key="none", max_retries=0)
    with pytest.raises(Diverged, match="temperature"), replay(OPENAI, clock="live"):
        client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": "too long"}], temperature=1
        )


def test_an_imported_cassette_is_a_run_of_the_store(tmp_path: Path, instrumented: Any) -> None:
    with open_store(tmp_path, create=True) as store:
        import_source(str(OPENAI), store)
        asked = store.sql("SELECT provider, model, response_model, input_tokens FROM model_calls ORDER BY seq")
        assert asked.fetchall()[0] == ("openai", "gpt-4o-mini", "gpt-4o-mini-2024-07-18", 40)
        assert len(store.sql("SELECT * FROM spans").fetchall()) == 4
    instrumented("openai")
    with replay("weather_openai", store=tmp_path, clock="live"):
        assert agent(openai.OpenAI(api_key="none", max_retries=0)) == TOLD


def test_a_refused_stream_raises_as_the_sdk_does(tmp_path: Path, instrumented: Any) -> None:
    request = {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "headers": {},
               "body": '{"messages":[],"model":"m","stream":true}'}  # fmt: skip
    response = {"status": {"code": 403, "message": "Forbidden"}, "headers": {"content-type": ["application/json"]},
                "body": {"string": '{"error": {"message": "no"}}'}}  # fmt: skip
    file = tmp_path / "refused.json"
    file.write_text(json.dumps({"version": 1, "interactions": [{"request": request, "response": response}]}))
    instrumented("openai")
    client = openai.OpenAI(api_key="none", max_retries=0)
    with pytest.raises(openai.PermissionDeniedError, match="no"), replay(file):
        client.chat.completions.create(model="m", messages=[], stream=True)


RETRIED = """
interactions:
- request: &asked
    body: '{"messages":[{"role":"user","content":"hi"}],"model":"m"}'
    headers: {user-agent: [AsyncOpenAI/Python 2.0.0]}
    method: POST
    uri: https://api.openai.com/v1/chat/completions
  response: {body: {string: '{"error":{"message":"slow down"}}'}, headers: {retry-after: ['1']}, status: {code: 429}}
- request: *asked
  response:
    body: {string: '{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[]}'}
    headers: {content-type: [application/json]}
    status: {code: 200, message: OK}
"""


def test_what_the_sdk_tried_again_is_one_call(tmp_path: Path, instrumented: Any) -> None:
    (tmp_path / "retried.yaml").write_text(RETRIED)
    (envelope,) = load(tmp_path / "retried.yaml").envelopes
    assert [attempt.status for attempt in envelope.attempts] == ["429"]
    instrumented("openai")
    with replay(tmp_path / "retried.yaml"):
        client = openai.OpenAI(api_key="none")
        assert client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}]).id == "c"


@pytest.mark.parametrize("text", ['{"a": 1}\n', '{\n  "a": "é"\n}\n', '{"a":1}', '{"a":1}\n\n', '"x"\n', "{}\n", "\n"])
def test_a_body_of_json_is_kept_readable_and_spelt_as_it_came(text: str) -> None:
    form, body = exchange.body_to(text.encode())
    assert exchange.body_from(form, body) == text.encode()
    assert isinstance(body, dict) == (text.endswith(("}", "}\n")))
