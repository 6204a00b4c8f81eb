"""The OTLP messages as they are read here: wire-compatible with opentelemetry-proto, but looser.

Three changes, made to a private copy of the official definitions:

- `string` fields are `bytes`: a string that is not UTF-8 would otherwise cost the whole request. It does occur:
  Tempo cuts strings in the middle of a character.
- the spans of a scope are `bytes`, each parsed alone, so that one broken span does not take its neighbours along.
- fields that `Span` does not model are left out, and so count as unknown: they are kept byte by byte.

Source: opentelemetry-proto, `common/v1`, `resource/v1`, `trace/v1` and `logs/v1`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_FILES: Final = (common_pb2, resource_pb2, trace_pb2, logs_pb2)
_ITEMS: Final = frozenset({("ScopeSpans", "spans"), ("ScopeLogs", "log_records")})
_PARTS: Final = frozenset(("Span", part) for part in ("attributes", "events", "links", "status"))
_NOT_MODELLED: Final = {
    ("AnyValue", "string_value_strindex"),
    ("KeyValue", "key_strindex"),
    ("Resource", "entity_refs"),
}
NESTED_FIELD: Final = 536_870_911
"""Field of `Span.unknown` that holds the unknown fields of nested messages: the largest number there is."""


def _loosen(message: Any, opaque: frozenset[tuple[str, str]]) -> None:
    kept = [field for field in message.field if (message.name, field.name) not in _NOT_MODELLED]
    for field in kept:
        if (message.name, field.name) in opaque or field.type == descriptor_pb2.FieldDescriptorProto.TYPE_STRING:
            field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
    fields = [descriptor_pb2.FieldDescriptorProto.FromString(field.SerializeToString()) for field in kept]
    del message.field[:]
    message.field.extend(fields)
    for nested in message.nested_type:
        _loosen(nested, opaque)


def _leftover_file() -> Any:
    """Return the definition of the private message that `Span.unknown` is."""
    file = descriptor_pb2.FileDescriptorProto(name="otel_replay/leftover.proto", package="otel_replay", syntax="proto3")
    types = descriptor_pb2.FieldDescriptorProto
    nested = file.message_type.add(name="Nested")
    nested.field.add(name="root", number=1, type=types.TYPE_UINT32, label=types.LABEL_OPTIONAL)
    nested.field.add(name="path", number=2, type=types.TYPE_UINT32, label=types.LABEL_REPEATED)
    nested.field.add(name="data", number=3, type=types.TYPE_BYTES, label=types.LABEL_OPTIONAL)
    leftover = file.message_type.add(name="Leftover")
    leftover.field.add(
        name="nested",
        number=NESTED_FIELD,
        type=types.TYPE_MESSAGE,
        label=types.LABEL_REPEATED,
        type_name=".otel_replay.Nested",
    )
    return file


def _build(opaque: frozenset[tuple[str, str]]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in _FILES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            _loosen(message, opaque)
        pool.Add(file)
    pool.Add(_leftover_file())
    return pool


_POOL: Final = _build(_ITEMS)
_WHOLE_POOL: Final = _build(frozenset())
_PARTS_POOL: Final = _build(_PARTS)


def _message(name: str, pool: descriptor_pool.DescriptorPool = _POOL) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


AnyValue: Final = _message("opentelemetry.proto.common.v1.AnyValue")
TracesData: Final = _message("opentelemetry.proto.trace.v1.TracesData")
WholeTracesData: Final = _message("opentelemetry.proto.trace.v1.TracesData", _WHOLE_POOL)
"""The same with its spans parsed at one go: a span that is none costs the whole request."""
PartsTracesData: Final = _message("opentelemetry.proto.trace.v1.TracesData", _PARTS_POOL)
"""The same with spans whose attributes, events, links and status are bytes, each to be parsed alone."""
KeyValueMessage: Final = _message("opentelemetry.proto.common.v1.KeyValue")
EventMessage: Final = _message("opentelemetry.proto.trace.v1.Span.Event")
StatusMessage: Final = _message("opentelemetry.proto.trace.v1.Status")
LinkMessage: Final = _message("opentelemetry.proto.trace.v1.Span.Link")
ResourceSpans: Final = _message("opentelemetry.proto.trace.v1.ResourceSpans")
ScopeSpans: Final = _message("opentelemetry.proto.trace.v1.ScopeSpans")
SpanMessage: Final = _message("opentelemetry.proto.trace.v1.Span")
LogsData: Final = _message("opentelemetry.proto.logs.v1.LogsData")
LogRecordMessage: Final = _message("opentelemetry.proto.logs.v1.LogRecord")
Leftover: Final = _message("otel_replay.Leftover")
