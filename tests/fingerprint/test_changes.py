"""What a difference looks like to people."""

from __future__ import annotations

from typing import Any

import pytest

from otel_replay.changes import ABSENT, FieldChange, compare, similarity, suggest

MESSAGES = [{"role": "user", "content": f"message number {i}"} for i in range(6)]


def test_an_inserted_message_shows_as_one_insertion() -> None:
    new = [*MESSAGES[:2], {"role": "system", "content": "be kind"}, *MESSAGES[2:]]
    assert compare(MESSAGES, new) == (
        FieldChange("$[2]", ABSENT, {"content": "be kind", "role": "system"}, "inserted"),
    )  # fmt: skip
    assert compare(new, MESSAGES) == (
        FieldChange("$[2]", {"content": "be kind", "role": "system"}, ABSENT, "removed"),
    )  # fmt: skip


def test_a_changed_message_beside_an_inserted_one_is_paired_with_its_own_kind() -> None:
    old = [{"role": "user", "content": "what is the refund for order 42 today"}]
    new = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "what is the refund for order 43 today"},
    ]
    changes = compare(old, new)
    assert [(change.path, change.note) for change in changes] == [("$[0]", "inserted"), ("$[1].content", "")]


def test_long_texts_show_the_part_that_differs() -> None:
    text = "word " * 200
    (change,) = compare({"p": text + "refund 42 " + text}, {"p": text + "refund 43 " + text})
    assert str(change.recorded).startswith("...")
    assert "refund 42 word" in str(change.recorded)
    assert "refund 43 word" in str(change.now)
    assert len(str(change.recorded)) < 80


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (1, "1", FieldChange("$.a", 1, "1", "int became text")),
        (1, True, FieldChange("$.a", 1, True, "int became bool")),
        (0.0, -0.0, FieldChange("$.a", 0.0, -0.0, "the sign of zero differs")),
        ("A b", "a B", FieldChange("$.a", "A b", "a B", "only upper and lower case differ")),
        ("a  b", "a b", FieldChange("$.a", "a  b", "a b", "only white space differs")),
        ({"$": "tuple", "v": [1]}, [1], FieldChange("$.a", (1,), [1], "tuple became list")),
        ({"$": "bytes", "text": "x"}, "x", FieldChange("$.a", "bytes('x')", "x", "bytes became text")),
        (
            {"$": "dataclass", "t": "app:Order", "v": {"n": 1}},
            {"$": "dataclass", "t": "app:Refund", "v": {"n": 1}},
            FieldChange("$.a", "Order({'n': 1})", "Refund({'n': 1})", "Order became Refund"),
        ),
    ],
)
def test_leaves(old: Any, new: Any, expected: FieldChange) -> None:
    (change,) = compare({"a": old}, {"a": new})
    if "zero" in expected.note:
        assert (repr(change.recorded), repr(change.now), change.note) == ("0.0", "-0.0", expected.note)
        return
    assert change == expected


def test_tags_are_transparent_in_paths() -> None:
    def tree(n: int) -> object:
        return {"args": {"$": "tuple", "v": [{"$": "dataclass", "t": "app:Order", "v": {"n": n}}]}}

    def pairs(n: int) -> object:
        return {"$": "dict", "v": [[1, "a"], ["k", n]]}

    assert [str(change) for change in compare(tree(1), tree(2))] == ["$.args[0].n recorded 1, now 2"]
    assert [str(change) for change in compare(pairs(1), pairs(2))] == ["$.k recorded 1, now 2"]


def test_very_many_changes_are_cut_and_say_so() -> None:
    changes = compare({str(i): i for i in range(500)}, {str(i): -i - 1 for i in range(500)})
    assert len(changes) == 200
    assert changes[-1].note == "301 further changes are not listed"


def test_the_nearest_is_the_most_similar() -> None:
    asked = {"q": "refund for order 42", "user": "kari"}
    near, far = {"q": "refund for order 43", "user": "kari"}, {"city": "Oslo", "days": 3}
    assert similarity(asked, asked) == 1.0
    assert similarity(asked, near) > similarity(asked, far)
    assert 0.0 <= similarity(asked, far) < 0.2


def test_suggestions_name_lists_by_star_and_say_nothing_for_meaning() -> None:
    old = {"m": [{"at": "2026-09-01T10:00:00Z"}, {"at": "2026-09-01T10:00:01Z"}], "q": "x"}
    new = {"m": [{"at": "2026-09-02T10:00:00Z"}, {"at": "2026-09-02T10:00:01Z"}], "q": "x"}
    lines = suggest(compare(old, new))
    assert lines[0] == "differs only at $.m[0].at, $.m[1].at"
    assert lines[1:] == [
        "$.m[*].at looks like a time: if it means nothing, add the ignore rule "
        '[tool.otel_replay.match] ignore = ["$.m[*].at"]'
    ]
    assert suggest(compare({"q": "cats"}, {"q": "dogs"})) == ["differs only at $.q"]
    assert suggest(()) == []
