"""LangGraph's control flow and streams: interrupts, commands, subgraphs, functions as graphs, replayed in full."""

from __future__ import annotations

import asyncio
import importlib.util
import operator
import re
from typing import Annotated, Any, TypedDict

import pytest

from otel_replay import ReplayPlan, instrument, record
from otel_replay.errors import Diverged, ReplayError
from otel_replay.instruments import _langgraph_events
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("langgraph") is not None:
    from langchain_core.messages import AIMessageChunk, HumanMessage
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.config import get_stream_writer
    from langgraph.func import entrypoint, task
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import Command, Send, interrupt

RAN: list[str] = []
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture
def graph_lab(lab: Lab) -> Lab:
    instrument("openai", "langchain", "langgraph")
    RAN.clear()
    return lab


def graph_of(*nodes: Any, first: str, checkpointer: Any = None, state: Any = Log, **more: Any) -> Any:
    graph = StateGraph(state)
    for node in nodes:
        graph.add_node(node.__name__, node)
    for name, node in more.items():
        graph.add_node(name, node)
    graph.add_edge(START, first)
    return graph.compile(checkpointer=checkpointer)


def approve(state: Any) -> dict[str, Any]:
    first = interrupt({"ask": "may I?"})
    second = interrupt({"ask": "how many?"})
    RAN.append(f"{first} {second}")
    return {"log": [f"{first} {second}"]}


def asked(graph: Any, *answers: Any, by_id: bool = False) -> list[Any]:
    """Return what is asked and logged at each step of a conversation in which `answers` are given."""
    out = graph.invoke({"log": ["go"]}, THREAD)
    told = [(out["log"], [one.value for one in out.get("__interrupt__", ())])]
    for answer in answers:
        (pending,) = out["__interrupt__"]
        out = graph.invoke(Command(resume={pending.id: answer} if by_id else answer), THREAD)
        told.append((out["log"], [one.value for one in out.get("__interrupt__", ())]))
    return told


def conversation(shape: str) -> Any:
    if shape == "node":
        return graph_of(approve, first="approve", checkpointer=InMemorySaver())
    inner = graph_of(approve, first="approve")
    return graph_of(first="sub", sub=inner, checkpointer=InMemorySaver())


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("shape", ["node", "subgraph"])
def test_an_interrupted_run_and_its_resumption_replay(graph_lab: Lab, shape: str, by_id: bool) -> None:
    then = graph_lab.record(lambda: asked(conversation(shape), "yes", 7, by_id=by_id))
    assert [one[1] for one in then] == [[{"ask": "may I?"}], [{"ask": "how many?"}], []]
    assert then[-1][0][-1] == "yes 7"
    assert RAN == ["yes 7"]
    assert graph_lab.replay(lambda: asked(conversation(shape), "yes", 7, by_id=by_id)) == then
    assert RAN == ["yes 7"]


@pytest.mark.parametrize("shape", ["node", "subgraph"])
def test_another_answer_to_an_interrupt_diverges(graph_lab: Lab, shape: str) -> None:
    graph_lab.record(lambda: asked(conversation(shape), "yes", 7))
    for answers in (("no", 7), ("yes", 8)):
        with pytest.raises(Diverged, match="resume"):
            graph_lab.replay(lambda answers=answers: asked(conversation(shape), *answers))  # type: ignore[misc]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_resumed_node_runs_live_after_served_interrupts(graph_lab: Lab, by_id: bool) -> None:
    then = graph_lab.record(lambda: asked(conversation("node"), "yes", 7, by_id=by_id))
    plan = ReplayPlan().live("approve", 3)
    assert graph_lab.replay(lambda: asked(conversation("node"), "yes", 7, by_id=by_id), plan) == then
    assert RAN == ["yes 7", "yes 7"]


def test_a_run_that_only_resumes_is_a_run_of_its_own(graph_lab: Lab) -> None:
    def resume(graph: Any) -> Any:
        graph.invoke(Command(resume="yes"), THREAD)
        return graph.invoke(Command(resume=7), THREAD)

    first, again = conversation("node"), conversation("node")
    first.invoke({"log": ["go"]}, THREAD)
    again.invoke({"log": ["go"]}, THREAD)
    then = graph_lab.record(lambda: resume(first))
    assert graph_lab.replay(lambda: resume(again)) == then
    assert RAN == ["yes 7"]


def test_commands_choose_the_next_nodes_in_a_replay_too(graph_lab: Lab) -> None:
    def first(state: Any) -> Any:
        RAN.append("first")
        return Command(update={"log": ["first"]}, goto="spread")

    def spread(state: Any) -> Any:
        return Command(update={"log": ["spread"]}, goto=[Send("work", {"log": [word]}) for word in ("a", "b")])

    def work(state: Any) -> Any:
        RAN.append(state["log"][0])
        return {"log": [state["log"][0].upper()]}

    def leave(state: Any) -> Any:
        return Command(update={"log": ["leave"]}, goto="first", graph=Command.PARENT)

    graph = graph_of(first, spread, work, first="sub", sub=graph_of(leave, first="leave"))
    then = graph_lab.record(lambda: graph.invoke({"log": []}))
    assert then == {"log": ["leave", "first", "spread", "A", "B"]}
    assert sorted(RAN) == ["a", "b", "first"]
    assert graph_lab.replay(lambda: graph.invoke({"log": []})) == then
    assert len(RAN) == 3


