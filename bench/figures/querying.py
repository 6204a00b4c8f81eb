"""Q1 and Q2: what questions of a large store cost, and what they would cost over attributes kept as one MAP."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from bench import measure
from bench.large_store import Facts, built
from bench.measure import Figure
from otel_replay.store import open_store
from otel_replay.store.store import Store

ROUNDS = 7
QUESTIONS = ("trace by id", "tokens by model", "recent runs")
GOALS_MS = {1_000_000: (50, 60, 30), 10_000_000: (120, 150, 60)}
_MAP = """
COPY (SELECT trace_id, span_id, parent_span_id, name, start_ns, end_ns, MAP {
  'otel_replay.run.id': run_id, 'otel_replay.run.name': run_name, 'otel_replay.address': address,
  'otel_replay.kind': kind, 'otel_replay.seq': seq::VARCHAR, 'otel_replay.outcome': outcome,
  'otel_replay.boundary': boundary, 'gen_ai.operation.name': operation, 'gen_ai.request.model': model,
  'gen_ai.response.model': response_model, 'gen_ai.usage.input_tokens': input_tokens::VARCHAR,
  'gen_ai.usage.output_tokens': output_tokens::VARCHAR, 'gen_ai.input.messages': request,
  'gen_ai.output.messages': response } AS attributes FROM stored)
TO '{path}' (FORMAT parquet, COMPRESSION zstd)"""


def measured() -> list[Figure]:
    figures = []
    for count in (1_000_000, 10_000_000) if measure.LARGE else (1_000_000,):
        folder, facts = built(count)
        figures += _asked(folder, facts, count)
    return figures


def _asked(folder: Path, facts: Facts, count: int) -> list[Figure]:
    with open_store(folder) as store:
        _check(store, facts)
        map_path = folder.with_name(f"{folder.name}.map.parquet")
        if not map_path.exists():
            store.connection.execute(_MAP.replace("{path}", str(map_path)))
        store.connection.execute(f"CREATE OR REPLACE VIEW mapped AS FROM read_parquet('{map_path}')")
        ours = dict(zip(QUESTIONS, questions(store, facts), strict=True))
        mapped = dict(zip(QUESTIONS, _mapped(store.connection, facts), strict=True))
        took = _turns({("ours", name): ask for name, ask in ours.items()} | {("map", n): a for n, a in mapped.items()})
        api = _turns(
            {("api", "trace by id"): lambda: store.arrow("SELECT * FROM spans WHERE trace_id = ?", [facts.trace_id])}
        )
    figures = []
    size = f"{count // 1_000_000}M spans"
    for name, goal in zip(QUESTIONS, GOALS_MS[count], strict=True):
        wall, cpu = took["ours", name]
        detail: dict[str, object] = {"cpu_ms": cpu, "map_ms": took["map", name][0], "map_cpu_ms": took["map", name][1]}
        if ("api", name) in api:
            detail["whole_call_ms"] = api["api", name][0]
        figures.append(Figure("Q1", f"{size}: {name}, in the engine", wall, " ms", goal, detail))
    for name in QUESTIONS[1:]:
        ratio = took["map", name][1] / took["ours", name][1]
        figures.append(Figure("Q2", f"{size}: {name}, CPU over a MAP column over ours", ratio, "x", 50, at_least=True))
    built_detail = {"build_s": facts.build_s, "twice": facts.twice, "commit": facts.commit, "map_mb": _mb(map_path)}
    figures.append(Figure("Q1", f"{size}: bytes a span", _mb(folder) * 1e6 / count, " B", None, built_detail))
    return figures


def _check(store: Store, facts: Facts) -> None:
    """Every span once, whatever was delivered twice; tokens to the last one. Raises RuntimeError."""
    spans = store.arrow("SELECT count(*), count(DISTINCT (trace_id, span_id)) FROM spans").to_pylist()[0].values()
    rows = store.arrow(
        "SELECT model, count(*)::BIGINT, sum(input_tokens)::BIGINT, sum(output_tokens)::BIGINT "
        "FROM model_calls GROUP BY ALL"
    )
    calls = {
        model: [int(number) for number in sums]
        for model, *sums in zip(*(c.to_pylist() for c in rows.columns), strict=True)
    }
    if set(spans) != {facts.spans} or calls != facts.calls:
        raise RuntimeError(f"{list(spans)} spans instead of {facts.spans}, {calls} instead of {facts.calls}")


def questions(store: Store, facts: Facts) -> tuple[Callable[[], Any], ...]:
    """Return what asks `QUESTIONS` of our views; the last runs as `otel-replay runs` asks for them, whole."""
    connection = store.connection
    return (
        lambda: connection.execute("SELECT * FROM spans WHERE trace_id = ?", [facts.trace_id]).fetchall(),
        lambda: connection.execute(
            "SELECT model, count(*), sum(input_tokens), sum(output_tokens) FROM model_calls GROUP BY model"
        ).fetchall(),
        lambda: store.runs(limit=20),
    )


def _mapped(connection: duckdb.DuckDBPyConnection, facts: Facts) -> tuple[Callable[[], Any], ...]:
    def recent() -> object:
        found = connection.execute(
            "SELECT start_ns FROM mapped WHERE attributes['otel_replay.kind'] = 'run' "
            "ORDER BY start_ns DESC LIMIT 1 OFFSET 19"
        ).fetchall()
        return connection.execute(
            "SELECT attributes['otel_replay.run.id'] AS run_id, any_value(attributes['otel_replay.run.name']), "
            "min(start_ns) AS begun, max(end_ns), count(*), sum(attributes['gen_ai.usage.input_tokens']::BIGINT) "
            f"FROM mapped WHERE start_ns >= {found[0][0]} GROUP BY 1 ORDER BY begun DESC LIMIT 20"
        ).fetchall()

    return (
        lambda: connection.execute("SELECT * FROM mapped WHERE trace_id = ?", [facts.trace_id]).fetchall(),
        lambda: connection.execute(
            "SELECT attributes['gen_ai.request.model'] AS model, count(*), "
            "sum(attributes['gen_ai.usage.input_tokens']::BIGINT), "
            "sum(attributes['gen_ai.usage.output_tokens']::BIGINT) "
            "FROM mapped WHERE attributes['otel_replay.kind'] = 'model' GROUP BY 1"
        ).fetchall(),
        recent,
    )


def _turns(asks: dict[tuple[str, str], Callable[[], Any]]) -> dict[tuple[str, str], tuple[float, float]]:
    """Return (quickest wall, median CPU of the process) in milliseconds, all questions by turns in each round.

    The quickest: the engine's threads are only ever made slower by what else the machine does.
    """
    took: dict[tuple[str, str], list[tuple[float, float]]] = {name: [] for name in asks}
    for at in range(ROUNDS + 1):
        for name, ask in asks.items():
            wall, cpu = time.perf_counter(), time.process_time()
            ask()
            if at:  # the first round fills the page cache
                took[name].append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    return {
        name: (min(wall for wall, _ in times), statistics.median(cpu for _, cpu in times))
        for name, times in took.items()
    }


def _mb(path: Path) -> float:
    files = path.rglob("*.parquet") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files) / 1e6
