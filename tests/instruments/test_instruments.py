"""Instruments from outside: names, entry points, modes, records of other origin, and the dry call."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from otel_replay import Diverged, ReplayPlan, boundary, instrument, uninstrument, wrap
from otel_replay.errors import UsageError
from otel_replay.instruments import KNOWN, active, installed
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply

from .conftest import Lab

ASK: list[Any] = [{"role": "user", "content": "hi"}]


def client_of(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", **{"max_retries": 0, **options})


def test_names_are_checked() -> None:
    with pytest.raises(UsageError, match="unknown instrument"):
        instrument("opnai")
    with pytest.raises(UsageError, match="unknown instrument"):
        instrument()
    with pytest.raises(UsageError, match="no instrument knows how"):
        wrap(object())


def test_all_is_what_is_installed_and_an_alias_is_its_library(lab: Lab) -> None:
    assert instrument("all") == tuple(sorted(installed()))
    assert set(installed()) <= set(KNOWN)
    assert uninstrument() == ()
    assert instrument("requests") == ("urllib3",)
    assert uninstrument("requests") == ()


def test_wrap_returns_the_client_and_covers_it(lab: Lab) -> None:
    with ModelServer([reply.text("blue")]) as server:
        client = client_of(server.url)
        assert wrap(client) is client
        recorded = lab.record(lambda: client.chat.completions.create(model="m", messages=ASK))
    assert lab.replay(lambda: client.chat.completions.create(model="m", messages=ASK)) == recorded


def test_this_version_of_each_library_has_all_that_is_replaced(lab: Lab) -> None:
    instrument("all")
    assert {name: patches.missing for name, patches in active().items()} == {name: [] for name in active()}


def test_a_model_call_and_the_requests_beneath_it_are_one_crossing(lab: Lab) -> None:
    instrument("all")
    with ModelServer(lambda request: reply.text("blue")) as server:

        def agent() -> Any:
            answer = client_of(server.url).chat.completions.create(model="m", messages=ASK)
            return answer, httpx.post(server.url + "/chat/completions", json={"model": "m"}).json()["model"]

        recorded = lab.record(agent)
    assert lab.replay(agent) == recorded
    assert [envelope.address for envelope in lab.envelopes()] == [
        "openai.chat.completions[1]",
        "http POST 127.0.0.1[1]",
    ]


def test_a_model_call_may_run_live_beside_served_ones(lab: Lab) -> None:
    instrument("all")
    with ModelServer(lambda request: reply.text("blue")) as server:

        def agent() -> Any:
            create = client_of(server.url).chat.completions.create
            return [create(model="m", messages=[{"role": "user", "content": word}]).id for word in ("a", "b")]

        recorded = lab.record(agent)
        count = server.count
        replayed = lab.replay(agent, ReplayPlan().live("openai.chat.completions", 2))
        assert server.count == count + 1
    assert len(recorded) == len(replayed) == 2


# Records of other origin: the vendor's response alone ------------------------------------------------------------

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": {
        "role": "assistant", "content": "so", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}  # fmt: skip
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 2},
    "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "blue"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}],
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None,
    "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [], "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "blue", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}",
         "status": "completed"}],
}  # fmt: skip


def recorded_as(lab: Lab, name: str, request: dict[str, Any], response: dict[str, Any]) -> None:
    """Record what an importer rebuilds: a request and a response in wire form."""
    asked = boundary(name, kind="model")(lambda **wire: response)
    lab.record(lambda: asked(**request))


def test_a_rebuilt_chat_completion_is_served_as_the_sdks_type(lab: Lab) -> None:
    recorded_as(lab, "openai.chat.completions", {"messages": ASK, "model": "m"}, CHAT)
    instrument("openai")
    answer = lab.replay(lambda: client_of("http://127.0.0.1:9").chat.completions.create(model="m", messages=ASK))
    assert type(answer).__name__ == "ChatCompletion"
    assert answer.model_dump(exclude_unset=True) == CHAT


def test_a_rebuilt_answer_is_served_as_a_stream_to_who_asks_for_one(lab: Lab) -> None:
    options = {"include_usage": True}
    request = {"messages": ASK, "model": "m", "stream": True, "stream_options": options}
    recorded_as(lab, "openai.chat.completions", request, CHAT)
    instrument("openai")
    client = client_of("http://127.0.0.1:9")

    def agent() -> Any:
        with client.chat.completions.stream(model="m", messages=ASK, stream_options={"include_usage": True}) as stream:
            return stream.get_final_completion()

    answer = lab.replay(agent)
    assert answer.choices[0].message.content == "so"
    assert answer.choices[0].message.tool_calls[0].function.name == "f"
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.usage.total_tokens == 3


def test_a_rebuilt_response_is_served_as_a_stream(lab: Lab) -> None:
    recorded_as(lab, "openai.responses", {"input": "x", "model": "m", "stream": True}, RESPONSE)
    instrument("openai")

    def agent() -> Any:
        with client_of("http://127.0.0.1:9").responses.stream(model="m", input="x") as stream:
            return stream.get_final_response()

    assert lab.replay(agent).output_text == "blue"


def test_a_rebuilt_message_is_served_whole_and_as_a_stream(lab: Lab) -> None:
    instrument("anthropic")
    client = anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="none")
    request: dict[str, Any] = {"max_tokens": 9, "messages": ASK, "model": "m"}
    recorded_as(lab, "anthropic.messages", request, MESSAGE)
    whole = lab.replay(lambda: client.messages.create(**request))
    assert whole.model_dump(exclude_unset=True) == MESSAGE

    def agent() -> Any:
        with client.messages.stream(**request) as stream:
            return stream.get_final_message()

    recorded_as(lab, "anthropic.messages", {**request, "stream": True}, MESSAGE)
    streamed = lab.replay(agent)
    assert [block.model_dump(exclude_none=True) for block in streamed.content] == MESSAGE["content"]


# Doors ----------------------------------------------------------------------------------------------------------


def test_every_instrument_is_an_entry_point_of_opentelemetry(lab: Lab) -> None:
    found = [point.load() for point in entry_points(group="opentelemetry_instrumentor") if "otel_replay" in point.value]
    assert {kind.name for kind in found} == set(KNOWN)
    for kind in found:
        if kind.name != "http_client":
            assert kind.needs[0].startswith(KNOWN[kind.name][1])
        if kind.name not in installed():
            continue  # the frameworks: tests/frameworks/run.sh has each in an environment of its own
        made = kind()
        made.instrument(skip_dep_check=True)
        assert kind.name in active()
        made.uninstrument()
        assert kind.name not in active()
        assert made.instrumentation_dependencies() == kind.needs


AGENT = """
    import sys
    import openai
    client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
    print(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}]).choices[0].message)
    print(sorted(name for name in ("anthropic", "requests") if name in sys.modules))
    print(type(openai.__loader__).__name__, openai.__spec__.loader is openai.__loader__)
