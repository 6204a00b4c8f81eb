"""The only reader of the environment and of `[tool.otel_replay]` in pyproject.toml.

Everything else is handed a `Settings`; nothing below looks at `os.environ` by itself.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

MODES = ("live", "record", "replay", "hybrid")
DEFAULT_STORE = ".otel-replay"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment and the project's pyproject.toml say. Paths are as given, not resolved."""

    mode: str = "live"
    store: str = DEFAULT_STORE
    run_name: str = ""
    source: str = ""
    lane: str = ""
    strict: bool = False
    fsync: bool = False
    coverage: bool = False
    chance: bool = False
    clock: str = "live"
    capture_content: str = "SPAN_ONLY"
    completion_hook: str = ""
    value_length_limit: int | None = None
    project: Mapping[str, object] = field(default_factory=dict)
    project_dir: str = ""


def _length_limit(environ: Mapping[str, str]) -> int | None:
    for name in ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        text = environ.get(name, "").strip()
        if text.isdigit():
            return int(text)
    return None


def find_project(start: Path | None = None) -> Path | None:
    """Return the nearest pyproject.toml at or above `start` (default: the working directory), or None."""
    folder = os.path.abspath(start or os.getcwd())
    while not os.path.isfile(candidate := os.path.join(folder, "pyproject.toml")):
        if folder == (folder := os.path.dirname(folder)):
            return None
    return Path(candidate)


@lru_cache(maxsize=64)
def _project_table(path: str, _mtime_ns: int) -> Mapping[str, object]:
    with open(path, "rb") as file:
        table = tomllib.load(file).get("tool", {}).get("otel_replay", {})
    return table if isinstance(table, dict) else {}


def project_table(start: Path | None = None) -> tuple[Mapping[str, object], str]:
    """Return (`[tool.otel_replay]`, its folder) of the nearest pyproject.toml; ({}, "") where there is none.

    A file that is not TOML gives ({}, folder): a broken project file must not stop an agent.
    """
    found = find_project(start)
    if found is None:
        return {}, ""
    try:
        return _project_table(str(found), found.stat().st_mtime_ns), str(found.parent)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}, str(found.parent)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that are in force now."""
    env = os.environ if environ is None else environ
    table, folder = project_table()
    mode = env.get("OTEL_REPLAY_MODE", "live").strip().lower() or "live"
    store = env.get("OTEL_REPLAY_STORE") or str(table.get("store") or DEFAULT_STORE)
    return Settings(
        mode=mode if mode in MODES else "live",
        store=store,
        run_name=env.get("OTEL_REPLAY_NAME", ""),
        source=env.get("OTEL_REPLAY_SOURCE", ""),
        lane=env.get("OTEL_REPLAY_LANE", ""),
        strict=env.get("OTEL_REPLAY_STRICT", "").lower() in ("1", "true", "yes"),
        coverage=(env.get("OTEL_REPLAY_COVERAGE") or str(table.get("coverage", ""))).lower() in ("1", "true", "yes"),
        chance=(env.get("OTEL_REPLAY_CHANCE") or str(table.get("chance", ""))).lower() in ("1", "true", "yes"),
        clock="tape" if (env.get("OTEL_REPLAY_CLOCK") or str(table.get("clock", ""))).lower() == "tape" else "live",
        fsync=env.get("OTEL_REPLAY_FSYNC", "").lower() in ("1", "true", "yes"),
        capture_content=env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY").upper(),
        completion_hook=env.get("OTEL_REPLAY_COMPLETION_HOOK", ""),
        value_length_limit=_length_limit(env),
        project=table,
        project_dir=folder,
    )


def run_wanted(environ: Mapping[str, str] | None = None) -> bool:
    """True where the environment asks for a run to begin by itself: a mode, or a lane of another process's run."""
    env = os.environ if environ is None else environ
    return bool(env.get("OTEL_REPLAY_LANE")) or env.get("OTEL_REPLAY_MODE", "live").strip().lower() in MODES[1:]


def replay_wanted(environ: Mapping[str, str] | None = None) -> bool:
    """True where the environment asks for a replay, or may: what a lane is, only its begin tells."""
    env = os.environ if environ is None else environ
    mode = env.get("OTEL_REPLAY_MODE", "live").strip().lower()
    return bool(env.get("OTEL_REPLAY_LANE")) or mode in ("replay", "hybrid")


_TELEMETRY_NAMES = (
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
)


def telemetry(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return OpenTelemetry's variables that decide what of a span arrives, as far as they are set."""
    env = os.environ if environ is None else environ
    return {name: env[name].strip() for name in _TELEMETRY_NAMES if env.get(name, "").strip()}


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder in which this machine keeps what belongs to stores elsewhere: journals not yet taken there.

    `OTEL_REPLAY_STATE` names it; else it stands where the XDG base directory specification puts such things.
    """
    env = os.environ if environ is None else environ
    named = env.get("OTEL_REPLAY_STATE")
    if named:
        return Path(named).absolute()
    base = env.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "otel-replay"


def metrics_exporters(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return (names of exporters of metrics, OTLP's protocol) as OpenTelemetry's variables say; "" for none."""
    env = os.environ if environ is None else environ
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "", ""
    names = env.get("OTEL_METRICS_EXPORTER", "").strip()
    protocol = env.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL") or ""
    return "" if names == "none" else names, protocol.strip()


def object_storage(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return (region, endpoint URL) for S3 as AWS tools read them from the environment; "" where none is named."""
    env = os.environ if environ is None else environ
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
    return region, env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or ""
