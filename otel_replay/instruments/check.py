"""A dry call of each installed client against a local server: which layers are covered, in which versions."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from otel_replay import originals
from otel_replay.crossing import Crossing
from otel_replay.instruments import KNOWN, borrowed, installed
from otel_replay.session import Session

_ASK: list[Any] = [{"role": "user", "content": "dry call"}]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a dry call of one client has shown. `layers` were recorded; `problem` is "" where all of them were."""

    name: str
    version: str
    layers: tuple[str, ...]
    problem: str = ""


def dry_calls() -> list[Coverage]:
    """Return the coverage of each known library, installed or not. Calls go to a local server and are kept nowhere.

    Libraries that were not instrumented are so only for the call. Runs in a thread of its own, so that it may be
    called inside an event loop. Raises nothing for a client that fails: that is its `problem`.
    """
    there = installed()
    found = []
    for name in KNOWN:
        if name in there:
            found.append(_checked(name, there[name]))
        else:
            found.append(Coverage(name, "", (), "not installed"))
    return found


def _checked(name: str, version: str) -> Coverage:
    layers: list[str] = []
    problems: list[str] = []
    try:
        with borrowed(name) as patches, _server() as (root, wire):
            problems += [f"this version has no {where}" for where in patches.missing]
            for layer, call in _CALLS[name](root, wire):
                fault, seen = _one(call)
                if fault:
                    problems.append(f"{layer}: {fault}")
                elif seen == 1:
                    layers.append(layer)
                else:
                    problems.append(f"{layer}: {seen} crossings in place of one")
    except Exception as fault:  # noqa: BLE001 - whatever is wrong with a library is what is asked for here
        problems.append(f"{type(fault).__name__}: {fault}")
    return Coverage(name, version, tuple(layers), "; ".join(problems))


def _one(call: Callable[[], object]) -> tuple[str, int]:
    """Run `call` in a session of its own; return (what went wrong, number of crossings that ended)."""
    counter = _Counter()
    told: list[str] = []

    def run() -> None:
        session = Session(counter, run_id=originals.new_run_id(), name="dry call")
        session.activate()
        try:
            call()
        except Exception as fault:  # noqa: BLE001
            told.append(f"{type(fault).__name__}: {fault}")
        finally:
            session.deactivate()

    thread = threading.Thread(target=contextvars.Context().run, args=(run,), name="otel-replay dry call")
    thread.start()
    thread.join()
    return (told[0] if told else ""), counter.ended


class _Counter:
    """A driver that keeps nothing."""

    def __init__(self) -> None:
        self.ended = 0

    def enter(self, crossing: Crossing) -> None:
        """Every call runs live."""

    def opened(self, crossing: Crossing) -> object:
        return None

    def closed(self, crossing: Crossing, token: object) -> None:
        """Nothing was opened."""

    def leave(self, crossing: Crossing) -> None:
        self.ended += 1

    def forked(self, lane: str) -> None:
        """Nothing is kept."""


@contextmanager
def _server() -> Iterator[tuple[str, str]]:
    from otel_replay.testing import ModelServer, reply

    with ModelServer(lambda request: reply.text("a dry call")) as server:
        yield server.root_url, server.url


Calls = list[tuple[str, Callable[[], object]]]


def _openai(_root: str, wire: str) -> Calls:
    sdk = import_module("openai")
    client = sdk.OpenAI(base_url=wire, api_key="none", max_retries=0)

    async def ask() -> None:
        async with sdk.AsyncOpenAI(base_url=wire, api_key="none", max_retries=0) as other:
            await other.chat.completions.create(model="m", messages=_ASK)

    return [
        ("chat completions", lambda: client.chat.completions.create(model="m", messages=_ASK)),
        ("streams", lambda: list(client.chat.completions.create(model="m", messages=_ASK, stream=True))),
        ("responses", lambda: client.responses.create(model="m", input="dry call")),
        ("async", lambda: asyncio.run(ask())),
    ]


def _anthropic(root: str, _wire: str) -> Calls:
    sdk = import_module("anthropic")
    client = sdk.Anthropic(base_url=root, api_key="none", max_retries=0)
    given: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": _ASK}

    async def ask() -> None:
        async with sdk.AsyncAnthropic(base_url=root, api_key="none", max_retries=0) as other:
            await other.messages.create(**given)

    return [
        ("messages", lambda: client.messages.create(**given)),
        ("streams", lambda: list(client.messages.create(stream=True, **given))),
        ("async", lambda: asyncio.run(ask())),
    ]


def _httpx(library: str) -> Callable[[str, str], Calls]:
    def calls(root: str, _wire: str) -> Calls:
        module = import_module(library)

        async def ask() -> None:
            async with module.AsyncClient() as client:
                await client.get(root)

        return [("sync", lambda: module.get(root)), ("async", lambda: asyncio.run(ask()))]

    return calls


def _urllib3(root: str, _wire: str) -> Calls:
    module = import_module("urllib3")
    return [("sync", lambda: module.PoolManager().request("GET", root))]


def _aiohttp(root: str, _wire: str) -> Calls:
    module = import_module("aiohttp")

    async def ask() -> None:
        async with module.ClientSession() as session, session.get(root) as response:
            await response.read()

    return [("async", lambda: asyncio.run(ask()))]


def _http_client(root: str, _wire: str) -> Calls:
    module = import_module("http.client")

    def ask() -> None:
        connection = module.HTTPConnection(root.removeprefix("http://"))
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()

    return [("sync", ask)]


