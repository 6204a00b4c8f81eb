"""S1 to S4: what receiving OTLP and keeping it costs. The sender is a process of its own on the same cores."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench import load, measure
from bench.measure import Figure
from bench.sink_process import SinkProcess
from otel_replay import boundary, record
from otel_replay.sink.segment import TRACES
from otel_replay.sink.wal import Wal
from otel_replay.store import open_store
from otel_replay.store.parquet import table_of
from otel_replay.store.rows import to_row

ROUNDS = 5
SHAPES = {"10 attributes": False, "2.8 KB": True}


def measured() -> list[Figure]:
    figures: list[Figure] = []
    for work in (_acknowledging, _converting, _end_to_end, _conversations):
        with TemporaryDirectory(prefix="otel-replay-bench-") as folder:
            figures += work(Path(folder))
    return figures


# S1 --------------------------------------------------------------------------------------------------------


def _acknowledging(folder: Path) -> list[Figure]:
    """Two sinks that only acknowledge, one of them without the sync; the sender turns to them by turns."""
    count = 51_200
    load.write(folder / "load", load.requests(load.spans(count)))
    servers = {way: SinkProcess(folder / way, "acknowledge", sync=way == "sync") for way in ("sync", "no-sync")}
    senders = {way: load.Sender(server.address, folder / "load") for way, server in servers.items()}
    cpu: dict[str, list[float]] = {way: [] for way in servers}
    wall: dict[str, list[dict[str, Any]]] = {way: [] for way in servers}
    for at in range(ROUNDS + 1):
        for way, server in servers.items():
            before = server.used()["cpu_s"]
            sent = _whole(senders[way].send())
            if at:  # the first round warms up
                cpu[way].append((server.used()["cpu_s"] - before) / count * 1e6)
                wall[way].append(sent)
    memory = servers["sync"].used()["rss_mb"]
    for sender in senders.values():
        sender.close()
    for server in servers.values():
        server.stop()
    synced, unsynced = (statistics.median(cpu[way]) for way in ("sync", "no-sync"))
    detail = {
        "spans_per_s": {
            way: count / statistics.median(sent["wall_s"] for sent in rounds) for way, rounds in wall.items()
        },
        "p99_ms": {way: statistics.median(sent["p99_ms"] for sent in rounds) for way, rounds in wall.items()},
        "cpu_us_per_span": {"sync": synced, "no-sync": unsynced},
        "rss_mb": memory,
        "connections": 4,
    }
    return [
        Figure("S1", "acknowledged, on disk: server's CPU a span, 512 a request", synced, " us", 1.2, detail),
        Figure("S1", "the same, over an equal server without sync", synced / unsynced, "x", 1.15),
    ]


def _whole(sent: dict[str, Any]) -> dict[str, Any]:
    if sent["failed"]:
        raise RuntimeError(f"the sink refused: {sent['failed']}")
    return sent


# S2 --------------------------------------------------------------------------------------------------------


def _converting(folder: Path) -> list[Figure]:
    """The converter as the sink starts it, over the parse and the write that nobody can do without."""
    figures = []
    for shape, payload in SHAPES.items():
        count = 8_192 if payload else 32_768
        found = list(load.spans(count, payload=payload))
        bodies = load.requests(found)
        table = table_of([to_row(span) for span in found])
        ours, base = [], []
        for at in range(3 + 1):
            spent = _limit(bodies, table, folder / "limit.parquet")
            converted, kept = _converter(bodies, folder / f"{shape} {at}")
            idle, _ = _converter([], folder / f"{shape} {at} idle")
            if kept != count:
                raise RuntimeError(f"{kept} of {count} spans are in the store")
            if at:
                base.append(spent / count * 1e6)
                ours.append((converted - idle) / count * 1e6)
        cpu, limit = statistics.median(ours), statistics.median(base)
        detail = {"cpu_us_per_span": cpu, "limit_us_per_span": limit, "spans_per_s_per_core": 1e6 / cpu}
        what = f"OTLP to Parquet, {shape}: CPU over parse and write of the ready table"
        figures.append(Figure("S2", what, cpu / limit, "x", 7.5, detail))
    return figures


def _limit(bodies: list[bytes], table: Any, path: Path) -> float:
    """Return the CPU seconds that parsing with the C library and writing the ready-made table take."""
    start = time.process_time()
    for body in bodies:
        ExportTraceServiceRequest.FromString(body)
    pq.write_table(table, path, compression="zstd", compression_level=3)
    return time.process_time() - start


def _converter(bodies: list[bytes], folder: Path) -> tuple[float, int]:
    """Return (CPU seconds of a converter that empties a log of `bodies`, spans in the store afterwards)."""
    open_store(folder / "store", create=True).close()
    wal = Wal(
        str(folder / "wal"), wal_bytes_max=1 << 40, disk_free_bytes_min=0, segment_bytes=32 << 20, seal_seconds=1e9
    )
    for body in bodies:
        wal.append(TRACES, body)
    wal.close()
    orders = {
        "wal_folder": str(wal.root),
        "own": wal.folder.name,
        "span_sink": "otel_replay.api:open_sink",
        "args": [str(folder / "store")],
        "write_bytes_max": 16 << 20,
        "payload_bytes_max": 1 << 30,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "otel_replay.sink.convert"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(orders).encode() + b"\n")
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the converter ended with {process.returncode}")
    with open_store(folder / "store") as store:
        kept = store.arrow("SELECT count(*) FROM spans").column(0)[0].as_py()
    return used.ru_utime + used.ru_stime, kept


# S3, S4 ----------------------------------------------------------------------------------------------------


def _end_to_end(folder: Path) -> list[Figure]:
    """From the first byte sent until the last span is in Parquet, everything on the same cores."""
    figures = []
    for shape, payload in SHAPES.items():
        count = (51_200 if payload else 204_800) * (4 if measure.LARGE else 1)
        load.write(folder / "load", load.requests(load.spans(count, payload=payload)))
        sink = SinkProcess(folder / shape, "store")
        sender = load.Sender(sink.address, folder / "load")
        cpu_before = sink.used()["cpu_s"]
        start = time.perf_counter()
        sent = _whole(sender.send())
        while sink.used()["converted"] < count:
            time.sleep(0.02)
        wall = time.perf_counter() - start
        sender.close()
        used = sink.used()
        converter = sink.stop()
        with open_store(folder / shape / "store") as store:
            kept = store.arrow("SELECT count(*) FROM spans").column(0)[0].as_py()
            left = _bytes(folder / shape / "store" / "spans") / count
            store.compact(grace_s=0)
            compacted = _bytes(folder / shape / "store" / "spans") / count
        if kept != count:
            raise RuntimeError(f"{kept} of {count} spans are in the store")
        detail = {
            "spans": count,
            "acknowledged_per_s": count / sent["wall_s"],
            "p99_ms": sent["p99_ms"],
            "server_cpu_us_per_span": (used["cpu_s"] - cpu_before) / count * 1e6,
            "converter_cpu_us_per_span": converter["cpu_s"] / count * 1e6,
            "sender_cpu_us_per_span": sent["cpu_s"] / count * 1e6,
            "server_rss_mb": used["rss_mb"],
            "converter_rss_mb": converter["rss_mb"],
            "bytes_per_span": {"as the sink leaves it": left, "compacted": compacted},
        }
        goal = 40_000 if payload else 150_000
        what = f"sent until in Parquet, {shape}, two cores shared with the sender"
        figures.append(Figure("S3", what, count / wall, " spans/s", goal, detail, at_least=True))
        if not payload:
            figures.append(
                Figure("S4", "bytes on disk a span, 10 attributes", left, " B", 75, detail["bytes_per_span"])
            )
    return figures


@boundary("agent", kind="model")
def _agent(messages: list[dict[str, str]], answer: str) -> dict[str, str]:
    return {"role": "assistant", "content": answer}


def _conversations(folder: Path) -> list[Figure]:
    """Runs of 20 model calls that each repeat the whole conversation so far, recorded by us."""
    rng = measure.seeded()
    raw = crossings = 0
    for _ in range(20):
        with record("conversation", store=folder):
            messages: list[dict[str, str]] = [{"role": "system", "content": load.words(rng, 2000)}]
            for _turn in range(20):
                messages.append({"role": "user", "content": load.words(rng, 900)})
                messages.append(_agent(messages, load.words(rng, 900)))
                raw += len(json.dumps(messages, separators=(",", ":")))
                crossings += 1
    with open_store(folder) as store:
        store.seal()
        store.compact(grace_s=0)
    kept = _bytes(folder / "spans")
    detail = {"raw_bytes_per_crossing": raw / crossings, "bytes_per_crossing": kept / crossings}
    return [Figure("S4", "growing conversations: bytes on disk over raw", kept / raw, "x", 1 / 20, detail)]


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
