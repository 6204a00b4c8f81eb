"""HTTP exchanges that a cassette holds -> spans: one span an exchange, under one span for the cassette.

The spans hold what the cassette holds, under OpenTelemetry's names where it has one (`http.request.method`, `url.full`,
`http.response.status_code`) and beside them: `http.request.headers` and `http.response.headers` (JSON text of
[name, value] pairs), `http.request.body`, `http.response.body` (text or bytes), `http.response.reason`, and what the
cassette lost: `cassette.unknown` (parts of the request that it does not keep), `cassette.lost` (what is not as it was,
and may be served all the same), `cassette.damage` (why the exchange may not be served).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from otel_replay.importers.shapes._common import Unreadable, json_text, text
from otel_replay.span import KeyValue, Scope, Span

Headers = list[tuple[str, str]]
_METHOD = re.compile(r"[A-Za-z]{1,20}\Z")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. `start_ns` 0: the cassette keeps no times. Headers None: they were not kept."""

    method: str
    url: str
    request_body: str | bytes | None
    status: int
    response_body: str | bytes | None
    request_headers: Headers | None = None
    response_headers: Headers | None = None
    reason: str = ""
    start_ns: int = 0
    end_ns: int = 0
    unknown: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    damage: str = ""

    def __post_init__(self) -> None:
        if not _METHOD.match(self.method):
            raise Unreadable(f"the method is {self.method[:20]!r}")
        try:
            parts = urlsplit(self.url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unreadable(f"the address is {self.url[:80]!r}, not an http address")


class Cassette:
    """Makes the spans of one cassette. Times are the exchange's, else its answer's Date header, else only an order."""

    def __init__(self, scope: str, name: str, version: str = "") -> None:
        self._scope = Scope(scope, version)
        self._name = name
        self._trace_id = ""
        self._first_ns = self._last_ns = self._number = 0

    def span(self, exchange: Exchange) -> Span:
        """Return the span of the next exchange."""
        self._number += 1
        if not self._trace_id:
            first = f"{self._scope.name} {self._name} {exchange.method} {exchange.url} "
            self._trace_id = _digest(first + repr(exchange.request_body))[:32]
        date = exchange.start_ns or date_ns(exchange.response_headers)
        start_ns = max(self._last_ns + 1, date)
        self._first_ns = self._first_ns or (start_ns if date else 0)
        self._last_ns = max(start_ns + 1, exchange.end_ns)
        return Span(
            trace_id=self._trace_id,
            span_id=_digest(f"{self._trace_id} {self._number}")[:16],
            parent_span_id=self._run_id,
            name=f"{exchange.method.upper()} {urlsplit(exchange.url).hostname}",
            kind=3,
            start_ns=start_ns,
            end_ns=self._last_ns,
            attributes=tuple(attributes_of(exchange)),
            scope=self._scope,
        )

    @property
    def _run_id(self) -> str:
        return _digest(f"run {self._trace_id}")[:16]

    def run(self) -> Iterator[Span]:
        """Yield the span of the whole cassette, once its exchanges are through; none where it held none."""
        if self._number:
            yield Span(
                trace_id=self._trace_id,
                span_id=self._run_id,
                name=self._name,
                start_ns=self._first_ns,
                end_ns=self._last_ns + 1,
                scope=self._scope,
            )


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def date_ns(headers: Headers | None) -> int:
    """Return the answer's Date as Unix nanoseconds, 0 where it has none that can be read."""
    for name, value in headers or ():
        if name.lower() == "date" and len(value) < 64:
            try:
                moment = parsedate_to_datetime(value)
                found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()) * 1_000_000_000
            except (ValueError, TypeError, OverflowError, IndexError):
                continue
            return found if 0 < found < 2**62 else 0
    return 0


def attributes_of(exchange: Exchange) -> Iterator[KeyValue]:
    """Yield the attributes that tell of an exchange."""
    yield "http.request.method", exchange.method.upper()
    yield "url.full", exchange.url
    yield "http.response.status_code", exchange.status
    for name, headers in (("request", exchange.request_headers), ("response", exchange.response_headers)):
        if headers is not None:
            yield f"http.{name}.headers", json_text([list(pair) for pair in headers])
    for name, body in (("request", exchange.request_body), ("response", exchange.response_body)):
        if body:
            yield f"http.{name}.body", body
    if exchange.reason:
        yield "http.response.reason", exchange.reason
    for key, told in (("unknown", exchange.unknown), ("lost", exchange.lost), ("damage", exchange.damage)):
        if told:
            yield f"cassette.{key}", told


def pairs_of(headers: Any) -> Headers:
    """Return headers as pairs: a dict of texts or of lists of texts, or a list of pairs. Raises Unreadable."""
    found: Headers = []
    items = headers.items() if isinstance(headers, dict) else headers if isinstance(headers, list) else ()
    for item in items:
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            raise Unreadable("the headers are neither an object nor pairs")
        name, value = item
        for one in value if isinstance(value, list) else [value]:
            found.append((_text(name), _text(one)))
    return found


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else text(value)
