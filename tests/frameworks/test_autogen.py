"""Agents and teams of AutoGen, recorded once and replayed with their model's server switched off."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import pathlib
from functools import partial
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, payload, record, replay, uninstrument
from otel_replay.errors import ReplayError, SideEffectBlocked
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab, each_broken_step

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("autogen_agentchat") is not None:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.base import TaskResult
    from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
    from autogen_agentchat.messages import ModelClientStreamingChunkEvent
    from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
    from autogen_agentchat.tools import AgentTool
    from autogen_core import CancellationToken
    from autogen_core.tools import FunctionTool, StaticWorkbench, ToolOverride
    from autogen_ext.models.openai import OpenAIChatCompletionClient

DONE: list[Any] = []
MODEL = "openai.chat.completions"
INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": "unknown",
}
TRADE = [
    reply.tool_call("transfer_to_trader", {}),
    reply.tool_calls(("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": 3})),
    reply.text("Bought 3 ACME. DONE"),
]


@dataclasses.dataclass(frozen=True)
class Bought:
    """What an order answers: a type of the program's own."""

    symbol: str
    qty: int


class TooMuch(Exception):
    """An error of the tool's own, with something in it."""

    def __init__(self, amount: int) -> None:
        super().__init__(f"{amount} is too much")
        self.amount = amount


def model_of(server: ModelServer) -> Any:
    return OpenAIChatCompletionClient(
        model="gpt-x", base_url=server.url, api_key="none", max_retries=0, model_info=INFO, parallel_tool_calls=True
    )


def trader_tools(guard: Any = None) -> list[Any]:
    async def quote(symbol: str) -> str:
        """The price now."""
        await asyncio.sleep(0.01)
        return f"{symbol} 12.50"

    def place_order(symbol: str, qty: int) -> Bought:
        """Buy."""
        if guard is not None:
            return guard(symbol, qty)  # type: ignore[no-any-return]
        DONE.append((symbol, qty))
        return Bought(symbol, qty)

    return [quote, place_order]


def swarm(server: ModelServer, guard: Any = None) -> Any:
    """Return two agents of which one hands over to the other, who has two tools."""
    head = AssistantAgent("desk", model_of(server), handoffs=["trader"], system_message="Hand over.")
    trader = AssistantAgent(
        "trader", model_of(server), tools=trader_tools(guard), reflect_on_tool_use=True, system_message="Trade."
    )
    return Swarm([head, trader], termination_condition=TextMentionTermination("DONE"))


def ask(team: Any, words: str = "buy 3 ACME") -> list[Any]:
    """Return the kinds, sources and contents of all messages."""
    result = asyncio.run(team.run(task=words))
    return said(result.messages)


def said(messages: Any) -> list[Any]:
    return [(type(one).__name__, one.source, getattr(one, "content", None)) for one in messages]


def lone(server: ModelServer, *tools: Any, **options: Any) -> Any:
    return AssistantAgent("clerk", model_of(server), tools=list(tools), reflect_on_tool_use=True, **options)


@pytest.fixture
def autogen_lab(lab: Lab) -> Lab:
    instrument("openai", "autogen")
    DONE.clear()
    return lab


