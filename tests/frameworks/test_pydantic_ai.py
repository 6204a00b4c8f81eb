"""Agents of Pydantic AI, recorded once and replayed with their model's server switched off."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import importlib.util
import pathlib
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, payload, record, replay, uninstrument
from otel_replay.errors import ReplayError, SideEffectBlocked
from otel_replay.instruments import pydantic_ai as our_instrument
from otel_replay.instruments.check import dry_calls
from otel_replay.testing import ModelServer, reply
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("pydantic_ai") is not None:
    from openai import AsyncOpenAI
    from pydantic import BaseModel
    from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
    from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.toolsets import FunctionToolset

    class Order(BaseModel):
        symbol: str
        qty: int
        day: datetime.date

    @dataclasses.dataclass
    class Desk:
        """What the agent's tools work on."""

        limit: int


DONE: list[Any] = []
TRADE = [
    reply.tool_call("ask_trader", {"what": "buy 3 ACME"}),
    reply.tool_calls(("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": 3, "day": "2026-01-02"})),
    reply.text("Bought 3 ACME."),
    reply.text("The trader bought 3 ACME."),
]


def model_of(server: ModelServer, api: str = "chat") -> Any:
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0))
    return (OpenAIResponsesModel if api == "responses" else OpenAIChatModel)("gpt-x", provider=provider)


def desk(server: ModelServer, api: str = "chat", guard: Any = None) -> Any:
    """Return an agent that has a trader do its work, who has two tools."""
    trader = Agent(model_of(server, api), deps_type=Desk, name="trader")
    head = Agent(model_of(server, api), deps_type=Desk, name="desk")

    @trader.tool_plain
    async def quote(symbol: str) -> str:
        """The price now."""
        await asyncio.sleep(0.01)
        return f"{symbol} 12.50"

    @trader.tool
    def place_order(ctx: RunContext[Desk], order: Order) -> Any:
        """Buy."""
        if guard is not None:
            return guard(order)
        DONE.append((order, ctx.deps.limit))
        return {"ok": True, "qty": order.qty, "at": datetime.datetime(2026, 1, 2, 3, 4)}

    @head.tool
    async def ask_trader(ctx: RunContext[Desk], what: str) -> str:
        """Hand over."""
        return str((await trader.run(what, deps=ctx.deps)).output)

    return head


def ask(agent: Any, words: str = "buy 3 ACME", **options: Any) -> tuple[Any, list[Any]]:
    """Return the agent's answer, and the kinds and contents of the messages that led to it."""
    result = agent.run_sync(words, **options)
    parts = [part for message in result.all_messages() for part in message.parts]
    return result.output, [(type(part).__name__, getattr(part, "content", None)) for part in parts]


def traded(agent: Any) -> tuple[Any, list[Any]]:
    return ask(agent, deps=Desk(5))


@pytest.fixture
def pydantic_lab(lab: Lab) -> Lab:
    instrument("openai", "pydantic_ai")
    DONE.clear()
    return lab


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_two_agents_hand_over_and_replay_with_the_server_off(pydantic_lab: Lab, api: str) -> None:
    with ModelServer(TRADE) as server:
        agent = desk(server, api)
        then = pydantic_lab.record(lambda: traded(agent))
    name = "openai.responses" if api == "responses" else "openai.chat.completions"
    assert then[0] == "The trader bought 3 ACME."
    assert sorted(pydantic_lab.addresses()) == [
        ("ask_trader[1]", "tool"),
        (f"ask_trader[1]/{name}[1]", "model"),
        (f"ask_trader[1]/{name}[2]", "model"),
        ("ask_trader[1]/place_order[1]", "tool"),
        ("ask_trader[1]/quote[1]", "tool"),
        (f"{name}[1]", "model"),
        (f"{name}[2]", "model"),
    ]
    assert pydantic_lab.replay(lambda: traded(agent)) == then
    (done,) = DONE
    assert done == (Order(symbol="ACME", qty=3, day=datetime.date(2026, 1, 2)), 5)


