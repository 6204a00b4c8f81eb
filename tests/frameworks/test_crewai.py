"""Crews of CrewAI, recorded once and replayed with their model's server switched off."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import pathlib
import tempfile
import threading
from functools import partial
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, payload, record, replay, uninstrument
from otel_replay.errors import ReplayError, SideEffectBlocked
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab, each_broken_step

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("crewai") is not None:
    os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")
    os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp())
    from crewai import LLM, Agent, Crew, Process, Task
    from crewai.flow.flow import Flow, listen, router, start
    from crewai.tools import BaseTool
    from crewai.tools import tool as crew_tool

DONE: list[Any] = []
MODEL = "openai.chat.completions"
HANDOVER = {"task": "buy 3 ACME", "context": "none", "coworker": "trader"}
TRADE = [
    reply.tool_call("delegate_work_to_coworker", HANDOVER),
    reply.tool_calls(("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": 3})),
    reply.text("Bought 3 ACME."),
    reply.text("The trader bought 3 ACME."),
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


def model_of(server: ModelServer, **options: Any) -> Any:
    return LLM(model="openai/gpt-4o", base_url=server.url, api_key="none", max_retries=0, **options)


def agent_of(server: ModelServer, role: str, *tools: Any, llm: Any = None, **options: Any) -> Any:
    return Agent(
        role=role, goal=f"be a {role}", backstory="none", tools=list(tools), llm=llm or model_of(server), **options
    )


def crew_of(*agents: Any, task: str = "buy 3 ACME") -> Any:
    return Crew(agents=list(agents), tasks=[Task(description=task, expected_output="a sentence", agent=agents[0])])


def trader_tools(guard: Any = None) -> list[Any]:
    @crew_tool("quote")  # type: ignore[untyped-decorator,unused-ignore]
    def quote(symbol: str) -> str:
        """The price now."""
        return f"{symbol} 12.50"

    class PlaceOrder(BaseTool):  # type: ignore[misc,unused-ignore]
        name: str = "Place Order"
        description: str = "Buy."

        def _run(self, symbol: str, qty: int) -> Any:
            if guard is not None:
                return guard(symbol, qty)
            DONE.append((symbol, qty))
            return Bought(symbol, qty)

    return [quote, PlaceOrder()]


def desk(server: ModelServer, guard: Any = None) -> Any:
    """Return a crew whose first agent hands over to a trader, who has two tools."""
    head = agent_of(server, "desk", allow_delegation=True)
    return crew_of(head, agent_of(server, "trader", *trader_tools(guard)))


def ask(crew: Any) -> tuple[str, list[Any]]:
    result = crew.kickoff()
    return result.raw, [(one.agent, one.raw) for one in result.tasks_output]


def caught(crew: Any) -> Any:
    try:
        return ask(crew)
    except Exception as fault:
        return fault


def seen(server: ModelServer) -> list[Any]:
    """Return what the model was told of its tools' results."""
    messages = [one["content"] for one in server.requests[-1].json["messages"] if one["role"] == "tool"]
    return messages


@pytest.fixture
def crew_lab(lab: Lab) -> Lab:
    instrument("openai", "crewai")
    DONE.clear()
    return lab


