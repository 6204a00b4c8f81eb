"""MCP clients and servers over every transport of the SDK, recorded once and replayed with the server gone."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, record, replay, uninstrument
from otel_replay.errors import ReplayError, SideEffectBlocked
from otel_replay.instruments import _mcp_client, _mcp_heard, _mcp_meta
from otel_replay.instruments.check import dry_calls
from tests.frameworks.conftest import Lab

pytestmark = pytest.mark.frameworks
if importlib.util.find_spec("mcp") is not None:
    import anyio
    from mcp import ClientSession, StdioServerParameters, types
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client

    try:
        from mcp.client.streamable_http import streamablehttp_client as http_client
    except ImportError:
        from mcp.client.streamable_http import streamable_http_client as http_client

WAYS = ["stdio", "http", "sse"]
if importlib.util.find_spec("mcp") and importlib.util.find_spec("mcp.client.websocket"):  # older SDKs
    WAYS.append("ws")

HERE = Path(__file__).parents[2]
Connect = Callable[[], Any]


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """The file in which the server notes what its tools did."""
    path = tmp_path / "done"
    path.touch()
    return path


@pytest.fixture
def mcp_lab(lab: Lab) -> Lab:
    instrument("all")
    return lab


def over_stdio(done: Path) -> Connect:
    env = {"PYTHONPATH": str(HERE), "DESK_DONE": str(done)}
    args = ["-m", "tests.frameworks.mcp_server", "stdio"]
    return lambda: stdio_client(StdioServerParameters(command=sys.executable, args=args, env=env))


def _clients(how: str, port: int) -> Connect:
    if how == "http":
        return lambda: http_client(f"http://127.0.0.1:{port}/mcp")
    if how == "sse":
        return lambda: sse_client(f"http://127.0.0.1:{port}/sse")
    from mcp.client.websocket import websocket_client

    return lambda: websocket_client(f"ws://127.0.0.1:{port}")


@contextmanager
def http_server(done: Path, store: Path, mode: str = "record", how: str = "http") -> Iterator[Connect]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(HERE), "DESK_DONE": str(done), "OTEL_REPLAY_STORE": str(store)}
    env["OTEL_REPLAY_MODE"] = mode
    command = [sys.executable, "-m", "tests.frameworks.mcp_server", how, str(port)]
    program = subprocess.Popen(command, env=env, cwd=HERE)
    try:
        _wait_for(port)
        yield _clients(how, port)
    finally:
        program.terminate()
        program.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not start")


@contextmanager
def connection(how: str, done: Path, store: Path) -> Iterator[Connect]:
    if how == "stdio":
        yield over_stdio(done)
    else:
        with http_server(done, store, how=how) as connect:
            yield connect


def agent(connect: Connect, qty: int = 3) -> Any:
    """Return what an agent gets: the tools' names, and two results asked for at once."""

    async def go() -> Any:
        async with connect() as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            listed = await session.list_tools()
            calls = (("quote", {"symbol": "ACME"}), ("place_order", {"symbol": "ACME", "qty": qty}))
            results = await asyncio.gather(*(session.call_tool(name, given) for name, given in calls))
            return [tool.name for tool in listed.tools], results

    return asyncio.run(go())


@pytest.mark.parametrize("how", WAYS)
def test_a_run_replays_with_the_server_gone(mcp_lab: Lab, done: Path, how: str) -> None:
    with connection(how, done, mcp_lab.store) as connect:
        then = mcp_lab.record(lambda: agent(connect))
        ran = done.read_text()
    assert sorted(ran.splitlines()) == ["bought 3 ACME", "rates ACME"]
    assert sorted(mcp_lab.addresses()) == [
        ("mcp.initialize[1]", "mcp"),
        ("mcp.tools.list[1]", "mcp"),
        ("place_order[1]", "mcp"),
        ("quote[1]", "mcp"),
        ("quote[1]~1/rates[1]", "custom"),
    ]
    assert then[0] == ["quote", "place_order", "refuse", "research", "slow"]
    now = mcp_lab.replay(lambda: agent(connect))
    assert now == then
    assert [type(one) for one in now[1]] == [type(one) for one in then[1]]
    assert done.read_text() == ran


