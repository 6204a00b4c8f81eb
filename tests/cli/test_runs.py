"""Record an agent, then look at what was recorded: runs, show, sql, diff, export."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_replay import sources
from otel_replay.store import open_store
from tests.cli.conftest import Project


def test_record_says_what_it_did_and_keeps_the_exit_code(project: Project) -> None:
    done = project.record(CODE="7")
    assert done.code == 7
    assert done.out == "('ordered', 5)\n"
    said = r"otel-replay: recorded 'trade' as [0-9a-f]{8}: 5 crossings\. Next: otel-replay show trade\n"
    assert re.fullmatch(said, done.err)
    with open_store(project.folder / ".otel-replay") as store:
        run = store.find_run("trade")
        assert (run.crossings, run.state, run.verdict, run.mode) == (5, "complete", "failed", "record")
        pins = store.recording(run.run_id).run.pins
    assert pins["program"] == ("python", "agent.py") or pins["program"] == ["python", "agent.py"]
    assert project.record("other", "--quiet").err == ""


def test_a_program_that_python_was_never_in_is_not_taken_for_an_older_run(project: Project) -> None:
    project.record()
    done = project.run("record", "trade", "--", "true")
    assert done.code == 4
    assert "was not recorded" in done.err
    with open_store(project.folder / ".otel-replay") as store:
        assert [run.verdict for run in store.runs()] == ["passed"]


def test_an_interrupted_run_is_named_and_the_older_complete_one_keeps_its_verdict(project: Project) -> None:
    project.record()
    done = project.record(CHANGE="nothing")
    assert done.code == 0
    assert ", interrupted." in done.err
    with open_store(project.folder / ".otel-replay") as store:
        assert [(run.state, run.verdict) for run in store.runs()] == [("interrupted", "passed"), ("complete", "passed")]
        assert store.find_run("trade").state == "complete"


SECRETIVE = """
import sys
from otel_replay import boundary

@boundary("login", kind="tool")
def login(user, password):
    return {"token": "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4", "note": "a session of its own"}

