"""`import`: what was found, what can be replayed, what was lost and by which setting; then runs like our own."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from otel_replay import sources
from otel_replay.store import open_store
from tests.cli.conftest import Project

SECRET = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2
SHARED = Path(__file__).parents[3] / "shared" / "samples" / "genai"


def _span(number: int, name: str, parent: str = "", **attributes: object) -> dict[str, Any]:
    def value(item: object) -> dict[str, object]:
        return {"intValue": str(item)} if isinstance(item, int) else {"stringValue": item}

    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + number * 1_000_000),
        "endTimeUnixNano": str(1_790_000_000_000_500_000 + number * 1_000_000),
        "attributes": [{"key": key, "value": value(item)} for key, item in attributes.items()],
    }


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}])


def trace(*, secret: str = "", content: bool = True) -> bytes:
    """A run of a weather agent as OpenTelemetry's GenAI conventions tell it: an agent, a model call, a tool call."""
    asked = {
        "gen_ai.input.messages": _messages("user", f"Rain in Oslo? {secret}".strip()),
        "gen_ai.output.messages": _messages("assistant", "Let me look."),
    }
    looked = {"gen_ai.tool.call.arguments": '{"city":"Oslo"}', "gen_ai.tool.call.result": '{"rain":true}'}
    spans = [
        _span(1, "invoke_agent weather", **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}),
        _span(
            2, "chat m-1", f"{1:016x}",
            **{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-1",
               "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4}, **(asked if content else {}),
        ),
        _span(
            3, "execute_tool look", f"{1:016x}",
            **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}, **(looked if content else {}),
        ),
    ]  # fmt: skip
    scope = {"name": "opentelemetry.instrumentation.openai_v2", "version": "2.3"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]}).encode() + b"\n"


def test_a_foreign_run_is_found_graded_and_usable_like_one_of_our_own(project: Project) -> None:
    (project.folder / "trace.json").write_bytes(trace())
    done = project.run("import", "trace.json")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("trace.json: otlp-json, 3 spans, 1 runs, 2 crossings")
    assert lines[1].strip() == "weather (0af76519): 2 crossings (2 semantic), whole"
    assert [line.strip() for line in lines[2:4]] == [
        "openai.chat.completions[1] (model): semantic", "look[1] (tool): semantic",
    ]  # fmt: skip
    assert lines[-1] == "next: otel-replay show 0af76519"
    rows = json.loads(project.run("runs", "--format", "json").out)
    assert [(row["name"], row["crossings"], row["state"], row["input_tokens"]) for row in rows] == [
        ("weather", 2, "complete", 9)
    ]
    query = "SELECT count(*) AS spans, count(DISTINCT span_id) AS different, count(run_id) AS ours FROM spans"
    assert json.loads(project.run("sql", query, "--format", "json").out) == [{"spans": 3, "different": 3, "ours": 3}]
    query = "SELECT model, tool, result FROM crossings ORDER BY seq"
    kept = json.loads(project.run("sql", query, "--format", "json").out)
    assert (kept[0]["model"], kept[1]["tool"], kept[1]["result"]) == ("m-1", "look", '{"rain":true}')
    attribute = "SELECT attr(attributes, 'gen_ai.agent.name') AS agent FROM spans WHERE kind = 'run'"
    assert json.loads(project.run("sql", attribute, "--format", "json").out) == [{"agent": "weather"}]
    agent = 'from otel_replay import boundary\n@boundary("look", kind="tool")\ndef look(city):\n    raise ValueError\n'
    (project.folder / "agent.py").write_text(agent + 'print(look("Oslo"))\n')
    served = project.replay("weather")
    assert served.out == "{'rain': True}\n", served.err


@pytest.mark.parametrize(
    "sample", sorted(SHARED.glob("*.jsonl")) or [None], ids=lambda path: path.name if path else "own"
)
def test_the_store_holds_the_very_recording_that_the_file_gives(project: Project, sample: Path | None) -> None:
    path = sample or project.folder / "trace.json"
    if sample is None:
        path.write_bytes(trace())
    recorded, _account = sources.recordings(str(path))
    assert project.run("import", str(path), "--quiet").code == 0
    with open_store(project.folder / ".otel-replay") as store:
        for recording in recorded:
            kept = store.recording(recording.run.run_id)
            assert kept.envelopes == recording.envelopes
            assert (kept.complete, set(kept.damaged), kept.problems) == (
                recording.complete, set(recording.damaged), recording.problems,
            )  # fmt: skip
            assert store.find_run(recording.run.run_id).complete == recording.complete
        runs = len(store.runs())
    assert project.run("import", str(path), "--quiet").code == 0
    with open_store(project.folder / ".otel-replay") as store:
        assert len(store.runs()) == runs  # the same trace twice is the same run


def test_what_was_lost_is_named_with_the_setting_and_refused_in_replay(project: Project) -> None:
    (project.folder / "bare.json").write_bytes(trace(content=False))
    done = project.run("import", "bare.json")
    assert done.code == 0
    assert "NOT WHOLE" in done.out
    assert (
        "  lost: input and output of 2 crossing(s) not captured; kept by: OTEL_INSTRUMENTATION_GENAI_CAPTURE"
        in done.out
    )
    assert (
        project.run("doctor", "bare.json").out.count("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY")
        >= 2
    )
    assert project.run("doctor", "bare.json").code == 1
    assert json.loads(project.run("runs", "--format", "json").out)[0]["state"] == "incomplete"
    assert project.replay("weather").code == 5


