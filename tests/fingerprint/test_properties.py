"""Laws of the canonical form and of renaming."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.changes import apply_renaming, compare, equal_up_to_renaming, similarity
from otel_replay.envelope import Payload
from otel_replay.fingerprint import canonical, fingerprint
from otel_replay.match_rules import DEFAULT, MatchBook, MatchRules
from otel_replay.redaction import Redactor

few = settings(max_examples=60, deadline=None)
MODEL = MatchBook().rules("chat", "model")
LOOSE = MatchRules.of(
    {"ignore": ["$..id", "$.n[0]"], "normalise": ["uuid", "rfc3339"], "json_fields": ["$..arguments"]}
)
REDACTOR = Redactor.default()

names = st.sampled_from(["a", "id", "arguments", "headers", "date", "traceparent", "content-type", "n", "é", "_meta"])
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from([
        "[redacted:a#1]", "[redacted:b#2]", '{"b":1,"a":[2.0]}', "2026-09-01T10:00:00Z", "--AB",
        "multipart/x; boundary=AB",
        "3f0c7f0e-8f0a-4f3b-9d4e-000000000001", "--AB\r\nContent-Disposition: x", "call_1", "call_2",
    ]),
)  # fmt: skip
leaves = st.one_of(
    texts, st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), st.none(), st.booleans()
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


def shuffled(tree: Any, order: random.Random) -> Any:
    if isinstance(tree, dict):
        items = [(key, shuffled(item, order)) for key, item in tree.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(item, order) for item in tree] if isinstance(tree, list) else tree


@few
@given(trees, st.randoms(use_true_random=False))
def test_key_order_never_counts(tree: Any, order: random.Random) -> None:
    other = shuffled(tree, order)
    for rules in (DEFAULT, MODEL, LOOSE):
        assert canonical(tree, rules) == canonical(other, rules)
        assert compare(tree, other, rules) == ()


@few
@given(trees)
def test_the_fast_path_agrees_with_the_written_form(tree: Any) -> None:
    redacted, _ = REDACTOR.redact(Payload("json", orjson.dumps(tree).decode()))
    for rules in (DEFAULT, MODEL, LOOSE):
        assert fingerprint(redacted, rules) == f"1:{sha256(canonical(redacted.value.tree(), rules)).hexdigest()}"


@few
@given(trees, trees)
def test_no_changes_exactly_where_the_keys_are_equal(one: Any, two: Any) -> None:
    for rules in (DEFAULT, LOOSE):
        assert (compare(one, two, rules) == ()) == (canonical(one, rules) == canonical(two, rules))
    assert 0.0 <= similarity(one, two) <= 1.0
    assert similarity(one, two) == similarity(two, one)


ids = st.sampled_from([f"call_{letter}" for letter in "abcd"])
asked = st.lists(ids, max_size=3).map(
    lambda many: {"role": "assistant", "tool_calls": [{"id": one, "name": "f"} for one in many]}
)
answered = st.builds(
    lambda one, text: {"role": "tool", "tool_call_id": one, "content": text}, ids, st.sampled_from(["1", "2", "call_a"])
)
histories = st.lists(st.one_of(asked, answered), max_size=5)


@few
@given(histories, st.permutations("abcd"))
def test_a_one_to_one_renaming_at_id_paths_is_found(history: Any, letters: list[str]) -> None:
    mapping = {f"call_{old}": f"id-{new}" for old, new in zip("abcd", letters, strict=True)}
    renamed = json.loads(json.dumps(history))
    for message in renamed:
        if "tool_call_id" in message:
            message["tool_call_id"] = mapping[message["tool_call_id"]]
        for call in message.get("tool_calls", ()):
            call["id"] = mapping[call["id"]]
    found = equal_up_to_renaming(history, renamed, MODEL)
    assert found is not None
    assert found.items() <= mapping.items()
    assert equal_up_to_renaming(renamed, history, MODEL) == {new: old for old, new in found.items()}


@few
@given(histories, histories)
def test_a_renaming_never_hides_a_difference(one: Any, two: Any) -> None:
    """A simple model: equal up to renaming exactly where numbering the ids by first occurrence gives the same."""

    def numbered(history: Any) -> str:
        seen: dict[str, int] = {}
        out = json.loads(json.dumps(history))
        for message in out:
            for call in message.get("tool_calls", ()):
                call["id"] = seen.setdefault(call["id"], len(seen))
            if "tool_call_id" in message:
                message["tool_call_id"] = seen.setdefault(message["tool_call_id"], len(seen))
        return json.dumps(out)

    found = equal_up_to_renaming(one, two, MODEL)
    assert (found is not None) == (numbered(one) == numbered(two))
    assert (equal_up_to_renaming(two, one, MODEL) is not None) == (found is not None)


@few
@given(trees, trees)
def test_without_id_paths_renaming_is_equality(one: Any, two: Any) -> None:
    assert (equal_up_to_renaming(one, two) is not None) == (canonical(one) == canonical(two))
    assert apply_renaming(one, {}) == one


@few
@given(histories, st.lists(ids, min_size=4, max_size=4))
def test_two_ids_that_become_one_are_a_difference(history: Any, onto: list[str]) -> None:
    mapping = dict(zip([f"call_{letter}" for letter in "abcd"], onto, strict=True))
    merged = json.loads(json.dumps(history))
    used = set()
    for message in merged:
        for holder, name in [(message, "tool_call_id"), *((call, "id") for call in message.get("tool_calls", ()))]:
            if name in holder:
                used.add(holder[name])
                holder[name] = mapping[holder[name]]
    one_to_one = len({mapping[old] for old in used}) == len(used)
    assert (equal_up_to_renaming(history, merged, MODEL) is not None) == one_to_one
