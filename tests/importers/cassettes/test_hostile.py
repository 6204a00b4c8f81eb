"""Any part of any cassette replaced by anything: a clear error or a graded run, never an exception of another kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.errors import ImportFault
from otel_replay.importers import open_source
from otel_replay.importers.genai import describe, recordings

DATA = Path(__file__).parent / "data"
_VCR = {"version": 1, "interactions": [
    {"request": {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "body": '{"model":"m"}',
                 "headers": {"user-agent": ["OpenAI/Python 1"], "content-encoding": ["gzip"]}},
     "response": {"status": {"code": 200, "message": "OK"}, "headers": {"date": ["Mon, 01 Dec 2025 00:00:00 GMT"]},
                  "body": {"string": '{"usage":{"prompt_tokens":1},"model":"m"}'}}}]}  # fmt: skip


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


CASSETTES: list[Any] = [
    _VCR, *lines("chronicle_03.jsonl")[:2], *lines("chronicle_05.jsonl")[:5], *lines("agent_replay.jsonl"),
    *lines("agentreplay-trade/events.jsonl")[:2],
]  # fmt: skip
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20), st.just([]), st.just({}),
    st.just("x" * 5_000), st.just([[[]]]), st.just({"a": {"b": []}}), st.just("\ud800"), st.just("http://[::1"),
    st.just("2026-13-45T99:00:00Z"), st.lists(st.integers(), max_size=3),
)  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, item in items for found in places(item, (*path, key)))]


def replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_part_replaced_by_anything(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(CASSETTES))
    changed = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(ANYTHING))
    result = open_source(json.dumps(changed).encode())
    try:
        spans = result.spans
    except ImportFault:
        return
    for recording in recordings(spans, result.logs):
        assert all(line.grade in ("exact", "semantic", "insufficient") for line in describe(recording))


@pytest.mark.parametrize("depth", [150, 5_000, 200_000])
def test_deep_values_are_refused_or_kept_as_damage(depth: int) -> None:
    text = json.dumps(lines("chronicle_05.jsonl")[1]).replace('"ACME"', "[" * depth + "]" * depth, 1)
    try:
        spans = open_source(text.encode()).spans
    except ImportFault as fault:
        assert "nested" in str(fault) or "not JSON" in str(fault)  # noqa: PT017
        return
    assert all(line.reason or line.servable for found in recordings(spans) for line in describe(found))
