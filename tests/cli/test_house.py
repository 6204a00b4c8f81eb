"""`verdict`, `store`, `sink` and `doctor`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from importlib import metadata
from pathlib import Path

from otel_replay.store import open_store
from tests.cli.conftest import ROOT, Project
from tests.cli.test_import import trace


def test_a_verdict_shows_everywhere_and_keeps_the_run(project: Project) -> None:
    project.record()
    done = project.run("verdict", "trade", "failed")
    assert (done.code, done.out.split(": ")[1]) == (0, "failed (was passed)\n")
    assert json.loads(project.run("runs", "--format", "json").out)[0]["verdict"] == "failed"
    assert ", failed, complete, " in project.run("show", "trade").out
    pruned = json.loads(project.run("store", "prune", "--older-than", "0s", "--format", "json").out)
    assert (pruned["runs"], pruned["kept_failing"]) == ([], 1)
    assert project.run("verdict", "trade", "splendid").code == 2
    assert project.run("verdict", "nix", "passed").code == 4


def test_prune_says_first_and_then_does(project: Project) -> None:
    project.record("old")
    project.record("pinned")
    project.run("verdict", "pinned", "passed", "--pin")
    would = project.run("store", "prune", "--older-than", "0s", "--dry-run")
    assert would.out.startswith("would remove 1 runs and 0 spans of no run: ")
    assert len(json.loads(project.run("runs", "--format", "json").out)) == 2
    assert project.run("store", "prune", "--older-than", "1w").out.startswith("removed 0 runs")
    assert project.run("store", "prune", "--max-bytes", "10GB").out.startswith("removed 0 runs")
    assert project.run("store", "prune", "--older-than", "0s").out.startswith("removed 1 runs")
    assert [row["name"] for row in json.loads(project.run("runs", "--format", "json").out)] == ["pinned"]
    for bad in (
        ["--older-than", "30"],
        ["--older-than", "x"],
        ["--max-bytes", "10 elephants"],
        ["--sample-passing", "0"],
    ):
        assert project.run("store", "prune", *bad).code == 2


def test_info_verify_and_compact(project: Project) -> None:
    project.record("one")
    project.record("two")
    info = json.loads(project.run("store", "info", "--format", "json").out)
    assert (info["files"], info["rows"], info["problems"]) == (2, 12, [])
    assert "spans       12" in project.run("store", "info").out
    sound = project.run("store", "verify")
    assert (sound.code, sound.out) == (0, "2 files, 12 spans, 12 exact forms checked\nsound\n")
    assert project.run("store", "compact").out.startswith("2 files (")
    assert json.loads(project.run("store", "info", "--format", "json").out)["files"] == 1
    assert len(json.loads(project.run("runs", "--format", "json").out)) == 2
    for path in (project.folder / ".otel-replay" / "spans").rglob("*.parquet"):
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 0xFF
        path.write_bytes(bytes(data))
    broken = project.run("store", "verify")
    assert broken.code == 1
    assert "NOT SOUND" in broken.out
    form = json.loads(project.run("store", "verify", "--format", "json").out)
    assert (form["sound"], bool(form["problems"])) == (False, True)


def test_doctor_without_trouble_and_with_each_kind(project: Project) -> None:
    fresh = project.run("doctor")
    assert fresh.code == 0, fresh.out
    assert "- store       there is no store at" in fresh.out
    project.record()
    well = project.run("doctor")
    assert well.code == 0, well.out
    assert "opentelemetry-sdk " in well.out
    loss = project.run("doctor", OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="8", OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT="100")
    assert loss.code == 1
    assert "! limits      OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=8 drops envelopes" in loss.out
    assert "- limits      OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=100" in loss.out
    hidden = project.run("doctor", OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="NO_CONTENT")
    assert "- capture     content stays out of spans that leave the process (NO_CONTENT)" in hidden.out
    (project.folder / ".otel-replay" / "spans" / "broken.parquet").write_bytes(b"PAR1 no")
    findings = json.loads(project.run("doctor", "--json").out)
    assert [one["area"] for one in findings if one["level"] == "problem"] == ["store"]
    assert "broken.parquet" in next(one["text"] for one in findings if one["level"] == "problem")


def test_doctor_tells_the_clients_that_it_called(project: Project) -> None:
    (project.folder / "broken").mkdir()
    (project.folder / "broken" / "aiohttp.py").write_text("raise ImportError('libfoo is missing')\n")
    paths = os.pathsep.join((str(project.folder / "broken"), str(ROOT)))
    said = project.run("doctor", PYTHONPATH=paths)
    assert said.code == 1
    openai = f"  instruments openai {metadata.version('openai')}: chat completions, streams, responses, async"
    assert openai in said.out
    broken = next(line for line in said.out.splitlines() if "aiohttp" in line)
    assert broken.startswith(f"! instruments aiohttp {metadata.version('aiohttp')}: not recorded as it should be: ")
    assert "libfoo is missing" in broken
    assert "Coverage(" not in said.out


def test_doctor_names_faults_of_the_recorder(project: Project) -> None:
    agent = project.folder / "agent.py"
    # A journal that cannot be written any more: what a full disk does to a recorder.
    agent.write_text(
        agent.read_text().replace(
            "def main():", "def main():\n    import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))", 1
        ).replace("import json, os", "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nimport json, os", 1)
    )  # fmt: skip
    recorded = project.record(CHANGE="fewer")
    assert recorded.code == 0, recorded.err
    said = project.run("doctor")
    assert said.code == 1
    assert "is interrupted" in said.out or "the recorder failed" in said.out


def test_doctor_of_a_source_says_what_can_be_stubbed(project: Project) -> None:
    project.record()
    done = project.run("doctor", "trade")
    assert done.code == 0
    assert "5 crossings (5 exact), whole" in done.out
    assert "plan[1]/look[2] (tool): exact" in done.out


def _sink(project: Project, *words: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "otel_replay", "sink", "--grpc", "off", "--http", "127.0.0.1:0", "--log", "json"]
    process = subprocess.Popen(
        [*command, *words], cwd=project.folder, env=project.environment(), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        facts = json.loads(line)
        if facts["message"] == "listening":
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, str(facts["http"])
    raise AssertionError("the sink never listened")


def _post(address: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(
        f"http://{address}/v1/traces", body, {"Content-Type": "application/json", **headers}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code


def test_what_the_sink_acknowledged_is_in_the_store_after_sigterm(project: Project, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first\nsecond\n")
    process, address = _sink(project, "--store", "received", "--token-file", "tokens")
    try:
        assert _post(address, trace()) == 401
        assert _post(address, trace(), Authorization="Bearer second") == 200
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0
    with open_store(project.folder / "received") as store:
        assert store.sql("SELECT count(*) FROM spans").fetchall() == [(3,)]
    done = project.run("sql", "SELECT model FROM model_calls", "--store", "received", "--format", "csv")
    assert '"m-1"' in done.out
