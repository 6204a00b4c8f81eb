"""The compatibility table of the README, made from the results of the tests that ran against each package.

    tests/frameworks/run.sh clients               # and the others; each leaves its results in the cache folder
    .venv/bin/python -m tests.frameworks.compat   # results -> compat.json -> the table in the README

A cell counts the tests of its kind that passed with the newest version tried; where a package has none, it says why.
"""

from __future__ import annotations

import json
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("compat.json")
README = ROOT / "README.md"
BEGIN, END = "<!-- compatibility: begin -->", "<!-- compatibility: end -->"
COLUMNS = ("record, replay", "stream", "async", "errors", "parallel", "undone")


@dataclass(frozen=True)
class Row:
    """One package. `cells`: column -> a pattern of test names (`test_name[case]`), or "-" and why there are none."""

    label: str
    instrument: str
    distribution: str
    results: str
    module: str
    cells: Mapping[str, str]


def _transport(client: str, label: str, is_async: str) -> Row:
    """Return the row of a transport: its tests are shared, and each names its client as the case."""
    wrapped = "http.client" if client == "urllib" else client
    case = rf"\[([^\]]*-)?{client}(-async)?(-[^\]]*)?\]"
    cells = {
        "record, replay": rf"test_bodies_come_back\w*{case}",
        "stream": rf"test_event_streams_come_back\w*{case}",
        "async": is_async,
        "errors": rf"test_refused_connections\w*{case}",
        "parallel": "- no test of its own: parallel calls are told apart above it, as the clients' tests show",
        "undone": rf"test_the_wrapped_client_is\w*\[{wrapped}\]|test_one_session_of_{client}",
    }
    distribution = "" if client == "urllib" else client
    instrument = {"requests": "urllib3", "urllib": "http_client"}.get(client, client)
    return Row(label, instrument, distribution, "clients", "test_transports|test_wrap", cells)


_NO_ASYNC = "- it has no asynchronous form"
_FORMS = r"test_every_form_comes_back\w*"
_LIKE_OURS = {
    "record, replay": _FORMS,
    "stream": rf"{_FORMS}\[_(a?stream|stream_later)|stream_left_early|torn_off",
    "async": rf"{_FORMS}\[_(later|stream_later|embedding_later)|\[True[-\]]|_later\]|cancelled",
    "errors": r"test_errors_come_back|lost_connection|retries|torn_off",
    "parallel": r"test_parallel",
    "undone": r"test_twice_is_once",
}
ROWS = (
    Row("OpenAI", "openai", "openai", "clients", "test_openai(_streams)?", {
        "record, replay": _FORMS,
        "stream": rf"{_FORMS}\[_\w*(stream|helper)|left_early|never_started|torn_off|deltas|interleaved",
        "async": rf"{_FORMS}\[_a|async|cancelled",
        "errors": r"status_errors|resets_and_timeouts|retries|sdk_cannot_take",
        "parallel": rf"{_FORMS}\[_parallel\]",
        "undone": r"test_twice_is_once",
    }),
    Row("Anthropic", "anthropic", "anthropic", "clients", "test_anthropic", {
        "record, replay": _FORMS,
        "stream": rf"{_FORMS}\[_(stream|helper|streaming)\]|left_early",
        "async": rf"{_FORMS}\[_async\]|test_parallel",
        "errors": r"test_errors_come_back|resets_and_timeouts|retries",
        "parallel": r"test_parallel",
        "undone": r"test_twice_is_once",
    }),
    Row("Google GenAI", "google_genai", "google-genai", "google_genai", "test_google_genai", _LIKE_OURS),
    Row("LiteLLM", "litellm", "litellm", "litellm", "test_litellm", _LIKE_OURS),
    _transport("httpx", "httpx", r"test_bodies_come_back\w*\[httpx-async\]"),
    _transport("httpx2", "httpx2", r"test_bodies_come_back\w*\[httpx2-async\]"),
    _transport("requests", "requests", _NO_ASYNC),
    _transport("urllib3", "urllib3", _NO_ASYNC),
    _transport("aiohttp", "aiohttp", r"test_bodies_come_back\w*\[aiohttp\]"),
    _transport("urllib", "urllib, http.client", _NO_ASYNC),
    Row("LangChain", "langchain", "langchain-core", "langchain", "test_langchain", {
        "record, replay": _FORMS,
        "stream": rf"{_FORMS}\w*_a?stream\]|left_early|tokens",
        "async": rf"{_FORMS}\[\w+-_a\w+\]|cancelled|_two_later",
        "errors": r"test_errors_come_back",
        "parallel": rf"{_FORMS}\[\w+-_a?batch\]",
        "undone": r"test_twice_is_once",
    }),
    Row("LangGraph", "langgraph", "langgraph", "langgraph", "test_langgraph(_flow)?", {
        "record, replay": r"replays_in_full|addresses_are|resumption_replay|commands_choose|functions_as_graphs",
        "stream": r"every_stream_mode|events_that_were",
        "async": r"ainvoke|every_stream_mode\w*\[.*True\]",
        "errors": r"retry_loop|divergence_that",
        "parallel": r"in_parallel",
        "undone": r"test_twice_is_once",
    }),
    Row("OpenAI Agents", "openai_agents", "openai-agents", "openai_agents", "test_openai_agents", {
        "record, replay": r"hand_over|guarded_tool",
        "stream": r"streamed_run",
        "async": r"hand_over|guarded_tool",
        "errors": r"what_the_sdk_swallows",
        "parallel": "- no test of its own: its tools run as tasks, and tasks are told apart as in the clients' tests",
        "undone": r"test_twice_is_once",
    }),
    Row("Pydantic AI", "pydantic_ai", "pydantic-ai-slim", "pydantic_ai", "test_pydantic_ai", {
        "record, replay": r"hand_over|keep_their_types",
        "stream": r"streamed_answer",
        "async": r"hand_over|keep_their_types",
        "errors": r"errors_come_back|test_a_retry",
        "parallel": "- no test of its own: its tools run as tasks, and tasks are told apart as in the clients' tests",
        "undone": r"test_twice_is_once",
    }),
    Row("AutoGen", "autogen", "autogen-agentchat", "autogen", "test_autogen", {
        "record, replay": r"hand_over|keep_their_types|teams_that_choose|agent_as_a_tool",
        "stream": r"streamed_answer|speaks_while",
        "async": r"hand_over|keep_their_types|teams_that_choose|agent_as_a_tool",
        "errors": r"tool_raises|wrong_arguments",
        "parallel": r"test_parallel",
        "undone": r"test_twice_is_once",
    }),
    Row("CrewAI", "crewai", "crewai", "crewai", "test_crewai", {
        "record, replay": r"hand_over|keep_their_types|manager_hands|flow_that_routes|without_function_calling",
        "stream": r"streamed_answer",
        "async": r"async_kickoffs",
        "errors": r"tool_raises|wrong_arguments",
        "parallel": r"test_parallel",
        "undone": r"test_twice_is_once",
    }),
    Row("MCP", "mcp", "mcp", "mcp", "test_mcp", {
        "record, replay": r"replays_with_the_server_gone|one_tool_runs_live|says_and_asks",
        "stream": r"says_and_asks|asks_the_client",
        "async": r"replays_with_the_server_gone|one_tool_runs_live",
        "errors": r"test_errors_come_back|timeouts_and_cancellations",
        "parallel": r"serves_several_runs_at_once",
        "undone": r"test_twice_is_once",
    }),
)  # fmt: skip