def test_a_missing_root_stays_known_in_the_store(project: Project) -> None:
    cut = json.loads(trace())
    cut["resourceSpans"][0]["scopeSpans"][0]["spans"].pop(0)
    (project.folder / "cut.json").write_text(json.dumps(cut))
    assert "root missing: the parent span 0000000000000001 is not in the file" in project.run("import", "cut.json").out
    rows = json.loads(project.run("runs", "--format", "json").out)
    assert [(row["crossings"], row["state"]) for row in rows] == [(2, "incomplete")]
    assert "root missing" in project.run("show", rows[0]["run"]).out
    assert project.replay(rows[0]["run"]).code == 5


def test_secrets_are_redacted_before_anything_is_kept(project: Project) -> None:
    (project.folder / "trace.json").write_bytes(trace(secret=SECRET))
    done = project.run("import", "trace.json")
    assert "redacted: 1 secret" in done.out
    kept = project.run("sql", "SELECT * FROM spans", "--format", "json").out
    assert SECRET not in kept
    assert "[redacted:" in kept
    assert SECRET not in project.run("show", "weather", "--content").out


def test_an_export_of_our_own_comes_back_exact_and_is_redacted_by_todays_rules(project: Project) -> None:
    project.record()
    project.run("export", "trade", "-o", "trade.jsonl")
    done = project.run("import", "trade.jsonl", "--store", "second")
    assert "5 crossings (5 exact), whole" in done.out
    shown = project.run("show", "trade").out
    assert project.run("show", "trade", "--store", "second").out.split("\n")[2:] == shown.split("\n")[2:]
    rules = '[tool.otel_replay.redaction.patterns]\nshout = "HELL[A-Z]"\n'
    (project.folder / "pyproject.toml").write_text(f'[project]\nname = "shop"\nversion = "1"\n{rules}')
    project.run("import", "trade.jsonl", "--store", "third")
    with open_store(project.folder / "third") as store:
        recording = store.recording(store.find_run("trade").run_id)
    assert recording.complete, recording.problems
    assert "HELLO" not in project.run("sql", "SELECT * FROM spans", "--store", "third", "--format", "json").out
    assert [envelope.grade for envelope in recording.envelopes].count("exact, redacted") == 1


def test_dry_run_keeps_nothing_and_json_says_the_same(project: Project) -> None:
    (project.folder / "trace.json").write_bytes(trace())
    done = project.run("import", "trace.json", "--dry-run", "--json")
    account = json.loads(done.out)[0]
    assert (account["format"], account["spans"], account["lost"]) == ("otlp-json", 3, [])
    assert [line["grade"] for line in account["runs"][0]["crossings"]] == ["semantic", "semantic"]
    assert not (project.folder / ".otel-replay").exists()


def test_bad_parts_are_skipped_counted_and_named(project: Project) -> None:
    folder = project.folder / "traces"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(trace() + b"{broken\n" + b"[1, 2]\n")
    (folder / "b.json").write_bytes(b"\x00\x01 not a trace")
    (folder / "c.json.gz").write_bytes(gzip.compress(trace().replace(b"0af7651916", b"1bf7651916")))
    done = project.run("import", "traces")
    assert done.code == 0, done.err
    assert "6 spans, 2 runs, 4 crossings" in done.out
    assert "skipped: a line or document that is not JSON" in done.out
    assert "skipped: a file that cannot be read (1x: traces/b.json: " in done.out


def test_standard_input_globs_and_several_sources(project: Project) -> None:
    piped = project.run("import", "-", stdin=trace())
    assert (piped.code, "3 spans" in piped.out) == (0, True)
    (project.folder / "x1.json").write_bytes(trace())
    (project.folder / "x2.json").write_bytes(trace().replace(b"0af7651916", b"1bf7651916"))
    done = project.run("import", "x*.json", "nix.json")
    assert (done.code, "6 spans, 2 runs" in done.out) == (0, True)
    assert done.err == "otel-replay: there is no file or folder 'nix.json'\n"


@pytest.mark.parametrize("words", [["nix.json"], ["agent.py"], ["nix*.json"], ["http://127.0.0.1:9/api/traces/1"]])
def test_nothing_found_is_4(project: Project, words: list[str]) -> None:
    done = project.run("import", *words)
    assert done.code == 4
    assert len(done.err.splitlines()) == 1


def test_an_address_with_a_header(project: Project) -> None:
    asked: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("X-Token"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(trace())

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/api/traces/0af7651916cd43dd8448eb211c80319c"
        done = project.run("import", address, "--header", "X-Token=a=b")
    finally:
        server.shutdown()
        server.server_close()
    assert (done.code, asked) == (0, ["a=b"])
    assert project.run("show", "weather").code == 0


def test_an_imported_run_promotes_and_replays_the_same(project: Project) -> None:
    (project.folder / "trace.json").write_bytes(trace())
    project.run("import", "trace.json")
    assert project.run("promote", "weather").code == 0
    back = sources.load(project.folder / "tests" / "incidents" / "weather.otlp.jsonl")
    with open_store(project.folder / ".otel-replay") as store:
        kept = store.recording(store.find_run("weather").run_id)
    assert replace(back, source="") == replace(kept, source="")
