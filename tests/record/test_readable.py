"""The readable messages beside the exact form: the vendors' parts in the form of the GenAI conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.envelope import Envelope, Outcome, Payload
from otel_replay.readable import genai_attributes
from otel_replay.readable_parts import input_messages, instructions, message_of, output_messages, parts_of

PARTS: list[tuple[Any, Any]] = [
    ("hi", {"type": "text", "content": "hi"}),
    ({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}, {"type": "text", "content": "hi"}),
    ({"type": "input_text", "text": "hi"}, {"type": "text", "content": "hi"}),
    ({"type": "output_text", "text": "hi", "annotations": []}, {"type": "text", "content": "hi"}),
    ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "content": "no"}),
    ({"type": "thinking", "thinking": "so", "signature": "x"}, {"type": "reasoning", "content": "so"}),
    ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}]},
     {"type": "reasoning", "content": "a\nb"}),
    ({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
     {"type": "tool_call", "id": "t", "name": "f", "arguments": {"a": 1}}),
    ({"type": "tool_result", "tool_use_id": "t", "content": "ok"},
     {"type": "tool_call_response", "id": "t", "response": "ok"}),
    ({"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"},
     {"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"}),
    ({"type": "function_call_output", "call_id": "c", "output": "ok"},
     {"type": "tool_call_response", "id": "c", "response": "ok"}),
    ({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
     {"type": "uri", "modality": "image", "uri": "https://x.test/a.png"}),
    ({"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
     {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "AAAA"}),
    ({"type": "input_image", "file_id": "f-1"}, {"type": "file", "file_id": "f-1"}),
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
     {"type": "blob", "mime_type": "audio/mp3", "modality": "audio", "content": "AAAA"}),
    ({"type": "file", "file": {"file_id": "f-1"}}, {"type": "file", "file_id": "f-1"}),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
     {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "AAAA"}),
    ({"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
     {"type": "uri", "modality": "document", "uri": "https://x.test/a.pdf"}),
    ({"type": "new_kind", "text": "kept"}, {"type": "new_kind", "text": "kept"}),
    ({"type": "text", "text": 7}, {"type": "text", "text": 7}),
    ({"type": ["odd"]}, {"type": ["odd"]}),
]  # fmt: skip


@pytest.mark.parametrize(("block", "part"), PARTS, ids=lambda value: str(value)[:30])
def test_a_vendors_part_is_the_conventions(block: Any, part: Any) -> None:
    assert parts_of([block]) == [part]


def test_messages_of_the_three_ways_to_ask() -> None:
    text = {"type": "text", "content": "hi"}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    told = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"}]  # fmt: skip
    asked = {"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"}
    answered = {"type": "tool_call_response", "id": "c", "response": "ok"}
    expected = [{"role": "user", "parts": [text]}, {"role": "assistant", "parts": [asked]},
                {"role": "tool", "parts": [answered]}]  # fmt: skip
    assert input_messages({"messages": told}) == expected
    items = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
             {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
             {"type": "function_call_output", "call_id": "c", "output": "ok"}]  # fmt: skip
    assert input_messages({"input": items}) == expected
    assert input_messages({"input": "hi"}) == expected[:1]
    assert input_messages({}) == []
    assert instructions({"system": [{"type": "text", "text": "hi"}]}) == instructions({"instructions": "hi"}) == [text]


def test_answers_of_the_three_vendors_forms() -> None:
    text = {"type": "text", "content": "hi"}
    message = {"role": "assistant", "content": "hi", "refusal": "no"}
    assert output_messages({"choices": [{"message": message}]}) == [
        {"role": "assistant", "parts": [text, {"type": "refusal", "content": "no"}]}]  # fmt: skip
    assert output_messages({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}) == [
        {"role": "assistant", "parts": [text]}]  # fmt: skip
    output = [{"type": "reasoning", "summary": []},
              {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]  # fmt: skip
    assert output_messages({"output": output}) == [
        {"role": "assistant", "parts": [{"type": "reasoning", "summary": []}, text]}]  # fmt: skip


def test_the_attributes_of_a_span_hold_them() -> None:
    request = {"model": "m", "system": "be brief", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "hi"}]}]}  # fmt: skip
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "yes"}]}
    envelope = Envelope("r", "m[1]", "m", "model", Payload("json", json.dumps(request)),
                        Outcome("returned", Payload("json", json.dumps(answer))), 1)  # fmt: skip
    found: Any = dict(genai_attributes(envelope, content=True))
    assert json.loads(found["gen_ai.input.messages"])[0]["parts"] == [{"type": "text", "content": "hi"}]
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "yes"}]
    assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "be brief"}]
    assert not any("messages" in key or "instructions" in key for key, _ in genai_attributes(envelope, content=False))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["type", "role", "content", "text", "source", "image_url", "tool_calls", "function", "summary",
                         "file", "input_audio", "messages", "input", "choices", "message", "output", "system"]),
        inner | st.sampled_from([part["type"] for part, _ in PARTS if isinstance(part, dict) and isinstance(
            part["type"], str)]), max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["type", "messages", "input", "system", "choices", "output", "content"]), _JSON))
@settings(max_examples=100, deadline=None)
def test_nothing_odd_raises(body: dict[str, Any]) -> None:
    for made in (input_messages(body), output_messages(body), instructions(body), [message_of(body)]):
        assert isinstance(json.dumps(made), str)
