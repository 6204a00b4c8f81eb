"""Calls whose serving side is in another trace (OT-15): joined by the id of the call, or left apart and named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_replay import codec, open_store, run_digest
from otel_replay.envelope import Recording
from otel_replay.importers.genai import recordings
from otel_replay.importing import import_source
from otel_replay.span import Resource, Span
from otel_replay.wire.json import json_line
from tests.store.making import make_run

from ._samples import request
from ._spans import span

OTHER = "f" * 32
SERVER = Resource((("service.name", "desk"),))


def ask(number: int, arguments: str, *, tool: str = "quote", session: str = "", at: int = 1, **where: Any) -> Span:
    attributes: dict[str, Any] = {
        "mcp.method.name": "tools/call", "jsonrpc.request.id": str(number), "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool, "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": '{"content": [{"type": "text", "text": "1"}]}',
    }  # fmt: skip
    if session:
        attributes["mcp.session.id"] = session
    made = span(f"tools/call {tool}", attributes, scope="mcp", start=at, kind=3, **where)
    return replace(made, end_ns=made.start_ns + 50_000_000)


def serve(asked: Span, *, at: int, trace: str = OTHER, parent: str = "", **other: Any) -> Span:
    kept = tuple(pair for pair in asked.attributes if "arguments" not in pair[0] and "result" not in pair[0])
    kept = tuple((key, other.get(key, value)) for key, value in kept)
    made = span(asked.name, scope="server", start=at, kind=2)
    return replace(made, trace_id=trace, parent_span_id=parent, attributes=kept, resource=SERVER)


def inner(under: Span, *, at: int) -> Span:
    said = '[{"role": "%s", "parts": [{"type": "text", "content": "1"}]}]'
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.system": "openai",
                  "gen_ai.input.messages": said % "user", "gen_ai.output.messages": said % "assistant"}  # fmt: skip
    made = span("chat gpt-4o", attributes, under=under, start=at)
    return replace(made, trace_id=under.trace_id, resource=SERVER)


def addresses(found: Recording) -> list[str]:
    return [envelope.address for envelope in found.envelopes]


def notes(found: Recording) -> str:
    return "\n".join((*found.run.notes, *found.problems))


@pytest.mark.parametrize("session", ["", "s-1"])
@pytest.mark.parametrize("traces", [(OTHER, OTHER), (OTHER, "e" * 32), None], ids=["one", "two", "a stale parent"])
def test_ot_15_two_parallel_calls_meet_their_servers_by_id(traces: tuple[str, str] | None, session: str) -> None:
    root = span("agent")
    start = span("initialize", under=root)
    one, two = ask(3, '{"s": "A"}', session=session, under=root), ask(4, '{"s": "B"}', session=session, under=root)
    where = traces or (root.trace_id, root.trace_id)
    parent = "" if traces else start.span_id
    # They arrive in the other order.
    second, first = serve(two, at=3, trace=where[1], parent=parent), serve(one, at=5, trace=where[0], parent=parent)
    (found,) = recordings([root, start, one, two, second, inner(second, at=4), first, inner(first, at=6)])
    chat = "openai.chat.completions[1]"
    assert sorted(addresses(found)) == ["quote[1]", f"quote[1]/{chat}", "quote[2]", f"quote[2]/{chat}"]
    by_address = {envelope.address: envelope for envelope in found.envelopes}
    assert (request(found, "quote[1]"), request(found, "quote[2]")) == ({"s": "A"}, {"s": "B"})
    assert by_address[f"quote[1]/{chat}"].start_ns > by_address[f"quote[2]/{chat}"].start_ns
    for address in (f"quote[1]/{chat}", f"quote[2]/{chat}"):
        assert any("in another process (desk)" in note for note in by_address[address].notes)
    assert "by its JSON-RPC id (tools/call) 3" in notes(found)


def test_ot_15_what_was_passed_on_stays_as_it_is() -> None:
    root = span("agent")
    one = ask(3, "{}", under=root)
    (found,) = recordings([root, one, serve(one, at=3, trace=root.trace_id, parent=one.span_id)])
    assert addresses(found) == ["quote[1]"]
    assert "joined" not in notes(found)


@pytest.mark.parametrize(
    "other", [{"gen_ai.tool.name": "sell"}, {"jsonrpc.request.id": "9"}, {"mcp.session.id": "s-2"}]
)
def test_ot_15_another_call_is_never_joined(other: dict[str, str]) -> None:
    root = span("agent")
    one = ask(3, "{}", session="s-1", under=root)
    served = serve(one, at=3, **other)
    found = recordings([root, one, served, inner(served, at=4)])
    assert len(found) == 2
    assert "joined" not in "".join(map(notes, found))


def test_ot_15_equal_ids_of_two_sessions_that_tell_nothing_else_stay_apart_and_are_named() -> None:
    root = span("agent")
    asked = [ask(3, "{}", under=root), ask(3, "{}", under=root)]
    served = serve(asked[0], at=3)
    found = recordings([root, *asked, served, inner(served, at=4)])
    assert len(found) == 2
    assert "serves one of 2 calls of JSON-RPC id (tools/call) 3: left apart" in "".join(map(notes, found))
    # Of another time is another session, too.
    late = serve(asked[0], at=300)
    assert len(recordings([root, asked[0], late, inner(late, at=301)])) == 2


def test_ot_15_a_tool_call_id_of_the_model_joins_without_any_protocol() -> None:
    root = span("agent")
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "quote", "gen_ai.tool.call.id": "call_7",
             "gen_ai.tool.call.arguments": '{"s": "A"}', "gen_ai.tool.call.result": "1"}  # fmt: skip
    outer = span("execute_tool quote", given, under=root, start=1)
    other = replace(span("execute_tool quote", given, start=9), trace_id=OTHER, resource=SERVER)
    (found,) = recordings([other, inner(other, at=10), root, outer])
    assert addresses(found) == ["quote[1]", "quote[1]/openai.chat.completions[1]"]
    assert "by its tool call id call_7" in notes(found)
    assert any("in another process (desk)" in note for note in found.envelopes[1].notes)


def test_ot_15_a_server_of_a_server_and_a_loop_of_ids() -> None:
    root = span("agent")
    one = ask(1, "{}", under=root)
    served = serve(one, at=2)
    onward = replace(ask(5, "{}", tool="rate", at=3), trace_id=OTHER, parent_span_id=served.span_id)
    last = serve(onward, at=4, trace="e" * 32)
    (found,) = recordings([root, one, served, onward, last, inner(last, at=5)])
    assert addresses(found)[-1] == "quote[1]/rate[1]/openai.chat.completions[1]"
    # A file that says that each serves the other is read all the same.
    looped = replace(one, parent_span_id=served.span_id, trace_id=OTHER)
    assert recordings([looped, replace(served, parent_span_id=one.span_id)])


def test_ot_15_a_server_is_joined_to_the_call_of_a_run_of_ours(tmp_path: Path) -> None:
    run, (envelope, *_) = make_run(crossings=1)
    sent = {"mcp": {"method": "tools/call", "request_id": "3"}}
    asked = replace(envelope, kind="mcp", boundary="quote", address="quote[1]", pins=sent)
    run = replace(run, digest=run_digest.of_run([asked]))
    ours = [codec.to_span(asked), codec.run_to_span(run)]
    assert {key: ours[0].get(key) for key in ("mcp.method.name", "jsonrpc.request.id", "gen_ai.tool.name")} == {
        "mcp.method.name": "tools/call", "jsonrpc.request.id": "3", "gen_ai.tool.name": "quote",
    }  # fmt: skip
    served = replace(serve(ask(3, "{}"), at=0), start_ns=asked.start_ns, end_ns=asked.end_ns)
    below = replace(inner(served, at=0), start_ns=asked.start_ns)
    (found,) = recordings([below, served, *ours])
    assert (found.complete, addresses(found)) == (True, ["quote[1]"])
    said = "(desk) 'tools/call quote' is joined to span {} 'quote' by its JSON-RPC id (tools/call) 3: only what it gave"
    assert said.format(asked.span_id) in notes(found)
    # Kept, it says so; the server's spans are there and no run of their own.
    file = tmp_path / "all.jsonl"
    file.write_bytes(json_line([below, served, *ours]))
    with open_store(tmp_path / "store", create=True) as store:
        import_source(str(file), store)
        (kept,) = store.runs()
        assert said.format(asked.span_id) in notes(store.recording(kept.run_id))
        assert store.sql("SELECT count(*) FROM spans").fetchall() == [(4,)]
    # Another number is another call.
    numbered = dict(served.attributes) | {"jsonrpc.request.id": "4"}
    other = replace(served, attributes=tuple(numbered.items()))
    assert len(recordings([below, other, *ours])) == 2