def _dry(word: str) -> str:
    """Answer a dry call."""
    return word


def _langchain(_root: str, _wire: str) -> Calls:
    tool = import_module("langchain_core.tools").StructuredTool.from_function(_dry, name="dry")
    fake = import_module("langchain_core.language_models").FakeListChatModel(responses=["a dry call"])
    return [
        ("tools", lambda: tool.invoke({"word": "dry"})),
        ("async tools", lambda: asyncio.run(tool.ainvoke({"word": "dry"}))),
        ("chat models", lambda: fake.invoke("dry call")),
        ("model streams", lambda: list(fake.stream("dry call"))),
        ("async models", lambda: asyncio.run(fake.ainvoke("dry call"))),
    ]


def _langgraph(_root: str, _wire: str) -> Calls:
    graph = import_module("langgraph.graph").StateGraph(dict)
    graph.add_node("dry", lambda state: state)
    graph.set_entry_point("dry")
    compiled = graph.compile()
    return [
        ("nodes", lambda: compiled.invoke({"word": "dry"})),
        ("async nodes", lambda: asyncio.run(compiled.ainvoke({"word": "dry"}))),
    ]


def _openai_agents(_root: str, _wire: str) -> Calls:
    tool = import_module("agents").function_tool(_dry)
    context = import_module("agents.tool_context").ToolContext(
        context=None, tool_name=tool.name, tool_call_id="dry", tool_arguments='{"word": "dry"}'
    )
    execution = import_module("agents.run_internal.tool_execution")

    async def ask() -> None:
        await execution._invoke_function_tool_with_metadata(
            function_tool=tool, context=context, arguments='{"word": "dry"}'
        )

    return [("tools", lambda: asyncio.run(ask()))]


def _pydantic_ai(_root: str, _wire: str) -> Calls:
    library = import_module("pydantic_ai")
    toolset = import_module("pydantic_ai.toolsets").CombinedToolset(
        [import_module("pydantic_ai.toolsets").FunctionToolset([_dry])]
    )

    async def ask() -> None:
        context = library.RunContext(deps=None, model=None, usage=None)
        tools = await toolset.get_tools(context)
        await toolset.call_tool("_dry", {"word": "dry"}, context, tools["_dry"])

    return [("tools", lambda: asyncio.run(ask()))]


def _google_genai(root: str, _wire: str) -> Calls:
    client = import_module("google.genai").Client(api_key="none", http_options={"base_url": root})
    asked: dict[str, Any] = {"model": "m", "contents": "dry call"}
    return [
        ("content", lambda: client.models.generate_content(**asked)),
        ("streams", lambda: list(client.models.generate_content_stream(**asked))),
        ("async", lambda: asyncio.run(client.aio.models.generate_content(**asked))),
    ]


def _litellm(_root: str, wire: str) -> Calls:
    module = import_module("litellm")
    asked: dict[str, Any] = {"model": "openai/m", "messages": _ASK}
    given: dict[str, Any] = {"api_base": wire, "api_key": "none", "max_retries": 0}
    return [
        ("completion", lambda: module.completion(**asked, **given)),
        ("streams", lambda: list(module.completion(stream=True, **asked, **given))),
        ("async", lambda: asyncio.run(module.acompletion(**asked, **given))),
    ]


def _mcp(_root: str, _wire: str) -> Calls:
    anyio = import_module("anyio")
    client = import_module("mcp.client.session").ClientSession
    message = import_module("mcp.shared.message").SessionMessage
    types = import_module("mcp.types")

    async def ask() -> None:
        to_client, from_server = anyio.create_memory_object_stream(1)
        to_server, from_client = anyio.create_memory_object_stream(1)

        async def answer() -> None:
            asked = (await from_client.receive()).message
            said = {"jsonrpc": "2.0", "id": getattr(asked, "root", asked).id, "result": {}}
            kind = types.JSONRPCMessage if hasattr(types.JSONRPCMessage, "model_validate") else types.JSONRPCResponse
            await to_client.send(message(kind.model_validate(said)))

        async with anyio.create_task_group() as group, client(from_server, to_server) as session:
            group.start_soon(answer)
            await session.send_ping()
        for stream in (to_client, from_server, to_server, from_client):
            stream.close()

    return [("requests", lambda: asyncio.run(ask()))]


def _autogen(_root: str, _wire: str) -> Calls:
    tool = import_module("autogen_core.tools").FunctionTool(_dry, description="Answer.", name="dry")
    cancel = import_module("autogen_core").CancellationToken
    return [("tools", lambda: asyncio.run(tool.run_json({"word": "dry"}, cancel())))]


def _crewai(_root: str, _wire: str) -> Calls:
    tool = import_module("crewai.tools").tool("dry")(_dry)
    return [
        ("tools", lambda: tool.run(word="dry")),
        ("structured tools", lambda: tool.to_structured_tool().invoke({"word": "dry"})),
    ]


_CALLS: dict[str, Callable[[str, str], Calls]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "httpx": _httpx("httpx"),
    "httpx2": _httpx("httpx2"),
    "urllib3": _urllib3,
    "aiohttp": _aiohttp,
    "http_client": _http_client,
    "langchain": _langchain,
    "langgraph": _langgraph,
    "openai_agents": _openai_agents,
    "google_genai": _google_genai,
    "litellm": _litellm,
    "pydantic_ai": _pydantic_ai,
    "mcp": _mcp,
    "autogen": _autogen,
    "crewai": _crewai,
}
