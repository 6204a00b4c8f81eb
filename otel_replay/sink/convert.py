"""The converter: segments -> spans -> SpanSink, in a process of its own.

Started by the sink as `python -m otel_replay.sink.convert`. The first line on its standard input is a JSON object
(`wal_folder`, `own`, `span_sink`, `args`, `write_bytes_max`, `payload_bytes_max`); the end of the input means that
the sink is gone, by order or by `kill -9`: then its folder is emptied to the end. It reports in JSON lines on
standard output.

A segment is removed only after `SpanSink.write` returned for all of it, so that a crash between the two writes it
again: the store tells duplicates by trace and span id.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import orjson

from ..errors import ImportFault, StoreError
from ..originals import monotonic, sleep
from ..span import RequestSink, Span, SpanSink
from ..wire import logs, protobuf
from .config import by_name
from .segment import LOGS, OPEN_SUFFIX, SEALED_SUFFIX, TRACES, Damage, read_segment
from .wal import CONVERTING_NAME, LOCK_NAME, QUARANTINE_NAME, try_lock

_POLL_SECONDS: Final = 0.1
_ADOPT_SECONDS: Final = 3.0
_RETRY_SECONDS_MAX: Final = 30.0
_TRIES_MAX: Final = 3
_OBJECTS_BETWEEN_COLLECTIONS: Final = 200_000
"""A batch is very many objects that live for as long as it, and no cycles: looking for those costs a tenth."""


def report(event: str, **facts: object) -> None:
    """Write one JSON line for the sink; a sink that is gone does not matter."""
    try:
        os.write(1, orjson.dumps({"event": event, **facts}) + b"\n")
    except OSError:
        return


class Converter:
    """Turns segments into writes. One at a time, in order, each until it is kept or set aside."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._root = Path(orders["wal_folder"])
        self._own = self._root / orders["own"]
        self._span_sink_name: str = orders["span_sink"]
        self._args: list[str] = orders["args"]
        self._write_bytes_max: int = orders["write_bytes_max"]
        self._payload_bytes_max: int = orders["payload_bytes_max"]
        self._sink: SpanSink | None = None
        self._converting: int | None = None
        self.ended = threading.Event()

    # The loop --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Convert until the sink is gone and its folder is empty."""
        if not self._hold_own():
            return
        adopted_at = -_ADOPT_SECONDS
        while not self.ended.is_set():
            busy = self._convert_folder(self._own, SEALED_SUFFIX)
            if monotonic() - adopted_at >= _ADOPT_SECONDS:
                adopted_at = monotonic()
                self._adopt_orphans()
            if not busy:
                self.ended.wait(_POLL_SECONDS)
        self._finish()

    def _hold_own(self) -> bool:
        """Claim our own folder; False where the sink died at once and another converter has its folder already."""
        while True:
            try:
                self._converting = try_lock(self._own / CONVERTING_NAME)
            except FileNotFoundError:
                return False
            if self._converting is not None:
                return True
            if self.ended.wait(_POLL_SECONDS):
                return False

    def _finish(self) -> None:
        """Empty the folder of our own sink, which let go of its lock with the end of our input, or is dead.

        Then those of sinks that died before: a sink that was stopped shortly after its start leaves nothing behind.
        """
        for _ in range(100):
            if self._adopt(self._own):
                break
            sleep(_POLL_SECONDS)
        self._adopt_orphans()
        if self._sink is not None:
            self._sink.close()

    def _adopt_orphans(self) -> None:
        for folder in sorted(self._root.iterdir()):
            if folder != self._own and folder.name != QUARANTINE_NAME and (folder / LOCK_NAME).exists():
                self._adopt(folder)

    def _adopt(self, folder: Path) -> bool:
        """Empty and remove the folder of a sink that no longer lives; False where it lives or another is at it."""
        try:
            lock = try_lock(folder / LOCK_NAME)
        except FileNotFoundError:
            return True
        if lock is None:
            return False
        try:
            # Each converter holds this for its own folder from its start: it may outlive its sink, and two at one
            # folder would take the segments from under each other.
            ours = folder == self._own and self._converting is not None
            converting = self._converting if ours else try_lock(folder / CONVERTING_NAME)
            if converting is None:
                return False
            try:
                found = self._convert_folder(folder, SEALED_SUFFIX) + self._convert_folder(folder, OPEN_SUFFIX)
                if folder != self._own:
                    report("adopted", folder=folder.name, segments=found)
                shutil.rmtree(folder)
            finally:
                os.close(converting)
        except FileNotFoundError:
            return True
        finally:
            os.close(lock)
        return True

    def _convert_folder(self, folder: Path, suffix: str) -> int:
        paths = sorted(path for path in folder.iterdir() if path.suffix == suffix)
        for path in paths:
            self._convert(path)
        return len(paths)

    # One segment -----------------------------------------------------------------------------------------

    def _convert(self, path: Path) -> None:
        """Hand the spans of `path` to the SpanSink and remove the file; retry for as long as the store is down."""
        wait_seconds = 0.5
        tries = last_tries = 0
        while True:
            try:
                self._convert_once(path)
                return
            except (StoreError, OSError) as fault:  # the store is down, or its disk is full: wait for it
                last_tries += self.ended.is_set()
                if last_tries >= _TRIES_MAX:
                    raise  # nobody is left to wait for: the next sink on this disk finds the segment
                report("trouble", segment=path.name, reason=str(fault), retry_seconds=wait_seconds)
            except Exception as fault:  # noqa: BLE001  # whatever it is, the next segment must not wait for ever
                tries += 1
                reason = f"{type(fault).__name__}: {fault}"
                report("trouble", segment=path.name, reason=reason, retry_seconds=wait_seconds)
                if tries >= _TRIES_MAX:
                    self._quarantine(path, reason)
                    return
            self._sink = None
            sleep(min(wait_seconds, 0.5)) if self.ended.is_set() else self.ended.wait(wait_seconds)
            wait_seconds = min(wait_seconds * 2, _RETRY_SECONDS_MAX)

    def _convert_once(self, path: Path) -> None:
        started = monotonic()
        if self._sink is None:
            self._sink = self._open_sink()
        damage = Damage()
        count = 0
        for requests, spans in self._batches(path, damage):
            count += self._write(requests, spans)
        size = path.stat().st_size
        if damage.middle_bytes:
            self._quarantine(path, f"{damage.middle_bytes} bytes between whole frames are damaged", copied=True)
        else:
            path.unlink()
        report("converted", segment=path.name, spans=count, bytes=size, seconds=round(monotonic() - started, 4))

    def _batches(self, path: Path, damage: Damage) -> Iterator[tuple[list[bytes], list[Span]]]:
        """Yield (trace requests, the spans of all others)."""
        requests: list[bytes] = []
        spans: list[Span] = []
        size = 0
        for kind, payload in read_segment(path, damage, self._payload_bytes_max):
            if kind == TRACES:
                requests.append(payload)
            else:
                spans += self._spans(kind, payload)
            size += len(payload)
            if size >= self._write_bytes_max:
                yield requests, spans
                requests, spans, size = [], [], 0
        if requests or spans:
            yield requests, spans

    def _write(self, requests: list[bytes], spans: list[Span]) -> int:
        """Hand them to the SpanSink, and return how many spans they are."""
        if isinstance(self._sink, RequestSink):
            written = self._sink.write_requests(requests, spans)
            for request, reason in written.refused:
                self._keep_payload(request, reason)
            return written.spans
        assert self._sink is not None
        spans = [span for request in requests for span in self._spans(TRACES, request)] + spans
        self._sink.write(spans)
        return len(spans)

    def _spans(self, kind: int, payload: bytes) -> list[Span]:
        try:
            if kind == TRACES:
                read = protobuf.read_request(payload)
                problems, spans = read.problems, read.items
            elif kind == LOGS:
                records = logs.read_logs_request(payload)
                problems, spans = records.problems, [logs.span_from_log(record) for record in records.items]
            else:
                raise ImportFault(f"frame of unknown kind {kind}: written by a newer version?")
        except ImportFault as fault:
            # It was checked before it was acknowledged, so this is a fault of ours: keep the bytes for a look.
            self._keep_payload(payload, str(fault))
            return []
        if problems:
            self._keep_payload(payload, str(problems[0]))
        return spans

    def _open_sink(self) -> SpanSink:
        return cast(SpanSink, by_name(self._span_sink_name)(*self._args))

    # Setting aside ---------------------------------------------------------------------------------------

    def _quarantine(self, path: Path, reason: str, *, copied: bool = False) -> None:
        folder = self._root / QUARANTINE_NAME
        folder.mkdir(exist_ok=True, mode=0o700)
        kept = folder / f"{path.parent.name}-{path.name}"
        os.replace(path, kept)
        report("quarantined", segment=path.name, reason=reason, path=str(kept), whole_frames_kept=copied)

    def _keep_payload(self, payload: bytes, reason: str) -> None:
        folder = self._root / QUARANTINE_NAME
        folder.mkdir(exist_ok=True, mode=0o700)
        kept = folder / f"{self._own.name}-{os.urandom(6).hex()}.request"
        kept.write_bytes(payload)
        report("quarantined", segment="", reason=reason, path=str(kept), whole_frames_kept=True)


def main() -> None:
    """Run the converter that standard input describes."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the sink tells us when to end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    converter = Converter(orjson.loads(sys.stdin.buffer.readline()))

    def watch() -> None:
        while sys.stdin.buffer.readline():
            pass
        converter.ended.set()

    threading.Thread(target=watch, name="otel-replay-orders", daemon=True).start()
    report("started", pid=os.getpid())
    try:
        converter.run()
    except (StoreError, OSError) as fault:
        report("left", reason=str(fault))
        sys.stdout.flush()
        os._exit(1)  # the thread above stands in a read of stdin, which an orderly exit trips over


if __name__ == "__main__":
    main()