@pytest.mark.parametrize("how", WAYS)
def test_one_tool_runs_live_and_the_rest_is_served(mcp_lab: Lab, done: Path, how: str) -> None:
    with connection(how, done, mcp_lab.store) as connect:
        then = mcp_lab.record(lambda: agent(connect))
        done.write_text("")
        assert mcp_lab.replay(lambda: agent(connect), ReplayPlan().live("place_order", 1)) == then
        assert done.read_text() == "bought 3 ACME\n"
        # A live tool of a server that the replay began asks for its rates as recorded; one at an address does not.
        assert mcp_lab.replay(lambda: agent(connect), ReplayPlan().live("quote", 1)) == then
        assert done.read_text() == "bought 3 ACME\n" + ("rates ACME\n" if how != "stdio" else "")


@pytest.mark.parametrize("how", WAYS)
def test_what_was_not_asked_for_reaches_no_server(mcp_lab: Lab, done: Path, how: str) -> None:
    with connection(how, done, mcp_lab.store) as connect:
        mcp_lab.record(lambda: agent(connect))
        ran = done.read_text()
        with pytest.raises(ReplayError, match="place_order"):
            mcp_lab.replay(lambda: agent(connect, qty=4))
    assert done.read_text() == ran


@boundary("ask_model")
def ask_model(text: str) -> str:
    """What a client's callback crosses of its own."""
    ASKED.append(text)
    return f"on {text}: nothing"


ASKED: list[str] = []


def assisted(connect: Connect, said: str = "tea") -> Any:
    """Return the result of a tool that asks its client for everything, and all that the client heard meanwhile."""
    heard: list[Any] = []

    async def sampling(_context: Any, params: Any) -> Any:
        text = ask_model(params.messages[0].content.text)
        content = types.TextContent(type="text", text=text)
        heard.append(("model", content.text))
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def elicitation(_context: Any, params: Any) -> Any:
        heard.append(("user", params.message))
        return types.ElicitResult(action="accept", content={"ok": said == "tea"})

    async def roots(_context: Any) -> Any:
        heard.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///desk")])  # type: ignore[arg-type, unused-ignore]

    async def progress(*given: Any) -> None:
        heard.append(given)

    async def logging(params: Any) -> None:
        heard.append((params.level, params.data))

    async def go() -> Any:
        callbacks: Any = {
            "sampling_callback": sampling,
            "elicitation_callback": elicitation,
            "list_roots_callback": roots,
            "logging_callback": logging,
        }
        async with connect() as streams, ClientSession(*streams[:2], **callbacks) as session:
            await session.initialize()
            result = await session.call_tool("research", {"topic": "tea"}, progress_callback=progress)
            rules = await session.read_resource("desk://rules")  # type: ignore[arg-type, unused-ignore]
            brief = await session.get_prompt("brief", {"topic": "tea"})
            listed = (await session.list_resources(), await session.list_prompts())
            return result, rules, brief, listed

    return asyncio.run(go()), heard


@pytest.mark.parametrize("how", WAYS)
def test_what_a_server_says_and_asks_meanwhile_comes_back(mcp_lab: Lab, done: Path, how: str) -> None:
    ASKED.clear()
    with connection(how, done, mcp_lab.store) as connect:
        then = mcp_lab.record(lambda: assisted(connect))
        ran = done.read_text()
    assert [one if isinstance(one, str) else one[0] for one in then[1]] == [1, "model", 2, "user", "roots", "info"]
    assert "on tea: nothing" in str(then[0][0])
    assert ("research[1]/ask_model[1]", "custom") in mcp_lab.addresses()
    assert not [one for one in mcp_lab.addresses() if one[1] == "http"]
    assert mcp_lab.replay(lambda: assisted(connect)) == then
    assert ASKED == ["tea"]
    assert done.read_text() == ran
    with pytest.raises(ReplayError, match=r"research\[1\] diverged"):
        mcp_lab.replay(lambda: assisted(connect, said="milk"))


@pytest.mark.parametrize("how", WAYS)
def test_a_tool_that_runs_live_asks_the_client_that_is_served(mcp_lab: Lab, done: Path, how: str) -> None:
    ASKED.clear()
    with connection(how, done, mcp_lab.store) as connect:
        then = mcp_lab.record(lambda: assisted(connect))
        done.write_text("")
        assert mcp_lab.replay(lambda: assisted(connect), ReplayPlan().live("research", 1)) == then
    assert ASKED == ["tea"]
    assert done.read_text() == "research tea\n"