def test_two_agents_hand_over_and_replay_with_the_server_off(autogen_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        then = autogen_lab.record(lambda: ask(swarm(server)))
    assert then[-1][1:] == ("trader", "Bought 3 ACME. DONE")
    assert ("HandoffMessage", "desk") in [one[:2] for one in then]
    assert sorted(autogen_lab.addresses()) == [
        *[(f"{MODEL}[{k}]", "model") for k in (1, 2, 3)],
        ("place_order[1]", "tool"),
        ("quote[1]", "tool"),
        ("transfer_to_trader[1]", "tool"),
    ]
    assert autogen_lab.replay(lambda: ask(swarm(server))) == then
    assert DONE == [("ACME", 3)]


def test_arguments_and_results_keep_their_types(autogen_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        autogen_lab.record(lambda: ask(swarm(server)))
    with replay("run", store=autogen_lab.store) as session:
        ask(swarm(server))
        assert session.captured_result("place_order", 1) == Bought("ACME", 3)
    kept = next(one for one in autogen_lab.envelopes() if one.address == "place_order[1]")
    assert payload.decode(kept.request) == {"symbol": "ACME", "qty": 3}
    assert payload.decode(kept.outcome.value) == Bought("ACME", 3)


def test_a_guarded_tool_runs_live_and_the_rest_is_served(autogen_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        autogen_lab.record(lambda: ask(swarm(server)))
    team = swarm(server, guard=lambda symbol, qty: f"blocked: {qty} is over the limit")
    plan = ReplayPlan().live("place_order", 1)
    with replay("run", plan, store=autogen_lab.store, on_drift="serve") as session:
        ask(team)
        assert session.captured_result("place_order", 1) == "blocked: 3 is over the limit"
    with pytest.raises(ReplayError, match=r"chat.completions\[3\]"):  # the model sees another answer: say so
        autogen_lab.replay(lambda: caught(swarm(server, guard=lambda symbol, qty: "blocked")), plan)
    assert DONE == [("ACME", 3)]


def caught(team: Any) -> Any:
    try:
        return ask(team)
    except Exception as fault:
        return fault


def test_what_a_tool_raises_is_raised_again_and_becomes_the_same_text(autogen_lab: Lab) -> None:
    seen: list[BaseException] = []

    class Watching(FunctionTool):  # type: ignore[misc,unused-ignore]
        async def run_json(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return await super().run_json(*args, **kwargs)
            except TooMuch as fault:
                seen.append(fault)
                raise

    def pay(amount: int) -> str:
        DONE.append(amount)
        raise TooMuch(amount)

    def agent_of(server: ModelServer) -> Any:
        return lone(server, Watching(pay, description="Pay.", name="pay"))

    with ModelServer([reply.tool_call("pay", {"amount": 5}), reply.text("No.")]) as server:
        then = autogen_lab.record(lambda: ask(agent_of(server)))
    assert "5 is too much" in str(then)
    assert autogen_lab.replay(lambda: ask(agent_of(server))) == then
    assert [(type(one), one.args, getattr(one, "amount", 0)) for one in seen] == [(TooMuch, ("5 is too much",), 5)] * 2
    assert DONE == [5]


def test_wrong_arguments_and_a_failing_model_end_as_they_did(autogen_lab: Lab) -> None:
    for script in ([reply.tool_call("quote", {"symbl": 1}), reply.text("No.")], [reply.error(500, "down")]):
        with ModelServer(script) as server:
            then = autogen_lab.record(partial(caught, lone(server, *trader_tools())))
        now = autogen_lab.replay(partial(caught, lone(server, *trader_tools())))
        assert (type(now), str(now)) == (type(then), str(then))


def test_parallel_calls_of_one_tool_keep_their_own_answers(autogen_lab: Lab) -> None:
    async def wait(turns: int) -> int:
        """Wait."""
        await asyncio.sleep(turns / 100)
        DONE.append(turns)
        return turns * 10

    calls = reply.tool_calls(*[("wait", {"turns": turns}) for turns in (3, 1, 2)])
    with ModelServer([calls, reply.text("Waited.")]) as server:
        then = autogen_lab.record(lambda: ask(lone(server, wait)))
    assert DONE == [1, 2, 3]
    assert [one.content for one in then[2][2]] == ["30", "10", "20"]
    assert autogen_lab.replay(lambda: ask(lone(server, wait))) == then
    assert len(DONE) == 3


def test_an_agent_as_a_tool_speaks_while_it_works_and_replays(autogen_lab: Lab) -> None:
    def agent_of(server: ModelServer) -> Any:
        writer = AssistantAgent("writer", model_of(server), tools=trader_tools(), description="Writes.")
        return lone(server, AgentTool(writer))

    script = [
        reply.tool_call("writer", {"task": "quote ACME"}),
        reply.tool_call("quote", {"symbol": "ACME"}),
        reply.text("Done."),
    ]
    with ModelServer(script) as server:
        then = autogen_lab.record(lambda: ask(agent_of(server)))
    assert sorted(autogen_lab.addresses()) == [
        (f"{MODEL}[1]", "model"),
        (f"{MODEL}[2]", "model"),
        ("writer[1]", "tool"),
        (f"writer[1]/{MODEL}[1]", "model"),
        ("writer[1]/quote[1]", "tool"),
    ]
    assert ("ToolCallExecutionEvent", "writer") in [one[:2] for one in then]
    assert autogen_lab.replay(lambda: ask(agent_of(server))) == then
    assert autogen_lab.replay(lambda: ask(agent_of(server)), ReplayPlan().live("writer", 1)) == then


def test_teams_that_choose_who_speaks_replay(autogen_lab: Lab) -> None:
    def team_of(server: ModelServer, kind: str) -> Any:
        pair = [AssistantAgent(name, model_of(server), description=name) for name in ("ann", "bob")]
        if kind == "selector":
            return SelectorGroupChat(pair, model_of(server), termination_condition=MaxMessageTermination(3))
        return RoundRobinGroupChat(pair, termination_condition=MaxMessageTermination(3))

    for kind, words in (("selector", ("bob", "I am Bob.", "ann", "I am Ann.")), ("round", ("I am Ann.", "I am Bob."))):
        with ModelServer([reply.text(one) for one in words]) as server:
            then = autogen_lab.record(partial(ask, team_of(server, kind)))
        assert [one[1] for one in then[1:]] == (["bob", "ann"] if kind == "selector" else ["ann", "bob"])
        assert autogen_lab.replay(partial(ask, team_of(server, kind))) == then


def test_a_streamed_answer_replays_in_the_same_portions(autogen_lab: Lab) -> None:
    async def stream(agent: Any) -> list[Any]:
        found = [one async for one in agent.run_stream(task="hello")]
        assert isinstance(found[-1], TaskResult)
        return said(found[:-1]) + said(found[-1].messages)

    with ModelServer([reply.text("The trader bought 3 ACME.")]) as server:
        then = autogen_lab.record(lambda: asyncio.run(stream(lone(server, model_client_stream=True))))
    portions = [one for one in then if one[0] == ModelClientStreamingChunkEvent.__name__]
    assert len(portions) > 2
    assert autogen_lab.replay(lambda: asyncio.run(stream(lone(server, model_client_stream=True)))) == then


def test_the_name_is_the_one_that_the_model_calls(autogen_lab: Lab) -> None:
    quote = FunctionTool(trader_tools()[0], description="The price.")
    bench = StaticWorkbench([quote], {"quote": ToolOverride(name="price")})

    async def call() -> Any:
        found = await bench.call_tool("price", {"symbol": "ACME"}, CancellationToken(), call_id="c1")
        return found.to_text(), found.is_error

    then = autogen_lab.record(lambda: asyncio.run(call()))
    assert autogen_lab.addresses() == [("price[1]", "tool")]
    assert autogen_lab.replay(lambda: asyncio.run(call())) == then == ("ACME 12.50", False)


@pytest.mark.parametrize("told", ["boundary", "project"])
def test_a_tool_with_side_effects_never_runs_by_drift(autogen_lab: Lab, told: str) -> None:
    if told == "project":
        pathlib.Path("pyproject.toml").write_text('[tool.otel_replay]\nside_effects = ["pay"]\n')

    def agent_of(server: ModelServer, amount: int) -> Any:
        def pay(to: str) -> str:
            """Pay."""
            DONE.append(to)
            return "paid"

        async def look(to: str) -> str:
            """Look."""
            return f"{to} {amount}"

        tools = [look, boundary("pay", kind="tool", side_effects=True)(pay) if told == "boundary" else pay]
        return lone(server, *tools, max_tool_iterations=3)

    def script(to: str) -> list[Any]:
        return [reply.tool_call("look", {"to": "Ann"}), reply.tool_call("pay", {"to": to}), reply.text("Paid.")]

    with ModelServer(script("Ann")) as server:
        then = autogen_lab.record(lambda: ask(agent_of(server, 1)))
    assert [one for one in autogen_lab.addresses() if one[1] == "tool"] == [("look[1]", "tool"), ("pay[1]", "tool")]
    assert autogen_lab.replay(lambda: ask(agent_of(server, 1))) == then
    # `look` tells something else, so the model is asked anew and wants Bob paid: that is never done by drift.
    with ModelServer(script("Bob")[1:]) as server, pytest.raises(SideEffectBlocked):
        autogen_lab.replay(lambda: caught(agent_of(server, 2)), ReplayPlan().live("look", 1), on_drift="live")
    assert DONE == ["Ann"]


def test_twice_is_once_and_undone_is_gone(autogen_lab: Lab) -> None:
    instrument("autogen")
    with ModelServer(TRADE) as server:
        autogen_lab.record(lambda: ask(swarm(server)))
    assert len(autogen_lab.addresses()) == 6
    uninstrument("autogen")
    with ModelServer(TRADE) as server:
        autogen_lab.record(lambda: ask(swarm(server)))
    assert [kind for _address, kind in autogen_lab.addresses()] == ["model"] * 3


def test_a_fault_within_never_reaches_the_agent(autogen_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in each_broken_step(monkeypatch):
        DONE.clear()
        with ModelServer(TRADE) as server, record("run", store=autogen_lab.store, strict=False) as run:
            assert ask(swarm(server))[-1][2] == "Bought 3 ACME. DONE"
        assert run.faults["instrument"] >= 1, step
        assert DONE == [("ACME", 3)]


def test_a_run_holds_one_tree_of_crossings(autogen_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        autogen_lab.record(lambda: ask(swarm(server)))
    with open_store(autogen_lab.store) as store:
        recorded = store.recording(autogen_lab.run_id)
    assert all(not one.notes for one in recorded.envelopes)  # none had lost its context


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    assert told["autogen"].problem == ""
    assert told["autogen"].layers == ("tools",)