def talker(server: ModelServer, later: bool) -> Any:
    """Return a graph whose node speaks, and then a subgraph whose node speaks too."""
    model = ChatOpenAI(model="gpt-x", base_url=server.url, api_key="none", max_retries=0)

    def talk(state: Any) -> dict[str, Any]:
        get_stream_writer()({"progress": len(state["messages"])})
        return {"messages": [model.invoke(state["messages"])]}

    async def talk_later(state: Any) -> dict[str, Any]:
        get_stream_writer()({"progress": len(state["messages"])})
        return {"messages": [await model.ainvoke(state["messages"])]}

    node = talk_later if later else talk
    graph = StateGraph(MessagesState)
    graph.add_node("talk", node)
    graph.add_node("sub", graph_of(first="inner", state=MessagesState, inner=node))
    graph.add_edge(START, "talk")
    graph.add_edge("talk", "sub")
    return graph.compile()


def streamed(graph: Any, later: bool, **options: Any) -> list[Any]:
    given = {"messages": [HumanMessage("hello", id="h")]}

    async def go() -> list[Any]:
        return [one async for one in graph.astream(given, **options)]

    return asyncio.run(go()) if later else list(graph.stream(given, **options))


def without_task_ids(events: list[Any]) -> str:
    """Return the events with the ids of tasks struck out, which LangGraph draws anew in each run."""
    return re.sub(r":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", ":task", repr(events))


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize(
    "mode", ["values", "updates", "messages", "custom", ["updates", "messages", "custom"]], ids=str
)
def test_every_stream_mode_replays_event_for_event(graph_lab: Lab, mode: Any, subgraphs: bool, later: bool) -> None:
    with ModelServer([reply.text("Hello there you."), reply.text("And again.")]) as server:
        graph = talker(server, later)
        then = graph_lab.record(lambda: streamed(graph, later, stream_mode=mode, subgraphs=subgraphs))
    if mode == "messages":
        assert sum(AIMessageChunk.__name__ in repr(type(part)) for event in then for part in _flat(event)) > 3
    now = graph_lab.replay(lambda: streamed(graph, later, stream_mode=mode, subgraphs=subgraphs))
    assert without_task_ids(now) == without_task_ids(then)


def _flat(event: Any) -> list[Any]:
    return [part for item in event for part in _flat(item)] if isinstance(event, tuple) else [event]


def test_events_that_were_never_recorded_are_refused_and_unwanted_ones_do_no_harm(graph_lab: Lab) -> None:
    script = [reply.text("Hello there you."), reply.text("And again.")]
    with ModelServer(script) as server:
        graph = talker(server, later=False)
        graph_lab.record(lambda: streamed(graph, False, stream_mode="updates"))
        with pytest.raises(ReplayError, match=r"talk\[1\]"):
            graph_lab.replay(lambda: streamed(graph, False, stream_mode="messages"))
    with ModelServer(script) as server:
        graph = talker(server, later=False)
        graph_lab.record(lambda: streamed(graph, False, stream_mode="messages"))
        plain = graph_lab.replay(lambda: streamed(graph, False, stream_mode="values"))
        assert plain[-1]["messages"][-1].content == "And again."
        with pytest.raises(ReplayError, match=r"talk\[1\]"):
            graph_lab.replay(lambda: streamed(graph, False, stream_mode="custom"))


@pytest.mark.parametrize("resumed", [False, True])
def test_functions_as_graphs_replay(graph_lab: Lab, resumed: bool) -> None:
    def flow_of() -> Any:
        @task
        def double(number: int) -> int:
            RAN.append("double")
            return number * 2

        @entrypoint(checkpointer=InMemorySaver())
        def flow(number: int, *, previous: Any = None) -> Any:
            found = [one.result() for one in [double(number), double(number + 1)]]
            if resumed:
                found.append(interrupt("more?"))
            return entrypoint.final(value=[*found, previous], save=sum(found))

        return flow

    def go() -> Any:
        flow = flow_of()
        out = flow.invoke(3, THREAD)
        if not resumed:
            return out, flow.invoke(3, THREAD)
        return [one.value for one in out["__interrupt__"]], flow.invoke(Command(resume=9), THREAD)

    then = graph_lab.record(go)
    assert then == ((["more?"], [6, 8, 9, None]) if resumed else ([6, 8, None], [6, 8, 14]))
    assert ("flow[1]/double[2]", "custom") in graph_lab.addresses()
    ran = len(RAN)
    assert graph_lab.replay(go) == then
    assert graph_lab.replay(go, ReplayPlan().live("flow[1]")) == then
    assert len(RAN) == ran == (2 if resumed else 4)


def test_a_fault_within_never_reaches_the_graph(graph_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("broken within")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    for owner, step in (
        (_langgraph_events, "request"),
        (_langgraph_events, "answers"),
        (_langgraph_events.Outlet, "__init__"),
        (_langgraph_events.Node, "_read"),
        (_langgraph_events.Node, "_head"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, broken)
            with ModelServer([reply.text("Hello."), reply.text("Again.")]) as server:
                graph = talker(server, later=False)
                with record("run", store=graph_lab.store, strict=False) as run:
                    assert len(streamed(graph, False, stream_mode=["updates", "custom"])) > 2
            assert run.faults["instrument"] >= 1
