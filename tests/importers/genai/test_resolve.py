"""One real call, one envelope: nested spans of several instrumentations, and what must stay apart."""

from __future__ import annotations

from typing import Any

from otel_replay.span import Span

from ._samples import answer, at, request
from ._spans import of, span

ASKED = '{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}'
TOLD = '{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]}'
CHAT = "openai.chat.completions"


def model(scope: str, *, content: bool = True, response_id: str = "", **where: Any) -> Span:
    attributes = {"openinference.span.kind": "LLM", "llm.system": "openai"}
    if content:
        attributes |= {"input.value": ASKED, "output.value": TOLD, "input.mime_type": "application/json"}
    if response_id:
        attributes["gen_ai.response.id"] = response_id
    return span("llm", attributes, scope=scope, **where)


def tool(scope: str, arguments: str = '{"a": 1}', *, name: str = "add", result: str = "2", **where: Any) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                  "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}  # fmt: skip
    return span(f"execute_tool {name}", attributes, scope=scope, **where)


def mcp(arguments: str = '{"a": 1}', *, kind: int = 3, **where: Any) -> Span:
    attributes = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add",
                  "gen_ai.tool.call.arguments": arguments,
                  "gen_ai.tool.call.result": '{"content": [{"type": "text", "text": "2"}]}'}  # fmt: skip
    return span("tools/call add", attributes, scope="mcp", kind=kind, **where)


def addresses(*spans: Span) -> list[str]:
    return [envelope.address for envelope in of(*spans).envelopes]


def test_two_real_calls_of_equal_content_stay_two() -> None:
    root = span("agent")
    assert addresses(root, model("a", under=root, start=1), model("a", under=root, start=2)) == [
        f"{CHAT}[1]", f"{CHAT}[2]",
    ]  # fmt: skip
    assert len(addresses(root, model("a", under=root, start=1), model("b", under=root, start=1))) == 2


def test_the_innermost_with_content_speaks() -> None:
    root = span("agent")
    outer = model("framework", under=root, start=1)
    middle = model("provider", under=outer, start=2)
    http = span("POST", {"http.request.method": "POST"}, under=middle, start=3)
    inner = model("sdk", content=False, response_id="chatcmpl-7", under=http, start=4)
    found = of(root, outer, middle, http, inner)
    (envelope,) = found.envelopes
    assert envelope.span_id == middle.span_id
    assert answer(found, f"{CHAT}[1]")["id"] == "chatcmpl-7"
    assert envelope.pins["import"]["spans"] == [outer.span_id, middle.span_id, inner.span_id]  # type: ignore[index]


def test_a_framework_span_around_two_calls_is_no_call() -> None:
    root = span("agent")
    outer = model("framework", under=root, start=1)
    first, second = model("provider", under=outer, start=2), model("provider", under=outer, start=3)
    found = of(root, outer, first, second)
    assert [envelope.span_id for envelope in found.envelopes] == [first.span_id, second.span_id]
    assert any("wraps 2 calls" in note for note in found.run.notes)


def test_nested_calls_with_other_response_ids_are_two() -> None:
    outer = model("a", response_id="chatcmpl-1")
    inner = model("a", response_id="chatcmpl-2", under=outer, start=1)
    assert len(addresses(outer, inner)) == 2


def test_a_model_call_inside_a_tool_is_its_own() -> None:
    root = span("agent")
    outer = model("adk", under=root, start=1)
    helper = tool("adk", under=outer, start=2)
    inner = model("adk", under=helper, start=3)
    assert addresses(root, outer, helper, inner) == [f"{CHAT}[1]", "add[1]", f"add[1]/{CHAT}[1]"]


def test_mcp_beneath_execute_tool_is_counted_once_and_the_tool_speaks() -> None:
    root = span("agent")
    outer = tool("pydantic-ai", under=root, start=1)
    client = mcp(under=outer, start=2)
    server = mcp(kind=2, under=client, start=3)
    found = of(root, outer, client, server)
    (envelope,) = found.envelopes
    assert (envelope.address, envelope.kind, envelope.span_id) == ("add[1]", "tool", outer.span_id)
    assert answer(found, "add[1]") == "2", "what the tool returned, not MCP's wrapping of it"
    assert any("may have returned the value that it spells" in note for note in envelope.notes)
    alone = of(root, mcp(under=root, start=1))
    assert (at(alone, "add[1]").kind, request(alone, "add[1]")) == ("mcp", {"a": 1})


def test_recursion_and_other_arguments_are_two_calls() -> None:
    root = span("agent")
    outer = tool("x", under=root, start=1)
    assert addresses(root, outer, tool("x", under=outer, start=2)) == ["add[1]", "add[1]/add[1]"]
    assert addresses(root, outer, tool("y", '{"a": 9}', under=outer, start=2)) == ["add[1]", "add[1]/add[1]"]
    assert addresses(root, outer, tool("y", name="mul", under=outer, start=2)) == ["add[1]", "add[1]/mul[1]"]
    assert addresses(root, outer, tool("y", under=outer, start=2)) == ["add[1]"]


def test_agents_are_places_and_handoffs_too() -> None:
    run = span("workflow", {"openinference.span.kind": "AGENT"})
    triage = span("triage", {"openinference.span.kind": "AGENT"}, under=run, start=1)
    first = model("a", under=triage, start=2)
    hand = span("handoff to billing", {"openinference.span.kind": "TOOL"}, under=triage, start=3)
    billing = span("billing", {"openinference.span.kind": "AGENT"}, under=run, start=4)
    second = model("a", under=billing, start=5)
    found = of(run, triage, first, hand, billing, second)
    assert [(e.address, e.kind) for e in found.envelopes] == [
        ("triage[1]", "custom"),
        (f"triage[1]/{CHAT}[1]", "model"),
        ("triage[1]/handoff to billing[1]", "custom"),
        ("billing[1]", "custom"),
        (f"billing[1]/{CHAT}[1]", "model"),
    ]
    assert found.complete, "a place without content is no fault"


def test_names_cannot_forge_an_address() -> None:
    root = span("agent")
    found = of(root, tool("x", name="a/b[2]~1", under=root, start=1))
    assert [envelope.address for envelope in found.envelopes] == ["a_b(2)_1[1]"]