def test_arguments_and_results_keep_their_types(pydantic_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        pydantic_lab.record(lambda: traded(desk(server)))
    with replay("run", store=pydantic_lab.store) as session:
        traded(desk(server))
        assert session.captured_result("ask_trader", 1) == "Bought 3 ACME."
    address = "ask_trader[1]/place_order[1]"
    with open_store(pydantic_lab.store) as store:
        found = {one.address: one for one in store.recording(pydantic_lab.run_id).envelopes}
    kept = found[address]
    order = Order(symbol="ACME", qty=3, day=datetime.date(2026, 1, 2))
    assert payload.decode(kept.request) in ({"order": order}, order)  # older versions hand a lone model over bare
    answer = {"ok": True, "qty": 3, "at": datetime.datetime(2026, 1, 2, 3, 4)}
    assert payload.decode(kept.outcome.value) == answer


def test_a_guarded_tool_runs_live_and_the_rest_is_served(pydantic_lab: Lab) -> None:
    with ModelServer(TRADE) as server:
        pydantic_lab.record(lambda: traded(desk(server)))
    agent = desk(server, guard=lambda order: f"blocked: {order.qty} is over the limit")
    plan = ReplayPlan().live("place_order", 1)
    with replay("run", plan, store=pydantic_lab.store, on_drift="serve") as session:
        traded(agent)
        assert session.captured_result("place_order", 1) == "blocked: 3 is over the limit"
    with pytest.raises(ReplayError, match=r"chat.completions\[2\]"):  # the model sees another answer: say so
        pydantic_lab.replay(lambda: traded(agent), plan)
    assert len(DONE) == 1


def test_a_retry_is_raised_again_and_leads_to_the_same_messages(pydantic_lab: Lab) -> None:
    def agent_of(server: ModelServer) -> Any:
        agent = Agent(model_of(server))

        @agent.tool_plain(retries=2)
        def find(word: str) -> str:
            """Look it up."""
            DONE.append(word)
            if word != "right":
                raise ModelRetry(f"{word} is not in the book")
            return "page 7"

        return agent

    calls = [reply.tool_call("find", {"word": word}) for word in ("wrong", "rihgt", "right")]
    with ModelServer([*calls, reply.text("It is on page 7.")]) as server:
        then = pydantic_lab.record(lambda: ask(agent_of(server)))
    assert "wrong is not in the book" in str(then[1])
    assert [one for one in pydantic_lab.addresses() if one[1] == "tool"] == [(f"find[{k}]", "tool") for k in (1, 2, 3)]
    assert pydantic_lab.replay(lambda: ask(agent_of(server))) == then
    assert DONE == ["wrong", "rihgt", "right"]


class TooMuch(Exception):
    """An error of the tool's own, with something in it."""

    def __init__(self, amount: int) -> None:
        super().__init__(f"{amount} is too much")
        self.amount = amount


@pytest.mark.parametrize("fails", ["tool", "retries", "model"])
def test_errors_come_back_as_their_class(pydantic_lab: Lab, fails: str) -> None:
    def agent_of(server: ModelServer) -> Any:
        agent = Agent(model_of(server), retries=0)

        @agent.tool_plain
        def pay(amount: int) -> str:
            """Pay."""
            raise ModelRetry("less") if fails == "retries" else TooMuch(amount)

        return agent

    script = [reply.error(500, "down")] if fails == "model" else [reply.tool_call("pay", {"amount": 5})]
    with ModelServer(script) as server:
        agent = agent_of(server)
        then = pydantic_lab.record(lambda: caught(agent))
    assert isinstance(then, {"tool": TooMuch, "retries": UnexpectedModelBehavior, "model": ModelHTTPError}[fails])
    now = pydantic_lab.replay(lambda: caught(agent))
    assert (type(now), str(now), now.args) == (type(then), str(then), then.args)
    if isinstance(then, TooMuch):
        assert (now.amount, then.amount) == (5, 5)
    if isinstance(then, UnexpectedModelBehavior):
        assert isinstance(now.__cause__, type(then.__cause__))


def caught(agent: Any) -> Any:
    try:
        return ask(agent)
    except Exception as fault:
        return fault


def test_a_streamed_answer_replays_in_the_same_portions(pydantic_lab: Lab) -> None:
    async def stream(agent: Any) -> tuple[list[str], Any]:
        async with agent.run_stream("buy 3 ACME", deps=Desk(5)) as result:
            return [part async for part in result.stream_text(delta=True, debounce_by=None)], await result.get_output()

    with ModelServer(TRADE) as server:
        agent = desk(server)
        then = pydantic_lab.record(lambda: asyncio.run(stream(agent)))
    assert "".join(then[0]) == then[1] == "The trader bought 3 ACME."
    assert len(then[0]) > 2
    assert pydantic_lab.replay(lambda: asyncio.run(stream(agent))) == then
    assert len(DONE) == 1


def test_the_names_are_those_that_the_model_sees_and_a_call_is_one_crossing(pydantic_lab: Lab) -> None:
    def agent_of(server: ModelServer) -> Any:
        async def search(word: str) -> Any:
            """Search."""
            return ToolReturn(return_value=[word], content="see also: tea", metadata={"took": 3})

        inner: Any = FunctionToolset([search])
        return Agent(model_of(server), toolsets=[inner.prefixed("web"), FunctionToolset([search]).prefixed("mail")])

    calls = reply.tool_calls(("web_search", {"word": "tea"}), ("mail_search", {"word": "milk"}))
    with ModelServer([calls, reply.text("Found.")]) as server:
        then = pydantic_lab.record(lambda: ask(agent_of(server)))
    tools = sorted(one for one in pydantic_lab.addresses() if one[1] == "tool")
    assert tools == [("mail_search[1]", "tool"), ("web_search[1]", "tool")]
    assert pydantic_lab.replay(lambda: ask(agent_of(server))) == then


def test_an_answer_of_the_models_own_type_is_no_crossing_and_replays(pydantic_lab: Lab) -> None:
    def agent_of(server: ModelServer) -> Any:
        return Agent(model_of(server), output_type=Order)

    script = [reply.tool_call("final_result", {"symbol": "ACME", "qty": 3, "day": "2026-01-02"})]
    with ModelServer(script) as server:
        then = pydantic_lab.record(lambda: ask(agent_of(server)))
    assert then[0] == Order(symbol="ACME", qty=3, day=datetime.date(2026, 1, 2))
    assert pydantic_lab.addresses() == [("openai.chat.completions[1]", "model")]
    assert pydantic_lab.replay(lambda: ask(agent_of(server))) == then


@pytest.mark.parametrize("said", ["metadata", "boundary", "project"])
def test_a_tool_with_side_effects_never_runs_by_drift(pydantic_lab: Lab, said: str) -> None:
    if said == "project":
        pathlib.Path("pyproject.toml").write_text('[tool.otel_replay]\nside_effects = ["pay"]\n')

    def agent_of(server: ModelServer, amount: int) -> Any:
        agent = Agent(model_of(server), deps_type=Desk)

        def pay(ctx: RunContext[Desk], to: str) -> str:
            """Pay."""
            DONE.append((to, ctx.deps.limit))
            return "paid"

        async def look(to: str) -> str:
            """Look."""
            return f"{to} {amount}"

        if said == "boundary":
            pay = boundary("pay", kind="tool", side_effects=True)(pay)
        agent.tool(pay, **({"metadata": {"side_effects": True}} if said == "metadata" else {}))
        agent.tool_plain(look)
        return agent

    def script(to: str) -> Any:
        return [reply.tool_call("look", {"to": "Ann"}), reply.tool_call("pay", {"to": to}), reply.text("Paid.")]

    with ModelServer(script("Ann")) as server:
        then = pydantic_lab.record(lambda: ask(agent_of(server, 1), deps=Desk(5)))
    assert [one for one in pydantic_lab.addresses() if one[1] == "tool"] == [("look[1]", "tool"), ("pay[1]", "tool")]
    assert pydantic_lab.replay(lambda: ask(agent_of(server, 1), deps=Desk(9))) == then
    # `look` tells something else, so the model is asked anew and wants Bob paid: that is never done by drift.
    with ModelServer(script("Bob")[1:]) as server, pytest.raises(SideEffectBlocked):
        pydantic_lab.replay(
            lambda: ask(agent_of(server, 2), deps=Desk(5)), ReplayPlan().live("look", 1), on_drift="live"
        )
    assert DONE == [("Ann", 5)]


def test_twice_is_once_and_undone_is_gone(pydantic_lab: Lab) -> None:
    instrument("pydantic_ai")
    with ModelServer(TRADE) as server:
        pydantic_lab.record(lambda: traded(desk(server)))
    assert len(pydantic_lab.addresses()) == 7
    uninstrument("pydantic_ai")
    with ModelServer(TRADE) as server:
        pydantic_lab.record(lambda: traded(desk(server)))
    assert [kind for _address, kind in pydantic_lab.addresses()] == ["model"] * 4


def test_a_fault_within_never_reaches_the_agent(pydantic_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any) -> Any:
        raise RuntimeError("broken within")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    for step in ("_describe", "_source", "_speaks_for_itself"):
        with monkeypatch.context() as patch:
            patch.setattr(our_instrument, step, broken)
            DONE.clear()
            with ModelServer(TRADE) as server, record("run", store=pydantic_lab.store, strict=False) as run:
                assert traded(desk(server))[0] == "The trader bought 3 ACME."
            assert run.faults["instrument"] >= 1
        assert len(DONE) == 1


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    assert told["pydantic_ai"].problem == ""
    assert told["pydantic_ai"].layers == ("tools",)
