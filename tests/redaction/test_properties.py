"""Laws: redacting twice is redacting once, clean values come back themselves, no cut of a stream saves a secret."""

from __future__ import annotations

import json

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.redaction.labelled import POSITIVES, TOKENS
from otel_replay.envelope import Payload
from otel_replay.redaction import Redactor

REDACTOR = Redactor.default()
few = settings(max_examples=60, deadline=None)

names = st.sampled_from(["password", "api_key", "authorization", "cookie", "note", "token", "arguments", "url", "name"])
pieces = st.one_of(
    st.sampled_from(TOKENS),
    st.sampled_from([label.value for label in POSITIVES if isinstance(label.value, str)]),
    st.sampled_from(
        ["Bearer ", "://u:", "@h", "?code=", "password=", "-----BEGIN PRIVATE KEY-----\n", "[redacted:x#1]", "\n", ": "]
    ),
    st.text(alphabet='ab1 =:;&?/@"\\{}[]\n-é', max_size=12),
)
texts = st.lists(pieces, max_size=5).map("".join)
leaves = st.one_of(texts, st.integers(-10, 10**6), st.none(), st.booleans(), st.floats(allow_nan=False))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=3),
        st.dictionaries(names, inner, max_size=2).map(json.dumps),
        st.lists(st.tuples(names, texts).map(list), min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@few
@given(trees)
def test_redacting_twice_is_redacting_once(tree: object) -> None:
    once, _ = REDACTOR.redact(Payload("json", orjson.dumps(tree).decode()))
    twice, hits = REDACTOR.redact(once.value)
    assert (twice.value.text, hits) == (once.value.text, ())
    assert orjson.dumps(orjson.loads(once.value.text)).decode() == once.value.text


@few
@given(texts)
def test_redacting_a_text_twice_is_redacting_once(text: str) -> None:
    once, _ = REDACTOR.redact_text(text)
    assert REDACTOR.redact_text(once) == (once, ())


@few
@given(st.text(alphabet="ab \n.,", max_size=60), st.sampled_from(TOKENS), st.data())
def test_no_cut_saves_a_secret(around: str, token: str, data: st.DataObject) -> None:
    text = f"{around} {token} {around}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    made, hits = REDACTOR.redact_chunks(parts)
    assert len(made) == len(parts)
    assert "".join(made) == REDACTOR.redact_text(text)[0]
    assert token not in "".join(made)
    assert len(hits) == 1


@few
@given(trees)
def test_a_redacted_tree_has_the_same_shape(tree: object) -> None:
    made = REDACTOR.redact(Payload("json", orjson.dumps(tree).decode()))[0].value.tree()

    def shape(node: object) -> object:
        if isinstance(node, dict):
            return {key: shape(item) for key, item in node.items()}
        return [shape(item) for item in node] if isinstance(node, list) else None

    assert shape(made) == shape(tree)


places = st.recursive(
    st.sampled_from(TOKENS).map(lambda token: f"the key {token} here"),
    lambda inner: st.one_of(
        inner.map(lambda node: [1, node]),
        inner.map(lambda node: {"note": node}),
        inner.map(lambda node: [["name", "b"], [node, "b"]]),
        inner.map(lambda node: {"$": "dict", "v": [[node, 1]]}),
        inner.map(lambda node: {"$": "tuple", "v": [node]}),
        inner.map(json.dumps),
        inner.map(lambda node: {node if isinstance(node, str) else json.dumps(node): 1}),
    ),
    max_leaves=6,
)


@few
@given(places)
def test_no_place_saves_a_secret(tree: object) -> None:
    made, hits = REDACTOR.redact(Payload("json", orjson.dumps(tree).decode()))
    assert hits
    assert not any(token in made.value.text for token in TOKENS)
    assert made.value.text.count("here") == json.dumps(tree).count("here")
