"""The commands on a store in object storage, as on a folder. Against a real S3 server on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.bucket import Bucket, environment, s3_server

from .conftest import Project


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as (endpoint, _):
        yield endpoint


def test_record_look_ask_and_replay(project: Project, server: str) -> None:
    bucket = Bucket(server, "agents")
    store = "s3://agents/prod"
    more: dict[str, Any] = {**environment(server, project.folder), "OTEL_REPLAY_STORE": store}
    assert project.record(**more).code == 0
    assert not (project.folder / ".otel-replay").exists()
    assert not (project.folder / "s3:").exists()
    assert len(bucket.parquet("prod/spans/")) == 1
    orders = project.orders
    # From here on as on another machine: nothing of the recording one is at hand.
    more["OTEL_REPLAY_STATE"] = str(project.folder / "elsewhere")
    (run,) = json.loads(project.run("runs", "--format", "json", **more).out)
    assert (run["name"], run["state"]) == ("trade", "complete")
    assert "order[1]" in project.run("show", "trade", **more).out
    counted = project.run("sql", "SELECT count(*) AS n FROM crossings", "--format", "json", **more)
    assert json.loads(counted.out) == [{"n": run["crossings"]}]
    replayed = project.replay(**more)
    assert replayed.code == 0, replayed.err
    assert project.orders == orders, "a served order is placed nowhere"
    assert project.run("doctor", **more).code == 0
    named = project.run("replay", store, "--", "python", "agent.py", **{**more, "OTEL_REPLAY_STORE": "nowhere"})
    assert named.code == 0, named.err


def test_looking_after_it(project: Project, server: str) -> None:
    bucket = Bucket(server, "house")
    more: dict[str, Any] = {**environment(server, project.folder), "OTEL_REPLAY_STORE": "s3://house"}
    for name in ("first", "second"):
        assert project.record(name, **more).code == 0
    assert "s3://house" in project.run("store", "info", **more).out
    assert project.run("store", "verify", **more).out.endswith("sound\n")
    assert project.run("store", "compact", **more).out.startswith("2 files")
    assert project.run("verdict", "first", "failed", **more).code == 0
    assert "removed 1 runs" in project.run("store", "prune", "--older-than", "0s", **more).out
    (left,) = json.loads(project.run("runs", "--format", "json", **more).out)
    assert left["name"] == "first"
    key = bucket.parquet()[-1]
    bucket.put(key, bucket.get(key)[:-9])
    torn = project.run("store", "verify", **more)
    assert torn.code == 1
    assert f"s3://house/{key}" in torn.out


def test_what_cannot_be_reached_is_one_line_without_credentials(project: Project) -> None:
    more: dict[str, Any] = environment("http://127.0.0.1:9", project.folder)
    done = project.run("runs", "--store", "s3://AKIAHIDDEN:hush%2Fhush@house/x", **more)
    assert done.code == 8
    assert done.err.startswith("otel-replay: s3://house/x can't be reached")
    assert "hush" not in done.err + done.out
    assert "AKIAHIDDEN" not in done.err + done.out
    wrong = project.run("runs", "--store", "gs://house/x", **more)
    assert (wrong.code, "a folder or s3://bucket/prefix" in wrong.err) == (8, True)
