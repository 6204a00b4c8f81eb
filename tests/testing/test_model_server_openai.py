"""The played server, called by the real OpenAI client, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from otel_replay.testing import ModelServer, Request, ScriptFault, reply
from otel_replay.testing.reply import ToolCall

ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]


def client_of(server: ModelServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, **options)


def test_chat_completion_holds_text_and_the_request_is_kept() -> None:
    with ModelServer([reply.text("It is blue.")]) as server:
        answer = client_of(server).chat.completions.create(model="demo-1", messages=ASK, temperature=0)
    assert answer.choices[0].message.content == "It is blue."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "demo-1"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    (request,) = server.requests
    assert (request.index, request.method, request.path, request.api) == (1, "POST", "/v1/chat/completions", "chat")
    assert request.headers["authorization"] == "Bearer none"
    assert request.messages == ASK
    assert request.json["temperature"] == 0


def test_chat_tool_calls_come_with_ids_and_arguments_as_text() -> None:
    with ModelServer([reply.tool_calls(("lookup", {"id": 7}), ToolCall("odd", "{not json", "call_mine"))]) as server:
        answer = client_of(server).chat.completions.create(model="demo-1", messages=ASK)
    calls: Any = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    assert [(call.function.name, call.function.arguments) for call in calls] == [
        ("lookup", '{"id": 7}'),
        ("odd", "{not json"),
    ]
    assert calls[0].id.startswith("call_")
    assert calls[1].id == "call_mine"


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_stream_of_tool_call_deltas_joins_to_the_calls(interleaved: bool) -> None:
    wanted: list[Any] = [
        ("search", {"q": "a fjord in the north of Norway"}),
        ("stock", {}),
        ("noted", {"x": [1, 2, {"y": "é"}]}),
    ]
    script = [reply.tool_calls(*wanted, interleaved=interleaved)]
    with ModelServer(script) as server:
        chunks = list(client_of(server).chat.completions.create(model="demo-1", messages=ASK, stream=True))
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    order: list[int] = []
    for chunk in chunks:
        for delta in chunk.choices[0].delta.tool_calls or ():
            assert delta.function is not None
            if delta.id:
                names[delta.index] = str(delta.function.name)
            texts[delta.index] = texts.get(delta.index, "") + (delta.function.arguments or "")
            order.append(delta.index)
    assert [(names[index], json.loads(texts[index])) for index in sorted(names)] == wanted
    assert (order != sorted(order)) == interleaved
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_the_clients_own_stream_helper_accepts_the_stream() -> None:
    with (
        ModelServer([reply.tool_calls(("lookup", {"id": 7}), ("lookup", {"id": 8}))]) as server,
        client_of(server).chat.completions.stream(model="demo-1", messages=ASK) as stream,
    ):
        final = stream.get_final_completion()
    calls: Any = final.choices[0].message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"id": 7}, {"id": 8}]


def test_stream_portions_are_those_of_the_script_and_usage_comes_when_asked_for() -> None:
    with ModelServer([reply.stream(["It", " is", " blue."])]) as server:
        stream = client_of(server).chat.completions.create(
            model="demo-1", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert texts == ["", "It", " is", " blue.", None]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None


def test_events_and_raw_bytes_go_out_as_given() -> None:
    chunk = {
        "id": "chatcmpl-x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "blå"}, "finish_reason": None}],
    }
    raw = f"data: {json.dumps(chunk, ensure_ascii=False)}\n\ndata: [DONE]\n\n".encode()
    middle_of_a_letter = raw.index("å".encode()) + 1
    with ModelServer([reply.stream([chunk]), reply.raw_sse(raw, split_at=[3, middle_of_a_letter])]) as server:
        client = client_of(server)
        for _ in range(2):
            (got,) = client.chat.completions.create(model="m", messages=ASK, stream=True)
            assert got.choices[0].delta.content == "blå"


def test_responses_api_whole_and_streamed() -> None:
    answer = reply.message("It is blue.", thinking="Seven is blue.", tool_calls=[ToolCall("lookup", {"id": 7})])
    with ModelServer([answer, answer]) as server:
        client = client_of(server)
        whole = client.responses.create(model="demo-1", input="Colour?")
        events = list(client.responses.create(model="demo-1", input="Colour?", stream=True))
    assert whole.output_text == "It is blue."
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last: Any = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "It is blue."
    deltas: Any = [event for event in events if event.type == "response.function_call_arguments.delta"]
    assert json.loads("".join(event.delta for event in deltas)) == {"id": 7}
    assert server.requests[0].messages == ["Colour?"]


def test_embeddings_are_the_given_ones_or_made_from_the_text() -> None:
    with ModelServer([reply.embedding([[0.5, -0.25]]), reply.embedding(), reply.embedding()]) as server:
        client = client_of(server)
        assert client.embeddings.create(model="e", input="a").data[0].embedding == [0.5, -0.25]
        first = client.embeddings.create(model="e", input=["a", "b"]).data
        again = client.embeddings.create(model="e", input=["a", "b"], encoding_format="float").data
    assert len(first) == 2
    assert first[0].embedding == again[0].embedding != first[1].embedding


def test_errors_raise_the_clients_own_classes() -> None:
    script = [reply.error(400, "no such tool", code="bad_tool"), reply.error(429, retry_after_s=0.25), reply.error(500)]
    with ModelServer(script) as server:
        client = client_of(server)
        with pytest.raises(openai.BadRequestError) as bad:
            client.chat.completions.create(model="m", messages=ASK)
        with pytest.raises(openai.RateLimitError) as limited:
            client.chat.completions.create(model="m", messages=ASK)
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="m", messages=ASK)
    assert (bad.value.code, bad.value.type) == ("bad_tool", "invalid_request_error")
    assert limited.value.response.headers["retry-after"] == "0.25"
    assert limited.value.request_id is not None


def test_the_clients_retries_are_counted_as_requests() -> None:
    with ModelServer([reply.error(429, retry_after_s=0.01), reply.reset(), reply.text("at last")]) as server:
        client = client_of(server).with_options(max_retries=2)
        answer = client.chat.completions.create(model="m", messages=ASK)
    assert answer.choices[0].message.content == "at last"
    assert server.count == 3


def test_reset_timeout_and_torn_stream() -> None:
    torn = b'data: {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}\n\n'
    with ModelServer([reply.reset(), reply.hang(5), reply.raw_sse(torn, reset_at_end=True)]) as server:
        client = client_of(server, timeout=0.3)
        with pytest.raises(openai.APIConnectionError) as reset:
            client.chat.completions.create(model="m", messages=ASK)
        assert not isinstance(reset.value, openai.APITimeoutError)
        assert "reset" in repr(reset.value.__cause__).lower()
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="m", messages=ASK)
        stream = client.chat.completions.create(model="m", messages=ASK, stream=True)
        assert next(stream).id == "x"
        with pytest.raises(openai.APIConnectionError):
            next(stream)


def test_ids_depend_on_the_request_not_on_its_arrival() -> None:
    created = set()

    def ids(salt: str, order: tuple[str, ...]) -> dict[str, list[str]]:
        got: dict[str, list[str]] = {}
        with ModelServer(lambda request: reply.tool_call("t", {}), salt=salt) as server:
            client = client_of(server)
            for words in order:
                answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": words}])
                calls: Any = answer.choices[0].message.tool_calls
                created.add((salt, answer.created))
                got.setdefault(words, []).extend((answer.id, calls[0].id))
        return got

    assert ids("", ("a", "b", "a")) == ids("", ("b", "a", "a"))
    assert len(set(ids("", ("a", "a"))["a"])) == 4
    assert not set(ids("", ("a",))["a"]) & set(ids("next run", ("a",))["a"])
    assert len({salt for salt, _ in created}) == len({when for _, when in created}) == 2


def test_a_callable_script_sees_the_request_and_parallel_calls_get_their_own_answers() -> None:
    def script(request: Request) -> str:
        return f"echo {request.messages[-1]['content']}"

    async def ask_all(url: str) -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            calls = [
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": str(number)}])
                for number in range(8)
            ]
            return [answer.choices[0].message.content for answer in await asyncio.gather(*calls)]

    with ModelServer(script) as server:
        assert asyncio.run(ask_all(server.url)) == [f"echo {number}" for number in range(8)]
    assert server.count == 8


def test_an_async_stream_arrives_in_portions() -> None:
    async def pieces(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            stream = await client.chat.completions.create(model="m", messages=ASK, stream=True)
            return [chunk.choices[0].delta.content or "" async for chunk in stream]

    with ModelServer(["one two three"]) as server:
        assert asyncio.run(pieces(server.url)) == ["", "one", " two", " three", ""]


def test_a_request_too_many_fails_the_call_and_the_with() -> None:
    def one_too_many() -> None:
        with ModelServer(["only one"]) as server:
            client = client_of(server).with_options(max_retries=3)
            client.chat.completions.create(model="m", messages=ASK)
            with pytest.raises(openai.BadRequestError, match="request 2 came, the script has 1 replies"):
                client.chat.completions.create(model="m", messages=ASK)
            assert server.count == 2

    with pytest.raises(ScriptFault, match="request 2"):
        one_too_many()


def test_a_closed_server_refuses_pooled_connections_too() -> None:
    server = ModelServer(["one", "two"])
    client = client_of(server)
    client.chat.completions.create(model="m", messages=ASK)
    server.close()
    server.close()
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(model="m", messages=ASK)
    assert server.count == 1


def test_conversations_are_played_only_where_vendors_have_them() -> None:
    with ModelServer(["hello"]) as server, pytest.raises(openai.NotFoundError, match="plays no conversation"):
        client_of(server).models.list()
