"""The recorded cases of redaction, each clause asserted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from otel_replay.envelope import Envelope, Outcome, Payload
from otel_replay.fingerprint import fingerprint
from otel_replay.redaction import PLACEHOLDER, Known, Redactor, find_placeholders
from tests.redaction.cases_of import FOLDERS, load

REDACTOR = Redactor.default()
folders = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)


def payload(tree: object) -> Payload:
    return Payload("json", orjson.dumps(tree).decode())


def redacted(tree: object) -> Any:
    made = REDACTOR.redact(payload(tree))[0].value
    assert orjson.dumps(orjson.loads(made.text)).decode() == made.text
    return orjson.loads(made.text)


@folders
def test_rd01_json_in_string(folder: Path) -> None:
    case = load(folder, "rd01_json_in_string.json")
    tree = {"tool_calls": case["tool_calls"]}
    made = redacted(tree)
    text = json.dumps(made)
    for secret in case["must_be_gone"]:
        assert secret in json.dumps(tree)
        assert secret not in text
    arguments = json.loads(made["tool_calls"][0]["function"]["arguments"])
    nested = json.loads(arguments["nested"])
    assert list(arguments) == ["password", "nested", "page"]
    assert arguments["page"] == 3
    assert nested["note"] == "keep me"
    assert made["tool_calls"][0]["function"]["name"] == "login"
    assert PLACEHOLDER.fullmatch(arguments["password"])
    assert PLACEHOLDER.fullmatch(nested["api_key"])
    # What is not secret keeps its spelling byte for byte.
    assert made["tool_calls"][0]["function"]["arguments"].endswith(', "page": 3}')


@folders
@pytest.mark.parametrize(
    "form", ["plain", "escaped_in_json", "double_escaped", "no_end_marker", "crlf", "with_line_numbers"]
)
def test_rd03_private_keys(folder: Path, form: str) -> None:
    case = load(folder, "rd03_fake_pem.json")
    for text in (REDACTOR.redact_text(case[form])[0], json.dumps(redacted({"content": case[form]}))):
        for line in case["must_be_gone"]:
            assert line not in text
            assert line[:24] not in text
        assert "[redacted:private-key#1]" in text
    if form == "plain":
        assert REDACTOR.redact_text(case[form])[0] == "see key:\n[redacted:private-key#1]\nthanks"
    if form in ("escaped_in_json", "double_escaped"):
        inner = json.loads(REDACTOR.redact_text(case[form])[0])
        inner = json.loads(inner) if isinstance(inner, str) else inner
        assert inner == {"key": "[redacted:private-key#1]\n"}


@folders
def test_rd03_a_stream_is_joined_before_masking(folder: Path) -> None:
    case = load(folder, "rd03_fake_pem.json")
    pieces = ["before ", *case["streamed_chunks"], " after"]
    made, hits = REDACTOR.redact_chunks(pieces)
    assert len(made) == len(pieces)
    assert "".join(made) == "before [redacted:private-key#1]\n after"
    assert (made[0], made[-1]) == ("before ", " after")
    assert [hit.rule for hit in hits] == ["private-key"]
    chunks = [payload({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    out, _ = REDACTOR.redact_stream(chunks)
    assert "".join(cast(Any, chunk.value.tree())["choices"][0]["delta"]["content"] for chunk in out) == "".join(made)
    assert out[0].value is chunks[0]
    assert out[-1].value is chunks[-1]


@folders
def test_rd03_public_keys_stay(folder: Path) -> None:
    text = load(folder, "rd03_fake_pem.json")["public_key_stays"]
    assert REDACTOR.redact_text(text) == (text, ())


def _filled(text: str, secrets: Iterable[str]) -> str:
    following = iter(secrets)
    return PLACEHOLDER.sub(lambda _: next(following), text)


@folders
def test_rd04_urls(folder: Path) -> None:
    for case in load(folder, "rd04_urls.json"):
        for text in (case["in"], f"in free text ({case['in']}) too"):
            made, hits = REDACTOR.redact_text(text)
            assert made == redacted({"url": text})["url"]
            for secret in case["gone"]:
                assert secret in text
                assert secret not in made
            for part in (*case.get("stay", ()), *case.get("stay_byte_for_byte", ())):
                assert part in made
            assert len(hits) == len(case["gone"])
            # Only the secret was replaced: putting it back gives the same URL.
            assert _filled(made, case["gone"]) == text


@folders
def test_rd05_harmless_text_stays(folder: Path) -> None:
    values = load(folder, "rd05_must_not_redact.json")
    whole = payload(values)
    assert REDACTOR.redact(whole)[0].value is whole
    for value in values:
        one = payload(value)
        made, hits = REDACTOR.redact(one)
        assert (made.value, hits) == (one, ())


def test_rd05_each_hit_is_listed() -> None:
    _, hits = REDACTOR.redact(payload({"a": [{"password": "hunter2-demo"}]}))
    assert [(hit.rule, hit.path, hit.length) for hit in hits] == [("password", "$.a[0].password", 12)]


RD07_LEFT = {
    "Bearer tok_demo_1": "Bearer _", "Basic dXNlcjpwYXNz": "Basic _", "sid=1": "sid=_", "a=b": "a=_",
    "sid=abc; HttpOnly": "sid=_; HttpOnly", "Bearer": "Bearer", "req_1": "req_1", "99": "99",
}  # fmt: skip
"""What is left of each value, `_` for a placeholder. A value that is not here goes whole."""


@folders
@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("shape", ["dict", "pairs", "har", "text"])
def test_rd07_headers(folder: Path, shape: str, side: str) -> None:
    case = load(folder, "rd07_headers.json")[side]
    pairs = [(name, one) for name, value in case.items() for one in ([value] if isinstance(value, str) else value)]
    left = [(name, RD07_LEFT.get(value, "_")) for name, value in pairs]

    def form(pairs: list[tuple[str, str]]) -> object:
        if shape == "dict":
            return [{name: [value]} for name, value in pairs]
        if shape == "pairs":
            return [list(pair) for pair in pairs]
        if shape == "har":
            return [{"name": name, "value": value} for name, value in pairs]
        return "".join(f"{name}: {value}\r\n" for name, value in pairs)

    made = redacted({"headers": form(pairs)})["headers"]
    assert json.loads(PLACEHOLDER.sub("_", json.dumps(made))) == form(left)
    assert json.loads(PLACEHOLDER.sub("_", json.dumps(redacted(case)))).keys() == case.keys()


def test_rd07_own_rules_add_to_the_defaults() -> None:
    own = REDACTOR.with_rule(path="$.headers.x-tenant")
    made, _ = own.redact(payload({"headers": {"x-tenant": "acme", "Authorization": "Bearer tok_demo_1"}}))
    assert made.value.tree() == {
        "headers": {
            "x-tenant": "[redacted:path#1]",
            "Authorization": "Bearer [redacted:authorization#2]",
        }
    }


@folders
def test_rp18_redaction_does_not_break_replay(folder: Path) -> None:
    case = load(folder, "rp18_secret_in_body.json")
    call, answer, secret = case["recorded_call"], case["first_response"], case["second_call_uses"]
    # The run: the model call, a login that gives a session, a call that uses it.
    known = Known()
    recorded = [
        REDACTOR.redact_envelope(
            Envelope("r", f"x[{i}]", "x", "tool", payload(asked), Outcome("returned", payload(given)), i), known
        )
        for i, (asked, given) in enumerate([(call, "ok"), ({"user": "kari"}, answer), ({"args": [secret]}, "done")])
    ]
    disk = repr(recorded)
    assert "tok_live_000000000000" not in disk
    assert secret not in disk
    assert all(envelope.grade == "exact, redacted" for envelope in recorded)
    # The same live call still matches.
    live = fingerprint(REDACTOR.redact(payload(call), REDACTOR.scope(Known()))[0])
    assert live == fingerprint(REDACTOR.redact(recorded[0].request)[0])
    # The code gets a usable stand-in and hands it on: the third call matches what was recorded.
    stand_in = recorded[1].outcome.value.tree()["session_token"]  # type: ignore[index]
    assert PLACEHOLDER.fullmatch(stand_in)
    assert find_placeholders({"args": [stand_in]}) == [("$.args[0]", stand_in)]
    asked, _ = REDACTOR.redact(payload({"args": [stand_in]}))
    assert fingerprint(asked) == fingerprint(REDACTOR.redact(recorded[2].request)[0])
    # Another word of the prompt still diverges.
    other = json.loads(json.dumps(call).replace("my mail", "my post"))
    assert fingerprint(REDACTOR.redact(payload(other))[0]) != live


def test_rp18_the_same_secret_has_the_same_stand_in_within_a_crossing() -> None:
    one, two = "sk_live_" + "a1" * 12, "sk_live_" + "b2" * 12
    parts, hits = REDACTOR.redact_many([payload({"k": one, "l": two}), payload({"m": two, "n": f"({one})"})])
    assert [part.value.tree() for part in parts] == [
        {"k": "[redacted:stripe-key#1]", "l": "[redacted:stripe-key#2]"},
        {"m": "[redacted:stripe-key#2]", "n": "([redacted:stripe-key#1])"},
    ]
    assert len(hits) == 4
