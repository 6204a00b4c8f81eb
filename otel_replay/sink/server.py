"""The sink as a whole: receivers, log and converter, from start to drained."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any, Final

import orjson

from ..errors import UsageError
from ..originals import monotonic
from .config import SinkConfig, importable_name, is_loopback
from .house import Housekeeper
from .http import HttpReceiver
from .intake import Intake
from .metrics import Metrics
from .voice import Voice
from .wal import Wal

_logger = logging.getLogger("otel_replay.sink")
_FRAME_SLACK_BYTES: Final = 1024 * 1024
_RESTART_SECONDS_MAX: Final = 30.0


class _ConverterProcess:
    """The converter, started again when it ends unasked."""

    def __init__(self, config: SinkConfig, own: str, metrics: Metrics, voice: Voice) -> None:
        self._orders = {
            "wal_folder": os.path.abspath(config.wal_folder),
            "own": own,
            "span_sink": importable_name(config.span_sink),
            "args": list(config.span_sink_args),
            "write_bytes_max": config.write_bytes_max,
            "payload_bytes_max": config.message_bytes_max * 2 + _FRAME_SLACK_BYTES,
        }
        self._metrics = metrics
        self._voice = voice
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="otel-replay-converter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace_seconds: float) -> bool:
        """End it once all is converted; True where it was. What is left is found by the next sink."""
        self._stopping.set()
        process = self._process
        if process is None:
            return False
        if process.stdin is not None:
            process.stdin.close()
        try:
            drained = process.wait(grace_seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            drained = False
        self._thread.join(2)
        return drained

    def _watch(self) -> None:
        wait_seconds = 0.5
        while not self._stopping.is_set():
            started = monotonic()
            self._run_once()
            if self._stopping.is_set():
                return
            self._metrics.add("converter_restarts_total")
            self._voice.say("warning", "the converter ended unasked and is started again", retry_seconds=wait_seconds)
            self._stopping.wait(wait_seconds)
            wait_seconds = 0.5 if monotonic() - started > 60 else min(wait_seconds * 2, _RESTART_SECONDS_MAX)

    def _run_once(self) -> None:
        command = [sys.executable, "-P", "-m", "otel_replay.sink.convert"]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        try:
            process = subprocess.Popen(  # noqa: S603  # our own module, by our own interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        except OSError as fault:
            self._voice.say("error", f"the converter cannot be started: {fault}")
            return
        self._process = process
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("both were asked for")
        try:
            stdin.write(orjson.dumps(self._orders) + b"\n")
            stdin.flush()
        except OSError as fault:
            self._voice.say("error", f"the converter takes no orders: {fault}")
        for line in stdout:
            self._heard(line)
        process.wait()

    def _heard(self, line: bytes) -> None:
        try:
            facts: dict[str, Any] = orjson.loads(line)
        except orjson.JSONDecodeError:
            return  # something printed by a library of the span sink
        event = facts.pop("event", "") if isinstance(facts, dict) else ""
        if event == "converted":
            self._metrics.add("converted_spans_total", facts["spans"])
            self._metrics.add("converted_segments_total")
        elif event == "trouble":
            self._metrics.add("conversion_troubles_total")
            self._voice.say("warning", "spans cannot be stored; they are kept and tried again", **facts)
        elif event == "quarantined":
            self._metrics.add("quarantined_total")
            self._voice.say("error", "data was set aside for a look", **facts)
        elif event == "adopted":
            self._voice.say("info", "what an earlier sink had accepted was stored", **facts)
        elif event == "left":
            self._voice.say("warning", "accepted spans wait on disk for the next start", **facts)


class Sink:
    """A running sink. `start` and `stop`, or `with Sink(config) as sink:`. Raises UsageError, StoreError.

    `meter` is an OpenTelemetry meter, where the sink's figures shall go that way too.
    """

    def __init__(self, config: SinkConfig, meter: Any = None) -> None:
        if not (config.grpc_address or config.http_address):
            raise UsageError("both receivers are switched off")
        self.config = config
        self.metrics = Metrics()
        self._wal = Wal(
            config.wal_folder,
            wal_bytes_max=config.wal_bytes_max,
            disk_free_bytes_min=config.disk_free_bytes_min,
            segment_bytes=config.segment_bytes,
            seal_seconds=config.seal_seconds,
        )
        try:
            self._intake = Intake(self._wal, self.metrics, config.tokens, config.memory_bytes_max)
            self._voice = Voice(config.log_format, self.metrics)
            self._http = HttpReceiver(config, self._intake, self.metrics) if config.http_address else None
            self._grpc: Any = None
            if config.grpc_address:
                from .rpc import GrpcReceiver

                self._grpc = GrpcReceiver(config, self._intake)
            self._converter = _ConverterProcess(config, self._wal.folder.name, self.metrics, self._voice)
            self._house = Housekeeper(config, self.metrics, self._voice) if config.housekeeping_seconds else None
        except BaseException:
            self._wal.close()
            raise
        self.metrics.ask("wal_backlog_bytes", self._wal.backlog_bytes)
        self.metrics.ask("memory_bytes", lambda: self._intake.memory.held)
        self.metrics.ask("ready", lambda: float(not self._intake.not_ready()))
        self.metrics.ask("wal_commits_total", lambda: self._wal.commits)
        self.metrics.ask("wal_commit_seconds_total", lambda: self._wal.commit_seconds)
        self.metrics.ask("wal_failures_total", lambda: self._wal.failures)
        if meter is not None:
            self.metrics.observe(meter)

    @property
    def http_address(self) -> str:
        """`host:port` of the HTTP receiver, "" where it is off."""
        return self._http.address if self._http else ""

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC receiver, "" where it is off."""
        return str(self._grpc.address) if self._grpc else ""

    def start(self) -> Sink:
        """Begin to take requests, and return at once."""
        self._converter.start()
        if self._http:
            self._http.start()
        if self._grpc:
            self._grpc.start()
        if self._house:
            self._house.start()
        self._voice.start()
        self._voice.say("info", "listening", grpc=self.grpc_address, http=self.http_address, wal=str(self._wal.folder))
        guarded = bool(self.config.tokens or (self.config.tls and self.config.tls.client_ca_file))
        for address in filter(None, (self.config.grpc_address, self.config.http_address)):
            if not guarded and not is_loopback(address):
                self._voice.say("warning", f"{address} takes spans from anybody who can reach it: no token, no mTLS")
        return self

    def stop(self) -> bool:
        """Answer what is under way, store what was accepted, and end. True where nothing is left to store."""
        self._intake.stopping = True
        if self._house:
            self._house.stop()
        grace_seconds = min(5.0, self.config.drain_seconds)
        if self._http:
            self._http.stop(grace_seconds)
        if self._grpc:
            self._grpc.stop(grace_seconds)
        self._wal.close()
        drained = self._converter.stop(self.config.drain_seconds)
        self._voice.say("info", "stopped", drained=drained)
        self._voice.stop()
        return drained

    def __enter__(self) -> Sink:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(config: SinkConfig, meter: Any = None) -> bool:
    """Run a sink until SIGTERM or SIGINT, then drain it; True where nothing is left to store.

    Must be called in the main thread. Raises UsageError where the configuration cannot be, StoreError where the
    write-ahead folder cannot be used.
    """
    asked = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        sink = Sink(config, meter).start()
        asked.wait()
        return sink.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
