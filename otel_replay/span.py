"""A span as OTLP defines it, free of any SDK: what rooms hand to each other.

Source: opentelemetry-proto, `trace/v1/trace.proto` and `common/v1/common.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable


class KeyValues(tuple["KeyValue", ...]):
    """An OTLP kvlist: pairs in their order, double keys kept. A plain tuple is an OTLP array."""

    __slots__ = ()


Value: TypeAlias = "str | bool | int | float | bytes | tuple[Value, ...] | KeyValues | None"
"""An OTLP AnyValue. None is the empty value, a tuple an array, KeyValues a map."""
KeyValue: TypeAlias = tuple[str, Value]
Attributes: TypeAlias = tuple[KeyValue, ...]
"""Attributes in recorded order. A key may stand twice; `Span.get` returns the last."""


@dataclass(frozen=True, slots=True)
class Resource:
    attributes: Attributes = ()
    dropped_attributes_count: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    name: str = ""
    version: str = ""
    attributes: Attributes = ()
    dropped_attributes_count: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    time_ns: int
    name: str
    attributes: Attributes = ()
    dropped_attributes_count: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    trace_id: str
    span_id: str
    trace_state: str = ""
    attributes: Attributes = ()
    dropped_attributes_count: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are lower-case hex (32 and 16 characters; "" where absent), times are Unix nanoseconds.

    `kind` and `status_code` are the numbers of OTLP (kind: 1 internal, 2 server, 3 client; status: 0 unset, 1 ok,
    2 error). `unknown` keeps protobuf fields that this version does not know.
    """

    trace_id: str
    span_id: str
    name: str
    start_ns: int
    end_ns: int
    parent_span_id: str = ""
    kind: int = 1
    attributes: Attributes = ()
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    status_code: int = 0
    status_message: str = ""
    trace_state: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
    unknown: bytes = b""

    def get(self, key: str, default: Value = None) -> Value:
        """Return the value of attribute `key` (the last, where it stands twice), or `default`."""
        for name, value in reversed(self.attributes):
            if name == key:
                return value
        return default


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record as OTLP defines it (`logs/v1/logs.proto`). Ids and times as in Span; `body` is an AnyValue.

    GenAI content often travels in log records: they belong to the span that bears their trace and span id.
    """

    time_ns: int
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""
    body: Value = None
    attributes: Attributes = ()
    observed_time_ns: int = 0
    severity_number: int = 0
    severity_text: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
    unknown: bytes = b""

    def get(self, key: str, default: Value = None) -> Value:
        """Return the value of attribute `key` (the last, where it stands twice), or `default`."""
        for name, value in reversed(self.attributes):
            if name == key:
                return value
        return default


class SpanSink(Protocol):
    """Whatever takes spans for keeping. Durable when `write` returns; raises StoreError when it is not."""

    def write(self, spans: Iterable[Span], /) -> None: ...

    def close(self) -> None: ...


class Written(NamedTuple):
    """How many spans a RequestSink took, and the requests of which it could not read all, each with the reason."""

    spans: int
    refused: list[tuple[bytes, str]]


@runtime_checkable
class RequestSink(SpanSink, Protocol):
    """A SpanSink that also takes OTLP trace requests as they came, which costs it less than spans."""

    def write_requests(self, requests: Iterable[bytes], spans: Iterable[Span], /) -> Written: ...
