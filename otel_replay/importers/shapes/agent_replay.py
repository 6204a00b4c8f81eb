"""The cassettes of agent-replay (package `agent-replay-py`, and its TypeScript sibling): JSON Lines of HTTP exchanges.

Source: retr0hxx/agent-replay, `agentreplay/cassette.py` and `transport.py`. A header line, then a line an exchange;
bodies are parsed JSON, streams a list of events as they came.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import (
    Unreadable,
    iso_ns,
    json_text,
    objects,
    table,
    text,
    whole,
)
from otel_replay.importers.shapes.exchanges import Cassette, Exchange, pairs_of
from otel_replay.importers.shapes.vcr import name_of
from otel_replay.span import Span

SCOPE = "agent-replay"
_BINARY = "__non_json_b64__"
_STREAM = "text/event-stream; charset=utf-8"


def is_line(value: object) -> bool:
    one = table(value)
    if one.get("kind") == "header":
        return "format_version" in one and "redaction_rules" in one
    return one.get("kind") == "interaction" and {"host", "path", "request", "response"} <= one.keys()


def read(document: Any, report: Report) -> Iterator[Span]:
    cassette = report.over_documents(_Lines)
    for raw in objects(document, report):
        one = table(raw)
        if one.get("kind") == "header":
            if one.get("redaction_rules"):
                report.note(
                    "agent-replay redacted request bodies by its own rules: what it replaced differs from today"
                )
            continue
        try:
            yield cassette.made.span(_exchange(one))
        except Unreadable as fault:
            report.problem("skipped", f"an exchange of a cassette: {fault}", f"seq {text(one.get('seq'))[:20]}")


class _Lines:
    """The cassette that the lines of one file make."""

    def __init__(self, report: Report) -> None:
        self.made = Cassette(SCOPE, name_of(report.source))

    def close(self) -> Iterator[Span]:
        return self.made.run()


def _exchange(raw: Any) -> Exchange:
    request, response, timing = table(raw.get("request")), table(raw.get("response")), table(raw.get("timing"))
    stream = response.get("stream")
    lost = ["lost: the answer's headers; its content type is told from its form"] if "headers" not in response else []
    headers = pairs_of(response.get("headers"))
    if isinstance(stream, list):
        body: str | bytes = "".join(text(table(event).get("data")) for event in stream)
        lost.append("streamed: the events as they came, chunk boundaries unknown")
    else:
        body = _body(response.get("body"))
        lost.append("lost: the spelling of a JSON body (it was parsed)")
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", _STREAM if isinstance(stream, list) else "application/json"))
    start_ns = iso_ns(timing.get("started_at"), "started_at")
    lasted = timing.get("latency_ms")
    return Exchange(
        method=text(raw.get("method")),
        url=f"https://{text(raw.get('host'))}{text(raw.get('path'))}",
        request_body=_body(request.get("body")),
        request_headers=pairs_of(request.get("headers")),
        status=whole(response.get("status"), "status", bits=16),
        response_headers=[pair for pair in headers if pair[0].lower() not in ("content-encoding", "content-length")],
        response_body=body,
        start_ns=start_ns,
        end_ns=start_ns + (int(lasted) * 1_000_000 if isinstance(lasted, int) and 0 <= lasted < 10**9 else 0),
        unknown=("headers", "form"),
        lost=tuple(lost),
    )


def _body(value: Any) -> str | bytes:
    if value is None:
        return ""
    if isinstance(value, dict) and isinstance(value.get(_BINARY), str):
        try:
            return base64.b64decode(value[_BINARY], validate=True)
        except (binascii.Error, ValueError):
            raise Unreadable("a body is not base64") from None
    return json_text(value) if not isinstance(value, str) else json_text([value])[1:-1]
