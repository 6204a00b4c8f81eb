"""The OpenAI and Anthropic clients against a local model server: sync and async, plain and streamed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai

SHARED = Path(__file__).parents[3] / "shared" / "cases"
ASK: list[Any] = [{"role": "user", "content": "Colour of item 7?"}]


def openai_of(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=url + "/v1", api_key="none", **{"max_retries": 0, **options})


def aopenai_of(url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", **{"max_retries": 0, **options})


def anthropic_of(url: str, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", **{"max_retries": 0, **options})


def aanthropic_of(url: str, **options: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="none", **{"max_retries": 0, **options})


# Each opens one stream: the argument is the server's address without a version.
STREAMS: dict[str, Callable[[str], Any]] = {
    "openai chat": lambda url: openai_of(url).chat.completions.create(model="m", messages=ASK, stream=True),
    "openai responses": lambda url: openai_of(url).responses.create(model="m", input="hi", stream=True),
    "anthropic": lambda url: anthropic_of(url).messages.create(model="m", max_tokens=9, messages=ASK, stream=True),
}
ASYNC_STREAMS: dict[str, Callable[[str], Awaitable[Any]]] = {
    "openai chat": lambda url: aopenai_of(url).chat.completions.create(model="m", messages=ASK, stream=True),
    "openai responses": lambda url: aopenai_of(url).responses.create(model="m", input="hi", stream=True),
    "anthropic": lambda url: aanthropic_of(url).messages.create(model="m", max_tokens=9, messages=ASK, stream=True),
}


def _chat(url: str) -> Callable[[], Awaitable[Any]]:
    client = aopenai_of(url)
    return lambda: client.chat.completions.create(model="m", messages=ASK)


def _responses(url: str) -> Callable[[], Awaitable[Any]]:
    client = aopenai_of(url)
    return lambda: client.responses.create(model="m", input="hi")


def _messages(url: str) -> Callable[[], Awaitable[Any]]:
    client = aanthropic_of(url)
    return lambda: client.messages.create(model="m", max_tokens=9, messages=ASK)


CALLS: dict[str, Callable[[str], Callable[[], Awaitable[Any]]]] = {
    "openai chat": _chat,
    "openai responses": _responses,
    "anthropic": _messages,
}
