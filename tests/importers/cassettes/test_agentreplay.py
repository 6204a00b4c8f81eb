"""AgentReplay's cassettes and agent-replay's, replayed; what their canonical form took away is refused, not guessed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from otel_replay import Diverged, boundary, instrument, replay
from otel_replay.errors import IncompleteRecording
from otel_replay.importers import open_source
from otel_replay.instruments import uninstrument
from otel_replay.sources import load

DATA = Path(__file__).parent / "data"
FOLDER = DATA / "agentreplay-trade"
LINES = DATA / "agent_replay.jsonl"


@pytest.fixture
def instrumented() -> Iterator[Any]:
    yield instrument
    uninstrument()


@boundary("llm", kind="model")
def complete(messages: Any, model: str = "m-1") -> Any:
    raise AssertionError("the model ran")


@boundary("place_order", kind="tool", side_effects=True)
def place_order(symbol: str, qty: int, note: str = "") -> Any:
    raise AssertionError("the tool ran")


@boundary("quote", kind="tool")
def quote(symbol: str) -> Any:
    raise AssertionError("the tool ran")


def program(qty: int = 5000) -> list[Any]:
    ask = [{"role": "user", "content": "Buy ACME for 5,000 dollars."}]
    (call,) = complete(ask, model="m-1")["tool_calls"]
    told = [place_order(call["arguments"]["symbol"], qty)]
    with pytest.raises(KeyError) as raised:
        quote("NONE")
    told.append(str(raised.value.args[0]))
    told.append(httpx.post("https://api.test/orders?dry=1", json={"qty": 5000}).json())
    return [*told, complete([*ask, {"role": "tool", "content": "5000"}])["text"]]


def test_a_folder_is_one_run_that_the_agent_replays(instrumented: Any) -> None:
    """Positional arguments have no names in the cassette: they are compared by their order."""
    instrumented("httpx")
    with replay(FOLDER) as session:
        assert program() == [{"blocked": False, "filled": 5000}, "'no such symbol'", {"ok": True}, "Done."]
    assert session.recording.run.name == "agentreplay-trade"
    assert session.recording.complete


def test_another_argument_is_refused(instrumented: Any) -> None:
    instrumented("httpx")
    with pytest.raises(Diverged), replay(FOLDER):
        program(qty=50)


def test_what_is_kept_elsewhere_or_lost_is_said() -> None:
    result = open_source(FOLDER)
    assert len(result.spans) == 6
    assert result.format == "agentreplay"
    assert [str(problem) for problem in result.problems] == [
        "lost: a clock read or random draw through AgentReplay's wrappers; replay keeps date and time itself "
        "(1x: line 3)"
    ]
    recording = load(FOLDER)
    assert {envelope.grade for envelope in recording.envelopes} == {"semantic"}
    assert all("id, created" in " ".join(e.notes) or e.kind == "http" for e in recording.envelopes if e.kind != "http")


def test_a_folder_of_folders_is_read_too(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "cassettes" / "one")
    shutil.copytree(FOLDER, tmp_path / "cassettes" / "two")
    result = open_source(tmp_path)
    assert sorted(span.name for span in result.spans if not span.parent_span_id) == ["one", "two"]


class Cassette:
    """A cassette written event by event, as AgentReplay writes one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        folder.mkdir()
        (folder / "cassette.json").write_text(json.dumps({"id": "cass-1", "num_events": 1}))

    def blob(self, value: Any) -> str:
        data = json.dumps(value, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / digest[:2]).mkdir(parents=True, exist_ok=True)
        (self.folder / "blobs" / digest[:2] / digest).write_bytes(data)
        return digest

    def add(self, kwargs: Any, value: Any, *, kind: str = "tool", **more: Any) -> Cassette:
        request = {"name": "it", "args": [], "kwargs": kwargs} if kind == "tool" else kwargs
        response = {"value": value, "error": None} if kind == "tool" else value
        self.events.append({"seq": len(self.events), "step_id": "s", "call_type": kind, "call_id": "0" * 64,
                            "request_hash": self.blob(request), "response_hash": self.blob(response),
                            "started_at": 1.5e9, "duration_ms": 1, "metadata": {}, **more})  # fmt: skip
        (self.folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self.events))
        return self


@boundary("it", kind="tool")
def it(**kwargs: Any) -> Any:
    raise AssertionError("it ran")


@pytest.mark.parametrize("key", ["id", "created", "seed", "session_id", "request_id"])
def test_a_key_that_is_always_left_out_never_makes_two_requests_equal(tmp_path: Path, key: str) -> None:
    """AgentReplay itself answers delete(id=43) with the record of delete(id=42)."""
    Cassette(tmp_path / "c").add({"table": "users"}, "deleted")
    with replay(tmp_path / "c"):
        assert it(table="users") == "deleted"
    with pytest.raises(Diverged), replay(tmp_path / "c"):
        it(table="users", **{key: 43})
    with pytest.raises(Diverged), replay(tmp_path / "c"):
        it(table={"of": "users", key: 43})


