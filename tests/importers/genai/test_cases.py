"""Real reports of what goes wrong between an instrumentation and a reader, each with its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_replay.errors import Unservable
from otel_replay.importers.genai import describe
from otel_replay.importers.genai._messages import UNSIGNED
from otel_replay.importers.genai.rebuild import response_body

from ._samples import CASES, answer, at, recording, request

IN = pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)


@IN
def test_flattened_messages_are_read_by_number(folder: Path) -> None:
    """IM-12: twelve shuffled messages, two tool calls each, content parts, one absurd index."""
    found = recording(folder, "im12_openinference_12_messages.otlp.json")
    messages = request(found, "chat[1]")["messages"]
    turns = ["user", "assistant", "tool"]
    assert [message["role"] for message in messages] == ["system", *(turns * 4)[:11]]
    assert [message["content"] for message in messages if message["role"] == "user"] == [
        "message 1", "message 4", "message 7", "message 10",
    ]  # fmt: skip
    assert messages[5]["content"] == "with parts"
    for number in (2, 5, 8, 11):
        calls = messages[number]["tool_calls"]
        assert [call["id"] for call in calls] == [f"call_{number}_0", f"call_{number}_1"]
        assert [json.loads(call["function"]["arguments"]) for call in calls] == [
            {"i": number, "j": 0}, {"i": number, "j": 1},
        ]  # fmt: skip
    envelope = at(found, "chat[1]")
    assert "llm.input_messages.99999999999: absurd index, left out" in envelope.notes
    assert response_body(envelope)["choices"][0]["message"] == {"role": "assistant", "content": "done"}
    assert envelope.grade == "semantic"


@IN
def test_a_span_without_content_names_the_switch(folder: Path) -> None:
    """IM-14: the Anthropic SDK's own span, metadata only."""
    found = recording(folder, "im14_metadata_only.otlp.json")
    (line,) = describe(found)
    assert (line.address, line.grade, line.missing) == ("anthropic.messages[1]", "insufficient", ("input", "output"))
    assert line.setting == "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=full"
    assert str(line) == (
        "anthropic.messages[1] (model): not replayable: no content was captured: "
        "set ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=full"
    )
    assert not found.complete
    with pytest.raises(Unservable, match="ANTHROPIC_OPEN_TELEMETRY"):
        response_body(found.envelopes[0])


@IN
def test_evicted_attributes_name_the_missing_messages(folder: Path) -> None:
    """OT-05: 72 attributes evicted, messages 0 to 35 among them."""
    found = recording(folder, "ot05_first_72_attributes_evicted.otlp.json")
    (line,) = describe(found)
    assert line.grade == "insufficient"
    assert "72 attributes were dropped" in line.reason
    assert "llm.input_messages: messages 0-35 are missing" in line.reason
    assert found.envelopes[0].request.lost
    assert found.envelopes[0].outcome.kind == "lost"
    assert found.damaged == {line.address: line.reason}


@IN
def test_a_cut_text_is_never_read_as_whole(folder: Path) -> None:
    """OT-06: input.value ends after 1,028 characters."""
    found = recording(folder, "ot06_value_cut_at_1028.otlp.json")
    (envelope,) = found.envelopes
    assert envelope.grade == "insufficient"
    assert envelope.request.lost
    assert "input.value was cut at 1,028 characters" in envelope.outcome.lost_reason
    assert not found.complete


@IN
def test_three_spans_of_one_call_are_one_envelope(folder: Path) -> None:
    """OT-10: LangChain > provider instrumentation > the SDK's own span without content."""
    found = recording(folder, "ot10_one_call_three_spans.otlp.json")
    (envelope,) = found.envelopes
    assert (envelope.address, envelope.kind) == ("anthropic.messages[1]", "model")
    assert envelope.span_id == "3793e3f26977a331", "the innermost with full content speaks"
    assert request(found, envelope.address) == {"model": "demo", "messages": [{"role": "user", "content": "2+2?"}]}
    body = response_body(envelope)
    assert (body["content"], body["id"]) == ([{"type": "text", "text": "4"}], "msg_1"), "the id is the SDK span's"
    assert body["usage"] == {"input_tokens": 11, "output_tokens": 1}
    (note,) = (note for note in found.run.notes if note.startswith("3 spans tell of one call"))
    assert "801bcbbb563c5e88" in note
    assert "0e5be85808479540" in note
    assert found.run.name == "AgentExecutor"
    assert found.complete, "a resolved double is no fault"


@IN
def test_signed_thinking_is_kept_byte_for_byte(folder: Path) -> None:
    """RP-23: the convention's view has no signature, the raw content beside it has."""
    found = recording(folder, "rp23_signed_thinking.otlp.json")
    (envelope,) = found.envelopes
    assert envelope.boundary == "anthropic.messages"
    assert answer(found, envelope.address)["content"] == [
        {"type": "thinking", "thinking": "Add the two.", "signature": "c2lnbmF0dXJlLWRlbW8="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "tool_use", "id": "toolu_demo1", "name": "add", "input": {"a": 2, "b": 2}},
    ]
    assert UNSIGNED not in envelope.notes
