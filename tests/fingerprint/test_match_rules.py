"""Declared rules: how they are written, merged, reported and refused; and paths."""

from __future__ import annotations

import pytest

from otel_replay.errors import UsageError
from otel_replay.fingerprint import canonical
from otel_replay.match_rules import DEFAULT, MatchBook, MatchRules
from otel_replay.paths import Path, PathRule, show


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("$.a.b", ("a", "b"), True),
        ("$.a.b", ("a", "b", "c"), False),
        ("$..id", ("id",), True),
        ("$..id", ("a", 0, "id"), True),
        ("$..id", ("id", "x"), False),
        ("$.a[*].b", ("a", 3, "b"), True),
        ("$.a[1]", ("a", 1), True),
        ("$.a[1]", ("a", 2), False),
        ("$.headers.x-request-id", ("headers", "x-request-id"), True),
        ('$["a b"]..c', ("a b", 1, "c"), True),
        ("$.*", ("anything",), True),
        ("$..a..b", ("a", "b"), True),
        ("$..a..b", ("b", "a"), False),
        ("$..[0]", ("x", 0), True),
    ],
)
def test_paths(rule: str, path: Path, matches: bool) -> None:
    assert PathRule(rule).matches(path) is matches


def test_a_shown_path_is_a_rule_for_itself() -> None:
    for path in (("a", 0, "b-c"), ("a b", 'q"\\', "é"), ("x.y", 12)):
        assert PathRule(show(path)).matches(path)
    assert show(("a", 0, "b c")) == '$.a[0]["b c"]'


@pytest.mark.parametrize("bad", ["a.b", "$", "$..", "$.a[", "$.a..", ""])
def test_a_bad_path_is_named(bad: str) -> None:
    with pytest.raises(UsageError, match="path"):
        PathRule(bad)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"ignored": []}, "ignored"),
        ({"ignore": "$.a"}, "ignore"),
        ({"ignore": ["a"]}, "'a'"),
        ({"normalise": ["(?=x)"]}, "normalise"),
        ({"normalise": ["x*"]}, "empty text"),
        ({"boundary": ["x"]}, "boundary"),
        ({"kind": {"model": {"ignore": 3}}}, "ignore"),
    ],
)
def test_a_bad_rule_is_named(table: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        MatchBook.from_project(table)


def test_rules_are_merged_by_what_they_are_for() -> None:
    book = MatchBook.from_project(
        {
            "ignore": ["$.a"],
            "boundary": {"search": {"ignore": ["$.b"], "normalise": ["uuid"]}},
            "kind": {"tool": {"json_fields": ["$.payload"]}},
            "instrument": {"openai": {"id_paths": ["$.conversation"], "ignore_headers": ["X-Trace"]}},
        }
    )
    assert book.rules("search", "tool").ignore == ("$.a", "$.b")
    assert book.rules("other", "tool").ignore == ("$.a",)
    assert "$.payload" in book.rules("search", "tool").json_fields
    assert "$.payload" not in book.rules("search", "model").json_fields
    assert "$.conversation" in book.rules("chat", "model", "openai").id_paths
    assert book.rules("search", "tool").id_paths == ()
    lines = book.rules("search", "tool").describe()
    assert lines[:2] == ["ignored: $.a", "ignored: $.b"]
    assert {"ignored header: traceparent", "normalised: multipart_boundary", "normalised: uuid"} <= set(lines)
    assert "compared as JSON: $.payload" in lines
    book.declare(MatchRules(ignore=("$.late",)), "boundary", "search")
    assert book.rules("search", "tool").ignore == ("$.a", "$.b", "$.late")


def test_ignored_list_items_and_own_patterns() -> None:
    rules = MatchRules.of({"ignore": ["$.l[0]", "$..id"], "normalise": [r"run-\d+"]})
    one = {"l": ["x", {"id": 1, "t": "of run-12"}]}
    two = {"l": ["y", {"id": 2, "t": "of run-345"}], "id": None}
    assert canonical(one, rules) == canonical(two, rules) == b'{"l":[{"t":"of <pattern>"}]}'
    assert canonical(one, DEFAULT) != canonical(two, DEFAULT)


def test_rules_go_on_inside_declared_json() -> None:
    rules = MatchRules.of({"json_fields": ["$.arguments"], "ignore": ["$.arguments.nonce"], "normalise": ["uuid"]})
    one = {"arguments": '{"nonce": 1, "q": "3f0c7f0e-8f0a-4f3b-9d4e-000000000001"}'}
    two = {"arguments": '{"q":"9a6f2f7c-1111-4f3b-9d4e-000000000002","nonce":2}'}
    assert canonical(one, rules) == canonical(two, rules) == b'{"arguments":{"$":"json","v":{"q":"<uuid>"}}}'


def test_the_order_of_a_dict_with_keys_of_any_kind_does_not_count() -> None:
    one = {"$": "dict", "v": [[1, "a"], ["k", {"$": "tuple", "v": [2, 1]}]]}
    two = {"$": "dict", "v": [["k", {"$": "tuple", "v": [2, 1]}], [1, "a"]]}
    other = {"$": "dict", "v": [["k", {"$": "tuple", "v": [1, 2]}], [1, "a"]]}
    assert canonical(one) == canonical(two)
    assert canonical(one) != canonical(other)