@pytest.mark.parametrize(
    ("kwargs", "value", "said"),
    [
        ({}, "order <uuid> placed", "replaced ids and times"),
        ({}, {"at": ["<iso8601>"]}, "replaced ids and times"),
        ({}, "<agent.Order object at 0x7f>", "only the repr"),
        ({}, "Order(id=7)", "only the repr"),
        ({"key": "<uuid>"}, "ok", "cannot be compared"),
    ],
)
def test_what_was_replaced_is_not_served(tmp_path: Path, kwargs: Any, value: Any, said: str) -> None:
    Cassette(tmp_path / "c").add(kwargs, value)
    with pytest.raises(IncompleteRecording, match=said), replay(tmp_path / "c"):
        pass


def test_an_sdks_answer_is_only_a_repr_there(tmp_path: Path) -> None:
    asked: Any = {"messages": [], "tools": None, "model": "m"}
    Cassette(tmp_path / "c").add(
        asked, "ChatCompletion(id='c', choices=[])", kind="llm", metadata={"call_type": "openai"}
    )
    (found,) = load(tmp_path / "c").envelopes
    assert found.grade == "insufficient"
    assert "only the repr" in found.outcome.lost_reason


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("missing", "is missing"),
        ("changed", "does not have its digest"),
        ("path", "response_hash is no SHA-256"),
        ("link", "does not have its digest"),
        ("folder", "is missing"),
    ],
)
def test_blobs_are_not_trusted(tmp_path: Path, harm: str, said: str) -> None:
    cassette = Cassette(tmp_path / "c").add({}, "kept")
    digest = cassette.events[0]["response_hash"]
    blob = tmp_path / "c" / "blobs" / digest[:2] / digest
    if harm == "path":
        cassette.events.clear()
        cassette.add({}, "kept", response_hash="../../../../etc/passwd")
    elif harm == "changed":
        blob.write_text('{"value": "other", "error": null}')
    else:
        blob.unlink()
        if harm == "link":
            blob.symlink_to("/etc/passwd")
        if harm == "folder":
            blob.mkdir()
    (found,) = load(tmp_path / "c").envelopes
    assert found.grade == "insufficient"
    assert said in found.outcome.lost_reason


def test_events_without_their_folder_name_what_is_missing() -> None:
    result = open_source((FOLDER / "events.jsonl").read_bytes())
    assert "its blobs are not beside it: name the cassette's folder" in {
        span.get("cassette.damage") for span in result.spans
    }


def test_fewer_events_than_the_header_counts_are_a_part(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "c")
    events = (tmp_path / "c" / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "c" / "events.jsonl").write_text("".join(events[:4]) + '{"seq": 4, "call_')
    result = open_source(tmp_path / "c")
    assert len(result.spans) == 4
    assert "its header counts 6 events, 4 are here" in result.partial
    assert [problem.kind for problem in result.problems] == ["lost", "skipped", "partial"]


# agent-replay ------------------------------------------------------------------------------------------------


def ask(client: anthropic.Anthropic) -> list[Any]:
    common: Any = {"model": "claude-m", "max_tokens": 64}
    whole = client.messages.create(messages=[{"role": "user", "content": "hi"}], **common)
    with client.messages.stream(messages=[{"role": "user", "content": "stream"}], **common) as stream:
        return [type(whole), whole.id, whole.content[0].text, whole.usage.output_tokens, "".join(stream.text_stream)]


def test_agent_replays_lines_serve_the_sdk(instrumented: Any) -> None:
    instrumented("anthropic")
    with replay(LINES) as session:
        told = ask(anthropic.Anthropic(api_key="none", max_retries=0))
    assert told == [anthropic.types.Message, "msg_1", "hello", 2, "one two"]
    assert session.recording.run.start_ns == 1_772_445_601 * 10**9


def test_agent_replays_lines_serve_a_plain_client(instrumented: Any) -> None:
    instrumented("httpx")
    body = {"model": "claude-m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
    with replay(LINES), httpx.Client() as client:
        answer = client.post("https://api.anthropic.com/v1/messages", json=body)
        assert (answer.status_code, answer.json()["content"][0]["text"]) == (200, "hello")
        streamed: Any = {**body, "messages": [{"role": "user", "content": "stream"}], "stream": True}
        stream = client.post("https://api.anthropic.com/v1/messages", json=streamed)
    assert stream.text.startswith("event: message_start\ndata: {")
    assert stream.text.count("\n\n") == 6


def test_a_body_that_is_no_json_is_bytes_again(tmp_path: Path) -> None:
    header, first, _ = LINES.read_text().splitlines()
    line = json.loads(first)
    line["response"]["body"] = {"__non_json_b64__": "AAH/"}
    bad = {**line, "request": {"body": {"__non_json_b64__": "!"}}}
    text = "\n".join([header, json.dumps(line), "", json.dumps(bad)])
    (tmp_path / "b.jsonl").write_text(text)
    result = open_source(tmp_path / "b.jsonl")
    assert result.spans[0].get("http.response.body") == b"\x00\x01\xff"
    assert [(p.kind, p.what) for p in result.problems] == [
        ("skipped", "an exchange of a cassette: a body is not base64")]  # fmt: skip
