"""Conventions of which no generated sample is here: spans by hand, from each one's documentation."""

from __future__ import annotations

import json

import openai

from otel_replay.importers.genai import describe
from otel_replay.importers.genai._messages import UNSIGNED
from otel_replay.importers.genai.rebuild import CHUNKS_UNKNOWN, response_body
from otel_replay.payload import decode

from ._samples import answer, at, request
from ._spans import of, span

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":2}'}}


def test_traceloop_decorators() -> None:
    flow = span("plan.workflow", {"traceloop.span.kind": "workflow", "traceloop.entity.name": "plan",
                                  "traceloop.entity.output": '"4"'})  # fmt: skip
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.name": "add"}
    first = span("add.tool", tool | {"traceloop.entity.input": '{"args": [], "kwargs": {"a": 2, "b": 2}}',
                                     "traceloop.entity.output": "4"}, under=flow, start=1)  # fmt: skip
    second = span("add.tool", tool | {"traceloop.entity.input": '{"args": [2, 2], "kwargs": {}}',
                                      "traceloop.entity.output": "4"}, under=flow, start=2)  # fmt: skip
    cut = span("add.tool", tool | {"traceloop.entity.input": '{"args": [], "kwargs": {"text": "aaaaaaaaa',
                                   "traceloop.entity.output": '"done"'}, under=flow, start=3)  # fmt: skip
    found = of(flow, first, second, cut)
    assert (found.run.name, found.run.answer.tree() if found.run.answer else None) == ("plan", "4")
    assert [e.address for e in found.envelopes] == ["add[1]", "add[2]", "add[3]"]
    assert (request(found, "add[1]"), answer(found, "add[1]")) == ({"a": 2, "b": 2}, 4)
    assert request(found, "add[2]") == {"args": [2, 2], "kwargs": {}}
    assert "positional arguments: their names are not in the record" in at(found, "add[2]").notes
    assert "traceloop.entity.input was cut at 42 characters" in at(found, "add[3]").outcome.lost_reason