def test_two_agents_hand_over_and_replay_with_the_server_off(crew_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        then = crew_lab.record(lambda: ask(desk(server)))
    assert then == ("The trader bought 3 ACME.", [("desk", "The trader bought 3 ACME.")])
    under = "delegate_work_to_coworker[1]"
    assert sorted(crew_lab.addresses()) == [
        (under, "tool"),
        (f"{under}/{MODEL}[1]", "model"),
        (f"{under}/{MODEL}[2]", "model"),
        (f"{under}/place_order[1]", "tool"),
        (f"{under}/quote[1]", "tool"),
        (f"{MODEL}[1]", "model"),
        (f"{MODEL}[2]", "model"),
    ]
    assert crew_lab.replay(lambda: ask(desk(server))) == then
    assert crew_lab.replay(lambda: ask(desk(server)), ReplayPlan().live("delegate_work_to_coworker", 1)) == then
    assert DONE == [("ACME", 3)]


def test_async_kickoffs_replay(crew_lab: Lab) -> None:
    async def later(how: str, server: ModelServer) -> str:
        return str((await getattr(crew_of(agent_of(server, "trader", *trader_tools())), how)()).raw)

    for how in ("kickoff_async", "akickoff"):
        with ModelServer(TRADE[1:3]) as server:
            then = crew_lab.record(lambda how=how, server=server: asyncio.run(later(how, server)))  # type: ignore[misc]
        assert then == "Bought 3 ACME."
        assert len(crew_lab.addresses()) == 4
        again = crew_lab.replay(lambda how=how, server=server: asyncio.run(later(how, server)))  # type: ignore[misc]
        assert again == then
    assert DONE == [("ACME", 3)] * 2


def test_arguments_and_results_keep_their_types(crew_lab: Lab) -> None:
    with ModelServer(TRADE[1:3]) as server:
        crew_lab.record(lambda: ask(crew_of(agent_of(server, "trader", *trader_tools()))))
    with replay("run", store=crew_lab.store) as session:
        ask(crew_of(agent_of(server, "trader", *trader_tools())))
        assert session.captured_result("place_order", 1) == Bought("ACME", 3)
    kept = next(one for one in crew_lab.envelopes() if one.address == "place_order[1]")
    assert payload.decode(kept.request) == {"symbol": "ACME", "qty": 3}


def test_a_guarded_tool_runs_live_and_the_rest_is_served(crew_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        crew_lab.record(lambda: ask(desk(server)))
    guard = "blocked: over the limit".format
    plan = ReplayPlan().live("place_order", 1)
    with replay("run", plan, store=crew_lab.store, on_drift="serve") as session:
        ask(desk(server, guard=guard))
        assert session.captured_result("place_order", 1) == "blocked: over the limit"
    with pytest.raises(ReplayError, match=r"chat.completions\[2\]"):  # the model sees another answer: say so
        crew_lab.replay(lambda: caught(desk(server, guard=guard)), plan)
    assert DONE == [("ACME", 3)]


def test_what_a_tool_raises_is_raised_again_and_becomes_the_same_text(crew_lab: Lab) -> None:
    raised: list[BaseException] = []

    class Pay(BaseTool):  # type: ignore[misc,unused-ignore]
        name: str = "pay"
        description: str = "Pay."

        def run(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().run(*args, **kwargs)
            except TooMuch as fault:
                raised.append(fault)
                raise

        def _run(self, amount: int) -> str:
            DONE.append(amount)
            raise TooMuch(amount)

    with ModelServer([reply.tool_call("pay", {"amount": 5}), reply.text("No.")]) as server:
        then = crew_lab.record(lambda: ask(crew_of(agent_of(server, "clerk", Pay()))))
        assert "5 is too much" in seen(server)[0]
    assert crew_lab.replay(lambda: ask(crew_of(agent_of(server, "clerk", Pay())))) == then
    told = [(type(one), one.args, getattr(one, "amount", 0)) for one in raised]
    assert told == [(TooMuch, ("5 is too much",), 5)] * 2
    assert DONE == [5]


def test_wrong_arguments_and_a_failing_model_end_as_they_did(crew_lab: Lab) -> None:
    for script in ([reply.tool_call("quote", {"symbl": 1}), reply.text("No.")], [reply.error(400, "wrong")] * 9):
        with ModelServer(script) as server:
            then = crew_lab.record(partial(caught, crew_of(agent_of(server, "clerk", *trader_tools()))))
        now = crew_lab.replay(partial(caught, crew_of(agent_of(server, "clerk", *trader_tools()))))
        assert (type(now), str(now)) == (type(then), str(then))


def test_parallel_calls_of_one_tool_keep_their_own_answers(crew_lab: Lab) -> None:
    def agent(server: ModelServer, gates: list[threading.Event]) -> Any:
        @crew_tool("wait")  # type: ignore[untyped-decorator,unused-ignore]
        def wait(turn: int) -> int:
            """Wait for the one after."""
            if turn:
                assert gates[turn - 1].wait(10)
            DONE.append(turn)
            gates[turn].set()
            return turn * 10

        return crew_of(agent_of(server, "clerk", wait))

    def gates() -> list[threading.Event]:
        return [threading.Event() for _ in range(3)]

    calls = reply.tool_calls(*[("wait", {"turn": turn}) for turn in (2, 0, 1)])
    with ModelServer([calls, reply.text("Waited.")]) as server:
        then = crew_lab.record(lambda: ask(agent(server, gates())))
        assert seen(server) == ["20", "0", "10"]
    assert crew_lab.replay(lambda: ask(agent(server, gates()))) == then
    assert DONE == [0, 1, 2]


def test_a_tool_that_may_be_used_twice_is_refused_the_third_time_in_a_replay_too(crew_lab: Lab) -> None:
    def agent(server: ModelServer) -> Any:
        @crew_tool("look", max_usage_count=2)  # type: ignore[untyped-decorator,unused-ignore]
        def look(word: str) -> str:
            """Look it up."""
            DONE.append(word)
            return f"{word}: page 7"

        return crew_of(agent_of(server, "clerk", look))

    calls = [reply.tool_call("look", {"word": word}) for word in ("a", "b", "c")]
    with ModelServer([*calls, reply.text("Page 7.")]) as server:
        then = crew_lab.record(lambda: ask(agent(server)))
        assert "usage limit" in seen(server)[-1]
    assert [one for one in crew_lab.addresses() if one[1] == "tool"] == [("look[1]", "tool"), ("look[2]", "tool")]
    assert crew_lab.replay(lambda: ask(agent(server))) == then
    assert DONE == ["a", "b"]


def test_tools_of_a_model_without_function_calling_replay(crew_lab: Lab) -> None:
    def agent(server: ModelServer) -> Any:
        llm = model_of(server)
        object.__setattr__(llm, "supports_function_calling", lambda: False)
        return crew_of(agent_of(server, "trader", *trader_tools(), llm=llm))

    step = 'Thought: buy\nAction: place_order\nAction Input: {"symbol": "ACME", "qty": 3}'
    script = [reply.text(step), reply.text("Thought: done\nFinal Answer: Bought 3 ACME.")]
    with ModelServer(script) as server:
        then = crew_lab.record(lambda: ask(agent(server)))
    assert then[0] == "Bought 3 ACME."
    assert [one for one in crew_lab.addresses() if one[1] == "tool"] == [("place_order[1]", "tool")]
    assert crew_lab.replay(lambda: ask(agent(server))) == then
    assert DONE == [("ACME", 3)]


def test_a_streamed_answer_replays(crew_lab: Lab) -> None:
    def stream(server: ModelServer) -> tuple[list[str], str]:
        agent = agent_of(server, "clerk", llm=model_of(server, stream=True))
        crew = Crew(
            agents=[agent], tasks=[Task(description="say it", expected_output="a word", agent=agent)], stream=True
        )
        streaming = crew.kickoff()
        return [chunk.content for chunk in streaming], streaming.result.raw

    with ModelServer([reply.text("The trader bought 3 ACME.")]) as server:
        then = crew_lab.record(lambda: stream(server))
    assert len(then[0]) > 2
    assert then[1] == "The trader bought 3 ACME."
    assert crew_lab.replay(lambda: stream(server)) == then


def test_a_flow_that_routes_to_a_crew_replays(crew_lab: Lab) -> None:
    def flow_of(server: ModelServer) -> Any:
        class Desk(Flow):  # type: ignore[misc,type-arg,unused-ignore]
            @start()  # type: ignore[untyped-decorator,unused-ignore]
            def begin(self) -> str:
                self.state["asked"] = "buy 3 ACME"
                return "buy"

            @router(begin)  # type: ignore[untyped-decorator,unused-ignore]
            def route(self, what: str) -> str:
                return f"to {what}"

            @listen("to buy")  # type: ignore[untyped-decorator,unused-ignore]
            def buy(self) -> str:
                done = ask(crew_of(agent_of(server, "trader", *trader_tools()), task=self.state["asked"]))
                self.state["done"] = done[0]
                return done[0]

        return Desk()

    def go(server: ModelServer) -> tuple[Any, Any]:
        flow = flow_of(server)
        return flow.kickoff(), flow.state["done"]

    with ModelServer(TRADE[1:3]) as server:
        then = crew_lab.record(lambda: go(server))
    assert then == ("Bought 3 ACME.", "Bought 3 ACME.")
    assert crew_lab.replay(lambda: go(server)) == then
    assert DONE == [("ACME", 3)]


def test_a_manager_hands_tasks_out_and_the_crew_replays(crew_lab: Lab) -> None:
    def crew(server: ModelServer) -> Any:
        trader = agent_of(server, "trader", *trader_tools())
        task = Task(description="buy 3 ACME", expected_output="a sentence")
        return Crew(agents=[trader], tasks=[task], process=Process.hierarchical, manager_llm=model_of(server))

    with ModelServer(TRADE) as server:
        then = crew_lab.record(lambda: ask(crew(server)))
    assert then[0] == "The trader bought 3 ACME."
    assert crew_lab.replay(lambda: ask(crew(server))) == then
    assert DONE == [("ACME", 3)]


@pytest.mark.parametrize("told", ["field", "boundary", "project"])
def test_a_tool_with_side_effects_never_runs_by_drift(crew_lab: Lab, told: str) -> None:
    if told == "project":
        pathlib.Path("pyproject.toml").write_text('[tool.otel_replay]\nside_effects = ["pay"]\n')

    def crew(server: ModelServer, amount: int) -> Any:
        class Pay(BaseTool):  # type: ignore[misc,unused-ignore]
            name: str = "pay"
            description: str = "Pay."
            side_effects: bool = told == "field"

            def _run(self, to: str) -> str:
                DONE.append(to)
                return "paid"

        @crew_tool("look")  # type: ignore[untyped-decorator,unused-ignore]
        def look(to: str) -> str:
            """Look."""
            return f"{to} {amount}"

        def pay(to: str) -> str:
            """Pay."""
            DONE.append(to)
            return "paid"

        marked = crew_tool("pay")(boundary("pay", kind="tool", side_effects=True)(pay))
        return crew_of(agent_of(server, "clerk", look, marked if told == "boundary" else Pay()))

    def script(to: str) -> list[Any]:
        return [reply.tool_call("look", {"to": "Ann"}), reply.tool_call("pay", {"to": to}), reply.text("Paid.")]

    with ModelServer(script("Ann")) as server:
        then = crew_lab.record(lambda: ask(crew(server, 1)))
    assert [one for one in crew_lab.addresses() if one[1] == "tool"] == [("look[1]", "tool"), ("pay[1]", "tool")]
    assert crew_lab.replay(lambda: ask(crew(server, 1))) == then
    # `look` tells something else, so the model is asked anew and wants Bob paid: that is never done by drift.
    with ModelServer(script("Bob")[1:]) as server, pytest.raises(SideEffectBlocked):
        crew_lab.replay(lambda: caught(crew(server, 2)), ReplayPlan().live("look", 1), on_drift="live")
    assert DONE == ["Ann"]


def test_twice_is_once_and_undone_is_gone(crew_lab: Lab) -> None:
    instrument("crewai")
    with ModelServer(TRADE) as server:
        crew_lab.record(lambda: ask(desk(server)))
    assert len(crew_lab.addresses()) == 7
    uninstrument("crewai")
    with ModelServer(TRADE) as server:
        crew_lab.record(lambda: ask(desk(server)))
    assert [kind for _address, kind in crew_lab.addresses()] == ["model"] * 4


def test_a_fault_within_never_reaches_the_agent(crew_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in each_broken_step(monkeypatch):
        DONE.clear()
        with ModelServer(TRADE) as server, record("run", store=crew_lab.store, strict=False) as run:
            assert ask(desk(server))[0] == "The trader bought 3 ACME."
        assert run.faults["instrument"] >= 1, step
        assert DONE == [("ACME", 3)]


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    assert told["crewai"].problem == ""
    assert told["crewai"].layers == ("tools", "structured tools")
