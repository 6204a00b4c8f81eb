"""The files in deploy/ say what they should, and say the same thing."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIGS = Path(__file__).parents[2] / "collector-config"


def test_every_yaml_file_parses_and_every_file_is_in_the_readme() -> None:
    shown = (DEPLOY / "README.md").read_text()
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.name != "README.md"]
    assert len(files) >= 5
    for path in files:
        assert f"`{path.relative_to(DEPLOY)}`" in shown
        if path.suffix == ".yaml":
            assert all(isinstance(part, dict) for part in yaml.safe_load_all(path.read_text()))


def test_the_container_does_not_run_as_root_and_listens_where_it_says() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last = {line.split(" ")[0]: line.partition(" ")[2] for line in lines if line and line[0].isupper()}
    assert last["USER"] == "10001"
    assert last["EXPOSE"] == "4317 4318"
    assert json.loads(last["ENTRYPOINT"]) == ["otel-replay"]
    _, stateful = yaml.safe_load_all((DEPLOY / "kubernetes" / "sink.yaml").read_text())
    pod = stateful["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == json.loads(last["CMD"])
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_compose_uses_a_collector_file_that_is_there_and_only_settings_it_reads() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    source = services["collector"]["volumes"][0].partition(":")[0]
    config = (DEPLOY / source).resolve()
    assert config.parent == CONFIGS
    for name in services["collector"]["environment"]:
        assert f"${{env:{name}:-" in config.read_text()


def test_the_unit_stops_the_sink_and_not_its_converter() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "otel-replay-sink.service")
    assert unit["Service"]["KillMode"] == "mixed"
    assert int(unit["Service"]["TimeoutStopSec"]) > 30, "longer than the sink takes to drain"
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", str(DEPLOY / "otel-replay-sink.service")], capture_output=True, text=True
        )
        complaints = [line for line in done.stderr.splitlines() if line.startswith("otel-replay-sink.service:")]
        assert [line for line in complaints if "is not executable" not in line] == []
