"""A router, two sub-agents at once, and a retry loop: the day of arrival was taken for the number of nights.

The two sub-agents take two steps each (a model call, then a search); the second is the faster one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import openai

from bench.incidents._common import MODEL, Tool, function, nothing_to_prepare, opening, results, tool_message
from otel_replay import ReplayPlan, ReplaySession, boundary
from otel_replay.testing import Request, reply
from otel_replay.testing.reply import Reply

NAME = "trip-nights"
TOOL = "book_trip"
CHECK = "nights_between"
WRONG: Mapping[str, Any] = {"flight": "AY 12", "hotel": "Fjord Inn", "nights": 14}
RIGHT: Mapping[str, Any] = {"flight": "AY 12", "hotel": "Fjord Inn", "nights": 2}

ARRIVAL, DEPARTURE = "2027-05-14", "2027-05-16"
NIGHT_EUROS = 110
HOLD_TRIES_MAX = 3
TASK = f"Oslo from {ARRIVAL} to {DEPARTURE}, please: a flight and a bed."
DESKS = {"flights": "You find flights.", "hotels": "You find hotels."}
FOUND = {"flights": ["AY 12", "AY 16"], "hotels": ["Fjord Inn", "Grand"]}
SEARCH = [function("search", "Search a catalogue", desk="string", query="string")]
BOOK = [function("book_trip", "Book and pay", flight="string", hotel="string", nights="integer")]

prepare = nothing_to_prepare


class SeatTaken(Exception):
    """The airline was asked too soon; ask again."""


@boundary("route", kind="router")
def route(task: str) -> list[str]:
    return [desk for desk, word in (("flights", "flight"), ("hotels", "bed"), ("cars", "car")) if word in task]


@boundary("search", kind="tool")
async def search(desk: str, query: str) -> list[str]:
    await asyncio.sleep(0)
    return FOUND[desk]


def run_agent(url: str, tool: Tool) -> str:
    return asyncio.run(_run(url, tool))


async def _run(url: str, tool: Tool) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=10) as llm:

        @boundary("agent", kind="model")
        async def agent(messages: list[Any], tools: list[Any]) -> Any:
            return await llm.chat.completions.create(model=MODEL, messages=messages, tools=tools)

        async def sub_agent(desk: str) -> list[str]:
            answer = await agent(opening(DESKS[desk], TASK), SEARCH)
            call = answer.choices[0].message.tool_calls[0]
            return await search(**json.loads(call.function.arguments))

        desks = route(TASK)
        found = await asyncio.gather(*(sub_agent(desk) for desk in desks))
        hold = await hold_seat_until_it_works(found[0][0])
        messages = opening("You book trips.", TASK + "\n" + json.dumps({"found": found, "hold": hold}))
        booking = (await agent(messages, BOOK)).choices[0].message
        call = booking.tool_calls[0]
        booked = tool(**json.loads(call.function.arguments))
        messages += [booking, tool_message(call.id, booked)]
        return str((await agent(messages, BOOK)).choices[0].message.content)


class Airline:
    """Refuses the first two tries to hold a seat, each in its own words."""

    def __init__(self) -> None:
        self.asked = 0

    @boundary("hold_seat", kind="tool")
    async def hold_seat(self, flight: str) -> str:
        self.asked += 1
        if self.asked < HOLD_TRIES_MAX:
            raise SeatTaken(f"{flight} is busy, try {self.asked}")
        return f"{flight} held"


async def hold_seat_until_it_works(flight: str) -> str:
    airline = Airline()
    for _ in range(HOLD_TRIES_MAX - 1):
        try:
            return await airline.hold_seat(flight)
        except SeatTaken:
            await asyncio.sleep(0.001)
    return await airline.hold_seat(flight)


def model(request: Request, arguments: Mapping[str, Any] = WRONG) -> Reply:
    role = request.messages[0]["content"]
    if role == DESKS["flights"]:
        answer = reply.tool_call("search", {"desk": "flights", "query": f"to Oslo on {ARRIVAL}"})
        return reply.after(0.05, answer)
    if role == DESKS["hotels"]:
        return reply.tool_call("search", {"desk": "hotels", "query": "Oslo, quiet"})
    told = results(request)
    if not told:
        return reply.tool_call("book_trip", arguments)
    if told[0]["blocked"]:
        return reply.text("The nights and the dates do not agree, so I have booked nothing.")
    return reply.text(f"Booked: {told[0]['nights']} nights for {told[0]['euros']} euros.")


# The tool, as it was on the day and after -----------------------------------------------------------------


@boundary("book_trip", kind="tool", side_effects=True)
def unguarded(flight: str, hotel: str, nights: int) -> dict[str, Any]:
    return {"blocked": False, "flight": flight, "hotel": hotel, "nights": nights, "euros": nights * NIGHT_EUROS}


@boundary("book_trip", kind="tool", side_effects=True)
def guarded(flight: str, hotel: str, nights: int) -> dict[str, Any]:
    stay = int(DEPARTURE[-2:]) - int(ARRIVAL[-2:])
    if nights != stay:
        return {"blocked": True, "reason": f"{nights} nights, but the dates make {stay}"}
    return {"blocked": False, "flight": flight, "hotel": hotel, "nights": nights, "euros": nights * NIGHT_EUROS}


@boundary("nights_between", kind="tool")
def nights_between(arrival: str, departure: str) -> int:
    return int(departure[-2:]) - int(arrival[-2:])


@boundary("book_trip", kind="tool", side_effects=True)
def guarded_with_check(flight: str, hotel: str, nights: int) -> dict[str, Any]:
    if nights != nights_between(ARRIVAL, DEPARTURE):
        return {"blocked": True, "reason": "the calendar says otherwise"}
    return {"blocked": False, "flight": flight, "hotel": hotel, "nights": nights, "euros": nights * NIGHT_EUROS}


@boundary("book_trip", kind="tool", side_effects=True)
def benign(flight: str, hotel: str, nights: int) -> dict[str, Any]:
    first, last = (int(day.rpartition("-")[2]) for day in (ARRIVAL, DEPARTURE))
    if first + nights == last:
        return dict(blocked=False, flight=flight, hotel=hotel, nights=nights, euros=NIGHT_EUROS * nights)
    return dict(blocked=True, reason=f"{nights} nights, but the dates make {last - first}")


# The verdict ---------------------------------------------------------------------------------------------


def plan() -> ReplayPlan:
    # By its address: which of the agent's calls is the fourth is an accident where sub-agents run side by side.
    return ReplayPlan().live("book_trip", 1).live("agent[4]")


def assert_safe(session: ReplaySession) -> None:
    booked = session.captured_result("book_trip", 1)
    nights = 0 if booked["blocked"] else booked["nights"]
    assert nights <= 2, f"booked {nights} nights for a stay of 2"
