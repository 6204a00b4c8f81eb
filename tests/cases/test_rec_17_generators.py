"""REC-17: generators as tools are kept and served item by item, with what was sent and thrown in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import Diverged, boundary

from .conftest import Lab, ours

RAN: list[Any] = []


@boundary("tool", kind="tool")
def tool(value: Any) -> str:
    RAN.append(value)
    return f"<{value}>"


@boundary("atool", kind="tool")
async def atool(value: Any) -> str:
    RAN.append(value)
    await asyncio.sleep(0)
    return f"<{value}>"


@boundary("feed", kind="tool")
async def feed() -> AsyncGenerator[Any, Any]:
    command = yield "ready"
    while command is not None:
        command = yield await atool(command)


def sync_part() -> Iterator[str]:
    got = yield tool("part")
    yield tool(got)


@boundary("whole", kind="tool")
def whole() -> Iterator[str]:
    yield "first"
    yield from sync_part()


@boundary("returns a feed", kind="tool")
def returns_a_feed() -> Any:
    return feed.__wrapped__()  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [feed, returns_a_feed])
def test_rec_17_items_and_what_was_sent_are_kept_and_served(
    lab: Lab, spans: InMemorySpanExporter, make: Callable[[], Any]
) -> None:
    async def agent() -> list[Any]:
        generator = make()
        found: list[Any] = [await anext(generator)]
        for command in ("go", {"n": 1}):
            found.append(await generator.asend(command))
            found.append(await atool(f"between {command}"))
        await generator.aclose()
        return found

    recorded = lab.record(lambda: asyncio.run(agent()))
    assert recorded[0] == "ready"
    envelopes = {envelope.address: envelope for envelope in lab.envelopes()}
    name = "feed" if make is feed else "returns a feed"
    outcome = envelopes[f"{name}[1]"].outcome
    assert [chunk.value.tree() for chunk in outcome.chunks] == ["ready", "<go>", "<{'n': 1}>"]
    assert [chunk.sent.tree() if chunk.sent else None for chunk in outcome.chunks] == [None, "go", {"n": 1}]
    assert set(envelopes) == {f"{name}[1]", f"{name}[1]/atool[1]", f"{name}[1]/atool[2]", "atool[1]", "atool[2]"}
    of = ours(spans)
    assert of[f"{name}[1]/atool[1]"].parent.span_id == of[f"{name}[1]"].context.span_id
    assert of["atool[1]"].parent.span_id != of[f"{name}[1]"].context.span_id
    assert of[f"{name}[1]"].start_time <= of[f"{name}[1]/atool[1]"].start_time
    assert of[f"{name}[1]"].end_time >= of["atool[2]"].end_time, "from the first step to the end"
    RAN.clear()
    assert lab.replay(lambda: asyncio.run(agent())) == recorded
    assert not RAN


def test_rec_17_yield_from_and_a_generator_left_half_way(lab: Lab) -> None:
    def agent() -> list[Any]:
        generator: Any = whole()
        found = [next(generator), next(generator), generator.send("sent")]
        half: Any = whole()
        return [*found, next(half)]

    recorded = lab.record(agent)
    assert recorded == ["first", "<part>", "<sent>", "first"]
    envelopes = lab.envelopes()
    assert {envelope.address for envelope in envelopes} == {
        "whole[1]", "whole[1]/tool[1]", "whole[1]/tool[2]", "whole[2]"
    }  # fmt: skip
    ends = {envelope.address: envelope.outcome.end for envelope in envelopes if envelope.boundary == "whole"}
    assert ends == {"whole[1]": "closed", "whole[2]": "closed"}
    assert "generator object" not in "".join(repr(envelope.outcome) for envelope in envelopes)
    RAN.clear()
    assert lab.replay(agent) == recorded
    assert not RAN


def test_rec_17_what_is_thrown_in_is_kept_and_asked_for_again(lab: Lab) -> None:
    @boundary("retries", kind="tool")
    def retries() -> Iterator[str]:
        try:
            yield "one"
        except LookupError as fault:
            yield f"after {fault}"

    def agent(thrown: BaseException) -> list[Any]:
        generator: Any = retries()
        return [next(generator), generator.throw(thrown)]

    recorded = lab.record(lambda: agent(LookupError("x")))
    assert recorded == ["one", "after x"]
    assert lab.replay(lambda: agent(LookupError("x"))) == recorded
    with pytest.raises(Diverged, match="diverged at chunk 2"):
        lab.replay(lambda: agent(LookupError("y")))