@pytest.mark.parametrize("how", WAYS)
def test_timeouts_and_cancellations_come_back(mcp_lab: Lab, done: Path, how: str) -> None:
    async def go(connect: Connect) -> Any:
        async with connect() as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            limit: Any = 0.2 if "float" in str(ClientSession.call_tool.__annotations__) else timedelta(seconds=0.2)
            try:
                await session.call_tool("slow", {"seconds": 5}, read_timeout_seconds=limit)
            except Exception as fault:
                late = fault
            with anyio.move_on_after(0.3) as left:
                await session.call_tool("slow", {"seconds": 6})
            quick = await session.call_tool("slow", {"seconds": 0})
            return type(late), str(late), left.cancelled_caught, quick

    with connection(how, done, mcp_lab.store) as connect:
        then = mcp_lab.record(lambda: asyncio.run(go(connect)))
    assert [one.outcome.kind for one in mcp_lab.envelopes() if one.boundary == "slow"] == [
        "raised",
        "cancelled",
        "returned",
    ]
    assert then[2] is True
    assert mcp_lab.replay(lambda: asyncio.run(go(connect))) == then


def test_the_spans_of_a_server_are_in_the_trace_of_the_run_under_the_call(mcp_lab: Lab, done: Path) -> None:
    with http_server(done, mcp_lab.store) as connect:
        mcp_lab.record(lambda: agent(connect))
    with open_store(mcp_lab.store) as store:
        recording = store.recording(mcp_lab.run_id)
        assert recording.complete
    found = {one.address: one for one in recording.envelopes}
    call, inner = found["quote[1]"], found["quote[1]~1/rates[1]"]
    (lane,) = (one for one in recording.lanes if one.lane == "quote[1]~1")
    assert (inner.trace_id, inner.parent_span_id) == (call.trace_id, lane.span_id)
    assert lane.parent_span_id == call.span_id


def test_each_call_bears_the_id_by_which_the_server_knows_it(mcp_lab: Lab, done: Path, tmp_path: Path) -> None:
    wire = tmp_path / "wire"
    env = {"PYTHONPATH": str(HERE), "DESK_DONE": str(done), "PATH": os.environ["PATH"]}
    command = f"tee '{wire}' | '{sys.executable}' -m tests.frameworks.mcp_server stdio"
    server = StdioServerParameters(command="sh", args=["-c", command], env=env)

    async def go() -> None:
        async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            await asyncio.gather(*(session.call_tool("quote", {"symbol": one}) for one in ("ACME", "TEA", "RUM")))
            await session.call_tool("place_order", {"symbol": "ACME", "qty": 1})

    mcp_lab.record(lambda: asyncio.run(go()))
    sent = [json.loads(line) for line in wire.read_text().splitlines()]
    calls = {str(one["id"]): one["params"] for one in sent if one.get("method") == "tools/call"}
    assert len(calls) == 4
    with open_store(mcp_lab.store) as store:
        rows = store.sql(
            "SELECT attr(attributes, 'jsonrpc.request.id'), attr(attributes, 'gen_ai.tool.name'), address FROM spans"
            " WHERE attr(attributes, 'mcp.method.name') = 'tools/call'"
        ).fetchall()
        asked = {one.address: one.request.tree() for one in store.recording(mcp_lab.run_id).envelopes}
    assert {number: (name, asked[address]) for number, name, address in rows} == {
        number: (params["name"], params["arguments"]) for number, params in calls.items()
    }
    with replay("run", store=mcp_lab.store) as session:
        asyncio.run(go())
    assert session.report.verdict == "passed"
    assert "mcp" not in str(session.report.pins)


def test_one_server_serves_several_runs_at_once(mcp_lab: Lab, done: Path) -> None:
    async def one(name: str, connect: Connect) -> tuple[str, Any]:
        with record(name, store=mcp_lab.store, strict=True) as run:
            async with connect() as streams, ClientSession(*streams[:2]) as session:
                await session.initialize()
                for symbol in (name, "ACME"):
                    result = await session.call_tool("quote", {"symbol": symbol})
        return run.id, result

    async def all_of(connect: Connect) -> list[tuple[str, Any]]:
        return await asyncio.gather(*(asyncio.create_task(one(name, connect)) for name in ("tea", "milk", "rum")))

    with http_server(done, mcp_lab.store) as connect:
        runs = asyncio.run(all_of(connect))
    with open_store(mcp_lab.store) as store:
        for run_id, _result in runs:
            recording = store.recording(run_id)
            assert recording.complete
            assert sorted(one.address for one in recording.envelopes) == [
                "mcp.initialize[1]",
                *(["mcp.tools.list[1]"] if any("tools.list" in one.address for one in recording.envelopes) else []),
                "quote[1]",
                "quote[1]~1/rates[1]",
                "quote[2]",
                "quote[2]~1/rates[1]",
            ]


