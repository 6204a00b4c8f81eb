"""REC-03, REC-05, REC-06, REC-11, REC-20: forms of a call, tool-call deltas, retries, and clients of every origin."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import instrument, open_store, readable
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import Reply, ToolCall

from .clients import ASK, SHARED, aanthropic_of, anthropic_of, aopenai_of, openai_of
from .conftest import Lab

OWN = Path(__file__).parents[1] / "instruments" / "files"
NOWHERE = "http://127.0.0.1:9"
MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": ASK}


# REC-03 ------------------------------------------------------------------------------------------------------------
def _raw(url: str) -> Any:
    raw = openai_of(url).chat.completions.with_raw_response.create(model="m", messages=ASK)
    return type(raw), raw.status_code, raw.headers["x-request-id"], raw.parse(), raw.parse() is raw.parse(), raw.text


def _raw_stream(url: str) -> Any:
    raw = openai_of(url).responses.with_raw_response.create(model="m", input="x", stream=True)
    stream = raw.parse()
    return type(raw), type(stream), raw.status_code, list(stream)


def _streaming(url: str) -> Any:
    with openai_of(url).chat.completions.with_streaming_response.create(model="m", messages=ASK) as raw:
        return type(raw), raw.headers["x-request-id"], list(raw.iter_lines())


def _streaming_stream(url: str) -> Any:
    create = openai_of(url).chat.completions.with_streaming_response.create
    with create(model="m", messages=ASK, stream=True) as raw:
        return type(raw), raw.status_code, [line for line in raw.iter_lines() if line]


def _streaming_parse(url: str) -> Any:
    with openai_of(url).chat.completions.with_streaming_response.create(model="m", messages=ASK) as raw:
        return type(raw), raw.parse(), raw.read()


def _araw(url: str) -> Any:
    async def go() -> Any:
        raw = await aopenai_of(url).chat.completions.with_raw_response.create(model="m", messages=ASK)
        return type(raw), raw.status_code, raw.parse(), raw.headers["x-request-id"]

    return asyncio.run(go())


def _araw_stream(url: str) -> Any:
    async def go() -> Any:
        raw = await aopenai_of(url).chat.completions.with_raw_response.create(model="m", messages=ASK, stream=True)
        stream = raw.parse()
        return type(raw), type(stream), [chunk async for chunk in stream]

    return asyncio.run(go())


def _astreaming(url: str) -> Any:
    async def go() -> Any:
        create = aopenai_of(url).chat.completions.with_streaming_response.create
        async with create(model="m", messages=ASK) as raw:
            return type(raw), raw.headers["x-request-id"], [line async for line in raw.iter_lines()]

    return asyncio.run(go())


def _anthropic_raw(url: str) -> Any:
    raw = anthropic_of(url).messages.with_raw_response.create(**MESSAGE)
    return type(raw), raw.status_code, raw.parse(), raw.parse() is raw.parse()


def _anthropic_raw_stream(url: str) -> Any:
    raw = anthropic_of(url).messages.with_raw_response.create(**MESSAGE, stream=True)
    return type(raw), list(raw.parse())


def _anthropic_astreaming(url: str) -> Any:
    async def go() -> Any:
        async with aanthropic_of(url).messages.with_streaming_response.create(**MESSAGE) as raw:
            return type(raw), raw.headers["request-id"], await raw.parse()

    return asyncio.run(go())


FORMS: list[Callable[[str], Any]] = [
    _raw, _raw_stream, _streaming, _streaming_stream, _streaming_parse, _araw, _araw_stream, _astreaming,
    _anthropic_raw, _anthropic_raw_stream, _anthropic_astreaming,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rec_03_a_raw_form_is_the_same_off_on_and_in_replay(
    lab: Lab, spans: InMemorySpanExporter, form: Callable[[str], Any]
) -> None:
    with ModelServer(lambda request: reply.text("It is blue.")) as server:
        off = form(server.root_url)
        instrument("openai", "anthropic")
        recorded = lab.record(lambda: form(server.root_url))
    replayed = lab.replay(lambda: form(NOWHERE))
    assert replayed == recorded
    assert [type(part) for part in recorded] == [type(part) for part in off]
    assert recorded[0] is off[0] is replayed[0]
    assert len(lab.envelopes()) == 1
    of_record = [s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.mode") == "record"]
    assert len([s for s in of_record if (s.attributes or {}).get("otel_replay.address")]) == 1


def test_rec_03_secret_headers_reach_the_code_and_not_the_disk(lab: Lab) -> None:
    body = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}).encode()
    secret = "s3cr3t-cookie-0123456789abcdef"
    answer = reply.json_body(body, headers={"set-cookie": f"session={secret}; Path=/", "x-request-id": "req_1"})

    def agent(url: str) -> Any:
        raw = openai_of(url).chat.completions.with_raw_response.create(
            model="m", messages=ASK, extra_headers={"authorization": f"Bearer {secret}"}
        )
        return raw.headers["x-request-id"], secret in raw.headers.get("set-cookie", "")

    instrument("openai")
    with ModelServer([answer]) as server:
        assert lab.record(lambda: agent(server.root_url)) == ("req_1", True)
        assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
    with open_store(lab.store) as store:
        store.recording(lab.run_id)
    for path in lab.store.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    assert secret not in repr(lab.envelopes())
    assert lab.replay(lambda: agent(NOWHERE)) == ("req_1", False)


def _read_chat(url: str, stream: bool) -> None:
    found: Any = openai_of(url).chat.completions.create(model="m", messages=ASK, stream=stream)
    list(found)


def _read_responses(url: str, stream: bool) -> None:
    found: Any = openai_of(url).responses.create(model="m", input="x", stream=stream)
    list(found)


def _read_messages(url: str, stream: bool) -> None:
    found: Any = anthropic_of(url).messages.create(**MESSAGE, stream=stream)
    list(found)


READ = {"openai chat": _read_chat, "openai responses": _read_responses, "anthropic": _read_messages}


# REC-05 and REC-06 -------------------------------------------------------------------------------------------------
EXPECTED = {
    "parallel": [("weather", {"city": "Oslo"}), ("stock", {"symbol": "ACME"})],
    "index": [("search", {"q": "fjord"})],
}
STREAMS = [(OWN / "parallel.sse", "parallel"), (OWN / "same_index.sse", "index")] + [
    (SHARED / name, kind)
    for name, kind in (("rec05_parallel_interleaved.sse", "parallel"), ("rec06_dup_index_first_chunk.sse", "index"))
    if (SHARED / name).exists()
]


def _calls_of(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]


@pytest.mark.parametrize(("path", "kind"), STREAMS, ids=lambda found: getattr(found, "name", found))
def test_rec_05_rec_06_calls_are_merged_by_index_and_chunks_kept_in_order(lab: Lab, path: Path, kind: str) -> None:
    content = path.read_bytes()

    def chunks(url: str) -> Any:
        return list(openai_of(url).chat.completions.create(model="m", messages=ASK, stream=True))

    def whole(url: str) -> Any:
        with openai_of(url).chat.completions.stream(model="m", messages=ASK) as stream:
            return _calls_of(stream.get_final_completion().choices[0].message)

    instrument("openai")
    with ModelServer([reply.raw_sse(content), reply.raw_sse(content)]) as server:
        recorded = lab.record(lambda: (chunks(server.root_url), whole(server.root_url)))
    assert lab.replay(lambda: (chunks(NOWHERE), whole(NOWHERE))) == recorded
    first = lab.envelopes()[0]
    wire = [json.loads(line[5:]) for line in content.decode().splitlines() if line.startswith("data: {")]
    kept = [chunk.value.tree() for chunk in first.outcome.chunks[1:]]
    if b"\r" not in content:
        assert [item["data"] for item in kept if isinstance(item, dict) and isinstance(item.get("data"), dict)] == wire
    attributes: Any = dict(readable.genai_attributes(first, content=True))
    parts = json.loads(attributes["gen_ai.output.messages"])[0]["parts"]
    seen = [(part["name"], _parsed(part["arguments"])) for part in parts if part["type"] == "tool_call"]
    assert sorted(seen, key=str) == sorted(recorded[1], key=str)
    assert len(seen) == len(EXPECTED[kind])
    if path.is_relative_to(SHARED):
        assert seen == EXPECTED[kind]
    with open_store(lab.store) as store:
        told = store.sql("SELECT count(*) FROM messages WHERE role = 'assistant'").fetchall()
    assert told == [(2,)], "SQL sees what a streamed answer said"


def _parsed(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def test_rec_06_arguments_that_do_not_parse_are_kept_as_they_came(lab: Lab) -> None:
    broken = '{"q": "fjo'

    def agent(url: str) -> Any:
        stream = openai_of(url).chat.completions.create(model="m", messages=ASK, stream=True)
        return "".join(
            (call.function.arguments or "") if call.function else ""
            for chunk in stream
            for call in chunk.choices[0].delta.tool_calls or []
        )

    instrument("openai")
    with ModelServer([reply.tool_call("search", broken)]) as server:
        assert lab.record(lambda: agent(server.root_url)) == broken
    assert lab.replay(lambda: agent(NOWHERE)) == broken
    attributes: Any = dict(readable.genai_attributes(lab.envelopes()[0], content=True))
    (part,) = json.loads(attributes["gen_ai.output.messages"])[0]["parts"]
    assert part["arguments"] == broken
    assert part["arguments_note"] == "not JSON: kept as they came"


def test_rec_06_arguments_that_parse_bear_no_mark(lab: Lab) -> None:
    instrument("openai")
    with ModelServer([reply.tool_call("search", '{"q": "fjord"}')]) as server:
        lab.record(lambda: openai_of(server.root_url).chat.completions.create(model="m", messages=ASK))
    attributes: Any = dict(readable.genai_attributes(lab.envelopes()[0], content=True))
    (part,) = json.loads(attributes["gen_ai.output.messages"])[0]["parts"]
    assert "arguments_note" not in part


@pytest.mark.parametrize("client", READ)
def test_rec_05_a_streamed_answer_reads_like_a_whole_one(lab: Lab, client: str) -> None:
    calls = (ToolCall("weather", {"city": "Oslo"}, "c1"), ToolCall("stock", {"symbol": "ACME"}, "c2"))
    answer = reply.message("Let me look.", tool_calls=calls)
    instrument("openai", "anthropic")
    with ModelServer(lambda request: replace(answer, interleaved=request.wants_stream)) as server:
        lab.record(lambda: [READ[client](server.root_url, stream) for stream in (False, True)])
    whole, streamed = (dict(readable.genai_attributes(envelope, content=True)) for envelope in lab.envelopes())

    def said(attributes: Any) -> Any:
        (message,) = json.loads(attributes["gen_ai.output.messages"])
        return [
            (part["type"], part.get("name"), _parsed(part.get("arguments") or "null"), part.get("content"))
            for part in message["parts"]
        ]

    assert said(streamed) == said(whole)
    assert streamed.get("gen_ai.response.finish_reasons") == whole.get("gen_ai.response.finish_reasons")
    assert streamed["gen_ai.response.model"] == "m"


# REC-11 ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("is_async", [False, True])
def test_rec_11_retries_are_one_call_with_its_attempts(
    lab: Lab, spans: InMemorySpanExporter, vendor: str, is_async: bool
) -> None:
    def agent(url: str) -> Any:
        async def go() -> Any:
            if vendor == "openai":
                return await aopenai_of(url, max_retries=2).chat.completions.create(model="m", messages=ASK)
            return await aanthropic_of(url, max_retries=2).messages.create(**MESSAGE)

        if is_async:
            return asyncio.run(go())
        if vendor == "openai":
            return openai_of(url, max_retries=2).chat.completions.create(model="m", messages=ASK)
        return anthropic_of(url, max_retries=2).messages.create(**MESSAGE)

    script: list[Reply | str] = [reply.error(429, retry_after_s=1), reply.error(503, retry_after_s=0.1), "blue"]
    instrument("openai", "anthropic")
    with ModelServer(script) as server:
        recorded = lab.record(lambda: agent(server.root_url))
        assert server.count == 3
    (envelope,) = lab.envelopes()
    assert envelope.outcome.kind == "returned"
    assert [(attempt.status, attempt.wait_ns) for attempt in envelope.attempts] == [
        ("429", 1_000_000_000), ("503", 100_000_000)
    ]  # fmt: skip
    (span,) = [s for s in spans.get_finished_spans() if (s.attributes or {}).get("otel_replay.address")]
    assert span.status.status_code.name == "UNSET"
    waited: list[float] = []
    original = time.sleep

    with contextlib.ExitStack() as stack:
        stack.callback(setattr, time, "sleep", original)
        time.sleep = lambda seconds: waited.append(float(seconds))
        assert lab.replay(lambda: agent(NOWHERE)) == recorded
    assert not [seconds for seconds in waited if seconds > 0.05], "no wait is waited for again"


def test_rec_11_a_call_that_never_got_through_raises_the_last_error_once(lab: Lab) -> None:
    def agent(url: str) -> Any:
        with pytest.raises(openai.InternalServerError) as caught:
            openai_of(url, max_retries=1).chat.completions.create(model="m", messages=ASK)
        return caught.value.status_code, str(caught.value)

    instrument("openai")
    with ModelServer([reply.error(429, retry_after_s=0.05), reply.error(503, "busy")]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    (envelope,) = lab.envelopes()
    assert [attempt.status for attempt in envelope.attempts] == ["429"]
    assert lab.replay(lambda: agent(NOWHERE)) == recorded


# REC-20 ------------------------------------------------------------------------------------------------------------
class Mine(openai.OpenAI):
    """A client class of the program's own, made before any instrument."""


