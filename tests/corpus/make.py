"""How `tests/corpus/v1` was made: `python -m tests.corpus.make FOLDER`. A made version is never made again.

Four recorded runs (two of them sealed and compacted, one sealed later, one left as a journal), a run that came in by
OTLP, foreign spans that plain columns cannot hold, unequal copies of one span, a verdict and a pin; and beside the
store what it answered on the day.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_replay import open_store, record
from otel_replay.otel.exporter import ParquetSpanExporter
from otel_replay.span import Event, KeyValues, Link, Resource, Scope, Span
from otel_replay.wire.json import json_line

from .agent import AGENTS

START = 1_764_547_200_000_000_000
FOREIGN = (
    Span(
        "a" * 32,
        "b" * 16,
        "chat gpt-4o",
        START,
        START + 1,
        kind=3,
        attributes=(
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "gpt-4o"),
            ("gen_ai.input.messages", '[{"role":"user","content":"hi"}]'),
            ("gen_ai.usage.input_tokens", 11),
            ("nested", KeyValues((("deep", (1, 2.5, b"\x00", None, True)),))),
            ("text", "y" * 2_000),
        ),
        events=(Event(START + 1, "exception", (("exception.type", "ValueError"),)),),
        links=(Link("c" * 32, "d" * 16, "s=1", (("why", "retry"),), 1, 1),),
        status_code=2,
        status_message="broken",
        trace_state="k=v",
        flags=257,
        dropped_attributes_count=3,
        resource=Resource((("service.name", "shop"), ("n", 1)), 2, "https://example.com/r"),
        scope=Scope("lib", "1.2", (("s", True),), 1, "https://example.com/s"),
    ),
    Span(
        "a" * 32,
        "e" * 16,
        "hard \ud800 name",
        START + 2,
        START + 3,
        attributes=(("twice", 1), ("twice", 2), ("nan", float("nan")), ("big", 2**63 - 1), ("lone", "\udfff")),
    ),
)


def make(folder: Path) -> None:
    """Make the corpus in `folder`, which must not be there."""
    store = folder / "store"
    ids = {}
    for name in ("values", "errors"):
        ids[name] = _record(name, store)
    with open_store(store, create=True) as opened:
        opened.seal()
        opened.write(FOREIGN)
        longer = replace(FOREIGN[0], end_ns=START + 5)
        opened.write([longer])  # a late, better copy: the first loses its place
        opened.compact(grace_s=0)
        _record("streams", store)
        opened.seal()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ParquetSpanExporter(store)))
        _record("by-otlp", folder / "elsewhere", agent="errors", tracer_provider=provider)
        provider.shutdown()
        shutil.rmtree(folder / "elsewhere")
        opened.set_verdict(ids["errors"], "failed")
        opened.pin(ids["values"])
    _record("nested", store)  # stays a journal: its format is promised too
    (folder / "foreign.otlp.jsonl").write_bytes(json_line([longer, FOREIGN[1]]))
    shutil.copytree(store, folder / "copy")
    with open_store(folder / "copy") as opened:
        answers = {question: opened.arrow(question).to_pylist() for question in QUESTIONS}
    shutil.rmtree(folder / "copy")
    (store / "lock").unlink(missing_ok=True)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1, ensure_ascii=True) + "\n")
    (folder / "SHA256").write_text(digests(folder))


QUESTIONS = (
    "SELECT name, state, verdict, pinned, crossings, lanes, mode, start_ns, run_id FROM runs ORDER BY start_ns, name",
    "SELECT run_name, lane, address, kind, outcome, seq, end_seq, strand, parent, request, result, error_type, key, "
    "integrity, grade, side_effects FROM crossings ORDER BY run_name, seq",
    "SELECT name, span_kind, start_ns, end_ns, status, model, input_tokens, attributes FROM spans "
    "WHERE run_id IS NULL ORDER BY start_ns",
    "SELECT span_id, end_ns, difference FROM duplicates",
    "SELECT direction, role, content FROM messages ORDER BY direction, position",
)


def digests(folder: Path) -> str:
    """Return a line for each file of a corpus, for `sha256sum -c` too."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("SHA256", "lock"))
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    names = [path.relative_to(folder).as_posix() for path in paths]
    return "".join(f"{digest}  {name}\n" for digest, name in zip(sums, names, strict=True))


def _record(name: str, store: Path, *, agent: str = "", **more: Any) -> str:
    with record(name, store=store, strict=True, **more) as run:
        run.answer(AGENTS[agent or name]())
    return run.id


if __name__ == "__main__":
    make(Path(sys.argv[1]))