def test_errors_come_back_as_they_were(mcp_lab: Lab, done: Path) -> None:
    async def go() -> Any:
        async with over_stdio(done)() as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            refused = await session.call_tool("refuse", {"word": "tea"})
            try:
                await session.read_resource("desk://nothing")  # type: ignore[arg-type, unused-ignore]
            except Exception as fault:
                return refused, fault

    then = mcp_lab.record(lambda: asyncio.run(go()))
    now = mcp_lab.replay(lambda: asyncio.run(go()))
    assert "Error executing tool refuse" in str(then[0])
    assert now[0] == then[0]
    assert type(now[1]) is type(then[1])
    assert (now[1].error, str(now[1])) == (then[1].error, str(then[1]))


def test_a_tool_with_side_effects_never_runs_by_drift(mcp_lab: Lab, done: Path) -> None:
    Path("pyproject.toml").write_text('[tool.otel_replay]\nside_effects = ["place_order"]\n')
    connect = over_stdio(done)
    mcp_lab.record(lambda: agent(connect))
    ran = done.read_text()
    with pytest.raises(SideEffectBlocked, match="place_order"):
        mcp_lab.replay(lambda: agent(connect, qty=4), ReplayPlan(hybrid=True).live("quote", 1))
    assert "bought 4" not in done.read_text().removeprefix(ran)


def test_twice_is_once_and_undone_is_gone(mcp_lab: Lab, done: Path) -> None:
    instrument("mcp")
    mcp_lab.record(lambda: agent(over_stdio(done)))
    assert len(mcp_lab.addresses()) == 5
    uninstrument("mcp")
    mcp_lab.record(lambda: agent(over_stdio(done)))
    assert mcp_lab.addresses() == [("~1/rates[1]", "custom")]  # the server, which has an instrument of its own


def test_a_fault_within_never_reaches_the_agent(mcp_lab: Lab, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any) -> Any:
        raise RuntimeError("broken within")

    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    then = agent(over_stdio(done))
    for where, step in (
        (_mcp_client, "_asked"),
        (_mcp_client, "_with_meta"),
        (_mcp_meta, "written"),
        (_mcp_meta, "_entries"),
    ):
        with monkeypatch.context() as patch, record("run", store=mcp_lab.store, strict=False) as run:
            patch.setattr(where, step, broken)
            assert agent(over_stdio(done)) == then
        assert run.faults["instrument"] >= 1, step
    heard = assisted(over_stdio(done))
    with monkeypatch.context() as patch, record("run", store=mcp_lab.store, strict=False) as run:
        patch.setattr(_mcp_heard, "_number", broken)
        assert assisted(over_stdio(done)) == heard
    assert run.faults["instrument"] >= 1


def test_what_a_request_says_of_a_run_is_read_with_care() -> None:
    meta = {
        "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        "baggage": f"otel_replay.run.id={'c' * 32},otel_replay.run.lane=quote%5B1%5D~1,otel_replay.mode=record,x=1",
    }
    asked = _mcp_meta.read(meta)
    assert asked == _mcp_meta.Asked("c" * 32, "", "quote[1]~1", "record", "a" * 32, "b" * 16)
    for key, value in (("c" * 32, "../etc"), ("record", "live"), ("quote%5B1%5D~1", "")):
        assert _mcp_meta.read({**meta, "baggage": meta["baggage"].replace(key, value)}) is None
    assert _mcp_meta.read({"baggage": ["no", 1], "traceparent": None}) is None


def test_the_dry_call_of_doctor_covers_it(lab: Lab) -> None:
    told = {coverage.name: coverage for coverage in dry_calls()}
    assert told["mcp"].problem == ""
    assert told["mcp"].layers == ("requests",)
