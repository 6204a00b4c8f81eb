"""A recorder made to fail at each of its steps changes nothing that the agent sees; it is counted, and named."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_replay import boundary, open_store, record
from otel_replay.errors import RecorderFault
from otel_replay.redaction import Redactor
from otel_replay.session import active_sessions


@boundary("tool", kind="tool")
def tool(value: Any) -> Any:
    if value == "raise":
        raise PermissionError("denied")
    return {"value": value}


@boundary("stream")
def stream(count: int) -> Iterator[int]:
    yield from range(count)


@boundary("ask", kind="model")
async def ask(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


def agent() -> list[Any]:
    found: list[Any] = [tool(1), tool((1, "a")), list(stream(3)), asyncio.run(ask("hi"))]
    try:
        tool("raise")
    except PermissionError as fault:
        frames = [frame.name for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == __file__]
        found.append((fault.args, frames))
    return found


WITHOUT = agent()


class Broken:
    """Raises whatever is asked of it."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise self.fault


def function_that_raises(_path: str, _value: object) -> object:
    raise RuntimeError("a redaction rule of the user's own is broken")


class BrokenProcessor(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("on_end")


def broken_provider() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(BrokenProcessor())
    return provider


STEPS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "encoding a request or outcome": lambda m: m.setattr("otel_replay.payload.encode", Broken(RuntimeError("encode"))),
    "looking whether it is plain": lambda m: m.setattr("otel_replay.payload.plain_json", Broken(RuntimeError("plain"))),
    "redacting": lambda m: m.setattr("otel_replay.redaction.Redactor.redact_envelope", Broken(ValueError("redact"))),
    "the key": lambda m: m.setattr("otel_replay.otel.recorder.fingerprint", Broken(ValueError("key"))),
    "the digest": lambda m: m.setattr("otel_replay.run_digest.term", Broken(ValueError("digest"))),
    "the mark": lambda m: m.setattr("otel_replay.journal.JournalWriter.mark", Broken(OSError(28, "No space left"))),
    "the journal": lambda m: m.setattr("otel_replay.journal.JournalWriter.append", Broken(OSError(5, "I/O error"))),
    "opening the journal": lambda m: m.setattr("otel_replay.journal.JournalWriter.__init__", Broken(OSError(30, "RO"))),
    "the run's end": lambda m: m.setattr("otel_replay.journal.JournalWriter.run_end", Broken(OSError(5, "I/O error"))),
    "a span's start": lambda m: m.setattr("otel_replay.otel.tracing.Tracing.crossing_started", Broken(KeyError("s"))),
    "a span's end": lambda m: m.setattr("otel_replay.otel.tracing.Tracing.crossing_ended", Broken(KeyError("e"))),
    "the run's span": lambda m: m.setattr("otel_replay.otel.tracing.Tracing.run_started", Broken(KeyError("r"))),
    "making a span current": lambda m: m.setattr("otel_replay.otel.tracing.Tracing.opened", Broken(KeyError("o"))),
}


def only_the_plain_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("otel_replay.otel.quick.Quick.of", lambda *_: None)


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_this_step_is_contained_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    only_the_plain_way(monkeypatch)
    STEPS[step](monkeypatch)
    with record("run", store=tmp_path, tracer_provider=TracerProvider()) as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    assert sum(run.faults.values()) > 0


@pytest.mark.parametrize("step", ["of", "written", "attributes"])
def test_where_the_quick_way_fails_the_plain_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(f"otel_replay.otel.quick.Quick.{step}", Broken(RuntimeError(step)))
    with record("run", store=tmp_path, tracer_provider=TracerProvider()) as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    with open_store(tmp_path) as store:
        recording = store.recording(run.id)
    assert recording.complete
    assert len(recording.envelopes) == 5


def test_a_span_that_cannot_be_written_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_replay.otel.tracing.Tracing.crossing_written", Broken(KeyError("e")))
    with record("run", store=tmp_path, tracer_provider=TracerProvider()) as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    assert run.faults["span end"] > 0


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ("the run's end", "making a span current")])
def test_under_test_the_same_fault_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    only_the_plain_way(monkeypatch)
    STEPS[step](monkeypatch)
    with pytest.raises(RecorderFault):
        with record("run", store=tmp_path, tracer_provider=TracerProvider(), strict=True):
            tool((1, "a"))
    assert not trace.get_current_span().get_span_context().is_valid, "nothing is left behind"
    assert not active_sessions()


def test_a_processor_of_the_program_that_raises(tmp_path: Path) -> None:
    with record("run", store=tmp_path, tracer_provider=broken_provider()) as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    assert sum(run.faults.values()) > 0
    with open_store(tmp_path) as store:
        assert len(store.recording(run.id).envelopes) == 5


def test_a_redaction_rule_that_raises(tmp_path: Path) -> None:
    redactor = Redactor.default().with_rule(function=function_that_raises)
    with record("run", store=tmp_path, redactor=redactor) as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    assert sum(run.faults.values()) > 0
    with open_store(tmp_path) as store:
        recording = store.recording(run.id)
    assert [envelope.outcome.kind for envelope in recording.envelopes] == ["lost"] * 5, "never written unredacted"


def test_a_folder_that_cannot_be_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with record("run", store=tmp_path / "file") as run:
        found = agent()
    assert repr(found) == repr(WITHOUT)
    assert run.faults["journal"] > 0


def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    with record("run", store=tmp_path / "store"):
        tool(0)
        shutil.rmtree(tmp_path / "store")
        found = agent()
    assert repr(found) == repr(WITHOUT)


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """A limit on file sizes, in a child: the write fails as on a full disk (EFBIG in place of ENOSPC)."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            import signal

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            with record("run", store=tmp_path) as run:
                tool(0)
                resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
                found = agent()
            code = 0 if repr(found) == repr(WITHOUT) and run.faults["journal"] > 0 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with open_store(tmp_path) as store:
        (kept,) = store.runs()
        assert kept.crossings >= 1, "what was written before is there"
        assert not kept.complete


def test_the_fault_is_on_the_run_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    redactor = Redactor.default().with_rule(function=function_that_raises)
    with record("run", store=tmp_path, redactor=redactor) as run:
        for number in range(20):
            tool(number)
    with open_store(tmp_path) as store:
        assert store.recording(run.id).run.faults["envelope"] == 20
    assert len([entry for entry in caplog.records if "'envelope'" in entry.getMessage()]) == 1
