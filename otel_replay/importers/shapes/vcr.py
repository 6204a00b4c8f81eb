"""vcrpy's cassettes, in JSON and YAML, and Ruby's VCR: HTTP exchanges in their order.

Source: kevin1024/vcrpy, `vcr/serialize.py` and `vcr/serializers/`; bodies are text, or bytes under `!!binary`. What
people's own serializers make of it is read, too: `parsed_body` in place of a body (pydantic-ai and others).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from otel_replay.importers.result import Report
from otel_replay.importers.shapes._common import Unreadable, iso_ns, json_text, rows, table, text, whole
from otel_replay.importers.shapes.exchanges import Cassette, Exchange, date_ns, pairs_of
from otel_replay.span import Span

SCOPE = "vcrpy"
UNKNOWN = ("headers",)
"""vcrpy's filters take headers away and its YAML sorts them, so what a cassette holds of them is not compared."""
_STREAMED = "streamed: one body, chunk boundaries unknown"


def is_interaction(value: object) -> bool:
    one = table(value)
    return "request" in one and "response" in one and bool({"uri", "url", "path"} & table(one["request"]).keys())


def list_of(value: object) -> Any:
    """Return the list of exchanges of a document that is a cassette, else None."""
    for key in ("interactions", "http_interactions"):
        if key in table(value):
            return table(value)[key]
    return None


def read(document: Any, report: Report) -> Iterator[Span]:
    found = list_of(document)
    yield from spans(rows(document if found is None else found), report)


def spans(interactions: Iterable[Any], report: Report) -> Iterator[Span]:
    """Yield a span an exchange, then the cassette's own; an exchange that cannot be read is skipped and counted."""
    report.note("a cassette keeps no strands and no durations: its exchanges are in the order in which they were made")
    cassette = Cassette(SCOPE, name_of(report.source))
    for number, raw in enumerate(interactions, 1):
        try:
            yield cassette.span(_exchange(table(raw)))
        except Unreadable as fault:
            report.problem("skipped", f"an exchange of a cassette: {fault}", f"exchange {number}")
    yield from cassette.run()


def name_of(source: str) -> str:
    """Return how a run of this file is called: its name without folder and ending."""
    name = PurePath(source).name
    for ending in (".gz", ".zst", ".json", ".yaml", ".yml", ".jsonl"):
        name = name.removesuffix(ending)
    return name or "cassette"


def _exchange(raw: dict[str, Any] | Any) -> Exchange:
    request, response = table(raw.get("request")), table(raw.get("response"))
    if not request or not response:
        raise Unreadable("it has no request, or no response")
    asked, asked_lost = _body(request)
    body, lost = _body(response)
    headers = pairs_of(response.get("headers"))
    if any(name.lower() == "content-type" and "event-stream" in value.lower() for name, value in headers):
        lost = (*lost, _STREAMED)
    status = response.get("status", response.get("status_code"))
    code = table(status).get("code") if isinstance(status, dict) else status
    when = raw.get("recorded_at")
    return Exchange(
        method=text(request.get("method")),
        url=_url(request),
        request_headers=pairs_of(request.get("headers")),
        request_body=asked,
        status=whole(code, "status", bits=16),
        reason=text(table(status).get("message")),
        response_headers=headers,
        response_body=body,
        start_ns=_recorded_ns(when),
        unknown=(*UNKNOWN, "form") if asked_lost else UNKNOWN,
        lost=lost,
        damage=_damage(request, response, code),
    )


def _recorded_ns(when: Any) -> int:
    """Return `recorded_at`: ISO 8601, or a date as HTTP spells it (Ruby's VCR); 0 for anything else."""
    if not isinstance(when, str):
        return 0
    try:
        return iso_ns(when, "recorded_at") if when[:4].isdigit() else date_ns([("date", when)])
    except Unreadable:
        return 0


def _damage(request: Any, response: Any, status: Any) -> str:
    if status is None:
        return "the answer has no status"
    if not {"body", "content", "parsed_body"} & response.keys() and text(request.get("method")).upper() != "HEAD":
        return "the answer's body is not in the cassette"
    return ""


def _url(request: Any) -> str:
    for key in ("uri", "url"):
        if isinstance(request.get(key), str):
            return str(request[key])
    port = request.get("port")
    usual = {443: "https", 80: "http"}.get(port) == text(request.get("protocol"))
    where = text(request.get("host")) + ("" if usual or port is None else f":{port}")
    return f"{text(request.get('protocol'))}://{where}{text(request.get('path'))}"


def _body(side: Any) -> tuple[str | bytes | None, tuple[str, ...]]:
    """Return (a request's or an answer's body, what is lost of it)."""
    body = side.get("body", side.get("content"))
    if isinstance(body, dict) and "base64_string" in body:
        return _bytes64(body["base64_string"]), ()
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if isinstance(body, (str, bytes)):
        return body, ()
    if "parsed_body" in side:
        return json_text(side["parsed_body"]), ("lost: the spelling of a JSON body (it was parsed)",)
    if body is None:
        return None, ()
    if isinstance(body, (list, dict)):
        return json_text(body), ("lost: the spelling of a body (it was parsed)",)
    return text(body), ()


def _bytes64(value: Any) -> bytes:
    """Return the bytes of a `base64_string`: Ruby's VCR (`preserve_exact_body_bytes`), early vcrpy."""
    try:
        return base64.b64decode("".join(_as_text(value).split()), validate=True)
    except ValueError as fault:
        raise Unreadable(f"its body (base64_string) is not base64: {fault}") from fault


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else text(value)