def test_langsmith_export_with_langchains_dump() -> None:
    human = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"],
             "kwargs": {"content": "2+2?", "type": "human"}}  # fmt: skip
    reply = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"],
             "kwargs": {"content": "", "type": "ai", "tool_calls": [
                 {"name": "add", "args": {"a": 2, "b": 2}, "id": "call_1", "type": "tool_call"}]}}  # fmt: skip
    chain = span("chain", {"langsmith.span.kind": "chain"})
    model = span("ChatOpenAI", {
        "langsmith.span.kind": "llm", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.prompt": json.dumps({"messages": [[human]]}),
        "gen_ai.completion": json.dumps({"generations": [[{"text": "", "message": reply}]]}),
        "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 3}, under=chain, start=1)  # fmt: skip
    tool = span("add", {"langsmith.span.kind": "tool", "gen_ai.prompt": '{"a": 2, "b": 2}',
                        "gen_ai.completion": '{"output": 4}'}, under=chain, start=2)  # fmt: skip
    found = of(chain, model, tool)
    asked, body = request(found, "openai.chat.completions[1]"), answer(found, "openai.chat.completions[1]")
    assert asked == {"model": "gpt-4o", "messages": [{"role": "user", "content": "2+2?"}]}
    assert body["choices"][0]["message"]["tool_calls"] == [CALL]
    assert body["usage"] == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    assert (request(found, "add[1]"), answer(found, "add[1]")) == ({"a": 2, "b": 2}, {"output": 4})


def test_google_adk() -> None:
    asked = {"model": "gemini-2.0-flash", "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "config": {}}
    told = {"content": {"role": "model", "parts": [{"function_call": {"name": "hello", "args": {}}}]}}
    scope = "gcp.vertex.agent"
    agent = span("invoke_agent greeter", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "greeter"},
                 scope=scope)  # fmt: skip
    common = {"gen_ai.system": "gcp.vertex.agent"}
    model = span("call_llm", common | {
        "gcp.vertex.agent.llm_request": json.dumps(asked), "gcp.vertex.agent.llm_response": json.dumps(told)},
        scope=scope, under=agent, start=1)  # fmt: skip
    tool = span("execute_tool hello", common | {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "hello",
        "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}",
        "gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": '{"greeting": "Hello"}'},
        scope=scope, under=model, start=2)  # fmt: skip
    silent = span("call_llm", common | {
        "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"},
        scope=scope, under=agent, start=3)  # fmt: skip
    found = of(agent, model, tool, silent)
    assert [e.address for e in found.envelopes] == ["chat gcp.vertex.agent[1]", "hello[1]", "chat gcp.vertex.agent[2]"]
    assert request(found, "chat gcp.vertex.agent[1]") == asked
    assert answer(found, "chat gcp.vertex.agent[1]") == told
    assert (request(found, "hello[1]"), answer(found, "hello[1]")) == ({}, {"greeting": "Hello"})
    line = describe(found)[2]
    assert (line.missing, line.setting) == (("input", "output"), "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true")


def test_vercel_ai_sdk() -> None:
    outer = span("ai.streamText", {"ai.operationId": "ai.streamText", "ai.response.text": "4"}, scope="ai")
    prompt = [{"role": "user", "content": [{"type": "text", "text": "2+2?"}]},
              {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "call_1", "toolName": "add",
                                                 "args": {"a": 2, "b": 2}}]},
              {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "call_1", "toolName": "add",
                                            "output": {"type": "json", "value": {"sum": 4}}}]}]  # fmt: skip
    step = span("ai.streamText.doStream", {
        "ai.operationId": "ai.streamText.doStream", "ai.model.id": "gpt-4o", "ai.model.provider": "openai.chat",
        "ai.prompt.messages": json.dumps(prompt),
        "ai.prompt.tools": [json.dumps({"type": "function", "name": "add", "inputSchema": {"type": "object"}})],
        "ai.response.text": "4", "ai.response.finishReason": "stop", "ai.response.id": "chatcmpl-9",
        "ai.usage.promptTokens": 9, "ai.usage.completionTokens": 1}, scope="ai", under=outer, start=1)  # fmt: skip
    tool = span("ai.toolCall", {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "add",
                                "ai.toolCall.args": '{"a":2,"b":2}', "ai.toolCall.result": '{"sum":4}'},
                scope="ai", under=outer, start=2)  # fmt: skip
    found = of(outer, step, tool)
    asked = request(found, "openai.chat.completions[1]")
    assert asked["messages"] == [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"sum":4}'},
    ]
    assert asked["tools"] == [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    assert asked["stream"] is True
    body = answer(found, "openai.chat.completions[1]")
    assert (body["id"], body["choices"][0]["message"]["content"]) == ("chatcmpl-9", "4")
    assert body["usage"]["total_tokens"] == 10
    assert CHUNKS_UNKNOWN in at(found, "openai.chat.completions[1]").notes
    assert (request(found, "add[1]"), answer(found, "add[1]")) == ({"a": 2, "b": 2}, {"sum": 4})


def test_logfire_before_4_kept_the_whole_request() -> None:
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "2+2?"}], "temperature": 0}
    model = span("Chat Completion with {request_data[model]!r}", {
        "logfire.msg_template": "Chat Completion with {request_data[model]!r}", "request_data": json.dumps(asked),
        "response_data": json.dumps({"message": {"role": "assistant", "content": "4"},
                                     "usage": {"prompt_tokens": 5, "completion_tokens": 1}})},
        scope="logfire.openai")  # fmt: skip
    found = of(model)
    assert request(found, "openai.chat.completions[1]") == asked
    body = answer(found, "openai.chat.completions[1]")
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "4"}
    assert body["usage"]["prompt_tokens"] == 5


def test_logfire_says_what_it_scrubbed() -> None:
    tool = span("Calling login", {
        "logfire.msg_template": "Calling login", "code.function": "login",
        "session": "[Scrubbed due to 'session']", "return": "ok",
        "logfire.json_schema": json.dumps({"type": "object", "properties": {"session": {}, "return": {}}}),
        "logfire.scrubbed": json.dumps([{"path": ["attributes", "session"], "matched_substring": "session"}])},
        scope="logfire")  # fmt: skip
    (envelope,) = of(tool).envelopes
    assert envelope.grade == "insufficient"
    assert "Logfire scrubbed" in envelope.outcome.lost_reason
    assert envelope.outcome.kind == "lost"


def test_hidden_and_redacted_openinference() -> None:
    model = span("ChatCompletion", {
        "openinference.span.kind": "LLM", "llm.system": "openai", "input.value": "__REDACTED__",
        "output.value": "__REDACTED__"}, scope="openinference.instrumentation.openai")  # fmt: skip
    (line,) = describe(of(model))
    assert line.grade == "insufficient"
    assert "OPENINFERENCE_HIDE" in line.setting
    assert "redacted by OpenInference" in line.reason


