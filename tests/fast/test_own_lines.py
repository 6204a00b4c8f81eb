"""A fixture read in one go is the recording that the plain way reads, and anything uncommon goes the plain way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from otel_replay import exporting, run_digest, sources
from otel_replay.envelope import NOT_WHOLE, Envelope, Outcome, Payload, Recording, Run
from otel_replay.importers import own_lines
from tests.fast import making

TRACE, OTHER_TRACE = "a" * 32, "b" * 32
runs = st.lists(making.envelopes, min_size=1, max_size=4).map(lambda found: _run(found))


def _run(envelopes: list[Envelope], **facts: object) -> Recording:
    placed = tuple(
        replace(envelope, run_id="r1", lane="", seq=at, trace_id=TRACE, span_id=f"{at:016x}", parent_span_id="f" * 16)
        for at, envelope in enumerate(envelopes, 1)
    )
    run = Run(
        "r1",
        "checkout",
        start_ns=5,
        end_ns=9,
        crossings=len(placed),
        digest=run_digest.of_run(placed),
        trace_id=TRACE,
        span_id="f" * 16,
    )
    return Recording(replace(run, **facts), placed)  # type: ignore[arg-type]


def _plainly(path: Path) -> list[Recording]:
    return sources.recordings(str(path))[0]


def _lines(recording: Recording) -> list[bytes]:
    return exporting.export_bytes(exporting.spans_of_recording(recording), "otlp-json").splitlines(keepends=True)


@given(runs)
def test_what_is_read_in_one_go_is_what_is_read_plainly(recording: Recording) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.otlp.jsonl"
        exporting.write_fixture(path, exporting.spans_of_recording(recording))
        quick = own_lines.recording(path, str(path))
        assert [quick or _plainly(path)[0]] == _plainly(path)


def test_the_common_fixture_is_read_in_one_go(tmp_path: Path) -> None:
    envelope = Envelope("", "search[1]", "search", "tool", Payload(text='{"q":"é"}'), Outcome("returned"), 1, 2)
    path = tmp_path / "run.otlp.jsonl"
    path.write_bytes(b"".join(_lines(_run([envelope, replace(envelope, address="search[2]", end_seq=3)]))))
    assert [own_lines.recording(path, str(path))] == _plainly(path)


@given(runs, st.data())
def test_what_is_not_whole_or_not_ours_is_left_to_the_plain_way(recording: Recording, data: st.DataObject) -> None:
    lines = _lines(recording)
    at = data.draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    cut = data.draw(st.integers(1, max(len(line) - 2, 1)))
    bad = data.draw(
        st.sampled_from(
            [
                [*lines[:at], *lines[at + 1 :]],
                [*lines[: at + 1], line, *lines[at + 1 :]],
                [*lines[:at], line[:cut] + b"#" + line[cut + 1 :], *lines[at + 1 :]],
                [*lines[:at], line[:cut] + b"\n", *lines[at + 1 :]],
                [*lines[:at], line.replace(TRACE.encode(), OTHER_TRACE.encode(), 1), *lines[at + 1 :]],
                [*lines[:at], line.replace(b'"name":"otel_replay"', b'"name":"else"'), *lines[at + 1 :]],
                [*lines[:at], line.replace(b'"stringValue":"r1"', b'"stringValue":"r2"', 1), *lines[at + 1 :]],
                [*lines, b"\n"],
            ]
        )
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.otlp.jsonl"
        path.write_bytes(b"".join(bad))
        quick = own_lines.recording(path, str(path))
        if quick is not None:  # a change where nobody reads: the name of a span, a readable attribute
            assert quick == replace(recording, source=str(path))


def test_a_run_that_says_what_it_lacks_is_left_to_the_plain_way(tmp_path: Path) -> None:
    envelope = Envelope("", "search[1]", "search", "tool", Payload(), Outcome("returned"), 1, 2)
    path = tmp_path / "run.otlp.jsonl"
    lacking: tuple[dict[str, object], ...] = (
        {"notes": (f"{NOT_WHOLE}half of it",)},
        {"end_ns": 0},
        {"lanes": ("~1",)},
        {"crossings": 2},
        {"digest": run_digest.text(7)},
    )
    for facts in lacking:
        path.write_bytes(b"".join(_lines(_run([envelope], **facts))))
        assert own_lines.recording(path, str(path)) is None, facts
        assert _plainly(path)[0].complete is False, facts


def test_a_change_outside_what_the_run_vouches_for_is_seen_too(tmp_path: Path) -> None:
    envelope = Envelope("", "search[1]", "search", "tool", Payload(), Outcome("returned"), 1, 2, run_name="checkout")
    path = tmp_path / "run.otlp.jsonl"
    changed = b"".join(_lines(_run([envelope]))).replace(rb"\"run_name\":\"checkout\"", rb"\"run_name\":\"checkin!\"")
    path.write_bytes(changed)
    assert b"checkin!" in changed
    assert own_lines.recording(path, str(path)) is None
    assert _plainly(path)[0].damaged