"""


def test_a_mode_from_outside_instruments_what_the_program_imports(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(textwrap.dedent(AGENT))

    def run(verb: str, url: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "otel_replay", verb, "n", "--store", str(tmp_path / "s"), "--"]
        return subprocess.run(
            [*command, sys.executable, str(script), url], capture_output=True, text=True, cwd=Path(__file__).parents[2]
        )

    with ModelServer([reply.text("blue")]) as server:
        recorded = run("record", server.url)
    replayed = run("replay", server.url)
    assert recorded.returncode == replayed.returncode == 0, recorded.stderr + replayed.stderr
    assert "blue" in recorded.stdout
    assert recorded.stdout.splitlines()[1:] == ["[]", "SourceFileLoader True"]
    assert replayed.stdout.startswith(recorded.stdout)


def test_the_dry_call_covers_every_installed_client(lab: Lab) -> None:
    found = dry_calls()
    assert [coverage.name for coverage in found] == list(KNOWN)
    there = installed()
    assert {coverage.name: coverage.problem for coverage in found} == {
        name: "" if name in there else "not installed" for name in KNOWN
    }
    assert all(coverage.version and coverage.layers for coverage in found if coverage.name in there)
    assert active() == {}


def test_the_dry_call_names_what_is_not_covered(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(httpx.AsyncClient, "_send_single_request")
    by_name = {coverage.name: coverage for coverage in dry_calls()}
    assert "AsyncClient._send_single_request" in by_name["httpx"].problem
    assert by_name["httpx"].layers == ("sync",)


def test_spans_tell_of_the_answer_in_genai_attributes(lab: Lab) -> None:
    from otel_replay import readable

    instrument("openai")
    with ModelServer([reply.text("blue")]) as server:
        lab.record(lambda: client_of(server.url).chat.completions.create(model="m", messages=ASK))
    found: Any = dict(readable.genai_attributes(lab.envelopes()[0], content=True))
    assert found["gen_ai.request.model"] == found["gen_ai.response.model"] == "m"
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "blue"}]
    assert found["gen_ai.response.id"].startswith("chatcmpl")


@pytest.mark.parametrize("is_async", [False, True])
def test_an_unrecorded_model_call_opens_no_socket(lab: Lab, is_async: bool) -> None:
    import asyncio

    instrument("all")
    lab.record(lambda: None)
    with ModelServer([]) as canary:

        def agent() -> Any:
            if not is_async:
                return client_of(canary.url).chat.completions.create(model="m", messages=ASK)
            client = openai.AsyncOpenAI(base_url=canary.url, api_key="wrong")
            return asyncio.run(client.chat.completions.create(model="m", messages=ASK))

        with pytest.raises(Diverged, match=r"openai\.chat\.completions"):
            lab.replay(agent)
        assert canary.count == 0