def test_anthropic_without_signatures_cannot_go_live() -> None:
    parts = [{"type": "reasoning", "content": "Add."}, {"type": "text", "content": "4"}]
    model = span("chat claude-x", {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-x",
        "gen_ai.system_instructions": [{"type": "text", "content": "Be exact."}],
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "2+2?"}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "stop"}],
        "gen_ai.request.max_tokens": 64, "gen_ai.response.id": "msg_7"})  # fmt: skip
    found = of(model)
    assert request(found, "anthropic.messages[1]") == {
        "model": "claude-x", "system": "Be exact.", "messages": [{"role": "user", "content": "2+2?"}], "max_tokens": 64,
    }  # fmt: skip
    body = response_body(found.envelopes[0])
    assert body["content"] == [
        {"type": "thinking", "thinking": "Add.", "signature": ""}, {"type": "text", "text": "4"},
    ]  # fmt: skip
    assert (body["id"], body["stop_reason"]) == ("msg_7", "end_turn")
    assert UNSIGNED in found.envelopes[0].notes


def test_openai_responses_are_rebuilt_in_their_own_form() -> None:
    model = span("chat gpt-5", {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5",
        "gen_ai.response.id": "resp_1", "gen_ai.response.model": "gpt-5",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "2+2?"}]}],
        "gen_ai.output.messages": [{"role": "assistant", "finish_reason": "tool_call", "parts": [
            {"type": "tool_call", "id": "call_1", "name": "add", "arguments": '{"a":2,"b":2}'}]}],
        "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 3})  # fmt: skip
    found = of(model)
    assert request(found, "openai.responses[1]") == {
        "model": "gpt-5", "input": [{"role": "user", "content": "2+2?"}],
    }  # fmt: skip
    body = answer(found, "openai.responses[1]")
    (item,) = body["output"]
    assert (item["type"], item["call_id"], item["name"], item["arguments"]) == (
        "function_call", "call_1", "add", '{"a":2,"b":2}',
    )  # fmt: skip
    assert body["usage"]["total_tokens"] == 8
    assert "output[0].id" in describe(found)[0].invented


def test_openinference_embedding_keeps_its_vectors() -> None:
    asked = {"model": "text-embedding-3-small", "input": "hello"}
    told = {"object": "list", "model": "text-embedding-3-small", "data": [
        {"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]}  # fmt: skip
    model = span("CreateEmbeddings", {
        "openinference.span.kind": "EMBEDDING", "llm.system": "openai", "input.value": json.dumps(asked),
        "input.mime_type": "application/json", "output.value": json.dumps(told),
        "output.mime_type": "application/json"}, scope="openinference.instrumentation.openai")  # fmt: skip
    found = of(model)
    assert request(found, "openai.embeddings[1]") == asked
    assert answer(found, "openai.embeddings[1]")["data"][0]["embedding"] == [0.5, -0.25]


def test_a_tool_that_fails_raises_its_own_class() -> None:
    tool = span("execute_tool add", {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.arguments": '{"a":2}',
        "error.type": "ValueError"}, exception=("ValueError", "b is missing"))  # fmt: skip
    (envelope,) = of(tool).envelopes
    assert envelope.outcome.kind == "raised"
    raised = decode(envelope.outcome.value)
    assert (type(raised), raised.args) == (ValueError, ("b is missing",))
    assert envelope.grade == "semantic"


def test_a_handled_exception_is_no_failure() -> None:
    tool = span("execute_tool add", {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.arguments": '{"a":2}',
        "gen_ai.tool.call.result": "4"}, exception=("KeyError", "'x'"))  # fmt: skip
    handled = span("x", {})
    assert handled.status_code == 0
    calm = type(tool)(**{name: getattr(tool, name) for name in tool.__dataclass_fields__} | {"status_code": 0})
    (envelope,) = of(calm).envelopes
    assert (envelope.outcome.kind, envelope.outcome.value.tree()) == ("returned", "4")


def test_an_unknown_exception_class_is_named_and_never_another_one() -> None:
    tool = span("execute_tool add", {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.arguments": "{}",
        "error.type": "SymbolNotFound"}, error="ACME is not listed")  # fmt: skip
    (envelope,) = of(tool).envelopes
    tree = envelope.outcome.value.tree()
    assert isinstance(tree, dict)
    assert tree["t"] == "unknown:SymbolNotFound"
    assert any("not in the record" in note for note in envelope.notes)


def test_a_call_that_was_measured_by_status_only() -> None:
    model = span("chat gpt-4o", {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        "error.type": "429"}, error="slow down")  # fmt: skip
    raised = decode(of(model).envelopes[0].outcome.value)
    assert (type(raised), raised.status_code) == (openai.RateLimitError, 429)
