"""Span ids are drawn from the system many at a time; nobody else may come to use the same."""

from __future__ import annotations

import os

import pytest

from otel_replay import originals


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_ids_of_its_own() -> None:
    originals.new_span_id()  # the parent holds some that it has not used
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"".join(originals.new_span_id().to_bytes(8, "big") for _ in range(100)))
        os._exit(0)
    os.waitpid(child, 0)
    data = os.read(reader, 800)
    theirs = {data[at : at + 8] for at in range(0, 800, 8)}
    ours = {originals.new_span_id().to_bytes(8, "big") for _ in range(100)}
    assert len(theirs) == len(ours) == 100
    assert not theirs & ours
