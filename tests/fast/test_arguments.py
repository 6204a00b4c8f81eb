"""A call's change of its arguments is noticed whatever it changes, though they are not encoded twice."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import boundary, payload, record
from otel_replay.crossing import _image
from otel_replay.store import open_store

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.0, -0.0, 1.0]) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300)
@given(plain, plain)
def test_images_are_the_same_only_for_the_same_value(first: Any, second: Any) -> None:
    if _image(first) == _image(second):
        assert payload.encode(first) == payload.encode(second)


@settings(max_examples=100)
@given(plain)
def test_an_untouched_value_keeps_its_image(value: Any) -> None:
    request = {"q": value}
    before = _image(request)
    assert before is not None
    assert _image(request) == before


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda q: q.append(4), True),
        (lambda q: q.__setitem__(0, True), True),  # equal to 1, and another value
        (lambda q: q.__setitem__(0, 1.0), True),
        (lambda q: q.__setitem__(2, tuple(q[2])), True),
        (lambda q: q[1].update(a=1), False),  # as it was
        (lambda q: q.__setitem__(1, copy.deepcopy(q[1])), False),
        (lambda q: q.__setitem__(1, {1}), True),
        (lambda q: q.__setitem__(1, dict(reversed(q[1].items()))), True),  # another order of keys is another text
    ],
)
def test_each_change_is_recorded(tmp_path: Path, change: Any, kept: bool) -> None:
    @boundary("touch", kind="tool")
    def touch(q: list[Any]) -> None:
        change(q)

    with record("r", store=tmp_path) as run:
        touch([1, {"a": 1, "b": [2]}, ["x"]])
    with open_store(tmp_path) as store:
        (envelope,) = store.recording(run.id).envelopes
    assert (envelope.changed is not None) is kept
