"""The server's Google form, asked as the wire shows it. The SDK itself is tested against it in tests/frameworks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from otel_replay.testing import ModelServer, reply
from otel_replay.testing.reply import ToolCall

ANSWER = reply.message("It is blue.", tool_calls=(ToolCall("lookup", {"id": 7}),), thinking="hm", signature="c2ln")


def post(server: ModelServer, call: str, body: Any) -> bytes:
    request = urllib.request.Request(
        f"{server.root_url}/v1beta/models/gemini-x:{call}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        content: bytes = answer.read()
        return content


ASK = {"contents": [{"role": "user", "parts": [{"text": "Colour of item 7?"}]}]}


def test_a_whole_answer() -> None:
    with ModelServer([ANSWER]) as server:
        answer = json.loads(post(server, "generateContent", ASK))
    (request,) = server.requests
    assert (request.api, request.model, request.messages) == ("generate_content", "gemini-x", ASK["contents"])
    (candidate,) = answer["candidates"]
    assert candidate["finishReason"] == "STOP"
    assert candidate["content"] == {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"text": "It is blue."},
            {"functionCall": {"name": "lookup", "args": {"id": 7}}, "thoughtSignature": "c2ln"},
        ],
    }
    assert answer["modelVersion"] == "gemini-x"


def test_a_stream_is_responses_of_which_the_last_says_why_it_ended() -> None:
    with ModelServer([reply.text("It is blue.")]) as server:
        body = post(server, "streamGenerateContent?alt=sse", ASK)
    events = [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n") if line]
    candidates = [event["candidates"][0] for event in events]
    assert [candidate["content"]["parts"] for candidate in candidates] == [
        [{"text": "It"}],
        [{"text": " is"}],
        [{"text": " blue."}],
    ]
    assert [candidate.get("finishReason") for candidate in candidates] == [None, None, "STOP"]


def test_vectors_of_one_text_and_of_several() -> None:
    one = {"content": {"parts": [{"text": "a"}]}}
    with ModelServer(lambda request: reply.embedding()) as server:
        single = json.loads(post(server, "embedContent", one))
        several = json.loads(post(server, "batchEmbedContents", {"requests": [one, one]}))
    assert several == {"embeddings": [single["embedding"]] * 2}


def test_an_error_has_the_vendors_form() -> None:
    with ModelServer([reply.error(429, "slow down", retry_after_s=2)]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server, "generateContent", ASK)
    assert caught.value.headers["retry-after"] == "2"
    told = json.loads(caught.value.read())
    assert told == {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
