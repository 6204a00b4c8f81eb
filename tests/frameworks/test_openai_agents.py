"""Agents of the OpenAI Agents SDK, recorded once and replayed with their model's server switched off."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, replay, uninstrument
from otel_replay.errors import ReplayError, SideEffectBlocked
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("agents") is not None:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

ORDERS: list[tuple[str, int]] = []
SCRIPT = [
    reply.tool_call("transfer_to_trader", {}),
    reply.tool_calls(("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": 3})),
    reply.text("Bought 3 ACME."),
]


def desk(server: ModelServer, api: str = "responses", guard: Any = None) -> Any:
    """Return an agent that hands over to a trader, who has two tools."""
    client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    model = kind("gpt-x", client)

    @function_tool
    async def quote(symbol: str) -> str:
        """The price now."""
        await asyncio.sleep(0.01)
        return f"{symbol} 12.50"

    @function_tool
    async def place_order(symbol: str, qty: int) -> str:
        """Buy."""
        if guard is not None:
            return str(guard(symbol, qty))
        ORDERS.append((symbol, qty))
        return f"bought {qty} {symbol}"

    trader = Agent("trader", instructions="Trade.", tools=[quote, place_order], model=model)
    return Agent("desk", instructions="Hand over.", handoffs=[trader], model=model)


def ask(agent: Any, words: str = "buy 3 ACME") -> tuple[str, str, list[Any]]:
    result = asyncio.run(Runner.run(agent, words))
    return result.last_agent.name, result.final_output, result.to_input_list()


def stream(agent: Any) -> tuple[str, list[str]]:
    async def go() -> tuple[str, list[str]]:
        result = Runner.run_streamed(agent, "buy 3 ACME")
        return result.final_output, [event.type async for event in result.stream_events()] + [result.final_output]

    return asyncio.run(go())


@pytest.fixture
def agents_lab(lab: Lab) -> Lab:
    instrument("openai", "openai_agents")
    ORDERS.clear()
    return lab


@pytest.mark.parametrize("api", ["responses", "chat.completions"])
def test_two_agents_hand_over_and_replay_with_the_server_off(agents_lab: Lab, api: str) -> None:
    with ModelServer(SCRIPT) as server:
        agent = desk(server, api)
        then = agents_lab.record(lambda: ask(agent))
    assert then[:2] == ("trader", "Bought 3 ACME.")
    assert sorted(agents_lab.addresses()) == [
        *[(f"openai.{api}[{k}]", "model") for k in (1, 2, 3)],
        ("place_order[1]", "tool"),
        ("quote[1]", "tool"),
    ]
    assert agents_lab.replay(lambda: ask(agent)) == then
    assert ORDERS == [("ACME", 3)]


def test_a_streamed_run_replays(agents_lab: Lab) -> None:
    with ModelServer(SCRIPT) as server:
        agent = desk(server)
        then = agents_lab.record(lambda: stream(agent))
    assert "Bought 3 ACME." in then[1]
    assert agents_lab.replay(lambda: stream(agent)) == then
    assert ORDERS == [("ACME", 3)]


def test_a_guarded_tool_runs_live_and_the_rest_is_served(agents_lab: Lab) -> None:
    with ModelServer(SCRIPT) as server:
        agents_lab.record(lambda: ask(desk(server)))
    agent = desk(server, guard=lambda symbol, qty: "blocked: over the limit")
    with replay("run", ReplayPlan().live("place_order", 1), store=agents_lab.store, on_drift="serve") as session:
        ask(agent)
        assert session.captured_result("place_order", 1) == "blocked: over the limit"
    with pytest.raises(ReplayError, match=r"openai.responses\[3\]"):  # the model sees another answer: say so
        agents_lab.replay(lambda: ask(agent), ReplayPlan().live("place_order", 1))
    assert ORDERS == [("ACME", 3)]


def test_a_boundary_under_a_tool_speaks_for_it_and_what_the_sdk_swallows_is_reported(agents_lab: Lab) -> None:
    def agent_of(server: ModelServer, extra: int) -> Any:
        @boundary("wire", kind="tool", side_effects=True)
        def wire(amount: int) -> str:
            ORDERS.append(("wire", amount))
            return "sent"

        @function_tool
        def pay(amount: int) -> str:
            """Pay."""
            return wire(amount + extra)

        client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        return Agent("payer", tools=[pay], model=OpenAIResponsesModel("gpt-x", client))

    with ModelServer([reply.tool_call("pay", {"amount": 5}), reply.text("Paid.")]) as server:
        agents_lab.record(lambda: ask(agent_of(server, 0)))
    assert ("pay[1]/wire[1]", "tool") in agents_lab.addresses()
    # The SDK turns what a tool raises into text for the model: the replay's end reports it all the same.
    with pytest.raises(ReplayError, match="wire"):
        agents_lab.replay(lambda: ask(agent_of(server, 1)), ReplayPlan().live("pay", 1))
    with pytest.raises(SideEffectBlocked):
        agents_lab.replay(lambda: ask(agent_of(server, 1)), ReplayPlan().live("pay", 1), on_drift="live")
    assert ORDERS == [("wire", 5)]


def test_twice_is_once_and_undone_is_gone(agents_lab: Lab) -> None:
    instrument("openai_agents")
    with ModelServer(SCRIPT) as server:
        agents_lab.record(lambda: ask(desk(server)))
    assert len(agents_lab.addresses()) == 5
    uninstrument("openai_agents")
    with ModelServer(SCRIPT) as server:
        agents_lab.record(lambda: ask(desk(server)))
    assert [kind for _address, kind in agents_lab.addresses()] == ["model"] * 3


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    for name in ("openai_agents",):
        assert told[name].problem == ""
        assert told[name].layers
