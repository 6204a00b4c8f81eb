"""Each fast encoder writes what the plain one beside it does."""

from __future__ import annotations

import orjson
from hypothesis import given, settings

from otel_replay import jsonform, readable
from otel_replay.envelope import Envelope, Payload
from tests.fast import making


@settings(max_examples=100)
@given(making.envelopes | making.common)
def test_json_form_is_that_of_the_plain_way(envelope: Envelope) -> None:
    assert jsonform.envelope_to_json(envelope) == jsonform.envelope_to_json_plainly(envelope)


@settings(max_examples=100)
@given(making.payloads)
def test_readable_text_is_that_of_the_untagged_tree(payload: Payload) -> None:
    tree = readable.untagged(payload.tree())
    assert readable._readable_text(payload) == (tree if isinstance(tree, str) else orjson.dumps(tree).decode())
    assert readable._readable(payload) == tree
