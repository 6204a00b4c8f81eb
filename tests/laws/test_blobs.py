"""Blobs: a text that was cut is joined to the same text, whatever stands in it; a journal gives back what it got."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay import limits
from otel_replay._proto.otel_replay.v1 import envelope_pb2 as pb
from otel_replay.blobs import BlobMissing, Cut, cut, join
from otel_replay.envelope import Chunk, Envelope, Outcome, Payload, Run
from otel_replay.journal import JournalWriter, read_journal

from .strategies import ENVELOPES

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.text('"\\é\n x', min_size=8, max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


def strings_of(tree: object) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    if isinstance(tree, list):
        return [text for item in tree for text in strings_of(item)]
    if isinstance(tree, dict):
        return [text for key, item in tree.items() for text in (key, *strings_of(item))]
    return []


@given(TREES, st.integers(0, 12))
@settings(max_examples=100)
def test_json_that_was_cut_is_joined_byte_for_byte(tree: object, threshold: int) -> None:
    text = orjson.dumps(tree).decode()
    left, cuts, blobs = cut(text, threshold)
    assert join(left, cuts, blobs.__getitem__) == text
    written = {orjson.dumps(found).decode()[1:-1] for found in strings_of(tree)}
    assert set(blobs.values()) == {one for one in written if len(one) > threshold}


@given(st.text('"\\{}:,a\n', max_size=80), st.integers(0, 6))
@settings(max_examples=100)
def test_any_other_text_too(text: str, threshold: int) -> None:
    left, cuts, blobs = cut(text, threshold)
    assert join(left, cuts, blobs.__getitem__) == text


def test_what_is_left_is_json_that_says_what_was_there() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 4
    bare = "/9j/" + "A" * 60
    text = orjson.dumps({"a": picture, "b": [bare, "short", picture], "c": "x" * 60}).decode()
    left, cuts, blobs = cut(text, 40)
    tree = orjson.loads(left)
    name = hashlib.sha256(picture.encode()).hexdigest()
    assert tree["a"] == {"$": "blob", "sha256": name, "bytes": len(picture), "media_type": "image/png"}
    assert tree["b"][0]["media_type"] == "image/jpeg"
    assert tree["b"][1] == "short"
    assert tree["b"][2] == tree["a"]
    assert tree["c"]["media_type"] == "text/plain"
    assert len(cuts) == 4
    assert len(blobs) == 3


def test_what_looks_like_a_reference_is_the_programs_own() -> None:
    text = orjson.dumps({"$": "blob", "sha256": "0" * 64, "bytes": 1, "media_type": "x" * 50}).decode()
    left, cuts, blobs = cut(text, 100)
    assert (left, cuts) == (text, ())
    left, cuts, blobs = cut(text, 40)
    assert join(left, cuts, blobs.__getitem__) == text


@pytest.mark.parametrize(
    "cuts",
    [
        [Cut(0, 99, "a" * 64)],
        [Cut(-1, 1, "a" * 64)],
        [Cut(2, 1, "a" * 64), Cut(1, 1, "a" * 64)],
        [Cut(0, 1, "../../etc/passwd")],
        [Cut(0, -1, "a" * 64)],
    ],
)
def test_cuts_that_do_not_fit_are_refused(cuts: list[Cut]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        join("short", cuts, lambda _: "blob")


def test_blobs_do_not_grow_a_text_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOB_TEXT_CHARS_MAX", 1_000)
    cuts = [Cut(at, 0, "a" * 64) for at in range(5)]
    assert len(join("short", cuts[:2], lambda _: "x" * 400)) == 5 + 2 * 402
    with pytest.raises(ValueError, match="more than 1000"):
        join("short", cuts, lambda _: "x" * 400)


def large_crossing(seq: int, picture: str) -> Envelope:
    asked = Payload("json", orjson.dumps({"n": seq, "image": picture}).decode())
    told = Payload("json", orjson.dumps([picture]).decode())
    chunks = (Chunk(Payload("json", orjson.dumps(picture).decode()), sent=asked), Chunk(Payload()))
    outcome = Outcome("streamed", told, chunks, "exhausted")
    return Envelope("r" * 32, f"a[{seq}]", "a", "tool", asked, outcome, seq, seq, changed=told)


def test_a_journal_holds_equal_strings_once_and_gives_back_all(tmp_path: Path) -> None:
    picture = 'é\\"' + "x" * limits.BLOB_THRESHOLD_BYTES
    envelopes = tuple(large_crossing(seq, picture) for seq in range(1, 6))
    writer = JournalWriter(tmp_path / "run.journal")
    writer.run_start(Run("r" * 32))
    for envelope in envelopes:
        writer.crossing(envelope)
    writer.close()
    assert read_journal(tmp_path / "run.journal").envelopes == envelopes
    assert (tmp_path / "run.journal").stat().st_size < limits.BLOB_THRESHOLD_BYTES + 10_000


def test_a_reference_to_nothing_loses_that_payload_alone(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "run.journal")
    whole = Envelope("r" * 32, "a[1]", "a", "tool", Payload("json", "[1]"), Outcome("returned"), 1, 1)
    message = pb.Envelope(run_id="r" * 32, address="a[2]", seq=2, grade="exact", schema=1)
    message.request.encoding, message.request.text = "json", b"[1]"
    message.outcome.kind, message.outcome.value.encoding, message.outcome.value.text = "returned", "json", b"{}"
    message.outcome.value.cuts.add(at=0, length=2, sha256="b" * 64)
    writer.append(pb.JournalEntry(crossing=message).SerializeToString())
    writer.crossing(whole)
    writer.close()
    lost, other = read_journal(tmp_path / "run.journal").envelopes
    assert other == whole
    assert lost.request.text == "[1]"
    assert "missing" in lost.outcome.lost_reason
    assert "b" * 64 in lost.outcome.lost_reason


@given(st.lists(ENVELOPES, max_size=3), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_a_journal_gives_back_what_it_was_given_at_any_threshold(envelopes: list[Envelope], threshold: int) -> None:
    before = limits.BLOB_THRESHOLD_BYTES
    limits.BLOB_THRESHOLD_BYTES = threshold
    try:
        with tempfile.TemporaryDirectory() as folder:
            writer = JournalWriter(Path(folder) / "run.journal")
            writer.run_start(Run("r" * 32))
            for seq, envelope in enumerate(envelopes, 1):
                writer.crossing(replace(envelope, seq=seq))
            writer.close()
            found = read_journal(writer.path).envelopes
    finally:
        limits.BLOB_THRESHOLD_BYTES = before
    assert found == tuple(replace(envelope, seq=seq) for seq, envelope in enumerate(envelopes, 1))


def test_a_missing_blob_has_a_name() -> None:
    def lookup(name: str) -> str:
        raise BlobMissing(f"no {name}")

    left, cuts, _ = cut('["' + "x" * 50 + '"]', 10)
    with pytest.raises(BlobMissing, match=cuts[0].sha256):
        join(left, cuts, lookup)
