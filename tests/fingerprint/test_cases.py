"""The recorded cases of matching: equal requests with another spelling, volatile fields, new ids after a live part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from otel_replay.changes import apply_renaming, compare, equal_up_to_renaming, suggest
from otel_replay.envelope import Payload
from otel_replay.fingerprint import canonical, fingerprint
from otel_replay.match_rules import DEFAULT, MatchBook, MatchRules
from otel_replay.redaction import Redactor

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
folders = pytest.mark.parametrize("folder", [f for f in (OWN, SHARED) if f.is_dir()], ids=lambda f: f.parent.name)
MODEL = MatchBook().rules("chat", "model")
JSON_ARGUMENTS = MatchRules.of({"json_fields": ["$.arguments"]})


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def key(tree: object, rules: MatchRules = DEFAULT) -> str:
    payload = Payload("json", orjson.dumps(tree).decode())
    return fingerprint(Redactor.default().redact(payload)[0], rules)


RP07 = {
    "key order": (True, ""),
    "list order matters": (False, ""),
    "float spelling": (True, ""),
    "int or float": (False, "equal numbers of two kinds: int and float"),
    "float noise": (False, "numeric noise"),
    "absent or null": (False, "absent now"),
    "unicode form": (False, "the same text in another Unicode form: U+00E9 and U+0065 U+0301"),
    "escaped or raw": (True, ""),
    "json inside string": (True, ""),
}


@folders
def test_rp07_canonical_pairs(folder: Path) -> None:
    cases = load(folder, "rp07_canonical_pairs.json")
    assert {name for name, *_ in cases} == set(RP07)
    for name, one, two, expected in cases:
        same, note = RP07[name]
        left, right = json.loads(one), json.loads(two)
        assert (key(left, JSON_ARGUMENTS) == key(right, JSON_ARGUMENTS)) is same, name
        assert expected.startswith("match") is same or "documented" in expected
        changes = compare(left, right, JSON_ARGUMENTS)
        assert bool(changes) is not same
        if note:
            assert [change.note for change in changes] == [note]


@folders
def test_rp07_json_text_counts_as_text_where_it_is_not_declared(folder: Path) -> None:
    _, one, two, _ = next(case for case in load(folder, "rp07_canonical_pairs.json") if case[0] == "json inside string")
    assert key(json.loads(one)) != key(json.loads(two))
    assert key({"arguments": "{}"}, JSON_ARGUMENTS) != key({"arguments": {}}, JSON_ARGUMENTS)
    message = {"tool_calls": [{"id": "1", "function": json.loads(one)}]}
    other = {"tool_calls": [{"id": "1", "function": json.loads(two)}]}
    assert key(message) == key(other)


@folders
def test_rp04_volatile_pairs(folder: Path) -> None:
    for case in load(folder, "rp04_volatile_pairs.json"):
        rules = MatchRules.of(case["policy"])
        assert (key(case["recorded"], rules) == key(case["now"], rules)) is case["match"], case["name"]
        changes = compare(case["recorded"], case["now"], rules)
        assert bool(changes) is not case["match"]
        if "say" in case:
            assert suggest(changes)[0] == case["say"]


@folders
def test_rp04_a_suggestion_after_a_miss(folder: Path) -> None:
    cases = {case["name"]: case for case in load(folder, "rp04_volatile_pairs.json")}
    asked = cases["request uuid"]
    assert suggest(compare(asked["recorded"], asked["now"])) == [
        "differs only at $.request_id",
        "$.request_id looks like a uuid: if it means nothing, add the ignore rule "
        '[tool.otel_replay.match] ignore = ["$.request_id"]',
    ]
    text = cases["timestamp inside prompt text"]
    assert suggest(compare(text["recorded"], text["now"]))[1] == (
        "$.prompt differs in a time inside the text: if it means nothing, add "
        '[tool.otel_replay.match] normalise = ["rfc3339"]'
    )
    meaning = cases["a uuid that IS the meaning"]
    assert [change.path for change in compare(meaning["recorded"], meaning["now"])] == ["$.order"]


def test_rp04_trace_headers_and_boundaries_are_built_in() -> None:
    def request(trace: str, boundary: str, body: str = "1") -> object:
        return {
            "headers": [["Traceparent", trace], ["X-Stainless-Retry-Count", trace], ["x-tenant", "a"]],
            "extra": {"headers": {"TraceParent": trace, "content-type": f'multipart/mixed; boundary="{boundary}"'}},
            "_meta": {"traceparent": trace},
            "body": {
                "$": "bytes",
                "text": f"--{boundary}\r\nContent-Disposition: form-data\r\n\r\n{body}\r\n--{boundary}--",
            },
            "traceparent": "said by the user",
        }

    assert key(request("00-a", "AAA")) == key(request("00-b", "ZZ-Z"))
    assert key(request("00-a", "AAA")) != key(request("00-a", "AAA", "2"))
    assert compare(request("00-a", "AAA"), request("00-b", "ZZZ")) == ()
    assert key({"traceparent": "a"}) != key({"traceparent": "b"})


@folders
def test_rp05_tool_ids(folder: Path) -> None:
    case = load(folder, "rp05_tool_ids.json")
    recorded, renamed, swapped = (case[name] for name in ("recorded", "renamed_same_shape", "results_swapped"))
    mapping = {"call_aa1": "call_zz9", "call_aa2": "call_zz8"}
    assert key(recorded, MODEL) != key(renamed, MODEL)
    assert equal_up_to_renaming(recorded, renamed, MODEL) == mapping
    assert equal_up_to_renaming(recorded, swapped, MODEL) is None
    assert equal_up_to_renaming(recorded, recorded, MODEL) == {}
    # Served answers use the ids of the current run.
    assert apply_renaming(recorded, mapping) == renamed
    answer = {"t": "see call_aa1, not call_aa11", "$": "model", "v": {"id": "call_aa2"}}
    assert apply_renaming(answer, mapping) == {
        "t": "see call_aa1, not call_aa11",
        "$": "model",
        "v": {"id": "call_zz8"},
    }
    assert apply_renaming("see call_aa1, not call_aa11", mapping) == "see call_zz9, not call_aa11"


def test_rp05_never_a_string_that_only_looks_like_an_id() -> None:
    history = [{"role": "user", "content": "delete call_aa1"}, {"tool_call_id": "call_aa1", "content": "1"}]
    other = [{"role": "user", "content": "delete call_bb1"}, {"tool_call_id": "call_bb1", "content": "1"}]
    assert equal_up_to_renaming(history, other, MODEL) is None
    # Learnt from a live outcome and its recorded twin, it may stand anywhere.
    assert equal_up_to_renaming(history, other, MODEL, {"call_aa1": "call_bb1"}) == {"call_aa1": "call_bb1"}
    assert equal_up_to_renaming(history, other, MODEL, {"call_aa1": "call_cc1"}) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda user: {"id": user},
        lambda user: {
            "tool_calls": [{"id": "c", "function": {"arguments": json.dumps({"tool_calls": [{"id": user}]})}}]
        },
        lambda user: {
            "messages": [{"content": [{"id": "t", "type": "tool_use", "input": {"messages": [{"id": user}]}}]}]
        },
        lambda user: {"users": [{"id": user}]},
    ],
)
def test_rp05_an_id_that_is_the_meaning_still_counts(make: Any) -> None:
    assert equal_up_to_renaming(make("42"), make("43"), MODEL) is None
    assert equal_up_to_renaming({"tool_call_id": "a"}, {"tool_call_id": "b"}, MatchBook().rules("t", "tool")) is None


def test_placeholders_are_compared_up_to_renaming() -> None:
    one = {"a": "[redacted:password#1]", "b": ["[redacted:openai-key#2]", "[redacted:password#1]"]}
    two = {"a": "[redacted:known#7]", "b": ["[redacted:x#1]", "[redacted:known#7]"]}
    mixed = {"a": "[redacted:password#1]", "b": ["[redacted:password#1]", "[redacted:openai-key#2]"]}
    assert canonical(one) == canonical(two) == b'{"a":"[redacted#1]","b":["[redacted#2]","[redacted#1]"]}'
    assert canonical(one) != canonical(mixed)
    assert compare(one, two) == ()


def test_old_keys_stay_what_they_are() -> None:
    assert key({"b": [1, 2.50, None, "é"], "a": {"$": "tuple", "v": [True]}}) == (
        "1:db7206cf069c510e2b9efe764afc6b95efd9508b6ae68e0599699d3818824e1b"
    )
