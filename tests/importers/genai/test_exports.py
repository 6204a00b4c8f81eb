"""Traces as Langfuse and MLflow export them: read by the shapes, then by the conventions.

The captured Langfuse traces are real ones of seven frameworks; they are read where the shared folder is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from otel_replay.envelope import Recording
from otel_replay.importers import open_source
from otel_replay.importers.genai import describe, recordings
from otel_replay.payload import decode

from ._samples import OWN, SHARED, answer, at, request

CHAT = "openai.chat.completions"
LANGFUSE = SHARED / "samples" / "langfuse"
MLFLOW = [OWN / "mlflow_trace_to_json.json", SHARED / "samples" / "mlflow" / "mlflow_trace_to_json.json"]


def read(path: Path) -> Recording:
    (found,) = recordings(open_source(str(path)).spans)
    return found


def message(found: Recording, address: str) -> Any:
    return answer(found, address)["choices"][0]["message"]


def test_a_langfuse_export_of_our_own() -> None:
    found = read(OWN / "langfuse_agent.json")
    assert [e.address for e in found.envelopes] == [f"{CHAT}[1]", "get_weather[1]", f"{CHAT}[2]", f"{CHAT}[3]"]
    assert found.run.answer is not None
    assert (found.run.name, found.run.answer.tree()) == ("weather", "18 degrees")
    asked = request(found, f"{CHAT}[1]")
    assert asked["messages"] == [{"role": "user", "content": "Paris?"}]
    assert asked["tools"][0]["function"]["name"] == "get_weather"
    assert "max_tokens" not in asked, "Infinity was never sent"
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    assert message(found, f"{CHAT}[1]")["tool_calls"] == [call]
    assert answer(found, f"{CHAT}[1]")["usage"]["total_tokens"] == 78
    invented = describe(found)[0].invented
    assert "id" in invented.split(", ")
    assert "choices[0].finish_reason" in invented
    assert (request(found, "get_weather[1]"), answer(found, "get_weather[1]")) == ({"city": "Paris"}, {"temp": 18})
    raised = decode(at(found, f"{CHAT}[2]").outcome.value)
    assert (type(raised), raised.status_code) == (openai.RateLimitError, 429)
    line = describe(found)[3]
    assert (line.grade, line.missing) == ("insufficient", ("input", "output"))
    assert line.reason.startswith("no content was captured: use an export with input and output")


@pytest.mark.parametrize("path", [path for path in MLFLOW if path.exists()], ids=lambda path: path.parent.name)
def test_mlflow(path: Path) -> None:
    found = read(path)
    assert [e.address for e in found.envelopes] == [f"{CHAT}[1]", "get_weather[1]"]
    assert found.run.name == "agent run"
    assert found.run.answer is not None
    assert found.run.answer.tree() == {"answer": "18 °C"}
    assert request(found, f"{CHAT}[1]") == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": "What's the weather in Paris?"}],
        "temperature": 0.2,
    }
    body = answer(found, f"{CHAT}[1]")
    assert (body["id"], body["choices"][0]["message"]["content"]) == ("chatcmpl-sample-002", "It is 18 °C")
    assert body["usage"] == {"prompt_tokens": 61, "completion_tokens": 17, "total_tokens": 78}
    assert describe(found)[0].invented == "object, created, model"
    assert (request(found, "get_weather[1]"), answer(found, "get_weather[1]")) == ({"city": "Paris"}, {"temp": 18})
    assert not found.complete
    assert "the run had not ended when the trace was written" in found.run.notes


def _adk(found: Recording) -> None:
    assert [e.address for e in found.envelopes] == [
        "agent_run (hello_agent)[1]",
        "agent_run (hello_agent)[1]/chat gcp.vertex.agent[1]",
        "agent_run (hello_agent)[1]/say_hello[1]",
        "agent_run (hello_agent)[1]/chat gcp.vertex.agent[2]",
    ]
    first = "agent_run (hello_agent)[1]/chat gcp.vertex.agent[1]"
    assert request(found, first)["contents"] == [{"parts": [{"text": "hi"}], "role": "user"}]
    assert answer(found, first)["content"]["parts"] == [{"function_call": {"args": {}, "name": "say_hello"}}]
    assert answer(found, first)["usage_metadata"]["total_token_count"] == 31
    tool = "agent_run (hello_agent)[1]/say_hello[1]"
    assert (request(found, tool), answer(found, tool)) == ({}, {"greeting": "Hello Langfuse 👋"})


def _koog(found: Recording) -> None:
    below = "f9f77d1a-437f-4ba6-890e-b592a50cbd21[1]/"
    assert sorted(e.address.removeprefix(below) for e in found.envelopes[1:]) == [
        "ByeTool[1]", "HelloTool[1]", f"{CHAT}[1]", f"{CHAT}[2]",
    ]  # fmt: skip
    calls = message(found, f"{below}{CHAT}[1]")["tool_calls"]
    assert [(call["id"], call["function"]) for call in calls] == [
        ("call_n2HaWg9KFP0BZDqXv6G4b3nJ", {"name": "HelloTool", "arguments": '{"name":"Bob"}'}),
        ("call_dOeEHJDI0liHrCdFWTpkTsuO", {"name": "ByeTool", "arguments": '{"name":"Bob"}'}),
    ]
    assert answer(found, f"{below}HelloTool[1]") == "Hello my darling Bob!"
    assert request(found, f"{below}ByeTool[1]") == {"name": "Bob"}
    turns = request(found, f"{below}{CHAT}[2]")["messages"]
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert turns[5]["tool_call_id"] == "call_dOeEHJDI0liHrCdFWTpkTsuO"
    assert message(found, f"{below}{CHAT}[2]")["content"] == "Hello my darling Bob! And, bye my dear Bob!"


def _langgraph(found: Recording) -> None:
    first, second = f"agent[1]/{CHAT}[1]", f"agent[2]/{CHAT}[1]"
    assert found.run.name == "LangGraph"
    assert request(found, first)["messages"] == [
        {"role": "user", "content": "Be helpful!"},
        {"role": "user", "content": "Search the web for 'example' and summarize."},
    ]
    assert request(found, first)["tools"][0]["function"]["name"] == "Web-Search"
    (call,) = message(found, first)["tool_calls"]
    assert (call["id"], call["function"]["arguments"]) == ("call_1oGK863sxQHlPreFhDdEs3yl", '{"query":"example"}')
    assert at(found, "tools[1]/Web-Search[1]").kind == "tool"
    assert request(found, "tools[1]/Web-Search[1]") == {"query": "example"}
    assert answer(found, "tools[1]/Web-Search[1]")[0]["title"] == "Example Result"
    assert request(found, second)["messages"][3]["tool_call_id"] == "call_1oGK863sxQHlPreFhDdEs3yl"
    assert message(found, second)["content"].startswith('The search for "example" primarily leads to')
    assert answer(found, second)["usage"]["total_tokens"] == 159


def _microsoft(found: Recording) -> None:
    assert [e.address for e in found.envelopes] == [f"{CHAT}[1]", "get_weather[1]", f"{CHAT}[2]"]
    (call,) = message(found, f"{CHAT}[1]")["tool_calls"]
    assert (call["id"], call["function"]["arguments"]) == ("call_Sz1QP8T7fuJkIECGDLFWOorq", '{"location":"Portland"}')
    assert request(found, "get_weather[1]") == {"location": "Portland"}
    assert answer(found, "get_weather[1]") == "The weather in Portland is stormy with a high of 19°C."
    assert request(found, f"{CHAT}[2]")["messages"][1]["tool_call_id"] == "call_Sz1QP8T7fuJkIECGDLFWOorq"
    assert message(found, f"{CHAT}[2]")["content"].startswith("The weather in Portland is currently stormy")
    assert answer(found, f"{CHAT}[2]")["usage"] == {
        "prompt_tokens": 631, "completion_tokens": 35, "total_tokens": 666,
    }  # fmt: skip


def _openai_agents(found: Recording) -> None:
    first, second = "Hello world[1]/openai.responses[1]", "Hello world[1]/openai.responses[2]"
    assert [e.address for e in found.envelopes] == ["Hello world[1]", first, "Hello world[1]/get_weather[1]", second]
    assert request(found, first)["input"] == [{"content": "What's the weather in Tokyo?", "role": "user"}]
    assert request(found, first)["instructions"] == "You are a helpful agent."
    (item,) = answer(found, first)["output"]
    assert (item["name"], item["arguments"], item["call_id"]) == (
        "get_weather", '{"city":"Tokyo"}', "call_Kud0j0DxWSmLzv9W5m6qVqXn",
    )  # fmt: skip
    assert request(found, "Hello world[1]/get_weather[1]") == {"city": "Tokyo"}
    assert answer(found, "Hello world[1]/get_weather[1]") == "The weather in Tokyo is sunny."
    assert answer(found, second)["output"][0]["content"][0]["text"].startswith("The weather in Tokyo is currently")
    assert not [note for note in at(found, first).notes if note.startswith("invented")]


def _pydantic_ai(found: Recording) -> None:
    chats = [e for e in found.envelopes if e.kind == "model"]
    assert [e.address for e in chats] == [
        f"joke_agent[1]/{CHAT}[1]", f"joke_agent[1]/{CHAT}[2]", f"joke_agent[2]/{CHAT}[1]",
        f"evaluator_agent[1]/{CHAT}[1]",
    ]  # fmt: skip
    assert sorted(e.boundary for e in found.envelopes if e.kind == "tool") == [
        "get_dad_joke_suggestion", "get_one_liner_suggestion", "get_pun_suggestion",
    ]  # fmt: skip
    asked = request(found, f"joke_agent[1]/{CHAT}[1]")
    assert (asked["model"], asked["temperature"]) == ("gpt-4o-mini", 0.7)
    assert len(asked["tools"]) >= 4
    calls = message(found, f"joke_agent[1]/{CHAT}[1]")["tool_calls"]
    assert [call["function"]["name"] for call in calls] == [
        "get_pun_suggestion", "get_dad_joke_suggestion", "get_one_liner_suggestion",
    ]  # fmt: skip
    assert answer(found, f"joke_agent[1]/{CHAT}[1]")["id"] == "chatcmpl-Cj4xu0Nus6lKWVVmxlb7TZTsMizLD"
    pun = next(e for e in found.envelopes if e.boundary == "get_pun_suggestion")
    assert pun.request.tree() == {"topic": "programming"}
    assert str(pun.outcome.value.tree()).startswith("Pun idea: Play on words")
    joke = "Why do programmers hate nature?  \nIt has too many bugs!"
    assert message(found, f"joke_agent[2]/{CHAT}[1]")["content"] == joke
    (verdict,) = message(found, f"evaluator_agent[1]/{CHAT}[1]")["tool_calls"]
    assert verdict["function"]["name"] == "final_result"


def _autogen(found: Recording) -> None:
    (envelope,) = found.envelopes
    assert message(found, envelope.address)["content"] == "Hello World!"
    assert answer(found, envelope.address)["usage"]["total_tokens"] == 44
    assert request(found, envelope.address)["messages"][0]["content"].startswith("system: You are a helpful AI")
    assert any("the messages behind it are not in the record" in note for note in envelope.notes)


def _llama_index(found: Recording) -> None:
    (envelope,) = found.envelopes
    assert request(found, envelope.address) == {
        "model": "gpt-4o", "messages": [{"role": "user", "content": "What is Langfuse?"}],
    }  # fmt: skip
    assert message(found, envelope.address)["content"].startswith("Langfuse is a tool designed to help developers")
    assert answer(found, envelope.address)["usage"]["total_tokens"] == 94


CAPTURED = {
    "google-adk-2025-08-28.json": _adk,
    "koog-2025-08-26.json": _koog,
    "langgraph-2025-08-22.json": _langgraph,
    "microsoft-agent-2025-10-14.json": _microsoft,
    "openai-agents-2025-09-30.json": _openai_agents,
    "pydantic-ai-tools-2025-12-04.json": _pydantic_ai,
    "autogen-2025-06-06.json": _autogen,
    "llamaindex-2025-06-05.json": _llama_index,
}


@pytest.mark.parametrize("name", [name for name in CAPTURED if (LANGFUSE / name).exists()])
def test_captured_langfuse_traces(name: str) -> None:
    found = read(LANGFUSE / name)
    assert found.complete
    CAPTURED[name](found)
    for envelope in found.envelopes:
        assert envelope.grade == ("semantic" if envelope.kind != "custom" else envelope.grade)