class MyTransport(httpx2.HTTPTransport):
    """A transport of the program's own."""


@contextlib.contextmanager
def made_before(url: str) -> Iterator[list[Callable[[], Any]]]:
    """Yield calls through clients, methods and transports that were all there before the instrument."""
    plain = openai_of(url)
    own = Mine(base_url=url + "/v1", api_key="none", max_retries=0)
    create = plain.chat.completions.create  # a bound method that the program keeps
    of_transport = openai_of(url, http_client=httpx2.Client(transport=MyTransport()))
    claude = anthropic_of(url)
    copied = plain.with_options(timeout=3)
    yield [
        lambda: create(model="m", messages=ASK),
        lambda: own.chat.completions.create(model="m", messages=ASK),
        lambda: of_transport.chat.completions.create(model="m", messages=ASK),
        lambda: copied.chat.completions.create(model="m", messages=ASK),
        lambda: plain.with_options(max_retries=1).chat.completions.create(model="m", messages=ASK),
        lambda: plain.copy().responses.create(model="m", input="x"),
        lambda: claude.messages.create(**MESSAGE),
        lambda: claude.with_options(timeout=3).beta.messages.create(**MESSAGE),
    ]


def test_rec_20_clients_of_before_and_after_are_recorded(lab: Lab) -> None:
    with ModelServer(lambda request: reply.text("blue")) as server, made_before(server.root_url) as calls:
        instrument("openai", "anthropic")
        after = openai_of(server.root_url)
        calls.append(lambda: after.chat.completions.create(model="m", messages=ASK))

        def agent() -> list[Any]:
            return [call() for call in calls]

        recorded = lab.record(agent)
        asked = server.count
        assert asked == len(calls)
        assert lab.replay(agent) == recorded
        assert server.count == asked
    assert len(lab.envelopes()) == len(calls)


def test_rec_20_the_dry_call_says_which_layers_are_covered_and_which_not(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered = {found.name: found for found in dry_calls()}
    for name in ("openai", "anthropic", "httpx2"):
        assert covered[name].problem == ""
        assert any(layer.startswith("async") for layer in covered[name].layers)
        assert any(not layer.startswith("async") for layer in covered[name].layers)
    base = importlib.import_module("openai._base_client")
    monkeypatch.delattr(base.AsyncAPIClient, "request")
    monkeypatch.setattr(base.AsyncAPIClient, "post", lambda *_, **__: None, raising=False)
    (found,) = [found for found in dry_calls() if found.name == "openai"]
    assert "AsyncAPIClient.request" in found.problem
    assert anthropic.__version__