login("bob", password="hunter2-of-bobs")
sys.exit(3)
"""


def test_a_dry_run_lists_what_redaction_takes_out_and_keeps_nothing(project: Project) -> None:
    (project.folder / "secretive.py").write_text(SECRETIVE)
    before = sorted(project.folder.rglob("*"))
    done = project.run("record", "trade", "--dry-run", "--", "python", "secretive.py")
    assert done.code == 3
    assert done.err.splitlines() == [
        "otel-replay: 'trade' would have been recorded: 1 crossing, 2 redaction(s). Nothing was kept.",
        "  redacted: login[1] request.password: password, 15 characters",
        "  redacted: login[1] outcome.token: token, 32 characters",
    ]
    assert sorted(project.folder.rglob("*")) == before
    assert project.run("record", "trade", "--", "python", "secretive.py").code == 3
    shown = project.run("show", "trade").out
    assert "redacted: login[1] request.password: password, 15 characters" in shown


def test_a_secret_among_the_programs_words_is_not_kept(project: Project) -> None:
    secret = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2
    project.run("record", "trade", "--", "python", "agent.py", secret)
    kept = b"".join(path.read_bytes() for path in (project.folder / ".otel-replay").rglob("*") if path.is_file())
    assert secret.encode() not in kept
    with open_store(project.folder / ".otel-replay") as store:
        words = store.recording(store.find_run("trade").run_id).run.pins["program"]
    assert isinstance(words, (list, tuple))
    assert str(words[2]).startswith("[redacted:")


def test_show_is_a_tree(project: Project) -> None:
    project.record(QUANTITY="500")
    done = project.run("show", "trade")
    tree = re.sub(r"\d+\.\d ms", "0.0 ms", re.sub(r"[0-9a-f]{32}", "ID", done.out))
    assert tree == (
        "trade  ID\n"
        "  5 crossings, 0.0 ms, passed, complete, trace ID\n"
        '  plan[1] [router] {"goal":"buy"} -> {"steps":[{"n":0,"found":[1,2.5,null]},{"n":1,"found":[1,2.5,null]}],"g…'
        "  (strand 0, 0.0 ms)\n"
        '    look[1] [tool] {"n":0} -> {"n":0,"found":[1,2.5,null]}  (strand 0, 0.0 ms)\n'
        '    look[2] [tool] {"n":1} -> {"n":1,"found":[1,2.5,null]}  (strand 0, 0.0 ms)\n'
        '  ask[1] [model] {"text":"hello"} -> {"model":"m-1","choices":[{"message":{"role":"assistant","content":"HEL…'
        "  (strand 0, 0.0 ms, 11/7 tokens)\n"
        '  order[1] [tool] {"quantity":500} raised PermissionError: too many  '
        "(strand 0, 0.0 ms, side effects)\n"
    )
    form = json.loads(project.run("show", "trade", "--json").out)
    assert [crossing["address"] for crossing in form["crossings"]] == [
        "plan[1]", "plan[1]/look[1]", "plan[1]/look[2]", "ask[1]", "order[1]",
    ]  # fmt: skip
    assert form["complete"] is True
    assert '"role":"assistant","content":"HELLO"}}]' in project.run("show", "trade", "--content").out


def test_a_run_is_found_by_name_by_id_and_by_its_beginning_or_near_names_are_named(project: Project) -> None:
    project.record()
    run_id = project.run("show", "trade").out.split()[1]
    assert project.run("show", run_id).out == project.run("show", run_id[:8]).out == project.run("show", "trade").out
    done = project.run("show", "trad")
    assert (done.code, done.err) == (4, "otel-replay: no run is called 'trad'; did you mean 'trade'?\n")


def test_runs_lists_the_newest_first_in_every_format(project: Project) -> None:
    project.record("first", CODE="1")
    project.record("second")
    lines = [line.split() for line in project.run("runs").out.splitlines()]
    assert [line[1] for line in lines] == ["name", "second", "first"]
    assert lines[2][5:9] == ["5", "complete", "failed", "record"]
    rows = json.loads(project.run("runs", "--format", "json").out)
    assert [(row["name"], row["verdict"], row["input_tokens"]) for row in rows] == [
        ("second", "passed", 11), ("first", "failed", 11),
    ]  # fmt: skip
    assert len(json.loads(project.run("runs", "--name", "first", "--format", "json").out)) == 1
    assert len(json.loads(project.run("runs", "--limit", "1", "--format", "json").out)) == 1


QUERY = "SELECT address, kind, outcome, input_tokens FROM crossings ORDER BY seq"
ROWS = [
    ("plan[1]", "router", "returned", None),
    ("plan[1]/look[1]", "tool", "returned", None),
    ("plan[1]/look[2]", "tool", "returned", None),
    ("ask[1]", "model", "returned", 11),
    ("order[1]", "tool", "returned", None),
]


def test_sql_answers_in_every_format(project: Project) -> None:
    project.record()
    table = project.run("sql", QUERY).out.splitlines()
    assert [line.split() for line in table] == [
        ["address", "kind", "outcome", "input_tokens"],
        *([str(value) for value in row if value is not None] for row in ROWS),
    ]
    names = ("address", "kind", "outcome", "input_tokens")
    assert json.loads(project.run("sql", QUERY, "--format", "json").out) == [
        dict(zip(names, row, strict=True)) for row in ROWS
    ]
    listed = list(csv.reader(io.StringIO(project.run("sql", QUERY, "--format", "csv").out)))
    assert listed[1:] == [["" if value is None else str(value) for value in row] for row in ROWS]
    arrow = pa.ipc.open_stream(project.run("sql", QUERY, "--format", "arrow").raw).read_all()
    parquet = pq.read_table(io.BytesIO(project.run("sql", QUERY, "--format", "parquet").raw))
    for answer in (arrow, parquet):
        assert [tuple(row.values()) for row in answer.to_pylist()] == ROWS


def test_bad_sql_is_one_line_with_the_views(project: Project) -> None:
    project.record()
    done = project.run("sql", "SELECT nothing FROM nowhere")
    assert done.code == 2
    assert done.err.startswith("otel-replay: Catalog Error: Table with name nowhere does not exist")
    assert done.err.endswith("(views: runs, crossings, spans, model_calls, tool_calls)\n")


def test_diff_of_two_runs_names_each_difference(project: Project) -> None:
    project.record("first")
    project.record("second", QUANTITY="6", CHANGE="extra")
    done = project.run("diff", "first", "second")
    assert done.code == 0
    assert done.out.splitlines()[1:] == [
        '  only in the second: look[1] -> {"n":9,"found":[1,2.5,null]}',
        "  order[1]:",
        "    request.quantity: 5 | 6",
        "    outcome[1]: 5 | 6",
        "  4 crossing(s) equal",
    ]
    assert "order[1]" not in project.run("diff", "first", "second", "--address", "ask[1]").out
    whole = project.run("diff", "first", "plan[1]/look[2]").out
    assert '{"n":1}' in whole


@pytest.mark.parametrize("form", ["otlp-json", "otlp-proto", "jaeger", "zipkin"])
def test_an_exported_run_reads_back_to_the_same_run_and_replays_the_same(project: Project, form: str) -> None:
    project.record(QUANTITY="500")
    path = project.folder / "out" / "exported.trace"
    path.parent.mkdir()
    done = project.run("export", "trade", "--format", form, "-o", str(path))
    assert done.code == 0
    assert done.err == f"otel-replay: wrote {path} ({path.stat().st_size} bytes)\n"
    assert project.run("export", "trade", "--format", form).raw == path.read_bytes()
    with open_store(project.folder / ".otel-replay") as store:
        recorded = store.recording(store.find_run("trade").run_id)
    back = sources.load(Path(path))
    assert back.envelopes == recorded.envelopes
    assert back.complete
    assert back.run.digest == recorded.run.digest
    project.run("verdict", "trade", "unknown")
    first = project.replay("trade", "--json", "-", QUANTITY="500")
    again = project.replay(str(path), "--json", "-", QUANTITY="500")
    assert (first.code, again.code) == (0, 0)
    assert first.out == again.out
    assert project.orders == ["500"]  # the recording's own; no replay ordered anything
