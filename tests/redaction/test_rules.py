"""The labelled set, own rules, and what the tree walk owes to typed JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from bench.redaction.__main__ import SAMPLES, alarms, documents, missed
from bench.redaction.labelled import NEGATIVES, POSITIVES, TOKENS
from otel_replay import payload as codec
from otel_replay import redaction_rules as rules
from otel_replay.envelope import Chunk, Envelope, Outcome, Payload
from otel_replay.errors import UsageError
from otel_replay.redaction import Redacted, Redactor, current, use

REDACTOR = Redactor.default()


def one(tree: object, redactor: Redactor = REDACTOR) -> object:
    return redactor.redact(Payload("json", orjson.dumps(tree).decode()))[0].value.tree()


def test_every_labelled_secret_goes_and_nothing_else() -> None:
    assert missed() == []


@pytest.mark.parametrize("value", NEGATIVES, ids=range(len(NEGATIVES)))
def test_look_alikes_stay(value: object) -> None:
    payload = Payload("json", orjson.dumps(value).decode())
    assert REDACTOR.redact(payload)[0].value is payload


@pytest.mark.parametrize(
    "folder", [f for f in (SAMPLES, Path(__file__).parent.parent / "importers") if f.is_dir()], ids=str
)
def test_no_false_alarm_on_sample_traces(folder: Path) -> None:
    count, false = alarms((path, value) for path, value in documents(folder) if path.suffix in (".json", ".jsonl"))
    assert count
    assert false == []


def test_the_scan_sees_all_that_a_rule_would_take_at_every_depth_of_nesting() -> None:
    scan = rules.detector()
    for label in POSITIVES:
        text = orjson.dumps(label.value).decode()
        for _ in range(3):
            assert scan.search(text.encode()), label
            text = json.dumps({"inner": text})


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_go_from_json_three_strings_deep(token: str) -> None:
    tree: object = {"note": f"it is {token}"}
    for _ in range(3):
        tree = {"inner": json.dumps(tree), "n": 1.50}
    made = json.dumps(one(tree))
    assert token not in made
    assert "it is [redacted:" in made


def test_equal_keys_in_nested_json_hide_nothing() -> None:
    text = '{"password": "hunter2-demo", "password": "second-demo1", "a": 1.0}'
    made = one({"arguments": text})
    assert made == {"arguments": '{"password": "[redacted:password#1]", "password": "[redacted:password#2]", "a": 1.0}'}


def test_nested_json_keeps_its_spelling() -> None:
    text = '{ "a":1.50 ,\n "e":"\\u00e9\\/", "password":"hunter2-demo", "b":[ 1e3,{} , [] ] }'
    made = one({"x": text})
    assert made == {"x": text.replace("hunter2-demo", "[redacted:password#1]")}


def test_typed_values_stay_decodable() -> None:
    secret = "ghp_" + "aB3dE5gH7j" * 4
    value = {
        1: (secret, b"x " + secret.encode()),
        "e": ValueError(f"bad token {secret}"),
        "password": b"\xff\xfe\x00\x01",
    }
    made = REDACTOR.redact(codec.encode(value))[0].value
    back = codec.decode(made)
    assert secret not in made.text
    assert back[1] == ("[redacted:github-token#1]", b"x [redacted:github-token#1]")
    assert str(back["e"]) == "bad token [redacted:github-token#1]"
    assert isinstance(back["password"], bytes)
    assert back["password"].startswith(b"[redacted:password#")


def test_bytes_that_are_not_text_are_looked_into() -> None:
    secret = b"ghp_" + b"aB3dE5gH7j" * 4
    payload = codec.encode(b"\xff\xfe--AAA\r\n" + secret + b"\r\n\x80")
    made = REDACTOR.redact(payload)[0].value
    assert codec.decode(made) == b"\xff\xfe--AAA\r\n[redacted:github-token#1]\r\n\x80"
    clean = codec.encode(b"\xff\xfe\x00" * 40)
    assert REDACTOR.redact(clean)[0].value is clean
    assert base64.b64encode(secret).decode() not in made.text


def text(value: object) -> Payload:
    return Payload("json", orjson.dumps(value).decode())


def test_an_envelope_is_redacted_in_every_part_under_one_numbering() -> None:
    secret, other = "sk_live_" + "a1" * 12, "sk_live_" + "b2" * 12
    envelope = Envelope(
        "r", "x[1]", "x", "tool", text({"a": secret}),
        Outcome("streamed", text(None), (Chunk(text(other[:9]), text(secret)), Chunk(text(other[9:]))), "exhausted"),
        1, changed=text([other]), notes=(f"note {secret}",),
        pins={"url": f"https://x.test/?key={other}"}, run_name=f"run {other}",
    )  # fmt: skip
    made = REDACTOR.redact_envelope(envelope)
    assert secret not in repr(made)
    assert other[9:] not in repr(made)
    assert made.request.tree() == {"a": "[redacted:stripe-key#1]"}
    assert [chunk.value.tree() for chunk in made.outcome.chunks] == ["[redacted:stripe-key#2]", ""]
    assert made.changed is not None
    assert made.changed.tree() == ["[redacted:stripe-key#2]"]
    assert made.notes == ("note [redacted:stripe-key#1]",)
    assert made.pins == {"url": "https://x.test/?key=[redacted:stripe-key#2]"}
    assert made.run_name == "run [redacted:stripe-key#2]"
    assert made.grade == "exact, redacted"
    assert {hit.path.partition(".")[0].partition("[")[0] for hit in made.redactions} >= {"request", "sent", "changed"}
    assert REDACTOR.redact_envelope(made) is made
    again, request = REDACTOR.redact_crossing(made)
    assert (again, request.value) == (made, made.request)
    clean = Envelope("r", "x[1]", "x", "tool", text(1), Outcome("returned", text(2)), 1)
    for small in (
        replace(clean, pins={"k": secret}),
        replace(clean, run_name=secret),
        replace(clean, request=text(secret)),
    ):
        assert secret not in repr(REDACTOR.redact_envelope(small))


def test_only_a_redactor_makes_a_redacted_value() -> None:
    with pytest.raises(TypeError, match="only a Redactor"):
        Redacted(Payload())


# Own rules -------------------------------------------------------------------------------------------------


def test_project_rules_by_path_pattern_and_keep() -> None:
    redactor = Redactor.from_project(
        {
            "paths": ["$..ssn", "$.people[*].mail"],
            "patterns": {"order": r"\bORD-\d{6}\b", "named": r"id=(\d+);"},
            "keep": ["$.public.password", "^ORD-000000$"],
        }
    )
    tree = {
        "a": {"ssn": 123456789},
        "people": [{"mail": "kari@example.test"}],
        "t": "ORD-123456 and ORD-000000, id=77;",
        "public": {"password": "hunter2-demo"},
        "private": {"password": "hunter2-demo"},
    }
    assert one(tree, redactor) == {
        "a": {"ssn": "[redacted:path#1]"},
        "people": [{"mail": "[redacted:path#2]"}],
        "t": "[redacted:order#3] and ORD-000000, id=[redacted:named#4];",
        "public": {"password": "hunter2-demo"},
        "private": {"password": "[redacted:password#5]"},
    }
    assert one({"arguments": '{"ssn": "1-2"}'}, redactor) == {"arguments": '{"ssn": "[redacted:path#1]"}'}


def hide_birthdays(path: str, value: object) -> object:
    if path.endswith(".born"):
        return True
    return "year" if value == 1999 else None


def test_rules_in_code_and_functions() -> None:
    redactor = REDACTOR.with_rule(function=hide_birthdays)
    assert one({"born": "1999-01-01", "y": 1999, "z": "x"}, redactor) == {
        "born": "[redacted:hide-birthdays#1]", "y": "year", "z": "x",
    }  # fmt: skip
    named = Redactor.from_project({"functions": [f"{__name__}:hide_birthdays"]})
    assert one({"born": "1999-01-01"}, named) == {"born": "[redacted:hide-birthdays#1]"}


def test_switched_off() -> None:
    payload = Payload("json", '{"password":"hunter2-demo"}')
    assert Redactor.from_project({"enabled": False}).redact(payload)[0].value is payload


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"paths": ["args.password"]}, "args.password"),
        ({"paths": ["$.a[b"]}, r"\$\.a\[b"),
        ({"paths": "$.a"}, "paths"),
        ({"patterns": {"bad": "(?=x)"}}, "bad"),
        ({"patterns": {"empty": "x*"}}, "empty"),
        ({"functions": ["no.such.module:fn"]}, "no.such.module:fn"),
        ({"functions": ["json:loads_not"]}, "json:loads_not"),
        ({"path": ["$.a"]}, "path"),
        ({"keep": [3]}, "3"),
    ],
)
def test_a_bad_rule_is_named(table: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Redactor.from_project(table)


def test_the_redactor_of_the_process() -> None:
    before = current()
    own = REDACTOR.with_rule(path="$.x")
    with use(own):
        assert current() is own
    assert current() is before


def test_placeholders_are_left_alone_and_their_numbers_are_not_given_again() -> None:
    secret = "sk_live_" + "a1" * 12
    text = f"[redacted:password#1] and {secret} and [redacted:x#3]"
    made, _ = REDACTOR.redact_text(text)
    assert made == "[redacted:password#1] and [redacted:stripe-key#2] and [redacted:x#3]"
    assert one({"a": secret, "b": "[redacted:password#1]"}) == {
        "a": "[redacted:stripe-key#2]", "b": "[redacted:password#1]",
    }  # fmt: skip
    greedy = REDACTOR.with_rule(pattern=r"[a-z]+#\d", name="greedy")
    assert greedy.redact_text(text)[0] == made
    whole = REDACTOR.with_rule(pattern=r"<[^>]*>")
    assert whole.redact_text("<[redacted:x#1]> <y>")[0] == "<[redacted:x#1]> [redacted:pattern#2]"
    assert greedy.redact_text("issue#7")[0] == "[redacted:greedy#1]"
