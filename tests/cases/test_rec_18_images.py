"""REC-18: one inline image destroys the record of the call. Here it is kept once, and everything around it whole."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_replay import boundary, carrying, codec, limits, open_store, replay
from otel_replay.blobs import name_of
from otel_replay.cli import cli
from otel_replay.errors import Diverged, IncompleteRecording, Unservable
from otel_replay.otel.convert import to_neutral
from otel_replay.span import Span
from otel_replay.wire.protobuf import request_from_spans

from .clients import SHARED
from .conftest import Lab

MIB = 1024 * 1024
SAID = "A red square, centred, on white."
Request: TypeAlias = dict[str, Any]


def prompt(size: int, seed: int = 1) -> Request:
    """Return the prompt of the case with an image of `size` bytes: the shared file's, repeated, or one of our own."""
    path = SHARED / "rec18_image_prompt.json"
    if path.exists():
        found: Request = json.loads(path.read_text())
        found.pop("note")
        image = found["messages"][0]["content"][1]["image_url"]
        head, data = image["url"].split(",")
        image["url"] = f"{head},{(data * (size // len(data) + 1))[: size - seed]}"
        return found
    data = base64.b64encode(random.Random(seed).randbytes(30_000)).decode()
    url = "data:image/png;base64,iVBORw0KGgo" + (data * (size // len(data) + 1))[:size]
    content = [
        {"type": "text", "text": "What is on the picture?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return {"model": "demo", "messages": [{"role": "user", "content": content}]}


def url_of(request: Request) -> str:
    return str(request["messages"][0]["content"][1]["image_url"]["url"])


@boundary("ask", kind="model")
def ask(*, model: str, messages: list[Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": SAID}
    return {"model": "demo-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 9}}


@boundary("look", kind="tool")
def look(turn: int, image: str) -> str:
    return f"turn {turn}: {len(image)}"


def conversation(image: str) -> Callable[[], list[str]]:
    return lambda: [look(turn, image) for turn in range(20)]


def sent(spans: InMemorySpanExporter) -> list[Span]:
    found: tuple[ReadableSpan, ...] = spans.get_finished_spans()
    return [to_neutral(span) for span in found]


def files(store: Path, *below: str) -> int:
    return sum(path.stat().st_size for part in below for path in (store / part).rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [6 * MIB, 60 * MIB])
def test_rec_18_text_output_and_metadata_stay_whole_and_replay_gives_equal_input(
    lab: Lab, spans: InMemorySpanExporter, size: int
) -> None:
    request = prompt(size)
    answer = lab.record(lambda: ask(**request))
    (crossing,) = [span for span in sent(spans) if span.get("otel_replay.address")]
    shown = codec.from_cut_span(crossing).envelope
    assert shown is not None
    url = url_of(request)
    reference = {"$": "blob", "sha256": name_of(url), "bytes": len(url), "media_type": "image/png"}
    assert json.dumps(reference, separators=(",", ":")) in shown.request.text
    assert "What is on the picture?" in shown.request.text
    assert json.loads(shown.outcome.value.text) == answer
    assert "What is on the picture?" in str(crossing.get("gen_ai.input.messages"))
    assert SAID in str(crossing.get("gen_ai.output.messages"))
    (envelope,) = lab.envelopes()
    assert url_of(request) in envelope.request.text
    assert lab.replay(lambda: ask(**request)) == answer
    recorded = [span for span in sent(spans) if span.get("otel_replay.mode") in ("record", None)]
    (whole,) = [codec.from_span(span).envelope for span in carrying.assemble(recorded) if codec.is_ours(span)][:1]
    assert whole is not None
    assert (whole.request, whole.outcome, whole.key) == (envelope.request, envelope.outcome, envelope.key)


def test_rec_18_the_key_tells_one_image_from_another(lab: Lab) -> None:
    request = prompt(MIB)
    lab.record(lambda: ask(**request))
    with pytest.raises(Diverged, match="ask"):
        lab.replay(lambda: ask(**prompt(MIB, seed=2)))
    assert lab.replay(lambda: ask(**json.loads(json.dumps(request))))["choices"]


def test_rec_18_twenty_turns_cost_about_one_image(lab: Lab, spans: InMemorySpanExporter) -> None:
    image = "data:image/jpeg;base64,/9j/" + base64.b64encode(random.Random(3).randbytes(MIB * 3 // 4)).decode()
    lab.record(conversation(image))
    assert files(lab.store, "journal") < len(image) + 40_000
    sizes = [len(request_from_spans([span])) for span in sent(spans)]
    assert max(sizes) < limits.BLOB_SPAN_BYTES_MAX
    assert sum(sizes) < len(image) * 1.01 + 20 * 25_000  # a span shows people at most 15,000 characters of it
    assert len(lab.envelopes()) == 20
    assert files(lab.store, "journal") == 0
    assert files(lab.store, "spans", "blobs") < len(image) + 60_000
    assert lab.replay(conversation(image))[19] == f"turn 19: {len(image)}"


def test_rec_18_the_spans_alone_are_replayed_and_asked(lab: Lab, spans: InMemorySpanExporter, tmp_path: Path) -> None:
    image = "data:image/jpeg;base64,/9j/" + "é" * 10 + "x" * MIB
    lab.record(conversation(image))
    arrived = sent(spans)
    random.Random(5).shuffle(arrived)
    with open_store(tmp_path / "sink", create=True) as sink:
        for at in range(0, len(arrived), 5):
            sink.write(arrived[at : at + 5])
        (run,) = sink.runs()
        assert (run.state, run.crossings, run.damaged) == ("complete", 20, 0)
        assert sink.recording(run.run_id).envelopes == lab.envelopes()
        assert sorted(sink.spans(run.run_id), key=repr) == sorted(arrived, key=repr)
        (asked,) = set(
            sink.arrow("SELECT json_extract_string(request, '$.image.media_type') FROM crossings").column(0).to_pylist()
        )
        assert asked == "image/jpeg"
        assert sink.verify().problems == ()
    with replay(run.run_id, store=tmp_path / "sink"):
        assert conversation(image)()[7].startswith("turn 7")


def test_rec_18_a_committed_fixture_holds_one_image(lab: Lab) -> None:
    image = "iVBORw0KGgo" + "x" * MIB
    lab.record(conversation(image))
    done = CliRunner().invoke(cli, ["promote", "run", "--to", "incidents", "--store", str(lab.store)])
    assert done.exit_code == 0, done.output
    (fixture,) = Path("incidents").glob("*.otlp.jsonl")
    assert fixture.stat().st_size < len(image) + 20 * 25_000
    before = fixture.read_bytes()
    with replay(str(fixture)) as session:
        assert conversation(image)()[19].startswith("turn 19")
    assert session.recording.envelopes == lab.envelopes()
    with open_store("imported", create=True) as store:
        assert CliRunner().invoke(cli, ["import", str(fixture), "--store", "imported"]).exit_code == 0
        (run,) = store.runs()
        assert store.recording(run.run_id).envelopes == lab.envelopes()
    assert files(Path("imported"), "spans", "blobs") < len(image) + 60_000
    again = CliRunner().invoke(cli, ["promote", run.run_id, "--to", "again", "--store", "imported"])
    assert again.exit_code == 0, again.output
    (second,) = Path("again").glob("*.otlp.jsonl")
    assert second.read_bytes() == before


def test_rec_18_an_image_that_was_lost_on_the_way_is_missing_by_name(
    lab: Lab, spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    image = "iVBORw0KGgo" + "x" * 2 * MIB
    lab.record(conversation(image))
    arrived = sent(spans)
    lost = next(span for span in arrived if carrying.is_part(span))
    with open_store(tmp_path / "sink", create=True) as sink:
        sink.write([span for span in arrived if span is not lost])
        (run,) = sink.runs()
    shown = CliRunner().invoke(cli, ["show", run.run_id, "--store", str(tmp_path / "sink")])
    assert "missing" in shown.output
    assert "large strings" in shown.output
    with pytest.raises(IncompleteRecording), replay(run.run_id, store=tmp_path / "sink"):
        conversation(image)()


def test_rec_18_an_image_that_left_the_store_is_missing_by_name(lab: Lab) -> None:
    image = "iVBORw0KGgo" + "x" * MIB
    lab.record(conversation(image))
    lab.envelopes()
    (blob,) = (lab.store / "blobs").iterdir()
    blob.unlink()
    shown = CliRunner().invoke(cli, ["show", "run", "--store", str(lab.store)])
    assert f"the blob {name_of(image)} is not in the store" in shown.output
    with pytest.raises(IncompleteRecording):
        lab.replay(conversation(image))


def test_rec_18_beyond_the_hard_limit_it_says_what_is_missing(
    lab: Lab, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_REPLAY_STRICT")
    request = prompt(limits.PAYLOAD_BYTES_MAX + MIB)
    answer = lab.record(lambda: ask(**request), strict=False)
    assert answer["model"] == "demo-1"
    (envelope,) = lab.envelopes()
    assert envelope.request.lost
    assert "larger than 64 MB" in envelope.request.reason
    assert json.loads(envelope.outcome.value.text) == answer
    (crossing,) = [span for span in sent(spans) if span.get("otel_replay.address")]
    read = codec.from_span(crossing).envelope
    assert read is not None
    assert read.request.reason == envelope.request.reason
    with pytest.raises(Unservable, match="larger than 64 MB"):
        lab.replay(lambda: ask(**request))


def test_rec_18_secrets_go_before_anything_is_hashed(lab: Lab, spans: InMemorySpanExporter) -> None:
    secret = "sk-proj-" + "Ab1" * 16
    text = "x " * 200_000 + f"my key is {secret} "
    lab.record(lambda: look(1, text))
    (envelope,) = lab.envelopes()
    assert secret not in envelope.request.text
    assert name_of(text) not in str(sent(spans))
    assert secret not in "".join(str(span) for span in sent(spans))
    (blob,) = (lab.store / "blobs").iterdir()
    with open_store(lab.store) as store:
        assert secret not in store.blob(blob.stem)
        assert "REDACTED" in store.blob(blob.stem).upper()
