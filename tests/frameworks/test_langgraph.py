"""A LangGraph agent as people write it, recorded once and replayed with its model's server switched off."""

from __future__ import annotations

import asyncio
import importlib.util
import operator
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from otel_replay import ReplayPlan, boundary, instrument, replay, uninstrument
from otel_replay.errors import Diverged, LiveCallBlocked, ReplayError, SideEffectBlocked
from otel_replay.instruments.check import dry_calls
from otel_replay.instruments.langchain import without_made_ids
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("langgraph") is not None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.types import RetryPolicy, Send

ORDERS: list[tuple[str, int]] = []
SCRIPT = [
    reply.tool_calls(("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": 3})),
    reply.text("Bought 3 ACME."),
]


def trader(server: ModelServer, guard: Any = None, streaming: bool = False) -> Any:
    @tool
    def quote(symbol: str) -> str:
        """The price now."""
        return f"{symbol} 12.50"

    @tool
    def place_order(symbol: str, qty: int) -> dict[str, Any]:
        """Buy."""
        if guard is not None:
            return dict(guard(symbol, qty))
        ORDERS.append((symbol, qty))
        return {"ok": True, "qty": qty}

    model = ChatOpenAI(model="gpt-x", base_url=server.url, api_key="none", streaming=streaming, max_retries=0)
    bound = model.bind_tools([quote, place_order])

    def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    async def agent_later(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    def route(state: MessagesState) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    from langchain_core.runnables import RunnableLambda

    graph = StateGraph(MessagesState)
    graph.add_node("agent", RunnableLambda(agent, afunc=agent_later))
    graph.add_node("tools", ToolNode([quote, place_order]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", route, ["tools", END])
    graph.add_edge("tools", "agent")
    return graph.compile()


def ask(graph: Any) -> Any:
    return graph.invoke({"messages": [HumanMessage("buy 3 ACME")]})["messages"]


@pytest.fixture
def openai_and_langgraph(lab: Lab) -> Lab:
    instrument("openai", "langchain", "langgraph")
    ORDERS.clear()
    return lab


def test_addresses_are_the_names_of_nodes_tools_and_routers(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    with ModelServer(SCRIPT) as server:
        lab.record(lambda: ask(trader(server)))
    told = lab.addresses()
    assert [one for one in told if "tools[1]/" not in one[0]] == [
        ("agent[1]", "custom"),
        ("agent[1]/openai.chat.completions[1]", "model"),
        ("route[1]", "router"),
        ("tools[1]", "custom"),
        ("agent[2]", "custom"),
        ("agent[2]/openai.chat.completions[1]", "model"),
        ("route[2]", "router"),
    ]
    assert sorted(one for one in told if "tools[1]/" in one[0]) == [
        ("tools[1]/place_order[1]", "tool"),
        ("tools[1]/quote[1]", "tool"),
    ]


@pytest.mark.parametrize("streaming", [False, True])
def test_replays_in_full_with_the_server_off(openai_and_langgraph: Lab, streaming: bool) -> None:
    lab = openai_and_langgraph
    with ModelServer(SCRIPT) as server:
        graph = trader(server, streaming=streaming)
        then = lab.record(lambda: ask(graph))
    now = lab.replay(lambda: ask(graph))
    assert [type(one) for one in now] == [type(one) for one in then] == [HumanMessage, AIMessage, ToolMessage,
                                                                         ToolMessage, AIMessage]  # fmt: skip
    assert without_made_ids(now) == without_made_ids(then)
    assert ORDERS == [("ACME", 3)]


def test_replays_ainvoke_in_full(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph

    async def ask_later() -> Any:
        return (await graph.ainvoke({"messages": [HumanMessage("buy 3 ACME")]}))["messages"]

    with ModelServer(SCRIPT) as server:
        graph = trader(server)
        then = lab.record(lambda: asyncio.run(ask_later()))
    assert without_made_ids(lab.replay(lambda: asyncio.run(ask_later()))) == without_made_ids(then)


def test_a_guarded_tool_runs_live_and_the_rest_is_served(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    with ModelServer(SCRIPT) as server:
        lab.record(lambda: ask(trader(server)))
    graph = trader(server, guard=lambda symbol, qty: {"blocked": True})
    with replay("run", ReplayPlan().live("place_order", 1), store=lab.store, on_drift="serve") as session:
        told = ask(graph)
        blocked = session.captured_result("place_order", 1)
    assert "blocked" in blocked.content
    assert [one.content for one in told if one.type == "tool" and one.name == "place_order"] == ['{"blocked": true}']
    assert ORDERS == [("ACME", 3)]  # once, when recorded


def test_a_change_before_the_tool_is_found(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    with ModelServer(SCRIPT) as server:
        graph = trader(server)
        lab.record(lambda: ask(graph))
    with pytest.raises(Diverged, match=r"agent\[1\]"), replay("run", store=lab.store):
        graph.invoke({"messages": [HumanMessage("buy 4 ACME")]})


def test_what_has_side_effects_stays_shut_inside_an_opened_node(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph

    @boundary("wire", kind="tool", side_effects=True)
    def wire(amount: int) -> str:
        """Send money."""
        ORDERS.append(("wire", amount))
        return "sent"

    def graph_of(amount: int) -> Any:
        wired = tool(wire)
        graph = StateGraph(MessagesState)

        def pay(state: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(wired.invoke({"amount": amount}))]}

        graph.add_node("pay", pay)
        graph.add_edge(START, "pay")
        return graph.compile()

    lab.record(lambda: ask(graph_of(5)))
    assert lab.addresses() == [("pay[1]", "custom"), ("pay[1]/wire[1]", "tool")]
    with pytest.raises((SideEffectBlocked, Diverged)):
        lab.replay(lambda: ask(graph_of(6)), ReplayPlan().live("pay", 1), on_drift="live")
    assert ORDERS == [("wire", 5)]


def test_a_divergence_that_the_tool_node_turns_into_text_is_reported(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph

    def graph_of(symbol: str) -> Any:
        @tool
        def quote(symbol: str) -> str:
            """The price now."""
            return f"{symbol} 12.50"

        def look(state: MessagesState) -> dict[str, Any]:
            try:
                return {"messages": [AIMessage(quote.invoke({"symbol": symbol}))]}
            except Exception as fault:  # as frameworks do, so that the model may read it
                return {"messages": [AIMessage(f"error: {type(fault).__name__}")]}

        graph = StateGraph(MessagesState)
        graph.add_node("look", look)
        graph.add_edge(START, "look")
        return graph.compile()

    lab.record(lambda: ask(graph_of("ACME")))
    with pytest.raises(ReplayError, match="quote"):
        lab.replay(lambda: ask(graph_of("EMCA")), ReplayPlan().live("look", 1))


def test_a_retry_loop_is_a_crossing_for_each_attempt(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    tries: list[int] = []

    def flaky(state: MessagesState) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("no route")
        return {"messages": [AIMessage("there")]}

    graph = StateGraph(MessagesState)
    graph.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=4))
    graph.add_edge(START, "flaky")
    compiled = graph.compile()
    then = lab.record(lambda: ask(compiled))
    assert lab.addresses() == [(f"flaky[{k}]", "custom") for k in (1, 2, 3)]
    assert lab.replay(lambda: ask(compiled))[-1].content == then[-1].content == "there"
    assert len(tries) == 3


class Fan(TypedDict):
    items: list[str]
    found: Annotated[list[str], operator.add]


def test_nodes_sent_in_parallel_and_a_subgraph_replay(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    ran: list[str] = []

    def work(state: Any) -> dict[str, Any]:
        ran.append(state["item"])
        return {"found": [state["item"].upper()]}

    def inner(state: Fan) -> dict[str, Any]:
        ran.append("inner")
        return {"found": ["inner"]}

    sub = StateGraph(Fan)
    sub.add_node("inner", inner)
    sub.add_edge(START, "inner")
    graph = StateGraph(Fan)
    graph.add_node("work", work)
    graph.add_node("sub", sub.compile())

    def spread(state: Fan) -> list[Any]:
        return [Send("work", {"item": item}) for item in state["items"]]

    graph.add_conditional_edges(START, spread, ["work"])
    graph.add_edge("work", "sub")
    compiled = graph.compile()

    def go() -> Any:
        return compiled.invoke({"items": ["a", "b", "c"], "found": []})

    then = lab.record(go)
    assert sorted(ran) == ["a", "b", "c", "inner"]
    assert ("spread[1]", "router") in lab.addresses()
    assert ("sub[1]/inner[1]", "custom") in lab.addresses()
    assert lab.replay(go) == then
    assert len(ran) == 4


def test_twice_is_once_and_undone_is_gone(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    instrument("langgraph")
    instrument("langgraph")
    with ModelServer(SCRIPT) as server:
        graph = trader(server)
        lab.record(lambda: ask(graph))
        assert len([one for one, _kind in lab.addresses() if one == "agent[1]"]) == 1
    uninstrument("langgraph", "langchain", "openai")
    with ModelServer(SCRIPT) as server:
        graph = trader(server)
        lab.record(lambda: ask(graph))
        assert lab.addresses() == []


def test_a_model_that_was_never_recorded_is_blocked(openai_and_langgraph: Lab) -> None:
    lab = openai_and_langgraph
    with ModelServer(SCRIPT) as server:
        graph = trader(server)
        lab.record(lambda: ask(graph))
        seen = server.count
        model = ChatOpenAI(model="gpt-x", base_url=server.url, api_key="none", max_retries=0)
        with pytest.raises((LiveCallBlocked, ReplayError)), replay("run", store=lab.store):
            model.invoke("hello")
        assert server.count == seen


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    for name in ("langchain", "langgraph"):
        assert told[name].problem == ""
        assert told[name].layers


AGENT = """
    from langgraph.graph import START, StateGraph
    graph = StateGraph(dict)
    graph.add_node("hello", lambda state: {"word": "hello"})
    graph.add_edge(START, "hello")
    print(graph.compile().invoke({"word": ""}))
"""


def test_a_mode_from_outside_covers_it_without_a_line_of_code(lab: Lab) -> None:
    Path("agent.py").write_text(textwrap.dedent(AGENT))
    for verb in ("record", "replay"):
        command = [sys.executable, "-m", "otel_replay", verb, "n", "--store", "s", "--", sys.executable, "agent.py"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "{'word': 'hello'}" in done.stdout
    told = subprocess.run(
        [sys.executable, "-m", "otel_replay", "show", "n", "--store", "s"], capture_output=True, text=True
    )
    assert "hello[1]" in told.stdout