def gathered(folder: Path) -> dict[str, Any]:
    """Return what the results in `folder` say: per package the versions tried, newest first, and the cells.

    Raises FileNotFoundError for a package without results, and ValueError where a test of it failed.
    """
    found: dict[str, Any] = {}
    for row in ROWS:
        runs = sorted(folder.glob(f"{row.results}@*.xml"))
        tried = [_passed(path, row) for path in (folder / f"{row.results}.xml", *runs)]
        versions = [_version(folder / f"{path.stem}.txt", row) for path in (folder / f"{row.results}.xml", *runs)]
        cells: dict[str, Any] = {}
        for column in COLUMNS:
            pattern = row.cells[column]
            if pattern.startswith("- "):
                cells[column] = pattern[2:]
                continue
            counts = [sum(1 for name in names if re.search(pattern, name)) for names in tried]
            if not all(counts):
                raise ValueError(f"{row.label}: no test of '{column}' ran ({pattern})")
            cells[column] = counts[0]
        found[row.label] = {"instrument": row.instrument, "versions": list(dict.fromkeys(versions)), "cells": cells}
    return found


def _passed(path: Path, row: Row) -> list[str]:
    names = []
    for case in ET.parse(path).getroot().iter("testcase"):
        if not re.fullmatch(rf".*\.({row.module})", case.get("classname", "")):
            continue
        name = case.get("name", "")
        if case.find("failure") is not None or case.find("error") is not None:
            raise ValueError(f"{path.stem}: {name} failed")
        if case.find("skipped") is None:
            names.append(name)
    return names


def _version(path: Path, row: Row) -> str:
    if not row.distribution:
        return f"Python {sys.version_info.major}.{sys.version_info.minor}"
    pinned = re.search(rf"(?mi)^{re.escape(row.distribution)}==(\S+)$", path.read_text())
    return pinned[1] if pinned else "?"


def rendered(kept: Mapping[str, Any]) -> str:
    """Return the table in Markdown; reasons stand beneath it, and a cell refers to its own."""
    lines = [
        "| package | versions tried | " + " | ".join(COLUMNS) + " |",
        "| --- | --- |" + " --- |" * len(COLUMNS),
    ]
    reasons: list[str] = []
    for label, row in kept.items():
        shown = []
        for column in COLUMNS:
            cell = row["cells"][column]
            if isinstance(cell, str):
                if cell not in reasons:
                    reasons.append(cell)
                shown.append(f"({reasons.index(cell) + 1})")
            else:
                shown.append(str(cell))
        lines.append(f"| {label} | {', '.join(row['versions'])} | " + " | ".join(shown) + " |")
    notes = [f"({number}) {reason}." for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", " ".join(notes)]) + "\n"


def put_in(text: str, table: str) -> str:
    """Return `text` with the table between its markers."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table}{END}{tail}"


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-replay" / "frameworks"
    home = Path(os.environ.get("OTEL_REPLAY_FRAMEWORKS_CACHE") or cache)
    KEPT.write_text(json.dumps(gathered(home / "results"), indent=1) + "\n")
    README.write_text(put_in(README.read_text(), rendered(json.loads(KEPT.read_text()))))


if __name__ == "__main__":
    main()
