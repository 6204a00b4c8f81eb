"""AgentReplay's cassettes: a folder of `cassette.json`, `events.jsonl` and blobs under their SHA-256.

A tool's or model's event becomes a span with `agentreplay.call_type`, `.name`, `.request`, `.response` (JSON text); an
HTTP event becomes an exchange. Its clock and random draws are counted and not used. What its canonical form takes away
(see `genai/agentreplay.py`) cannot be given back, and is said. Source: gadda00/agentreplay, `docs/cassette-format.md`,
`src/agentreplay/hashing.py`, `interceptors/`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from otel_replay.importers.documents import loads
from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    json_text,
    objects,
    table,
    text,
    whole,
)
from otel_replay.importers.shapes.exchanges import Exchange, attributes_of, pairs_of
from otel_replay.limits import IMPORT_SPAN_BYTES_MAX
from otel_replay.span import KeyValue, Scope, Span

SCOPE = "agentreplay"
HEADER, EVENTS = "cassette.json", "events.jsonl"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_FIELDS = {"call_id", "call_type", "request_hash", "response_hash", "seq"}
_ELSEWHERE = ("clock", "rng")
PLACEHOLDERS = ("<uuid>", "<iso8601>")


def is_event(value: object) -> bool:
    return table(value).keys() >= _FIELDS


def is_cassette(names: list[str]) -> bool:
    """True for the files of a folder that is a cassette."""
    return HEADER in names and EVENTS in names


def read(document: Any, report: Report) -> Iterator[Span]:
    cassette = report.over_documents(_Cassette)
    for raw in objects(document, report):
        one = table(raw)
        if one.get("call_type") in _ELSEWHERE:
            report.problem(
                "lost", "a clock read or random draw through AgentReplay's wrappers; replay keeps date and time itself"
            )
            cassette.count += 1
            continue
        try:
            yield cassette.span(one)
        except Unreadable as fault:
            report.problem("skipped", f"an AgentReplay event: {fault}", f"event {text(one.get('seq'))[:20]}")


class _Cassette:
    """One cassette: what stands beside its events, and the span over them."""

    def __init__(self, report: Report) -> None:
        self.count = 0
        self._report = report
        self._folder = Path(report.source).parent if os.path.isfile(report.source) else None
        self._header = self._read_header()
        self._name = self._folder.resolve().name if self._folder is not None else "cassette"
        identity = f"agentreplay {text(self._header.get('id'))} {self._name}"
        self._trace_id = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._times: list[int] = []

    def _read_header(self) -> Any:
        if self._folder is None:
            return {}
        try:
            with open(self._folder / HEADER, "rb") as file:
                return table(loads(file.read(1024 * 1024)))
        except (OSError, ValueError) as fault:
            self._report.problem("lost", f"{HEADER} cannot be read: {str(fault)[:100]}")
            return {}

    def span(self, raw: Any) -> Span:
        self.count += 1
        started = raw.get("started_at")
        if not isinstance(started, (int, float)) or isinstance(started, bool) or not 0 <= started < 2**33:
            raise Unreadable("started_at is no time")
        seq = whole(raw.get("seq"), "seq", bits=32)
        lasted = raw.get("duration_ms")
        start_ns = int(started * 1e9) + seq  # two events of one moment keep their order
        end_ns = start_ns + (int(lasted * 1e6) if isinstance(lasted, (int, float)) and 0 <= lasted < 1e12 else 0) + 1
        self._times += [start_ns, end_ns]
        self._times = [min(self._times), max(self._times)]
        (asked, asked_fault), (answered, fault) = self._blob(raw, "request_hash"), self._blob(raw, "response_hash")
        call_type = text(raw.get("call_type"))
        name = text(table(asked).get("name")) or text(table(raw.get("metadata")).get("tool")) or call_type
        attributes: tuple[KeyValue, ...] = (("agentreplay.call_type", call_type),
                                            ("agentreplay.step", text(raw.get("step_id"))))  # fmt: skip
        damage = "; ".join(dict.fromkeys(told for told in (asked_fault, fault) if told))
        if call_type == "http" and not damage:
            attributes += tuple(attributes_of(_exchange(table(asked), table(answered))))
        else:
            client = text(table(raw.get("metadata")).get("call_type"))
            attributes += (("agentreplay.name", name), ("agentreplay.client", client))
            attributes += (("agentreplay.request", json_text(asked)),) if not asked_fault else ()
            attributes += (("agentreplay.response", json_text(answered)),) if not fault else ()
        if damage:
            attributes += (("cassette.damage", damage),)
        return Span(
            self._trace_id, self._id(f"event {seq}"), name, start_ns, end_ns, self._id("run"), attributes=attributes,
            scope=Scope(SCOPE, text(self._header.get("schema_version"))),
        )  # fmt: skip

    def _blob(self, raw: Any, field: str) -> tuple[Any, str]:
        """Return (the value of a blob, ""), or (None, why it is not there)."""
        digest = text(raw.get(field))
        if not _DIGEST.match(digest):
            return None, f"{field} is no SHA-256"
        if self._folder is None:
            return None, "its blobs are not beside it: name the cassette's folder"
        path = self._folder / "blobs" / digest[:2] / digest
        try:
            if not path.is_file():
                return None, f"blob {digest[:12]} is missing"
            with path.open("rb") as file:
                data = file.read(IMPORT_SPAN_BYTES_MAX + 1)
        except OSError as fault:
            return None, f"blob {digest[:12]} cannot be read: {fault.strerror}"
        if len(data) > IMPORT_SPAN_BYTES_MAX:
            return None, f"blob {digest[:12]} is larger than {IMPORT_SPAN_BYTES_MAX} bytes"
        if hashlib.sha256(data).hexdigest() != digest:
            return None, f"blob {digest[:12]} does not have its digest: it was changed"
        try:
            return loads(data), ""
        except ValueError as fault:
            return None, f"blob {digest[:12]} is not JSON: {str(fault)[:80]}"

    def _id(self, what: str) -> str:
        return hashlib.sha256(f"{self._trace_id} {what}".encode()).hexdigest()[:16]

    def close(self) -> Iterator[Span]:
        counted = self._header.get("num_events")
        if isinstance(counted, int) and counted > self.count:
            told = f"its header counts {counted} events, {self.count} are here"
            self._report.part(told, trace_id=self._trace_id)
        if self._times:
            failed = self._header.get("outcome") == "fail"
            yield Span(
                self._trace_id, self._id("run"), self._name, self._times[0], self._times[1] + 1,
                attributes=(("agentreplay.outcome", text(self._header.get("outcome"))),),
                status_code=2 if failed else 0, scope=Scope(SCOPE),
            )  # fmt: skip


def _exchange(asked: Any, answered: Any) -> Exchange:
    url = text(asked.get("url"))
    params = asked.get("params")
    if isinstance(params, dict) and params:
        url += ("&" if "?" in url else "?") + urlencode(params, doseq=True)
    body = asked.get("body")
    status = answered.get("status")
    damage = f"the call failed: {text(answered.get('error'))[:200]}" if answered.get("error") else ""
    kept = json_text([asked, answered])
    if any(mark in kept for mark in PLACEHOLDERS):
        damage = damage or "AgentReplay replaced ids and times in it (<uuid>, <iso8601>)"
    return Exchange(
        method=text(asked.get("method")),
        url=url,
        request_body=None if body is None else json_text(body),
        request_headers=pairs_of(asked.get("headers")),
        status=whole(status, "status", bits=16),
        response_headers=pairs_of(answered.get("headers")),
        response_body=text(answered.get("body")),
        unknown=("headers", "form"),
        lost=("lost: the bytes of the answer's body (it was decoded as text)",),
        damage=damage,
    )
